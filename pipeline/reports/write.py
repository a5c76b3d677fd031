"""`report`: read the runs of a folder and write the page, its tables and its figures."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

from leap.pipeline import reports
from leap.pipeline.datasets import known_names
from leap.pipeline.events import Reporter
from leap.pipeline.reports import comparisons, cost, reproduction, scores, spread
from leap.pipeline.reports.answer import Answer, answer
from leap.pipeline.reports.figures import SETTINGS, for_page, to_png, to_svg
from leap.pipeline.reports.folder import FIGURES, INDEX, TABLES, one_writer, write, writing_to
from leap.pipeline.reports.names import by, counted, joined
from leap.pipeline.reports.page import Missing, Section, page
from leap.pipeline.reports.runs import FinishedRun, Results, SweepCall, last_day, read_results
from leap.pipeline.reports.summary import dataset_by_dataset, summary
from leap.pipeline.reports.table import WRITERS
from leap.store import Store
from leap.store.errors import InvalidInputError, LeapError

MOST_NAMED = 3  # datasets that the first line names
LONGEST_NAME = 120  # of a figure's files; file systems allow 255 bytes


class SectionSpec(NamedTuple):
    """A section, and the presets that make the runs that it shows."""

    make: Callable[[Results], Section | None]
    what: str
    presets: tuple[str, ...]


# In the order of the page. A new section is one new function and one line here.
SECTIONS: tuple[SectionSpec, ...] = (
    SectionSpec(scores.main, "the main table", ("paper-main",)),
    SectionSpec(reproduction.beside_the_paper, "distances to the published numbers", ("paper-main",)),
    SectionSpec(comparisons.comparisons, "paired comparisons", ("paper-main",)),
    SectionSpec(spread.boxes, "box plots", ("paper-main",)),
    SectionSpec(scores.best, "the best approach for each dataset", ("paper-main",)),
    SectionSpec(scores.projections, "projections", ("paper-projections",)),
    SectionSpec(scores.hops, "hops", ("paper-hops",)),
    SectionSpec(scores.dimension, "embedding dimension", ("paper-dimension",)),
    SectionSpec(scores.ect, "directions and scale of the transform", ("paper-ect",)),
    SectionSpec(scores.dect, "comparison with the global DECT", ("paper-dect",)),
    SectionSpec(scores.synthetic, "synthetic triads", ("paper-synthetic",)),
    SectionSpec(spread.molecules, "Alchemy and HIV", ("paper-alchemy", "paper-hiv")),
    SectionSpec(spread.curves, "training curves", ("paper-curves",)),
    SectionSpec(cost.cost, "time and cost", ("paper-time",)),
)


@dataclass(frozen=True)
class ReportResult:
    """What a report consists of.

    Attributes
    ----------
    index : the page.
    answer : does LEAP help? Of all datasets together, if there are several.
    answers : of each dataset.
    tables, figures : files beside it, by name.
    summary : the sentences at the top.
    numbers : what they are made of.
    notes : what is left out, and why.
    """

    index: Path
    answer: Answer
    answers: list[Answer]
    tables: dict[str, list[Path]]
    figures: dict[str, list[Path]]
    summary: list[str]
    numbers: dict[str, Any]
    notes: list[str]

    def as_json(self) -> dict[str, Any]:
        """Return JSON values, the object that `--json` prints."""
        files = {
            kind: {name: list(map(str, paths)) for name, paths in getattr(self, kind).items()}
            for kind in ("tables", "figures")
        }
        values = {**asdict(self), "answer": self.answer.text, "answers": [one.text for one in self.answers]}
        return {"stage": "report", **values, "index": str(self.index), **files}


def report(
    runs: Path | str = "runs",
    out: Path | str = "report",
    *,
    store: Store | None = None,
    graph: int | None = None,
    sweep: str | SweepCall | None = None,
    reporter: Reporter | None = None,
) -> ReportResult:
    """Write tables and pictures of all finished runs; the same runs give the same bytes.

    Parameters
    ----------
    runs : folder that holds the runs' folders.
    out : folder of the report: index.html, tables/ and figures/. What else is in it stays. Of several reports at
        once, one after the other is written.
    store : where graphs are read from for the picture of a neighbourhood; without one, it is left out.
    graph : number of the graph to picture; default: the first with at least five nodes.
    sweep : name of a sweep that was done there, or one call of it; the report is about its runs alone.

    Raises
    ------
    InvalidInputError
        If there are no finished runs, the sweep was not done, or the folder cannot be written.
    """
    out, reporter = Path(out), reporter or Reporter()
    results, _ = read_results(Path(runs), sweep)
    whole, each = answer(results)
    sections, missing = make_sections(results, whole, each, store, graph)
    with writing_to(out, "--out"), one_writer(out, reporter):
        tables = _write_tables(out / TABLES, sections)
        figures, pictures = _write_figures(out / FIGURES, sections, reporter)
        write(out / INDEX, page(sections, pictures, missing, whole.headline, _about(results)).encode())
    first = sections[0]
    return ReportResult(
        out / INDEX, whole, each, tables, figures, list(first.paragraphs), first.facts, list(map(str, missing))
    )


def answers(runs: Path | str, sweep: str | SweepCall | None = None) -> tuple[Answer, list[Answer]]:
    """Return the answer of a report that is not written, and that of each dataset."""
    return answer(read_results(Path(runs), sweep)[0])


def make_sections(
    results: Results, whole: Answer, each: Sequence[Answer], store: Store | None, graph: int | None
) -> tuple[list[Section], list[Missing]]:
    """Return the sections that the runs allow, in order, and what is missing."""
    of_datasets = dataset_by_dataset(each)
    sections = [summary(results, whole, each), *([of_datasets] if of_datasets else [])]
    lacking: dict[tuple[str, ...], list[str]] = {}
    for entry in SECTIONS:
        made = entry.make(results)
        if made is None:
            lacking.setdefault(entry.presets, []).append(entry.what)
        else:
            sections.append(made)
    on = "" if known_names() & {run.dataset for run in results.runs} else " --on DATASET"
    missing = [
        Missing(", ".join(what), tuple(f"leap sweep {preset}{on}" for preset in presets))
        for presets, what in lacking.items()
    ]
    look, why = _look(results, store, graph)
    if look is not None:
        sections.append(look)
    elif graph is not None:
        raise InvalidInputError(f"cannot picture graph {graph}: {why}.")
    else:
        missing.append(Missing("a picture of a neighbourhood", reason=why))
    return sections, missing


def _look(results: Results, store: Store | None, graph: int | None) -> tuple[Section | None, str]:
    """Return the picture of a neighbourhood from the first run that has one, or None and why there is none."""
    candidates = [run for run in results.shown if _is_suitable(run)]
    if not candidates:
        return None, "no run of LEAP-L on plain features"
    if store is None:
        return None, "no store to read graphs from"
    reason = ""
    for run in sorted(candidates, key=lambda run: (run.transform["hops"] != "1", run.name)):
        try:
            return reports.closeup.closeup(run, reports.closeup.look_at(run, store, graph)), ""
        except LeapError as error:
            reason = reason or str(error)
    return None, reason


def _is_suitable(run: FinishedRun) -> bool:
    is_plain = run.transform.get("leap_on") == "features" and not run.transform.get("leap_every_layer")
    return run.encoding == "leap-l" and is_plain


def _about(results: Results) -> str:
    number = sum(len(run.folds) for run in results.runs)
    datasets = sorted({run.dataset for run in results.runs}, key=by("dataset"))
    names = joined(datasets) if len(datasets) <= MOST_NAMED else f"{len(datasets)} datasets"
    seeds = sorted({run.seeds[0] for run in results.runs})
    words = f"seed{'s' if len(seeds) > 1 else ''} {joined(list(map(str, seeds)))}"
    return (
        f"{counted(len(results.runs), 'run')} ({words}) with {counted(number, 'fold')} on {names}; the last one "
        f"finished on {last_day(results.runs)}. Written by leap {version('leap-graph')}."
    )


def _write_tables(folder: Path, sections: list[Section]) -> dict[str, list[Path]]:
    tables = [table for section in sections for table in section.tables]
    return {
        table.name: [write(folder / f"{table.name}.{kind}", make(table).encode()) for kind, make in WRITERS.items()]
        for table in tables
    }


def _write_figures(
    folder: Path, sections: list[Section], reporter: Reporter
) -> tuple[dict[str, list[Path]], dict[str, str]]:
    """Return the files of each panel, and what it is in the page."""
    panels = [panel for section in sections for plot in section.plots for panel in plot.panels]
    written: dict[str, list[Path]] = {}
    pictures: dict[str, str] = {}
    with mpl.rc_context(rc=SETTINGS), reporter.task("drawing figures", len(panels)) as advance:
        for number, panel in enumerate(panels):
            figure = panel.draw()
            svg, name = to_svg(figure), file_name(panel.name)
            written[panel.name] = [
                write(folder / f"{name}.svg", svg.encode()),
                write(folder / f"{name}.png", to_png(figure)),
            ]
            pictures[panel.name] = for_page(svg, f"figure-{number}", panel.alt)
            advance(1)
    return written, pictures


def file_name(name: str) -> str:
    """Return the name of a panel's files; one that had to be changed ends in a digest, so that two never meet."""
    safe = "".join(letter if letter.isalnum() or letter in "-_+." else "-" for letter in name)
    if safe == name and len(name.encode()) <= LONGEST_NAME:
        return name
    short = safe.encode()[: LONGEST_NAME - 9].decode(errors="ignore")
    return f"{short}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
