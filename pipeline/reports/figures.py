"""Figures: numbers in, a matplotlib figure out, in one style; and how a figure becomes a file or part of the page."""

import html
import io
import re
import textwrap
import zlib
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from leap.pipeline.reports.names import encoding_label

INK, MUTED, GRID, PAPER = "#1b2430", "#5d6877", "#e1e5ea", "#fefefe"
COLOR_MAP = "cividis"
# One colour for each encoding everywhere, after Okabe and Ito: told apart with any kind of colour vision.
COLORS = {
    "none": "#7a828e",
    "rwpe": "#e69f00",
    "lape": "#cc79a7",
    "lect": "#8c6bb1",
    "leap-f": "#009e73",
    "leap-l": "#0072b2",
    "leap-x": "#b5495b",
    "lape+leap-l": "#d55e00",
}
OTHERS = ("#a0785a", "#56b4e9", "#8a8d0f")
# Inside the page, colours become variables of its style sheet, which knows whether it is light or dark.
VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--line)",
    PAPER: "var(--paper)",
    COLORS["none"]: "var(--none)",
    COLORS["leap-l"]: "var(--leap-l)",
}
PNG_DPI = 200
LEGEND_COLUMNS = 3
SHAPES = "os^Dv"
WIDTH, TITLE_LETTERS, TITLE_LINES = 3.6, 44, 4
SETTINGS: Any = {
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.labelsize": 9.0,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": PAPER,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "lines.linewidth": 1.6,
    "text.parse_math": False,  # a dataset may have dollars in its name
    "svg.fonttype": "none",
    "svg.hashsalt": "leap",
}


def draw_boxes(groups: Mapping[str, Mapping[str, list[float]]], title: str, label: str) -> Figure:
    """Draw box plots of scores: one group for each backbone, one colour for each encoding."""
    encodings = list(dict.fromkeys(name for scores in groups.values() for name in scores))
    figure, axes = new_figure(title, 1.85, bottom=0.26, legend=encodings)
    at, ticks = 0.0, []
    for of_group in groups.values():
        ticks.append(at + (len(of_group) - 1) / 2)
        for encoding, scores in of_group.items():
            color = color_of(encoding)
            axes.boxplot(
                scores,
                positions=[at],
                widths=0.7,
                whis=(0, 100),
                showcaps=False,
                showfliers=False,
                patch_artist=True,
                manage_ticks=False,
                boxprops={"facecolor": color, "edgecolor": color, "alpha": 0.45},
                whiskerprops={"color": color, "linewidth": 1.2},
                medianprops={"color": INK, "linewidth": 1.4},
            )
            axes.plot([at] * len(scores), scores, "o", color=color, markersize=2.6)
            at += 1.0
        at += 1.0
    axes.set_xticks(ticks, list(groups))
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-1, at - 1)
    axes.grid(axis="y")
    axes.set_ylabel(label)
    return figure


