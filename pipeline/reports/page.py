"""The page as data: sections with sentences, tables and figures, and the template that shows them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from leap.pipeline.reports.table import WRITERS, Table


@dataclass(frozen=True)
class Panel:
    """One picture, drawn when it is written.

    Attributes
    ----------
    name : of its files.
    alt : what a reader who does not see it must know.
    """

    name: str
    alt: str
    draw: Callable[[], Figure]


@dataclass(frozen=True)
class Plot:
    """Pictures that are read together, with one caption."""

    caption: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Section:
    """One part of the page.

    Attributes
    ----------
    anchor : its address inside the page.
    paragraphs : plain sentences before plots and tables.
    facts : the numbers that the sentences are made of, for programs.
    """

    anchor: str
    title: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Missing:
    """Something that could be shown too: the commands that would make it, or the reason why it is not there."""

    what: str
    commands: tuple[str, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {' and '.join(self.commands) or self.reason}"


def page(
    sections: Sequence[Section], pictures: Mapping[str, str], missing: Sequence[Missing], headline: str, about: str
) -> str:
    """Return one HTML document that needs nothing else.

    Parameters
    ----------
    headline : the answer in a sentence, with which the first section begins.
    pictures : SVG elements by the name of their panel, the only text that is not escaped.
    """
    environment = Environment(
        loader=PackageLoader("leap.pipeline.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        sections=sections,
        pictures={name: Markup(svg) for name, svg in pictures.items()},
        missing=missing,
        headline=headline,
        about=about,
        formats=list(WRITERS),
    )
