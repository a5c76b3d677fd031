"""Horizontal bars, one for each encoding."""

from typing import TYPE_CHECKING

from leap.pipeline.reports.figures.style import INK, color_of, new_figure
from leap.pipeline.reports.names import encoding_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_bars(values: dict[str, float], title: str, label: str) -> "Figure":
    """Draw ratios by encoding, the number at the end of each bar."""
    figure, axes = new_figure(title, 0.3 * len(values), left=1.15)
    names = list(values)[::-1]
    axes.barh(
        range(len(names)), [values[name] for name in names], color=[color_of(name) for name in names], height=0.65
    )
    for place, name in enumerate(names):
        axes.annotate(
            f"{values[name]:.2f}×",
            (values[name], place),
            (4, 0),
            textcoords="offset points",
            va="center",
            color=INK,
            fontsize=8.5,
        )
    axes.set_yticks(range(len(names)), [encoding_label(name) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, max(values.values()) * 1.18)
    axes.set_xlabel(label)
    return figure
