"""Pictures of one neighbourhood: the graph, its transform, and the directions."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.reports.figures.heat import COLOR_MAP, color_bar
from leap.pipeline.reports.figures.style import COLORS, GRID, INK, MUTED, PAPER, new_figure
from leap.pipeline.reports.names import minus

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NODES = 300  # drawn around the neighbourhood
BEFORE, AFTER = MUTED, COLORS["leap-l"]


def draw_graph(
    x: NDArray[np.float64], edges: NDArray[np.int64], node: int, members: NDArray[np.int64], title: str
) -> "Figure":
    """Draw a graph with one neighbourhood marked; two features are coordinates, otherwise the layout is by edges."""
    from matplotlib.collections import LineCollection

    figure, axes = new_figure(title, 2.4, left=0.1, bottom=0.1)
    shown = _shown(edges, len(x), members)
    places = {int(old): new for new, old in enumerate(shown)}
    kept = np.array(
        [(places[a], places[b]) for a, b in edges.T.tolist() if a in places and b in places], dtype=np.int64
    )
    kept = kept.reshape(-1, 2)
    points = x[shown] if x.shape[1] == 2 else _layout(kept, len(shown))
    is_member = np.isin(shown, members)
    inside = is_member[kept].all(axis=1)
    axes.add_collection(LineCollection(list(points[kept[~inside]]), colors=GRID, linewidths=1.4, zorder=1))
    axes.add_collection(LineCollection(list(points[kept[inside]]), colors=AFTER, linewidths=2.0, zorder=2))
    size = 46 if len(shown) <= 60 else 14
    here = points[places[node]][None]
    for chosen, area, fill, line in (
        (points[~is_member], size, PAPER, MUTED),
        (points[is_member], size, AFTER, PAPER),
        (here, size * 2.2, COLORS["rwpe"], INK),
    ):
        axes.scatter(chosen[:, 0], chosen[:, 1], s=area, color=fill, edgecolors=line, linewidths=1.0, zorder=3)
    axes.margins(0.12)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_axis_off()
    return figure


def _shown(edges: NDArray[np.int64], count: int, members: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the nodes to draw: all of a small graph; of a large one the neighbourhood and what is next to it."""
    if count <= MOST_NODES:
        return np.arange(count)
    near = np.isin(edges, members).any(axis=0)
    around = np.setdiff1d(np.unique(edges[:, near]), members)
    return np.sort(np.concatenate([members, around])[:MOST_NODES])


def _layout(edges: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Return places by distances along edges: components side by side, nodes without edges in a row below."""
    import networkx as nx

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


def draw_transform(
    values: NDArray[np.float64], thresholds: NDArray[np.float64], limits: tuple[float, float], title: str
) -> "Figure":
    """Draw a transform as an image, directions in rows, thresholds in columns."""
    figure, axes = new_figure(title, 2.1, left=0.3, right=0.62)
    low, high = limits if limits[1] > limits[0] else (limits[0], limits[0] + 1)
    mesh = axes.pcolormesh(values, cmap=COLOR_MAP, vmin=low, vmax=high, edgecolors="face", linewidth=0.3)
    ends = (float(thresholds[0]), float(thresholds[-1]))
    marks = [ends[0], sum(ends) / 2, ends[1]]
    axes.set_xticks([0.5, len(thresholds) / 2, len(thresholds) - 0.5], [minus(f"{mark:.1f}") for mark in marks])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel("threshold")
    axes.set_ylabel("direction")
    color_bar(figure, axes, mesh)
    return figure


def draw_directions(start: NDArray[np.float64], learned: NDArray[np.float64]) -> "Figure":
    """Draw directions in the plane on the circle, others by the angle that each has turned."""
    from matplotlib.ticker import MaxNLocator

    is_plane = len(start) == 2
    margins = {"left": 0.1, "bottom": 0.34} if is_plane else {}
    figure, axes = new_figure("Directions, before and after", 2.1, **margins)
    if not is_plane:
        turned = np.degrees(np.arccos(np.clip((start * learned).sum(axis=0), -1, 1)))
        axes.bar(np.arange(1, len(turned) + 1), turned, color=AFTER, width=0.7)
        axes.set_xlabel("direction")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylabel("turned by (degrees)")
        axes.grid(axis="y")
        return figure
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
