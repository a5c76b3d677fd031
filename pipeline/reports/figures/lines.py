"""Means with bands over a setting that was varied, one line for each encoding."""

from typing import TYPE_CHECKING

import numpy as np

from leap.pipeline.reports.figures.style import color_of, legend, legend_height, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_lines(series: dict[str, list[tuple[float, float, float]]], title: str, x_label: str, y_label: str) -> "Figure":
    """Draw points (setting, mean, spread) of each encoding; settings stand at even distances."""
    room = legend_height(len(series))
    figure, axes = new_figure(title, 1.75, bottom=0.42 + room)
    settings = sorted({point[0] for points in series.values() for point in points})
    for encoding, points in series.items():
        x = np.array([settings.index(point[0]) for point in points], dtype=float)
        mean, spread = (np.array([point[column] for point in points]) for column in (1, 2))
        axes.fill_between(x, mean - spread, mean + spread, color=color_of(encoding), alpha=0.16, linewidth=0)
        axes.plot(x, mean, "o-", color=color_of(encoding), markersize=3.5)
    axes.set_xticks(range(len(settings)), [f"{value:g}" for value in settings])
    axes.grid(axis="y")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    legend(figure, list(series))
    return figure
