"""Parts of a report, apart from how they are written: sections with sentences, tables and figures."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from leap.pipeline.reports.names import dataset_order
from leap.pipeline.reports.runs import Cell, Run
from leap.pipeline.reports.selection import cells, comparable, on_latest_data, usual
from leap.pipeline.reports.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    draw: "Callable[[], Figure]"


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
    paragraphs : plain sentences before tables and plots.
    """

    anchor: str
    title: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """The runs of a report and the choices that all of its sections share.

    Attributes
    ----------
    outdated : runs that are left out, because the same dataset was trained on with other data later.
    """

    runs: tuple[Run, ...]
    outdated: tuple[Run, ...] = ()

    @classmethod
    def of(cls, runs: Iterable[Run]) -> "Results":
        """Return what a report is made of."""
        found = list(runs)
        latest = on_latest_data(found)
        names = {run.name for run in latest}
        return cls(tuple(latest), tuple(run for run in found if run.name not in names))

    @cached_property
    def shown(self) -> list[Run]:
        """Runs that can be compared with the others of their dataset."""
        return comparable(self.runs)

    @cached_property
    def usual(self) -> list[Cell]:
        """Cells with the paper's transform, or with the most common one where that was not run."""
        return cells(usual(self.shown))

    def cells(self, **values: object) -> list[Cell]:
        """Return cells of all comparable runs whose fields or settings have these values."""
        return [cell for cell in self._cells if _has(cell.first, values)]

    @cached_property
    def _cells(self) -> list[Cell]:
        return cells(self.shown)

    @property
    def stand_ins(self) -> dict[str, str]:
        """Generated datasets and what they stand in for."""
        return {run.dataset: run.stand_in_for for run in self.runs if run.stand_in_for is not None}


def _has(run: Run, values: dict[str, object]) -> bool:
    return all(getattr(run, name, run.settings.get(name)) == value for name, value in values.items())


def datasets_of(found: Iterable[Cell]) -> list[str]:
    """Return the names of the datasets of cells, in the order of columns."""
    return sorted({cell.first.dataset for cell in found}, key=dataset_order)


def column_labels(results: Results, datasets: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return names of columns and the line under each: what a stand-in stands in for, and an unusual metric."""
    from leap.pipeline.reports.names import ACCURACY, metric_of

    lines = []
    for dataset in datasets:
        run = next(run for run in results.runs if run.dataset == dataset)
        metric = metric_of(run)
        words = [f"stand-in for {run.stand_in_for}"] if run.stand_in_for else []
        words += [metric.label] if metric != ACCURACY else []
        lines.append(", ".join(words))
    return tuple(datasets), tuple(lines)