def draw_bars(values: Mapping[str, float], title: str, label: str) -> Figure:
    """Draw ratios as horizontal bars, one for each encoding, the number at the end of each."""
    figure, axes = new_figure(title, 0.3 * len(values), left=1.15)
    names = list(values)[::-1]
    axes.barh(range(len(names)), [values[name] for name in names], color=list(map(color_of, names)), height=0.65)
    for place, name in enumerate(names):
        end, text = (values[name], place), f"{values[name]:.2f}×"
        axes.annotate(text, end, (4, 0), textcoords="offset points", va="center", color=INK, fontsize=8.5)
    axes.set_yticks(range(len(names)), [encoding_label(name) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, max(values.values()) * 1.18)
    axes.set_xlabel(label)
    return figure


def draw_lines(series: Mapping[str, list[tuple[float, float, float]]], title: str, x_label: str, label: str) -> Figure:
    """Draw points (setting, mean, spread) of each encoding as lines with bands; settings stand at even distances."""
    figure, axes = new_figure(title, 1.75, legend=list(series))
    settings = sorted({point[0] for points in series.values() for point in points})
    for encoding, points in series.items():
        values, mean, spread = np.array(points).T
        _band(axes, np.searchsorted(settings, values), mean, spread, encoding, "o-")
    axes.set_xticks(range(len(settings)), [f"{value:g}" for value in settings])
    axes.grid(axis="y")
    axes.set_xlabel(x_label)
    axes.set_ylabel(label)
    return figure


class Difference(NamedTuple):
    """A difference with the interval that it lies in, and whether it counts as shown."""

    mean: float
    low: float
    high: float
    is_shown: bool


def draw_differences(groups: Mapping[str, Mapping[str, Difference]], title: str, label: str) -> Figure:
    """Draw differences with their intervals: one group for each backbone; those that are not shown are hollow."""
    rows = [(name, encoding) for name, of_group in groups.items() for encoding in ("", *of_group)]
    figure, axes = new_figure(title, 0.19 * len(rows) + 0.1, left=0.95)
    for place, (name, encoding) in enumerate(rows):
        if encoding:
            color, one = color_of(encoding), groups[name][encoding]
            axes.plot([one.low, one.high], [place, place], color=color, linewidth=1.8, solid_capstyle="butt")
            face = color if one.is_shown else PAPER
            axes.plot(one.mean, place, "o", color=color, markerfacecolor=face, markersize=5.5, markeredgewidth=1.5)
    axes.axvline(0, color=MUTED, linewidth=0.9)
    axes.set_yticks(range(len(rows)), [encoding_label(encoding) or name for name, encoding in rows])
    for (_, encoding), text in zip(rows, axes.get_yticklabels(), strict=True):
        if not encoding:
            text.set(fontweight="bold", color=INK)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_xlabel(label)
    return figure


def draw_ranks(ranks: Mapping[str, float], reach: float, title: str) -> Figure:
    """Draw average ranks, the best at the top, each with a bar that reaches as far to both sides."""
    figure, axes = new_figure(title, 0.24 * len(ranks) + 0.1, left=0.95)
    for place, (encoding, rank) in enumerate(ranks.items()):
        color = color_of(encoding)
        axes.plot(
            [rank - reach, rank + reach], [place, place], color=color, linewidth=5, alpha=0.35, solid_capstyle="butt"
        )
        axes.plot(rank, place, "o", color=color, markersize=6)
        axes.annotate(f"{rank:.2f}", (rank, place), (0, 5), textcoords="offset points", ha="center", fontsize=7.5)
    axes.set_yticks(range(len(ranks)), [encoding_label(name) for name in ranks])
    axes.set_ylim(len(ranks) - 0.5, -0.8)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(min(1 - reach / 2, min(ranks.values()) - reach - 0.1), max(ranks.values()) + reach + 0.1)
    axes.set_xticks(range(1, len(ranks) + 1))
    axes.grid(axis="x")
    axes.set_xlabel("average rank (1 is best)")
    return figure


class Priced(NamedTuple):
    """What a network costs, and what it gains."""

    backbone: str
    encoding: str
    cost: float
    gain: float


def draw_tradeoff(points: Sequence[Priced], title: str, x_label: str, label: str) -> Figure:
    """Draw gain over cost: one colour for each encoding, one shape for each backbone."""
    shapes = dict(zip(dict.fromkeys(point.backbone for point in points), cycle(SHAPES), strict=False))
    encodings = list(dict.fromkeys(point.encoding for point in points))
    figure, axes = new_figure(title, 1.75, bottom=0.5, legend=encodings, shapes=shapes)
    axes.axhline(0, color=MUTED, linewidth=0.9)
    for point in points:
        shape, color = shapes[point.backbone], color_of(point.encoding)
        axes.plot(point.cost, point.gain, shape, color=color, markersize=6.5, alpha=0.9, clip_on=False)
    axes.set_xlim(0, max(point.cost for point in points) * 1.08 or 1)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.grid()
    axes.set_xlabel(x_label)
    axes.set_ylabel(label)
    return figure


class Curve(NamedTuple):
    """Mean and spread of a metric by epoch, and the epochs at which folds stopped early."""

    encoding: str
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    stops: list[int]


def draw_curves(curves: Sequence[Curve], title: str, label: str) -> Figure:
    """Draw the curves of several encodings with bands, and below them a tick wherever a fold stopped early."""
    figure, axes = new_figure(title, 1.75, legend=[curve.encoding for curve in curves])
    for curve in curves:
        _band(axes, np.arange(1, len(curve.mean) + 1), curve.mean, curve.spread, curve.encoding, "-")
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
    return figure


def draw_heat(
    values: Mapping[tuple[float, float], float], title: str, x_label: str, y_label: str, digits: int
) -> Figure:
    """Draw values by (row, column) as a heat map with its numbers; places without a value stay empty."""
    rows, columns = sorted({row for row, _ in values}), sorted({column for _, column in values})
    grid = np.full((len(rows), len(columns)), np.nan)
    for (row, column), value in values.items():
        grid[rows.index(row), columns.index(column)] = value
    figure, axes = new_figure(title, 0.33 * max(len(rows), 4), right=0.62)
    mesh = axes.pcolormesh(np.ma.masked_invalid(grid), cmap=COLOR_MAP, edgecolors="face", linewidth=0.3)
    low, high = min(values.values()), max(values.values())
    for place, value in np.ndenumerate(grid):
        if not np.isnan(value):
            is_dark = high > low and (value - low) / (high - low) < 0.55
            style: Any = {"ha": "center", "va": "center", "color": "#ffffff" if is_dark else "#111111", "fontsize": 7.5}
            axes.text(place[1] + 0.5, place[0] + 0.5, f"{value:.{digits}f}", **style)
    axes.set_xticks(np.arange(len(columns)) + 0.5, [f"{value:g}" for value in columns])
    axes.set_yticks(np.arange(len(rows)) + 0.5, [f"{value:g}" for value in rows])
    axes.tick_params(length=0)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    color_bar(figure, axes, mesh)
    return figure


def color_of(encoding: str) -> str:
    """Return the colour of an encoding; one that is not ours keeps the same in every figure."""
    return COLORS.get(encoding) or OTHERS[zlib.crc32(encoding.encode()) % len(OTHERS)]


def new_figure(
    title: str,
    height: float,
    *,
    left: float = 0.64,
    right: float = 0.1,
    bottom: float = 0.46,
    legend: Sequence[str] = (),
    shapes: Mapping[str, str] | None = None,
) -> tuple[Figure, Axes]:
    """Return a figure with one pair of axes between its title and a legend of encodings and shapes; sizes in inches.

    Margins are given instead of measured: that takes a quarter of the time, and in a page the fonts are others anyway.
    """
    lines = [part for line in title.splitlines() for part in textwrap.wrap(line, TITLE_LETTERS, break_on_hyphens=False)]
    if len(lines) > TITLE_LINES:
        lines = [*lines[: TITLE_LINES - 1], lines[TITLE_LINES - 1][: TITLE_LETTERS - 1] + "…"]
    top = 0.14 + 0.17 * len(lines)
    handles = [Line2D([], [], color=color_of(name), lw=3.5, label=encoding_label(name)) for name in legend]
    handles += [
        Line2D([], [], color=MUTED, marker=shape, ls="", markersize=5, label=name)
        for name, shape in (shapes or {}).items()
    ]
    bottom += 0.06 + 0.16 * -(-len(handles) // LEGEND_COLUMNS) if handles else 0.0
    total = height + top + bottom
    figure = Figure(figsize=(WIDTH, total))
    axes = figure.add_axes((left / WIDTH, bottom / total, (WIDTH - left - right) / WIDTH, height / total))
    figure.text(0.06 / WIDTH, 1 - 0.06 / total, "\n".join(lines), va="top", fontweight="bold", fontsize=9.5)
    if handles:
        figure.legend(
            handles=handles,
            loc="lower center",
            ncols=min(len(handles), LEGEND_COLUMNS),
            handlelength=1.0,
            handletextpad=0.5,
            columnspacing=1.3,
            borderaxespad=0.1,
            borderpad=0.1,
            labelspacing=0.35,
        )
    return figure, axes


def color_bar(figure: Figure, axes: Axes, mesh: QuadMesh) -> None:
    """Draw the scale of colours to the right of the axes, in the margin that is left there, and no frame."""
    place = axes.get_position()
    bar = figure.colorbar(mesh, cax=figure.add_axes((place.x1 + 0.02, place.y0, 0.025, place.height)))
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=2)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _band(axes: Axes, x: NDArray[Any], mean: NDArray[Any], spread: NDArray[Any], encoding: str, style: str) -> None:
    color = color_of(encoding)
    axes.fill_between(x, mean - spread, mean + spread, color=color, alpha=0.18, linewidth=0)
    axes.plot(x, mean, style, color=color, markersize=3.5)


def to_svg(figure: Figure) -> str:
    """Return a figure as an SVG document; equal figures give equal text."""
    target = io.StringIO()
    figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    return target.getvalue()


def to_png(figure: Figure) -> bytes:
    """Return a figure as PNG."""
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return target.getvalue()


def for_page(svg: str, prefix: str, alt: str) -> str:
    """Return an SVG document as an element of a page: ids get a prefix, colours are those of the page."""
    body = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    head, body = body[: body.index(">") + 1], body[body.index(">") + 1 :]
    view = re.search(r'viewBox="[^"]+"', head)
    assert view is not None
    used = set(re.findall(r"url\(#([^)]+)\)", body)) | set(re.findall(r'xlink:href="#([^"]+)"', body))
    body = re.sub(r' id="([^"]+)"', lambda m: f' id="{prefix}-{m[1]}"' if m[1] in used else "", body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", body)
    body = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{prefix}-\1"', body)
    for color, variable in VARIABLES.items():
        body = body.replace(color, variable)
    body = re.sub(r"font: ([0-9.]+)px [^;\"]+", r"font-size: \1px", body)
    body = re.sub(r"font: (?:bold|700) ([0-9.]+)px [^;\"]+", r"font-weight: 600; font-size: \1px", body)
    body = re.sub(r"\n\s*", "\n", body)
    return f'<svg role="img" aria-label="{html.escape(alt)}" {view[0]}>{body.strip()}'
