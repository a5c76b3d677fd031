"""Tables as data, and how they are written: CSV for programs, Markdown for notes, LaTeX for papers.

The page's template writes them as HTML.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

from leap.pipeline.published import Published, lookup
from leap.pipeline.reports.names import ACCURACY, Metric, counted, minus
from leap.pipeline.reports.runs import Cell, Results, grouped
from leap.pipeline.reports.statistics import distance, pooled

Mark = Literal["", "best", "second", "worst"]
R = TypeVar("R")
C = TypeVar("C")
# Beside dataset, backbone and encoding: what tells the cells of a table of the paper apart.
PUBLISHED_PROJECTIONS = 5
WITHIN = 2.0  # published standard deviations
VARY = {"projections": ("projection",), "hops": ("projection", "hops"), "dimension": ("projection", "dim")}


@dataclass(frozen=True)
class Value:
    """A result: its mean and spread over folds, its place among its rivals, and the published value.

    Attributes
    ----------
    mean, spread : as shares in 0…1, or whatever the metric's factor turns into what is printed.
    seeds : how many each fold has a score of.
    is_official : whether folds are the dataset's official splits.
    published : only for the very dataset that the paper used; in the printed unit.
    detail : one more word, such as the projection chosen.
    """

    mean: float
    spread: float | None
    seeds: tuple[int, ...]
    metric: Metric = ACCURACY
    mark: Mark = ""
    published: Published | None = None
    detail: str = ""
    is_official: bool = False

    @property
    def text(self) -> str:
        """Return "81.8 ± 1.2"."""
        shown = self.metric.text(self.mean)
        return shown if self.spread is None else f"{shown} ± {self.metric.text(self.spread)}"

    @property
    def seeds_of_a_fold(self) -> str:
        """Return "3", or "2–3" where some folds have fewer."""
        return "–".join(str(number) for number in sorted({min(self.seeds), max(self.seeds)}))

    @property
    def repetitions(self) -> str:
        """Return "3 seeds × 5 folds", or "3 seeds on the official split"."""
        seeds = "1 seed" if self.seeds_of_a_fold == "1" else f"{self.seeds_of_a_fold} seeds"
        if self.is_official and len(self.seeds) == 1:
            return f"{seeds} on the official split"
        if self.is_official:
            return f"{seeds} × {len(self.seeds)} official splits"
        return f"{seeds} × {counted(len(self.seeds), 'fold')}"

    @property
    def published_text(self) -> str:
        """Return the published "81.6 ± 1.9" and our distance to it, "+0.1 σ"; empty if there is none."""
        if self.published is None:
            return ""
        printed = [self.published.mean, *([] if self.published.std is None else [self.published.std])]
        digits = max(1, *(len(f"{number:g}".partition(".")[2]) for number in printed))
        shown = " ± ".join(f"{number:.{digits}f}" for number in printed)
        if self.distance is None:
            return shown
        return f"{shown} · " + minus(f"{self.distance:+.1f} σ").replace("−0.0", "+0.0")

    @property
    def distance(self) -> float | None:
        """How far ours lies above the published mean, in published standard deviations."""
        if self.published is None:
            return None
        return distance(self.mean * self.metric.factor, self.published.mean, self.published.std)

    @property
    def rounded(self) -> float:
        """The mean as printed."""
        return round(self.mean * self.metric.factor, self.metric.digits)


Entry = str | Value | None
Row = tuple[Entry, ...]


@dataclass(frozen=True)
class Table:
    """A table: one header, rows in groups that a line separates.

    Attributes
    ----------
    name : of the files that it is written to.
    heads : leading columns that name a row; the others hold values.
    subheads : a second line under each column's name, or empty.
    is_long : whether the page shows it on demand.
    """

    name: str
    title: str
    caption: str
    heads: tuple[str, ...]
    columns: tuple[str, ...]
    groups: tuple[tuple[Row, ...], ...]
    subheads: tuple[str, ...] = ()
    is_long: bool = False

    @property
    def rows(self) -> list[Row]:
        """All rows, in order."""
        return [row for group in self.groups for row in group]

    @property
    def values(self) -> list[Value]:
        """All results in it."""
        return [entry for row in self.rows for entry in row if isinstance(entry, Value)]

    @property
    def has_published(self) -> bool:
        """Whether published values stand beside ours."""
        return any(value.published for value in self.values)

    @cached_property
    def repetitions(self) -> str:
        """How often most values were measured."""
        counts = Counter(value.repetitions for value in self.values)
        return counts.most_common(1)[0][0] if counts else ""

    def notes(self, value: Value) -> list[str]:
        """Return what stands below a value: its detail, and how often it was measured if most others were not so."""
        other = "" if value.repetitions == self.repetitions else value.repetitions
        return [note for note in (value.detail, other) if note]

    @property
    def note(self) -> str:
        """The caption, after what the values are means of."""
        if not self.values:
            return self.caption
        singles = [value for value in self.values if len(value.seeds) == 1]
        over = "over folds"
        if any(value.seeds[0] > 1 for value in singles):
            over += " (over seeds where there is one fold)"
        if any(max(value.seeds) > 1 for value in self.values):
            over += ", the seeds of each fold averaged first"
        if all(value.is_official for value in self.values):
            over = over.replace("fold", "official split") if len(singles) < len(self.values) else "over seeds"
        is_mixed = any(value.repetitions != self.repetitions for value in self.values)
        count = f"{self.repetitions}{' unless a cell says otherwise' if is_mixed else ''}"
        return f"Mean ± standard deviation {over}: {count}. {self.caption}{self._nearness}".rstrip()

    @property
    def _nearness(self) -> str:
        """How many values are near the published ones beside them."""
        far = [value.distance for value in self.values if value.distance is not None]
        within = sum(abs(distance) <= WITHIN for distance in far)
        words = f" {within} of {len(far)} lie within two published standard deviations of the published mean."
        return words if far else ""

    @property
    def has_marks(self) -> bool:
        """Whether best, second and worst are marked."""
        return any(value.mark for value in self.values)

    @property
    def header(self) -> list[str]:
        """Names of all columns; a line under a name joins it in brackets."""
        lines = self.subheads or ("",) * len(self.columns)
        full = [f"{name} ({line})" if line else name for name, line in zip(self.columns, lines, strict=True)]
        return [*self.heads, *full]

    def is_text(self, place: int) -> bool:
        """Whether a column holds words, which stand to the left."""
        entries = [row[place] for row in self.rows if row[place]]
        return bool(entries) and all(isinstance(entry, str) and not re.search(r"\d", entry[:2]) for entry in entries)


def value_of(cell: Cell | None, published: str = "", *, with_projection: bool = False) -> Value | None:
    """Return the value of a cell, beside that of a table of the paper; None if no fold has a score.

    A stand-in never has a published value.
    """
    by_fold = cell.by_fold(cell.scores()) if cell else []
    if cell is None or not by_fold:
        return None
    printed = None
    if published and cell.run.stand_in_for is None:
        settings = {"projection": cell.run.projection, **cell.run.transform}
        where = {name: settings[name] for name in VARY.get(published, ())}
        where |= zip(("dataset", "backbone", "encoding"), cell.run.key, strict=True)
        printed = lookup("dect" if cell.run.is_global else published, **where)
        if published == "main" and printed is not None and not _is_as_published(cell, printed):
            printed = None
    detail = (cell.run.projection or "") if with_projection else ""
    return Value(
        *pooled(by_fold),
        tuple(map(len, by_fold)),
        cell.run.metric,
        published=printed,
        detail=detail,
        is_official=cell.run.splits == "official",
    )


def _is_as_published(cell: Cell, printed: Published) -> bool:
    """Whether a cell is what the main table has: the best of the paper's projections, or one that was as good there."""
    projection = cell.run.projection
    if projection in (None, printed.projection) or cell.among >= PUBLISHED_PROJECTIONS:
        return True
    where = dict(zip(("dataset", "backbone", "encoding"), cell.run.key, strict=True))
    tied = lookup("projections", **where, projection=projection)
    return tied is not None and tied.mean == printed.mean


