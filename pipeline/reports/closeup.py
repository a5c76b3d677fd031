"""A closer look at one graph: a node's neighbourhood, its transform before and after learning, and the directions."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import torch
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from leap.models import dect, kernels
from leap.pipeline.derived.neighborhoods import khop
from leap.pipeline.reports.figures import COLOR_MAP, COLORS, GRID, INK, MUTED, PAPER, color_bar, new_figure
from leap.pipeline.reports.names import backbone_label, counted, minus
from leap.pipeline.reports.page import Panel, Plot, Section
from leap.pipeline.reports.runs import FinishedRun
from leap.pipeline.training.checkpoint import load
from leap.store import Artifact, Store
from leap.store.errors import InvalidInputError
from leap.store.graphs import StoredGraphs

FEWEST_NODES = 5
MOST_NODES = 100_000
MOST_DRAWN = 300  # nodes drawn around the neighbourhood
ENCODER = "encodings.leap-l.leap.encoders.0."
BEFORE, AFTER, HERE = MUTED, COLORS["leap-l"], COLORS["rwpe"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Look:
    """Everything that the pictures show.

    Attributes
    ----------
    edges : (2, E) of the graph.
    members : nodes of the neighbourhood.
    before, after : (directions, thresholds) transforms of the neighbourhood.
    start, learned : (d, directions) unit columns.
    """

    graph: int
    node: int
    hops: int
    x: Floats
    edges: Ints
    members: Ints
    thresholds: Floats
    before: Floats
    after: Floats
    start: Floats
    learned: Floats


def look_at(run: FinishedRun, store: Store, graph: int | None) -> Look:
    """Read a graph of a run's dataset and transform a neighbourhood with the first and the learned directions.

    Raises
    ------
    InvalidInputError
        If the run has no checkpoint, its features are categorical, its edges are weighed, or there is no such graph.
    LeapError
        If the store does not have the dataset.
    """
    config = run.config
    if (config.get("facts") or {}).get("codes") is not None:
        raise InvalidInputError("its features are categorical")
    if config["options"]["network"].get("edge_weight_from") is not None:
        raise InvalidInputError("its edges are weighed by an attribute")
    learned, thresholds = _learned(run, str(config.get("fingerprint")))
    key = next((entry["key"] for entry in config.get("artifacts", []) if entry["kind"] == "dataset"), "")
    number, x, edges = _graph(store.get(key), graph)
    network = config["options"]["network"]
    hops = int(network["hops"][0])
    hoods = khop(edges, len(x), hops)
    node = int(np.argmax(np.diff(np.asarray(hoods.node_ptr))))
    start = kernels.random_directions(x.shape[1], learned.shape[1], 0)

    def transform(directions: Floats) -> Floats:
        arrays = (torch.as_tensor(array, dtype=torch.float64) for array in (x, directions, thresholds))
        points, axes, heights = arrays
        made = dect(points, hoods, axes, heights, float(network["scale"]), edge_weight=float(network["edge_weight"]))
        shown: Floats = made[node].numpy()
        return shown

    members = np.asarray(hoods.members(node)).astype(np.int64)
    before, after = transform(start), transform(learned)
    return Look(number, node, hops, x, edges, members, thresholds, before, after, start, learned)


def _learned(run: FinishedRun, fingerprint: str) -> tuple[Floats, Floats]:
    number = run.folds[0].number
    best = load(run.checkpoint(number), f"{fingerprint} fold {number}")
    weights = (best or {}).get("network", {})
    directions = weights.get(f"{ENCODER}parametrizations.directions.original")
    if directions is None:
        raise InvalidInputError(f"the run {run.name} has no checkpoint with learned directions")
    values = directions.double().numpy()
    return values / np.linalg.norm(values, axis=0), weights[f"{ENCODER}thresholds"].double().numpy()


def _graph(dataset: Artifact, wanted: int | None) -> tuple[int, Floats, Ints]:
    """Return number, features and edges of a graph: the one wanted, or the first that is not too small."""
    stored = StoredGraphs.of(dataset)
    pointers = stored.node_ptr()
    sizes = np.diff(pointers)
    name = dataset.manifest.dataset
    if wanted is not None and not 0 <= wanted < len(sizes):
        raise InvalidInputError(f"{name!r} has no graph {wanted}. Choose one from 0 to {len(sizes) - 1} with --graph.")
    number = int(np.argmax(sizes >= FEWEST_NODES)) if wanted is None else wanted
    if sizes[number] == 0:
        raise InvalidInputError(f"graph {number} of {name!r} has no nodes. Choose another --graph.")
    if sizes[number] > MOST_NODES:
        raise InvalidInputError("its graph is too large to draw")
    ids = np.arange(pointers[number], pointers[number + 1])
    rows = stored.neighbours(ids)
    ends = np.stack([np.repeat(np.arange(len(ids)), rows.lengths), rows["ids"] - pointers[number]])
    return number, np.asarray(stored.features(ids), dtype=np.float64), ends[:, ends[0] < ends[1]].astype(np.int64)


def closeup(run: FinishedRun, look: Look) -> Section:
    """Return the section with the four pictures."""
    name, is_plane = f"neighborhood-{run.dataset}-{look.graph}", look.x.shape[1] == 2
    limits = (float(min(look.before.min(), look.after.min())), float(max(look.before.max(), look.after.max())))
    order = np.argsort(np.arctan2(look.start[1], look.start[0]), kind="stable") if is_plane else slice(None)

    def transform(values: Floats, when: str) -> Any:
        return partial(draw_transform, values[order], look.thresholds, limits, f"DECT {when} learning")

    size = f"{look.hops}-hop neighbourhood of node {look.node} has {counted(len(look.members), 'node')}"
    title = f"Graph {look.graph}, node {look.node}, {counted(look.hops, 'hop')}"
    panels = (
        Panel(
            f"{name}-graph",
            f"Graph {look.graph} of {run.label}; the {size}",
            partial(draw_graph, look.x, look.edges, look.node, look.members, title),
        ),
        Panel(
            f"{name}-before",
            "Transform of the neighbourhood in the random directions that training starts from",
            transform(look.before, "before"),
        ),
        Panel(
            f"{name}-after",
            "Transform of the same neighbourhood in the learned directions",
            transform(look.after, "after"),
        ),
        Panel(
            f"{name}-directions",
            "Directions before and after learning",
            partial(draw_directions, look.start[:, order], look.learned[:, order]),
        ),
    )
    caption = (
        f"The graph, {'its two features as coordinates' if is_plane else 'laid out by its edges'}, with the "
        "neighbourhood of one node in blue; the neighbourhood's Euler characteristic by direction (rows) and threshold "
        "(columns), in the directions that training starts from and in the learned ones, with the same colours; and "
        "how far each direction has turned."
    )
    network = f"{backbone_label(run.backbone)} with LEAP-L ({run.projection})"
    text = f"From {run.label}, {network}, fold {run.folds[0].number}, run {run.name}."
    return Section("neighborhood", "What LEAP sees", (text,), plots=(Plot(caption, panels),))


def draw_graph(x: Floats, edges: Ints, node: int, members: Ints, title: str) -> Figure:
    """Draw a graph with one neighbourhood marked; two features are coordinates, otherwise the layout is by edges."""
    figure, axes = new_figure(title, 2.4, left=0.1, bottom=0.1)
    shown = _drawn(edges, len(x), members)
    places = {int(old): new for new, old in enumerate(shown)}
    pairs = [(places[a], places[b]) for a, b in edges.T.tolist() if a in places and b in places]
    kept = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    points = x[shown] if x.shape[1] == 2 else _layout(kept, len(shown))
    is_member = np.isin(shown, members)
    inside = is_member[kept].all(axis=1)
    axes.add_collection(LineCollection(list(points[kept[~inside]]), colors=GRID, linewidths=1.4, zorder=1))
    axes.add_collection(LineCollection(list(points[kept[inside]]), colors=AFTER, linewidths=2.0, zorder=2))
    size = 46 if len(shown) <= 60 else 14
    for chosen, area, fill, line in (
        (points[~is_member], size, PAPER, MUTED),
        (points[is_member], size, AFTER, PAPER),
        (points[[places[node]]], size * 2.2, HERE, INK),
    ):
        axes.scatter(chosen[:, 0], chosen[:, 1], s=area, color=fill, edgecolors=line, linewidths=1.0, zorder=3)
    axes.margins(0.12)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_axis_off()
    return figure


def _drawn(edges: Ints, count: int, members: Ints) -> Ints:
    """Return the nodes to draw: all of a small graph; of a large one the neighbourhood and what is next to it."""
    if count <= MOST_DRAWN:
        return np.arange(count)
    near = np.isin(edges, members).any(axis=0)
    around = np.setdiff1d(np.unique(edges[:, near]), members)
    return np.sort(np.concatenate([members, around])[:MOST_DRAWN])


def _layout(edges: Ints, count: int) -> Floats:
    """Return places by distances along edges: components side by side, nodes without edges in a row below."""
    graph = nx.empty_graph(count)
    graph.add_edges_from(edges.tolist())
    points, right = np.zeros((count, 2)), 0.0
    components = sorted((sorted(nodes) for nodes in nx.connected_components(graph)), key=len, reverse=True)
    for nodes in components:
        if len(nodes) > 1:
            placed = nx.kamada_kawai_layout(graph.subgraph(nodes))
            own = np.array([placed[node] for node in nodes]) * len(nodes) ** 0.5
            points[nodes] = own - own.min(axis=0) + [right, 0.0]
            right = points[nodes, 0].max() + 1.0
    alone = [nodes[0] for nodes in components if len(nodes) == 1]
    width = max(right - 1.0, 0.5 * len(alone))
    for i, node in enumerate(alone):
        points[node] = width * (i + 0.5) / len(alone), -1.0
    return points


def draw_transform(values: Floats, thresholds: Floats, limits: tuple[float, float], title: str) -> Figure:
    """Draw a transform as an image, directions in rows, thresholds in columns."""
    figure, axes = new_figure(title, 2.1, left=0.3, right=0.62)
    low, high = limits if limits[1] > limits[0] else (limits[0], limits[0] + 1)
    mesh = axes.pcolormesh(values, cmap=COLOR_MAP, vmin=low, vmax=high, edgecolors="face", linewidth=0.3)
    first, last = float(thresholds[0]), float(thresholds[-1])
    marks = [minus(f"{mark:.1f}") for mark in (first, (first + last) / 2, last)]
    axes.set_xticks([0.5, len(thresholds) / 2, len(thresholds) - 0.5], marks)
    axes.set_yticks([])
    axes.set_xlabel("threshold")
    axes.set_ylabel("direction")
    color_bar(figure, axes, mesh)
    return figure


def draw_directions(start: Floats, learned: Floats) -> Figure:
    """Draw directions in the plane on the circle, others by the angle that each has turned."""
    title = "Directions, before and after"
    if len(start) != 2:
        figure, axes = new_figure(title, 2.1)
        turned = np.degrees(np.arccos(np.clip((start * learned).sum(axis=0), -1, 1)))
        axes.bar(np.arange(1, len(turned) + 1), turned, color=AFTER, width=0.7)
        axes.set_xlabel("direction")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel("turned by (degrees)")
        axes.grid(axis="y")
        return figure
    figure, axes = new_figure(title, 2.1, left=0.1, bottom=0.34)
    angles = np.linspace(0, 2 * np.pi, 181)
    axes.plot(np.cos(angles), np.sin(angles), color=GRID, linewidth=1.0)
    for old, new in zip(start.T, learned.T, strict=True):
        first, last = np.arctan2(old[1], old[0]), np.arctan2(new[1], new[0])
        turn = (last - first + np.pi) % (2 * np.pi) - np.pi
        arc = first + turn * np.linspace(0, 1, 24)
        axes.plot(1.09 * np.cos(arc), 1.09 * np.sin(arc), color=AFTER, linewidth=1.8, solid_capstyle="round")
        axes.plot([0, old[0]], [0, old[1]], color=BEFORE, linewidth=0.8, alpha=0.55)
        axes.plot([0, new[0]], [0, new[1]], color=AFTER, linewidth=1.3)
    axes.plot(*start, "o", color=BEFORE, markersize=3.5, label="before")
    axes.plot(*learned, "o", color=AFTER, markersize=4.5, label="after")
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.margins(0.06)
    figure.legend(loc="lower center", ncols=2)
    return figure
