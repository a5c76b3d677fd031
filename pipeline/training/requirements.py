"""Which artifacts a training needs, and what a network must know about the dataset."""

from typing import NamedTuple, get_args

import numpy as np

from leap.models.network_config import (
    DatasetFacts,
    NetworkConfig,
    TaskName,
    needs_neighborhoods,
    transform_name,
    uses_cached_transform,
)
from leap.models.registries import ENCODINGS
from leap.pipeline.canonical import FeatureChoice
from leap.pipeline.derived import RECIPES, DectRecipe, NeighborhoodsRecipe, Recipe
from leap.pipeline.training.options import TrainOptions
from leap.store import Artifact
from leap.store.errors import InvalidInputError
from leap.store.graphs import GraphStream, StoredGraphs
from leap.store.graphs.tasks import is_classification, is_node_task, is_regression

SUBSTITUTES = get_args(FeatureChoice)
TASKS = get_args(TaskName)


def required_recipes(options: TrainOptions, dataset: Artifact, *, needs_labels: bool = True) -> list[Recipe]:
    """Return the artifacts that batches carry, beside the dataset.

    Parameters
    ----------
    needs_labels : refuse a dataset without any, or with the same everywhere; predictions need none.

    Raises
    ------
    InvalidInputError
        If the dataset has nothing to learn, or cannot have what the options ask for.
    """
    summary = dataset.manifest.summary
    if needs_labels:
        _check_labels(dataset)
        if options.select not in (None, "loss") and is_regression(summary["task"]):
            raise InvalidInputError(
                f"--select {options.select}: {dataset.manifest.dataset!r} is a regression, whose epochs are chosen by "
                "their loss alone. Leave --select out."
            )
        if options.cross_validation and is_node_task(summary["task"]):
            raise InvalidInputError(
                f"{dataset.manifest.dataset!r} is a node task: its nodes are divided by its masks, not into folds of "
                "cross-validation. Leave --cross-validation out."
            )
    if options.network.needs_edge_attr:
        _check_edge_attr(options, dataset)
    return recipes_for(options, is_categorical=summary["categorical"])


def _check_labels(dataset: Artifact) -> None:
    summary = dataset.manifest.summary
    if summary["task"] not in TASKS:
        candidates = summary.get("notes", {}).get("possible_graph_labels", [])
        own = (
            f"Its graphs have {', '.join(candidates)}: give --graph-label {candidates[0]}"
            if candidates
            else "Give --graph-label or --node-label for your own graphs"
        )
        raise InvalidInputError(
            f"{dataset.manifest.dataset!r} has no labels or targets to learn. {own}, or choose a dataset with labels."
        )
    classes = summary.get("classes")
    if classes and len(classes) == 1:
        owners = "nodes" if is_node_task(summary["task"]) else "graphs"
        raise InvalidInputError(
            f"all {summary[owners]:,} {owners} of {dataset.manifest.dataset!r} have the label {classes[0]!r}: there is "
            "nothing to learn. Choose another label with --graph-label or --node-label, or a dataset with two classes."
        )


def _check_edge_attr(options: TrainOptions, dataset: Artifact) -> None:
    """Refuse networks that look at attributes of edges where a dataset has none, or others than are needed."""
    graphs, network, name = StoredGraphs.of(dataset), options.network, dataset.manifest.dataset
    wanted = "--edge-weight-from" if network.edge_weight_from is not None else "--with-edges"
    wanted = f"--backbone {network.backbone}" if network.sees_edges and not network.with_edges else wanted
    columns = graphs.num_edge_features
    if not columns:
        raise InvalidInputError(
            f"{wanted} needs attributes of edges, and those of {name!r} have none. Name some of your own graphs' with "
            "--edge-attribute, or choose a network that does without."
        )
    if network.edge_weight_from is None:
        return
    if network.edge_weight_from >= columns or graphs.has_edge_categories:
        kind = "categories, which cannot weigh anything" if graphs.has_edge_categories else "measurements"
        raise InvalidInputError(
            f"--edge-weight-from {network.edge_weight_from}: the attributes of the edges of {name!r} are {columns} "
            f"columns of {kind}, counted from 0. Choose a column of measurements."
        )


