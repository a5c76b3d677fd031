"""Box plots of folds, one group for each backbone, one colour for each encoding."""

from typing import TYPE_CHECKING

import numpy as np

from leap.pipeline.reports.figures.style import INK, color_of, legend, legend_height, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_boxes(groups: dict[str, dict[str, list[float]]], title: str, label: str) -> "Figure":
    """Draw scores by group (backbone) and encoding."""
    room = legend_height(len({name for scores in groups.values() for name in scores}))
    figure, axes = new_figure(title, 1.85, bottom=0.26 + room)
    places: dict[str, list[float]] = {}
    scores: dict[str, list[list[float]]] = {}
    at, ticks = 0.0, []
    for of_group in groups.values():
        ticks.append(at + (len(of_group) - 1) / 2)
        for encoding, values in of_group.items():
            places.setdefault(encoding, []).append(at)
            scores.setdefault(encoding, []).append(values)
            at += 1.0
        at += 1.0
    for encoding, boxes in scores.items():
        color = color_of(encoding)
        axes.boxplot(
            boxes,
            positions=places[encoding],
            widths=0.7,
            whis=(0, 100),
            showcaps=False,
            patch_artist=True,
            manage_ticks=False,
            boxprops={"facecolor": color, "edgecolor": color, "alpha": 0.45},
            whiskerprops={"color": color, "linewidth": 1.2},
            medianprops={"color": INK, "linewidth": 1.4},
        )
        sizes = [len(values) for values in boxes]
        axes.plot(np.repeat(places[encoding], sizes), np.concatenate(boxes), "o", color=color, markersize=2.6)
    axes.set_xticks(ticks, list(groups))
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-1, at - 1)
    axes.grid(axis="y")
    axes.set_ylabel(label)
    legend(figure, list(scores))
    return figure
