"""`leap report`: tables and pictures of all runs on one page."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from leap.cli.options import completing
from leap.cli.output import console, plural, print_json
from leap.cli.settings import Settings
from leap.pipeline import reports
from leap.pipeline.experiments.sweep_file import presets
from leap.store.errors import InvalidInputError


def report(
    settings: Settings,
    runs: Annotated[Path, typer.Option("--runs", metavar="DIR", help="Folder of the runs.")] = Path("runs"),
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder to write to.")] = Path("report"),
    graph: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of the graph to picture (default: the first with five nodes or more).",
            show_default=False,
        ),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only the runs of this sweep, such as paper-main, that was done in the folder of the runs.",
            show_default=False,
            autocompletion=completing(presets),
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Instead of the page, write files to keep beside code: README.md, tables as CSV, figures as SVG.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write one page with the tables and figures of all finished runs, next to the paper's numbers.

    DIR/index.html needs nothing else and no network; DIR/tables holds every table as CSV, Markdown and LaTeX,
    DIR/figures every picture as SVG and PNG.

    [dim]leap report[/]
    [dim]leap report --runs runs --out report --graph 7[/]
    [dim]leap report --sweep paper-main --export docs/results/paper-main[/]
    """
    if export is not None:
        if graph is not None:
            raise InvalidInputError("--graph and --export are both given, and an export pictures no graph. Drop one.")
        result = reports.export_report(runs, export, sweep=sweep, reporter=settings.reporter)
    else:
        store = settings.open_store()
        result = reports.report(runs, out, store=store, graph=graph, sweep=sweep, reporter=settings.reporter)
    if settings.as_json:
        print_json(result.as_json())
    else:
        _show(result)


def _show(result: "reports.ReportResult") -> None:
    for sentence in result.summary:
        console.print(escape(sentence), soft_wrap=not console.is_terminal)
    console.print(
        f"[bold]{escape(str(result.index))}[/] with {plural(len(result.tables), 'table')} and "
        f"{plural(len(result.figures), 'figure')}"
    )