def marked(values: Sequence[Value | None]) -> list[Value | None]:
    """Mark the best, the second and the worst of values that compete; as printed, so that equal ones share a mark.

    Two values have no worst, and one alone has no mark at all.
    """
    shown = sorted({value.rounded for value in values if value is not None}, reverse=True)
    if len(shown) < 2:
        return list(values)
    marks: dict[float, Mark] = {}
    if sum(value is not None for value in values) > 2:
        marks[shown[-1]] = "worst"
    if len(shown) > 2:
        marks[shown[1]] = "second"
    marks[shown[0]] = "best"
    return [None if value is None else replace(value, mark=marks.get(value.rounded, "")) for value in values]


def grid(
    cells: Mapping[tuple[R, C], Cell],
    columns: Sequence[C],
    order: Callable[[R], Any],
    label: Callable[[R], tuple[str, ...]],
    group: Callable[[R], Hashable] = lambda row: None,
    *,
    published: str = "",
    rivals: Literal["rows", "columns"] = "rows",
    with_projection: bool = False,
) -> tuple[tuple[Row, ...], ...]:
    """Return the groups of a table of cells, with marks.

    Parameters
    ----------
    cells : by row and column.
    order : sort key of rows.
    label : names of a row, one for each of the table's heads.
    group : what the rows of one group share.
    published : table of the paper whose values stand beside ours.
    rivals : what competes for marks: the rows of a group in each column, or the columns in each row.
    with_projection : add each cell's projection.
    """
    made = []
    for members in grouped(sorted({row for row, _ in cells}, key=order), group).values():
        values = [
            [value_of(cells.get((row, column)), published, with_projection=with_projection) for column in columns]
            for row in members
        ]
        if rivals == "rows":
            by_column = [marked(column) for column in zip(*values, strict=True)]
            values = [list(row) for row in zip(*by_column, strict=True)]
        else:
            values = [marked(row) for row in values]
        made.append(tuple((*label(row), *of_row) for row, of_row in zip(members, values, strict=True)))
    return tuple(made)


