"""A heat map with its numbers written into it."""

from typing import TYPE_CHECKING

import numpy as np

from leap.pipeline.reports.figures.style import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

COLOR_MAP = "cividis"


def color_bar(figure: "Figure", axes: "Axes", mesh: "QuadMesh") -> None:
    """Draw the scale of colours to the right of the axes, in the margin that is left there."""
    place = axes.get_position()
    bar = figure.colorbar(mesh, cax=figure.add_axes((place.x1 + 0.02, place.y0, 0.025, place.height)))
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=2)


def draw_heat(
    values: dict[tuple[float, float], float], title: str, x_label: str, y_label: str, digits: int
) -> "Figure":
    """Draw values by (row, column); places without a value stay empty."""
    rows, columns = sorted({row for row, _ in values}), sorted({column for _, column in values})
    grid = np.full((len(rows), len(columns)), np.nan)
    for (row, column), value in values.items():
        grid[rows.index(row), columns.index(column)] = value
    figure, axes = new_figure(title, 0.33 * max(len(rows), 4), right=0.62)
    mesh = axes.pcolormesh(np.ma.masked_invalid(grid), cmap=COLOR_MAP, edgecolors="face", linewidth=0.3)
    low, high = np.nanmin(grid), np.nanmax(grid)
    for row in range(len(rows)):
        for column in range(len(columns)):
            value = grid[row, column]
            if not np.isnan(value):
                is_dark = high > low and (value - low) / (high - low) < 0.55
                color = "#ffffff" if is_dark else "#111111"
                axes.text(
                    column + 0.5, row + 0.5, f"{value:.{digits}f}", ha="center", va="center", color=color, fontsize=7.5
                )
    axes.set_xticks(np.arange(len(columns)) + 0.5, [f"{value:g}" for value in columns])
    axes.set_yticks(np.arange(len(rows)) + 0.5, [f"{value:g}" for value in rows])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    color_bar(figure, axes, mesh)
    return figure
