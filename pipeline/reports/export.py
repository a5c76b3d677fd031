"""`export_report`: results as files to keep beside code, a page in Markdown with tables as CSV and figures as SVG."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib as mpl

from leap.pipeline.events import Reporter
from leap.pipeline.reports.answer import answer
from leap.pipeline.reports.cost import seconds_text
from leap.pipeline.reports.figures import SETTINGS, to_svg
from leap.pipeline.reports.folder import write, writing_to
from leap.pipeline.reports.names import counted
from leap.pipeline.reports.page import Section
from leap.pipeline.reports.runs import Results, SweepCall, grouped, read_results
from leap.pipeline.reports.table import Table, markdown, to_csv, to_markdown
from leap.pipeline.reports.write import ReportResult, file_name, make_sections
from leap.store.errors import InvalidInputError

NUMBERS = "numbers.json"
PAGE = "README.md"
LINK = re.compile(r"\]\(((?:tables/[^()/]+\.csv|figures/[^()/]+\.svg))\)")
MOST_ROWS = 40  # of a table that is shown unasked


def export_report(
    runs: Path | str, out: Path | str, *, sweep: str | None = None, reporter: Reporter | None = None
) -> ReportResult:
    """Write the tables and figures of finished runs; the same runs give the same bytes, on any day.

    Parameters
    ----------
    runs : folder that holds the runs' folders.
    out : folder to write to: README.md, tables/, figures/ and numbers.json. Tables and figures of an earlier export
        that are no more go; all else in it stays.
    sweep : name of a sweep that was done there; its runs alone are exported, with its command and time.

    Raises
    ------
    InvalidInputError
        If there are no finished runs, the sweep was not done, or the folder cannot be written or has a README.md or
        numbers.json that is no export's.
    """
    out = Path(out)
    results, calls = read_results(Path(runs), sweep)
    whole, each = answer(results)
    sections, _ = make_sections(results, whole, each, None, None)
    with writing_to(out, "--export"):
        earlier = _earlier(out)
        tables = {
            table.name: [write(out / "tables" / f"{table.name}.csv", to_csv(table).encode())]
            for section in sections
            for table in section.tables
        }
        figures = _figures(out / "figures", sections, reporter or Reporter())
        text = _page(sweep or "Results", sections, results, calls)
        index = write(out / PAGE, text.encode())
        first = sections[0]
        write(out / NUMBERS, (json.dumps(first.facts, indent=1, sort_keys=True) + "\n").encode())
        for path in earlier - {path for paths in (*tables.values(), *figures.values()) for path in paths}:
            path.unlink(missing_ok=True)
    return ReportResult(index, whole, each, tables, figures, list(first.paragraphs), first.facts, [])


def _earlier(out: Path) -> set[Path]:
    """Return the tables and figures of an earlier export, which its page links to.

    Raises
    ------
    InvalidInputError
        If something else is where an export has its page or its numbers.
    """
    is_there = {name: (out / name).exists() for name in (PAGE, NUMBERS)}
    if not any(is_there.values()):
        return set()
    if not all(is_there.values()):
        met = next(name for name, found in is_there.items() if found)
        raise InvalidInputError(
            f"{out / met} was not written by an export, which would replace it. Move it away, or give another folder "
            "with --export."
        )
    return {out / link for link in LINK.findall((out / PAGE).read_text(encoding="utf-8", errors="replace"))}


def _figures(folder: Path, sections: Sequence[Section], reporter: Reporter) -> dict[str, list[Path]]:
    panels = [panel for section in sections for plot in section.plots for panel in plot.panels]
    written = {}
    with mpl.rc_context(rc=SETTINGS), reporter.task("drawing figures", len(panels)) as advance:
        for panel in panels:
            path = folder / f"{file_name(panel.name)}.svg"
            written[panel.name] = [write(path, to_svg(panel.draw()).encode())]
            advance(1)
    return written


def _page(title: str, sections: Sequence[Section], results: Results, calls: Sequence[SweepCall]) -> str:
    parts = [f"# {markdown(title)}"]
    parts += [markdown(calls[-1].description)] if calls and calls[-1].description else []
    parts.append(_origin(results, calls))
    for section in sections:
        parts += [f"## {markdown(section.title)}", *map(markdown, section.paragraphs)]
        for plot in section.plots:
            pictures = [f"![{markdown(panel.alt)}](figures/{file_name(panel.name)}.svg)" for panel in plot.panels]
            parts += ["\n".join(pictures), markdown(plot.caption)]
        parts += map(_table, section.tables)
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    text = f"{to_markdown(table).rstrip()}\n\n[{table.name}.csv](tables/{table.name}.csv)"
    return (
        f"<details><summary>{markdown(table.title)}</summary>\n\n{text}\n\n</details>"
        if len(table.rows) > MOST_ROWS
        else text
    )


def _origin(results: Results, calls: Sequence[SweepCall]) -> str:
    """Return a table that says how the results were made."""
    folds = [fold for run in results.runs for fold in run.folds]
    rows = []
    if calls:
        commands = dict.fromkeys(call.command for call in calls if call.command)
        times = f" in {len(calls)} calls" if len(calls) > 1 else ""
        trained = sum(call.trained for call in calls)
        found = len(calls[-1].runs) - trained
        of_it = f"; {counted(found, 'run')} of {len(calls[-1].runs):,} there before" if found > 0 else ""
        workers = " or ".join(counted(count, "worker") for count in sorted({call.workers for call in calls}))
        rows = [
            ("command", "<br>".join(map(_code, commands))),
            ("time", f"{seconds_text(sum(call.seconds for call in calls))}{times}, with {workers}{of_it}"),
        ]
    rows += [
        ("runs", f"{counted(len(results.runs), 'run')} with {counted(len(folds), 'fold')}"),
        ("training", f"{seconds_text(sum(fold.seconds for fold in folds))}, all folds one after the other"),
        ("seeds", ", ".join(map(str, sorted({run.seeds[0] for run in results.runs})))),
        ("versions", _versions(run.versions for run in results.runs)),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows if value)])


def _code(command: str) -> str:
    """Return a command in a cell of a table, where a bar or a new line would end it."""
    text = command.replace("|", "\\|").replace("\n", " ")
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _versions(found: Iterable[dict[str, str]]) -> str:
    each = grouped(dict.fromkeys(item for versions in found for item in versions.items()), lambda item: item[0])
    return ", ".join(f"{name} {' and '.join(sorted(version for _, version in each[name]))}" for name in sorted(each))
