"""The look that all figures share, and how a figure becomes a file or part of a page that can be light or dark."""

import io
import re
import textwrap
from typing import TYPE_CHECKING, Any

from leap.pipeline.reports.names import encoding_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID, PAPER = "#1b2430", "#5d6877", "#e1e5ea", "#fefefe"
# One colour for each encoding everywhere, after Okabe and Ito: told apart with any kind of colour vision.
COLORS = {
    "none": "#7a828e",
    "rwpe": "#e69f00",
    "lape": "#cc79a7",
    "lect": "#8c6bb1",
    "leap-f": "#009e73",
    "leap-l": "#0072b2",
    "lape+leap-l": "#d55e00",
}
OTHER = "#a0785a"
# Inside a page, colours become variables of its style sheet, which knows whether it is light or dark.
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
WIDTH, TITLE_LETTERS = 3.6, 44
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


def color_of(encoding: str) -> str:
    """Return the colour of an encoding."""
    return COLORS.get(encoding, OTHER)


def new_figure(
    title: str, height: float, *, left: float = 0.56, right: float = 0.1, bottom: float = 0.46
) -> "tuple[Figure, Axes]":
    """Return a figure with one pair of axes below its title; height of the axes and margins in inches.

    Margins are given instead of measured: that takes a quarter of the time, and in a page the fonts are others anyway.
    """
    from matplotlib.figure import Figure

    lines = [part for line in title.splitlines() for part in textwrap.wrap(line, TITLE_LETTERS, break_on_hyphens=False)]
    top = 0.14 + 0.17 * len(lines)
    total = height + top + bottom
    figure = Figure(figsize=(WIDTH, total))
    axes = figure.add_axes((left / WIDTH, bottom / total, (WIDTH - left - right) / WIDTH, height / total))
    figure.text(0.06 / WIDTH, 1 - 0.06 / total, "\n".join(lines), va="top", fontweight="bold", fontsize=9.5)
    return figure, axes


def legend_height(count: int) -> float:
    """Room in inches that the names of so many colours need below the axes."""
    return 0.06 + 0.16 * -(-count // LEGEND_COLUMNS)


def legend(figure: "Figure", encodings: list[str]) -> None:
    """Name the colours of encodings at the bottom of a figure."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=color_of(name), lw=3.5, label=encoding_label(name)) for name in encodings]
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


def to_svg(figure: "Figure") -> str:
    """Return a figure as an SVG document; equal figures give equal text."""
    target = io.StringIO()
    figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    return target.getvalue()


def to_png(figure: "Figure") -> bytes:
    """Return a figure as PNG."""
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return target.getvalue()


def for_page(svg: str, name: str, alt: str) -> str:
    """Return an SVG document as an element of a page: its ids are its own, its colours those of the page."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    head, body = body[: body.index(">") + 1], body[body.index(">") + 1 :]
    view = re.search(r'viewBox="[^"]+"', head)
    assert view is not None
    prefix = re.sub(r"[^A-Za-z0-9]+", "-", name)
    used = set(re.findall(r"url\(#([^)]+)\)", body)) | set(re.findall(r'xlink:href="#([^"]+)"', body))
    body = re.sub(r' id="([^"]+)"', lambda m: f' id="{prefix}-{m[1]}"' if m[1] in used else "", body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", body)
    body = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{prefix}-\1"', body)
    for color, variable in VARIABLES.items():
        body = body.replace(color, variable)
    body = re.sub(r"font: ([0-9.]+)px [^;\"]+", r"font-size: \1px", body)
    body = re.sub(r"font: (?:bold|700) ([0-9.]+)px [^;\"]+", r"font-weight: 600; font-size: \1px", body)
    body = re.sub(r"\n\s*", "\n", body)
    return f'<svg role="img" aria-label="{_attribute(alt)}" {view[0]}>{body.strip()}'


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