def refuse_constant_targets(dataset: Artifact) -> None:
    """Raise InvalidInputError if targets or several labels are the same everywhere; this reads all of them."""
    task, name = dataset.manifest.summary["task"], dataset.manifest.dataset
    if is_classification(task):
        return
    targets = StoredGraphs.of(dataset).labels()
    if targets is None:
        return
    owners = "nodes" if is_node_task(task) else "graphs"
    lowest, highest = np.fmin.reduce(targets, axis=0), np.fmax.reduce(targets, axis=0)  # of those that are there
    if np.isnan(lowest).all():
        raise InvalidInputError(
            f"all labels of the {len(targets):,} {owners} of {name!r} are missing: there is nothing to learn. Choose a "
            "dataset with labels."
        )
    if ((lowest == highest) | np.isnan(lowest)).all():
        values = ", ".join(f"{value:g}" for value in lowest)
        what, option = "target" if is_regression(task) else "label", "node" if is_node_task(task) else "graph"
        raise InvalidInputError(
            f"all {len(targets):,} {owners} of {name!r} have the {what} {values}: there is nothing to learn. Choose "
            f"another label with --{option}-label, or a dataset whose {what}s differ."
        )


def recipes_for(options: TrainOptions, *, is_categorical: bool) -> list[Recipe]:
    """Return the artifacts that batches carry beside a dataset with categorical features, or with measurements."""
    network, values = options.network, options.flat()
    of_hops = [values | {"hops": hops} for hops in network.hops]
    recipes: list[Recipe] = []
    if uses_cached_transform(network, is_categorical=is_categorical):
        recipes += map(DectRecipe.of_options, of_hops)
    if needs_neighborhoods(network, is_categorical=is_categorical):
        recipes += map(NeighborhoodsRecipe.of_options, of_hops)
    stored = {*network.parts, network.leap_on}
    return recipes + [RECIPES[name].of_options(values) for name in ENCODINGS if name in stored]


def name_in_batch(encoding: Artifact) -> str:
    """Name under which a network finds a stored encoding."""
    return transform_name(encoding.params["hops"]) if encoding.kind == DectRecipe.kind else encoding.kind


class Inputs(NamedTuple):
    """The artifacts that batches are made of."""

    dataset: Artifact
    neighborhoods: list[Artifact]
    encodings: list[Artifact]
    with_stats: bool
    with_edge_attr: bool = False

    def stream(self, memory_bytes: int) -> GraphStream:
        """Return a stream of all graphs, whose parts share what is in memory."""
        return GraphStream(
            self.dataset,
            self.neighborhoods,
            {name_in_batch(encoding): encoding for encoding in self.encodings},
            memory_bytes=memory_bytes,
            with_stats=self.with_stats,
            with_edge_attr=self.with_edge_attr,
        )


def mean_nodes(dataset: Artifact) -> float:
    """Mean number of nodes of a dataset's graphs, at least 1."""
    graphs = StoredGraphs.of(dataset)
    return max(1.0, graphs.num_nodes / max(1, graphs.num_graphs))


def needs_statistics(options: TrainOptions) -> bool:
    """Whether batches carry the means and scales of the neighbourhoods."""
    return options.network.leap is not None and options.network.leap_on == "features"


def dataset_facts(dataset: Artifact, network: NetworkConfig) -> DatasetFacts:
    """Return what a network must know; categories, and attributes of edges that it needs, are all read once."""
    graphs = StoredGraphs.of(dataset)
    needs_edges = network.needs_edge_attr
    return DatasetFacts(
        features=graphs.num_features,
        codes=graphs.codes() if graphs.is_categorical else None,
        outputs=len(graphs.classes) if graphs.classes else graphs.num_targets,
        task=dataset.manifest.summary["task"],
        edge_features=graphs.num_edge_features if needs_edges else 0,
        edge_codes=graphs.edge_codes() if needs_edges else None,
    )


def feature_substitute(dataset: Artifact) -> str | None:
    """Return what nodes got in place of features, such as "degree"; None where the data has its own."""
    summary = dataset.manifest.summary
    named = summary.get("notes", {}).get("node_attributes")
    return summary["feature_source"] if summary["feature_source"] in SUBSTITUTES and not named else None
