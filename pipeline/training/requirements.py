"""Which artifacts a training needs, and what a network must know about the dataset."""

from typing import Any

from leap.models.network_config import DatasetFacts, needs_neighborhoods, transform_name, uses_cached_transform
from leap.pipeline.derived import DectRecipe, LapeRecipe, LectRecipe, NeighborhoodsRecipe, Recipe, RwpeRecipe
from leap.pipeline.stages.options import validated
from leap.pipeline.training.options import TrainOptions
from leap.store import Artifact
from leap.store.errors import InvalidInputError

TASKS = ("graph-classification", "graph-regression", "node-classification")


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
    return recipes_for(options, is_categorical=summary["categorical"])


def _check_labels(dataset: Artifact) -> None:
    summary = dataset.manifest.summary
    if summary["task"] not in TASKS:
        candidates = summary.get("notes", {}).get("possible_graph_labels", [])
        own = (
            f"Its graphs have {', '.join(candidates)}: give --graph-label {candidates[0]}"
            if candidates
            else "Give --graph-label or --node-label for own data"
        )
        raise InvalidInputError(
            f"{dataset.manifest.dataset!r} has no labels or targets to learn. {own}, or choose a dataset with labels."
        )
    classes = summary.get("classes")
    if classes and len(classes) == 1:
        owners = "nodes" if summary["task"] == "node-classification" else "graphs"
        raise InvalidInputError(
            f"all {summary[owners]:,} {owners} of {dataset.manifest.dataset!r} have the label {classes[0]!r}: there is "
            "nothing to learn. Choose another label with --graph-label or --node-label, or a dataset with two classes."
        )


def recipes_for(options: TrainOptions, *, is_categorical: bool) -> list[Recipe]:
    """Return the artifacts that batches carry beside a dataset with categorical features, or with measurements."""
    network = options.network
    kept: dict[str, Any] = {"cap": options.cap, "cap_seed": options.cap_seed}
    transform: dict[str, Any] = kept | {
        "directions": network.directions,
        "thresholds": network.thresholds,
        "radius": network.radius,
    }
    recipes: list[Recipe] = []
    if uses_cached_transform(network, is_categorical=is_categorical):
        more = {"scale": network.scale, "edge_weight": network.edge_weight}
        recipes += [validated(DectRecipe, hops=hops, **(transform | more)) for hops in network.hops]
    if needs_neighborhoods(network, is_categorical=is_categorical):
        recipes += [validated(NeighborhoodsRecipe, hops=hops, **kept) for hops in network.hops]
    stored = {*network.parts, network.leap_on}
    if "rwpe" in stored:
        recipes.append(validated(RwpeRecipe, dim=network.dim))
    if "lape" in stored:
        recipes.append(validated(LapeRecipe, dim=network.dim, drop=options.lape_drop))
    if "lect" in stored:
        recipes.append(validated(LectRecipe, hops=network.hops[0], complex=options.lect_complex, **transform))
    return recipes


def name_in_batch(encoding: Artifact) -> str:
    """Name under which a network finds a stored encoding."""
    return transform_name(encoding.params["hops"]) if encoding.kind == DectRecipe.kind else encoding.kind


def needs_statistics(options: TrainOptions) -> bool:
    """Whether batches carry the means and scales of the neighbourhoods."""
    return options.network.leap is not None and options.network.leap_on == "features"


def dataset_facts(dataset: Artifact) -> DatasetFacts:
    """Return what a network must know; for categorical features this reads all of them once."""
    summary = dataset.manifest.summary
    outputs = len(summary["classes"]) if summary.get("classes") else len(target_columns(dataset))
    return DatasetFacts(
        features=summary["features"],
        codes=_codes(dataset) if summary["categorical"] else None,
        outputs=outputs,
        task=summary["task"],
    )


def target_columns(dataset: Artifact) -> list[str]:
    """Names of the regression targets in the table of graphs."""
    return [name for name in dataset.table("graphs").column_names if name.startswith("target_")]


def _codes(dataset: Artifact) -> tuple[tuple[int, ...], ...]:
    import numpy as np

    met: list[set[int]] = [set() for _ in range(dataset.manifest.summary["features"])]
    for part in dataset.partitions:
        x = dataset.read(part.index, ["x"])["x"]
        for column, values in enumerate(met):
            values.update(np.unique(x[:, column]).tolist())
    if any(min(values, default=0) < 0 for values in met):
        raise InvalidInputError(
            f"categorical features of {dataset.manifest.dataset!r} hold negative codes. Number them from zero."
        )
    return tuple(tuple(sorted(values)) for values in met)
