"""Curves over epochs with bands, and marks where folds stopped early."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.reports.figures.style import color_of, legend, legend_height, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Curve(NamedTuple):
    """Mean and spread of a metric by epoch, and the epochs at which folds stopped early."""

    encoding: str
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    stops: list[int]


def draw_curves(curves: list[Curve], title: str, label: str) -> "Figure":
    """Draw the curves of several encodings."""
    from matplotlib.ticker import MaxNLocator

    room = legend_height(len(curves))
    figure, axes = new_figure(title, 1.75, bottom=0.42 + room)
    for curve in curves:
        epochs = np.arange(1, len(curve.mean) + 1)
        color = color_of(curve.encoding)
        axes.fill_between(
            epochs, curve.mean - curve.spread, curve.mean + curve.spread, color=color, alpha=0.18, linewidth=0
        )
        axes.plot(epochs, curve.mean, color=color)
    # A row of ticks for each encoding, below everything that is drawn.
    low, high = axes.get_ylim()
    axes.set_yticks([tick for tick in axes.get_yticks() if low <= tick <= high])
    step = (high - low) * 0.035
    stopped = [curve for curve in curves if curve.stops]
    for row, curve in enumerate(stopped, 1):
        places = [low - step * row] * len(curve.stops)
        axes.plot(curve.stops, places, "|", color=color_of(curve.encoding), markersize=5, markeredgewidth=1.4)
    axes.set_ylim(low - step * (len(stopped) + 1), high)
    axes.grid(axis="y")
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel(label)
    legend(figure, [curve.encoding for curve in curves])
    return figure
