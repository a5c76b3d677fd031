"""A table of a report, apart from how it is written: columns, rows, and values with what the paper prints."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from leap.pipeline.published import Published
from leap.pipeline.reports.names import ACCURACY, Metric, minus
from leap.pipeline.reports.runs import Cell
from leap.pipeline.reports.statistics import distance, mean_and_spread

Mark = Literal["", "best", "second", "worst"]


@dataclass(frozen=True)
class Value:
    """A result: its mean and spread over folds and seeds, its place among its rivals, and the published value.

    Attributes
    ----------
    mean, spread : as shares in 0…1, or whatever the metric's factor turns into what is printed.
    published : only for the very dataset that the paper used; in the printed unit.
    detail : one more word, such as the projection chosen.
    """

    mean: float
    spread: float | None
    count: int
    metric: Metric = ACCURACY
    mark: Mark = ""
    published: Published | None = None
    detail: str = ""

    @property
    def text(self) -> str:
        """Return "81.8 ± 1.2"."""
        shown = self.metric.text(self.mean)
        return shown if self.spread is None else f"{shown} ± {self.metric.text(self.spread)}"

    @property
    def published_text(self) -> str:
        """Return the published "81.6 ± 1.9"; empty if there is none."""
        if self.published is None:
            return ""
        printed = [self.published.mean, *([] if self.published.std is None else [self.published.std])]
        digits = max(len(f"{number:g}".partition(".")[2]) for number in printed)
        return " ± ".join(f"{number:.{max(digits, 1)}f}" for number in printed)

    @property
    def distance(self) -> float | None:
        """How far ours lies above the published mean, in the larger of the two standard deviations."""
        if self.published is None:
            return None
        factor = self.metric.factor
        spread = None if self.spread is None else self.spread * factor
        return distance(self.mean * factor, spread, self.published.mean, self.published.std)

    @property
    def distance_text(self) -> str:
        """Return "−0.3 σ"; empty without a published value or any spread."""
        return "" if self.distance is None else minus(f"{self.distance:+.1f} σ").replace("−0.0", "+0.0")


@dataclass(frozen=True)
class Table:
    """A table: one header, rows in groups that a line separates.

    Attributes
    ----------
    name : of the files that it is written to.
    heads : leading columns that name a row; the others hold values.
    subheads : a second line under each column's name, or empty.
    """

    name: str
    title: str
    caption: str
    heads: tuple[str, ...]
    columns: tuple[str, ...]
    groups: tuple[tuple[tuple[str | Value | None, ...], ...], ...]
    subheads: tuple[str, ...] = ()

    @property
    def has_published(self) -> bool:
        """Whether published values stand beside ours."""
        return any(isinstance(entry, Value) and entry.published for row in self.rows for entry in row)

    @property
    def has_marks(self) -> bool:
        """Whether best, second and worst are marked."""
        return any(isinstance(entry, Value) and entry.mark for row in self.rows for entry in row)

    @property
    def rows(self) -> list[tuple[str | Value | None, ...]]:
        """All rows, in order."""
        return [row for group in self.groups for row in group]


def value_of(cell: Cell | None, metric: Metric, published: Published | None = None, detail: str = "") -> Value | None:
    """Return the value of a cell; None if it has none."""
    scores = [] if cell is None else list(cell.scores(metric.name).values())
    if cell is None or not scores:
        return None
    is_real = cell.first.stand_in_for is None
    mean, spread = mean_and_spread(scores)
    return Value(mean, spread, len(scores), metric, published=published if is_real else None, detail=detail)


def marked(values: Sequence[Value | None]) -> list[Value | None]:
    """Mark the best, the second and the worst of values that compete; as printed, so that equal ones share a mark.

    Two values have no worst, and one alone has no mark at all.
    """
    shown = sorted({float(f"{_printed(value)}") for value in values if value is not None}, reverse=True)
    if len(shown) < 2:
        return list(values)
    marks: dict[float, Mark] = {}
    if sum(value is not None for value in values) > 2:
        marks[shown[-1]] = "worst"
    if len(shown) > 2:
        marks[shown[1]] = "second"
    marks[shown[0]] = "best"
    return [None if value is None else replace(value, mark=marks.get(_printed(value), "")) for value in values]


def _printed(value: Value) -> float:
    return round(value.mean * value.metric.factor, value.metric.digits)
