"""`leap report`: tables and pictures of all runs on one page."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from leap.cli.output import console, plural, print_json
from leap.cli.settings import Settings
from leap.pipeline import reports


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
) -> None:
    """Write one page with the tables and figures of all finished runs, next to the paper's numbers.

    DIR/index.html needs nothing else and no network; DIR/tables holds every table as CSV, Markdown and LaTeX,
    DIR/figures every picture as SVG and PNG.

    [dim]leap report[/]
    [dim]leap report --runs runs --out report --graph 7[/]
    """
    result = reports.report(runs, out, store=settings.open_store(), graph=graph, reporter=settings.reporter)
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
