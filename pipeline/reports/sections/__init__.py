"""The sections of a report: each looks at the results and returns itself, or None if there is nothing to show."""

from collections.abc import Callable
from typing import NamedTuple

from leap.pipeline.reports.section import Results, Section
from leap.pipeline.reports.sections.ablations import dimension, ect, hops
from leap.pipeline.reports.sections.best import best
from leap.pipeline.reports.sections.boxes import boxes, molecules
from leap.pipeline.reports.sections.comparisons import comparisons
from leap.pipeline.reports.sections.cost import cost
from leap.pipeline.reports.sections.curves import curves
from leap.pipeline.reports.sections.dect import dect
from leap.pipeline.reports.sections.main import main
from leap.pipeline.reports.sections.projections import projections
from leap.pipeline.reports.sections.synthetic import synthetic


class Entry(NamedTuple):
    """A section, and which preset makes the runs that it shows."""

    make: Callable[[Results], Section | None]
    what: str
    preset: str


# In the order of the page. A new section is one new function and one line here.
SECTIONS: tuple[Entry, ...] = (
    Entry(main, "the main table", "paper-main"),
    Entry(comparisons, "paired comparisons", "paper-main"),
    Entry(boxes, "box plots", "paper-main"),
    Entry(best, "the best approach for each dataset", "paper-main"),
    Entry(projections, "projections", "paper-projections"),
    Entry(hops, "hops", "paper-hops"),
    Entry(dimension, "embedding dimension", "paper-dimension"),
    Entry(ect, "directions and scale of the transform", "paper-ect"),
    Entry(dect, "comparison with the global DECT", "paper-dect"),
    Entry(synthetic, "synthetic triads", "paper-synthetic"),
    Entry(molecules, "Alchemy and HIV", "paper-alchemy and leap sweep paper-hiv"),
    Entry(curves, "training curves", "paper-curves"),
    Entry(cost, "time and cost", "paper-time"),
)