def dataset_lines(results: Results, datasets: Sequence[str]) -> tuple[str, ...]:
    """Return the line under each dataset's name: what a stand-in stands in for, and an unusual metric."""
    lines = []
    for dataset in datasets:
        run = next(run for run in results.runs if run.dataset == dataset)
        words = [f"stand-in for {run.stand_in_for}"] if run.stand_in_for else []
        lines.append(", ".join([*words, *([run.metric.label] if run.metric != ACCURACY else [])]))
    return tuple(lines)


PARTS: dict[str, Callable[[Value], float | str | None]] = {
    "": lambda value: value.mean * value.metric.factor,
    "std": lambda value: None if value.spread is None else value.spread * value.metric.factor,
    "folds": lambda value: len(value.seeds),
    "seeds": lambda value: value.seeds_of_a_fold,
    "detail": lambda value: value.detail,
    "published": lambda value: value.published.mean if value.published else None,
    "published std": lambda value: value.published.std if value.published else None,
    "distance": lambda value: value.distance,
}


def to_csv(table: Table) -> str:
    """Return CSV: every value has its mean and spread in columns of their own, and the published ones if any."""
    header, columns = [], []
    for name, entries in zip(table.header, zip(*table.rows, strict=True), strict=True):
        values = [entry for entry in entries if isinstance(entry, Value)]
        if not values:
            header.append(name)
            columns.append([str(entry or "").replace("−", "-") for entry in entries])  # programs read these
            continue
        kept = ["", "std", "folds", "seeds"]
        kept += ["detail"] if any(value.detail for value in values) else []
        kept += ["published", "published std", "distance"] if any(value.published for value in values) else []
        header += [f"{name} {part}".rstrip() for part in kept]
        columns += [[_part(entry, part) for entry in entries] for part in kept]
    target = io.StringIO()
    csv.writer(target, lineterminator="\n").writerows([header, *zip(*columns, strict=True)])
    return target.getvalue()


def _part(entry: Entry, part: str) -> str:
    found = PARTS[part](entry) if isinstance(entry, Value) else None
    return "" if found is None else found if isinstance(found, str) else f"{found:.6g}"


def to_markdown(table: Table) -> str:
    """Return Markdown: best in bold, second in italics, worst with a mark."""
    marks = " Best bold, second italic, worst marked ▾." if table.has_marks else ""
    lines = [
        f"**{markdown(table.title)}.** {markdown(table.note)}{marks}",
        "",
        "| " + " | ".join(map(markdown, table.header)) + " |",
        "|" + "---|" * len(table.heads) + "---:|" * len(table.columns),
    ]
    lines += ["| " + " | ".join(_markdown(entry, table) for entry in row) + " |" for row in table.rows]
    return "\n".join(lines) + "\n"


def _markdown(entry: Entry, table: Table) -> str:
    if not isinstance(entry, Value):
        return markdown(entry or "")
    text = {"best": f"**{entry.text}**", "second": f"*{entry.text}*", "worst": f"{entry.text} ▾"}.get(
        entry.mark, entry.text
    )
    published = f"(paper {entry.published_text.replace(' ·', ',')})" if entry.published else ""
    return " ".join(filter(None, [text, markdown(", ".join(table.notes(entry))), published]))


def to_latex(table: Table) -> str:
    """Return a LaTeX table for booktabs; best bold, second underlined, worst in italics."""
    lines = [
        "% needs \\usepackage{booktabs}; best bold, second underlined, worst italic",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{latex(table.title)}. {latex(table.note)}}}",
        rf"  \label{{tab:{table.name}}}",
        rf"  \begin{{tabular}}{{{'l' * len(table.heads)}{'r' * len(table.columns)}}}",
        r"    \toprule",
        rf"    {' & '.join(map(latex, table.header))} \\",
    ]
    for group in table.groups:
        lines += [r"    \midrule", *(rf"    {' & '.join(_latex(entry, table) for entry in row)} \\" for row in group)]
    return "\n".join([*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""])


def _latex(entry: Entry, table: Table) -> str:
    if not isinstance(entry, Value):
        return latex(entry or "")
    command = {"best": "textbf", "second": "underline", "worst": "textit"}.get(entry.mark)
    text = rf"\{command}{{{latex(entry.text)}}}" if command else latex(entry.text)
    return text if entry.repetitions == table.repetitions else f"{text} ({latex(entry.repetitions)})"


def markdown(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(text.split()))


LATEX: dict[str, str | int | None] = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    **{letter: f"${letter}$" for letter in "<>"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "×": r"$\times$",
    "σ": r"$\sigma$",
    "²": "$^2$",
    "ℓ": r"$\ell$",
    "–": "--",
    "…": r"\dots{}",
}


def latex(text: str) -> str:
    """Return text that LaTeX shows as it is, on one line."""
    return " ".join(text.translate(str.maketrans(LATEX)).split())


WRITERS = {"csv": to_csv, "md": to_markdown, "tex": to_latex}
