"""A closer look at one graph: a node's neighbourhood, its transform before and after learning, and the directions."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.reports.names import backbone_label, dataset_label
from leap.pipeline.reports.runs import Run
from leap.pipeline.reports.section import Panel, Plot, Results, Section
from leap.pipeline.training.run_folder import RunFolder
from leap.store import Artifact, Store
from leap.store.errors import InvalidInputError, LeapError

if TYPE_CHECKING:
    from torch import Tensor

FEWEST_NODES = 5
ENCODER = "encodings.leap-l.leap.encoders.0."


@dataclass(frozen=True)
class Look:
    """Everything that the pictures show.

    Attributes
    ----------
    edges : (2, E) of the graph.
    members, inside : nodes of the neighbourhood, and which edges lie in it.
    before, after : (directions, thresholds) transforms of the neighbourhood.
    start, learned : (d, directions) unit columns.
    """

    graph: int
    node: int
    hops: int
    x: NDArray[np.float64]
    edges: NDArray[np.int64]
    members: NDArray[np.int64]
    thresholds: NDArray[np.float64]
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    start: NDArray[np.float64]
    learned: NDArray[np.float64]


def neighborhood(results: Results, store: Store | None, graph: int | None) -> tuple[Section | None, str]:
    """Return the section, or None and why there is none."""
    candidates = [run for run in results.shown if _is_suitable(run)]
    if not candidates:
        return None, "no run of LEAP-L on plain features"
    if store is None:
        return None, "no store to read graphs from"
    reason = ""
    for run in sorted(candidates, key=lambda run: (run.settings.get("hops") != "1", run.name)):
        try:
            look = look_at(run, store, graph)
        except LeapError as error:
            reason = reason or str(error)
            continue
        return _section(run, look), ""
    return None, reason


def _is_suitable(run: Run) -> bool:
    settings = run.settings
    return run.encoding == "leap-l" and settings.get("leap_on") == "features" and not settings.get("leap_every_layer")


def look_at(run: Run, store: Store, graph: int | None) -> Look:
    """Read a graph of a run's dataset and transform a neighbourhood with the first and the learned directions.

    Raises
    ------
    InvalidInputError
        If the run has no checkpoint, its features are categorical, or there is no such graph.
    LeapError
        If the store does not have the dataset.
    """
    import torch

    from leap.models import dect, kernels
    from leap.pipeline.neighborhoods import khop

    config = RunFolder(run.path).config() or {}
    if (config.get("facts") or {}).get("codes") is not None:
        raise InvalidInputError("its features are categorical")
    learned, thresholds = _learned(run, config)
    key = next((entry["key"] for entry in config.get("artifacts", []) if entry["kind"] == "dataset"), "")
    number, x, edges = _graph(store.get(key), graph)
    network = config["options"]["network"]
    hops = int(network["hops"][0])
    hoods = khop(edges, len(x), hops)
    sizes = np.diff(np.asarray(hoods.node_ptr))
    node = int(np.argmax(sizes))
    start = kernels.random_directions(x.shape[1], learned.shape[1], 0)

    def transform(directions: "Tensor | NDArray[np.float64]") -> NDArray[np.float64]:
        made = dect(
            torch.as_tensor(x, dtype=torch.float64),
            hoods,
            torch.as_tensor(directions, dtype=torch.float64),
            torch.as_tensor(thresholds, dtype=torch.float64),
            float(network["scale"]),
            edge_weight=float(network["edge_weight"]),
        )
        shown: NDArray[np.float64] = made[node].numpy()
        return shown

    return Look(
        number,
        node,
        hops,
        x,
        edges,
        np.asarray(hoods.members(node)).astype(np.int64),
        thresholds,
        transform(start),
        transform(learned),
        start,
        learned,
    )


def _learned(run: Run, config: dict[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from leap.pipeline.training.checkpoint import BEST, load

    number = run.folds[0].number
    best = load(run.path / f"fold-{number}" / BEST, f"{config.get('fingerprint')} fold {number}")
    weights = (best or {}).get("network", {})
    directions = weights.get(f"{ENCODER}parametrizations.directions.original")
    if directions is None:
        raise InvalidInputError(f"the run {run.name} has no checkpoint with learned directions")
    values = directions.double().numpy()
    return values / np.linalg.norm(values, axis=0), weights[f"{ENCODER}thresholds"].double().numpy()


def _graph(dataset: Artifact, wanted: int | None) -> tuple[int, NDArray[np.float64], NDArray[np.int64]]:
    """Return number, features and edges of a graph: the one wanted, or the first that is not too small."""
    from leap.pipeline.reader import GraphReader, all_node_ptr

    reader = GraphReader(dataset)
    pointers = all_node_ptr(reader)
    sizes = np.diff(pointers)
    if wanted is not None and not 0 <= wanted < len(sizes):
        raise InvalidInputError(
            f"{dataset.manifest.dataset!r} has no graph {wanted}. Choose one from 0 to {len(sizes) - 1} with --graph."
        )
    number = int(np.argmax(sizes >= FEWEST_NODES)) if wanted is None else wanted
    if sizes[number] == 0:
        raise InvalidInputError(f"graph {number} of {dataset.manifest.dataset!r} has no nodes. Choose another --graph.")
    if sizes[number] > 100_000:
        raise InvalidInputError("its graph is too large to draw")
    ids = np.arange(pointers[number], pointers[number + 1])
    counts, neighbours = reader.rows(ids)
    ends = np.stack([np.repeat(np.arange(len(ids)), counts), neighbours - pointers[number]])
    return number, np.asarray(reader.features(ids), dtype=np.float64), ends[:, ends[0] < ends[1]].astype(np.int64)


def _section(run: Run, look: Look) -> Section:
    from leap.pipeline.reports.figures import neighborhood as figures

    label = dataset_label(run.dataset, run.stand_in_for)
    name = f"neighborhood-{run.dataset}-{look.graph}"
    limits = (float(min(look.before.min(), look.after.min())), float(max(look.before.max(), look.after.max())))
    order = np.arange(look.start.shape[1])
    if len(look.start) == 2:
        order = np.argsort(np.arctan2(look.start[1], look.start[0]), kind="stable")
    graph = partial(figures.draw_graph, look.x, look.edges, look.node, look.members)
    panels = (
        Panel(
            f"{name}-graph",
            f"Graph {look.graph} of {label}; the {look.hops}-hop neighbourhood of node {look.node} has "
            f"{len(look.members)} nodes",
            partial(graph, f"Graph {look.graph}, node {look.node}, {look.hops} hop{'s' if look.hops > 1 else ''}"),
        ),
        Panel(
            f"{name}-before",
            "Transform of the neighbourhood in the random directions that training starts from",
            partial(figures.draw_transform, look.before[order], look.thresholds, limits, "DECT before learning"),
        ),
        Panel(
            f"{name}-after",
            "Transform of the same neighbourhood in the learned directions",
            partial(figures.draw_transform, look.after[order], look.thresholds, limits, "DECT after learning"),
        ),
        Panel(
            f"{name}-directions",
            "Directions before and after learning",
            partial(figures.draw_directions, look.start[:, order], look.learned[:, order]),
        ),
    )
    of_points = "drawn at its features" if look.x.shape[1] == 2 else "laid out by its edges"
    caption = (
        f"The graph {of_points}, with the neighbourhood of one node in blue; the neighbourhood's Euler characteristic "
        "by direction (rows) and threshold (columns), in the directions that training starts from and in the learned "
        "ones, with the same colours; and how far each direction has turned."
    )
    fold = run.folds[0].number
    text = f"{label}, {backbone_label(run.backbone)} with LEAP-L ({run.projection}), fold {fold}, run {run.name}."
    return Section("neighborhood", "What LEAP sees", (text,), plots=(Plot(caption, panels),))
