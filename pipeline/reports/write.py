"""`report`: read the runs of a root and write the page, its tables and its figures."""

import html
import os
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from leap.pipeline.datasets.registry import known_names
from leap.pipeline.progress import Reporter, Silence
from leap.pipeline.reports.formats import WRITERS
from leap.pipeline.reports.names import dataset_order, joined
from leap.pipeline.reports.page import page
from leap.pipeline.reports.runs import Run, read_runs
from leap.pipeline.reports.section import Panel, Results, Section
from leap.pipeline.reports.sections import SECTIONS
from leap.pipeline.reports.sections.neighborhood import neighborhood
from leap.pipeline.reports.sections.summary import summary
from leap.pipeline.reports.selection import last_day
from leap.store import Store
from leap.store.errors import InvalidInputError

NAMED = 3  # datasets that the first line names


@dataclass(frozen=True)
class ReportResult:
    """What a report consists of.

    Attributes
    ----------
    index : the page.
    tables, figures : files beside it, by name.
    summary : the sentences at the top.
    numbers : what they are made of.
    notes : what is left out, and why.
    """

    index: Path
    tables: dict[str, list[Path]]
    figures: dict[str, list[Path]]
    summary: list[str]
    numbers: dict[str, Any]
    notes: list[str]

    def as_json(self) -> dict[str, Any]:
        """Return JSON values, the object that `--json` prints."""
        return {
            "stage": "report",
            "index": str(self.index),
            "tables": {name: [str(path) for path in paths] for name, paths in self.tables.items()},
            "figures": {name: [str(path) for path in paths] for name, paths in self.figures.items()},
            "summary": self.summary,
            "numbers": self.numbers,
            "notes": self.notes,
        }


def report(
    runs: Path | str = "runs",
    out: Path | str = "report",
    *,
    store: Store | None = None,
    graph: int | None = None,
    reporter: Reporter | None = None,
) -> ReportResult:
    """Write tables and pictures of all finished runs; the same runs give the same bytes.

    Parameters
    ----------
    runs : folder that holds the runs' folders.
    out : folder of the report: index.html, tables/ and figures/. What else is in it stays.
    store : where graphs are read from for the picture of a neighbourhood; without one, it is left out.
    graph : number of the graph to picture; default: the first with at least five nodes.

    Raises
    ------
    InvalidInputError
        If there are no finished runs, or the folder cannot be written.
    """
    root = Path(runs)
    found = read_runs(root) if root.is_dir() else []
    if not found:
        raise InvalidInputError(
            f"there are no finished runs in {str(root)!r}. Make some with 'leap sweep quick' or 'leap train', or name "
            "another folder with --runs."
        )
    return write_report(found, Path(out), store=store, graph=graph, reporter=reporter or Silence())


def write_report(
    found: list[Run], out: Path, *, store: Store | None, graph: int | None, reporter: Reporter
) -> ReportResult:
    """Write the report of runs that are read already."""
    results = Results.of(found)
    sections: list[Section] = [summary(results)]
    missing: dict[str, list[str]] = {}
    for entry in SECTIONS:
        made = entry.make(results)
        if made is None:
            missing.setdefault(entry.preset, []).append(entry.what)
        else:
            sections.append(made)
    look, why = neighborhood(results, store, graph)
    if look is None and graph is not None:
        raise InvalidInputError(f"cannot picture graph {graph}: {why}.")
    sections += [look] if look is not None else []
    on = "" if known_names() & {run.dataset for run in results.runs} else " --on DATASET"
    notes = [f"{', '.join(what)}: leap sweep {preset}{on}" for preset, what in missing.items()]
    notes += [f"a picture of a neighbourhood: {why}"] if look is None else []
    try:
        tables = _write_tables(out / "tables", sections)
        figures, pictures = _write_figures(out / "figures", sections, reporter)
        text = page(sections, pictures, [_item(note) for note in notes], _about(results))
        _write(out / "index.html", text.encode())
    except OSError as error:
        raise InvalidInputError(
            f"cannot write the report to {str(out)!r}: {error.strerror}. Give another folder with --out."
        ) from error
    first = sections[0]
    return ReportResult(out / "index.html", tables, figures, list(first.paragraphs), first.facts, notes)


def _item(note: str) -> str:
    what, _, how = note.partition(": ")
    is_command = how.startswith("leap ")
    commands = (
        [f"<code>{html.escape(part)}</code>" for part in how.split(" and ")] if is_command else [html.escape(how)]
    )
    return f"{html.escape(what[:1].upper() + what[1:])}: {' and '.join(commands)}"


def _about(results: Results) -> str:
    folds = sum(len(run.folds) for run in results.runs)
    datasets = sorted({run.dataset for run in results.runs}, key=dataset_order)
    runs = len(results.runs)
    names = joined(datasets) if len(datasets) <= NAMED else f"{len(datasets)} datasets"
    return (
        f"{runs:,} run{'s' if runs > 1 else ''} with {folds:,} folds on {names}; the last one finished on "
        f"{last_day(results.runs)}. Written by leap {version('leap-graph')}."
    )


def _write_tables(folder: Path, sections: list[Section]) -> dict[str, list[Path]]:
    written: dict[str, list[Path]] = {}
    for table in (table for section in sections for table in section.tables):
        for suffix, writer in WRITERS.items():
            path = folder / f"{table.name}.{suffix}"
            _write(path, writer(table).encode())
            written.setdefault(table.name, []).append(path)
    return written


def _write_figures(
    folder: Path, sections: list[Section], reporter: Reporter
) -> tuple[dict[str, list[Path]], dict[str, str]]:
    import matplotlib as mpl

    from leap.pipeline.reports.figures.style import SETTINGS, for_page, to_png, to_svg

    panels: list[Panel] = [panel for section in sections for plot in section.plots for panel in plot.panels]
    written: dict[str, list[Path]] = {}
    pictures: dict[str, str] = {}
    with mpl.rc_context(rc=SETTINGS), reporter.task("drawing figures", len(panels)) as advance:
        for panel in panels:
            name = _file_name(panel.name)
            figure = panel.draw()
            svg = to_svg(figure)
            for suffix, data in (("svg", svg.encode()), ("png", to_png(figure))):
                path = folder / f"{name}.{suffix}"
                _write(path, data)
                written.setdefault(panel.name, []).append(path)
            pictures[panel.name] = for_page(svg, name, panel.alt)
            advance(1)
    return written, pictures


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_+." else "-" for letter in name)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    os.replace(partial, path)
