"""`leap compare`: does LEAP help on these graphs? One command, one answer."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from leap import pipeline
from leap.cli.options import Several
from leap.cli.output import INTERRUPTED, print_json, show_error, show_stop
from leap.cli.runs import show_answer, show_failures, show_plan, show_sweep
from leap.cli.settings import Settings
from leap.cli.stage_options import Plan, Seeds, WorkOptions, dataset_names, selected
from leap.pipeline.stages.ingest import IngestOptions
from leap.pipeline.training.options import TrainOptions

INSTEAD = "Instead of the recommended; repeat for several values"


def compare(
    settings: Settings,
    reading: IngestOptions,
    instead: Annotated[dict[str, Any], Several(TrainOptions, INSTEAD)],
    work: WorkOptions,
    datasets: Annotated[
        list[str],
        typer.Argument(
            metavar="DATASET",
            help="Names that [bold]leap datasets[/] lists, or paths of your own data.",
            autocompletion=dataset_names,
        ),
    ],
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            metavar=" ",
            help="A first look, not the answer: one seed, few epochs, and three splits of a node task. A minute or two "
            "for some thousand small graphs or ten thousand nodes.",
        ),
    ] = False,
    plan: Plan = False,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the page.")] = Path("report"),
    seeds: Seeds = None,
) -> None:
    """Answer whether LEAP helps on your graphs: by how much, how surely, at what cost, and which encoding to take.

    The recommended encodings are trained with and without message passing, over folds and seeds; what they need is made
    first. The answer is one paragraph here, and a page with tables and pictures.

    Stop it whenever you like: the same command goes on where it was. Graphs without features, node tasks and regression
    are welcome.

    [dim]leap compare ./mine.json --quick[/]
    [dim]leap compare ./mine.json[/]
    [dim]leap compare letters-high minesweeper --plan[/]
    """
    selection = selected({}, instead, {"seeds": seeds})
    if plan:
        planned = pipeline.plan_comparison(
            datasets,
            settings.context(),
            quick=quick,
            selection=selection,
            reading=reading,
            runs=work.runs,
            stack=work.stack,
        )
        print_json(planned.as_json()) if settings.as_json else show_plan(planned)
        return
    try:
        result = pipeline.compare(
            datasets,
            settings.context(),
            quick=quick,
            selection=selection,
            reading=reading,
            out=out,
            command=shlex.join(["leap", *sys.argv[1:]]),
            **work.model_dump(),
        )
    except KeyboardInterrupt as interrupt:
        show_stop(interrupt, "The same command goes on from here.")
        raise typer.Exit(INTERRUPTED) from None
    if settings.as_json:
        print_json(result.as_json())
    elif not settings.quiet:
        show_sweep(result.swept)
        show_answer(result)
    if result.swept.failed:
        show_failures(result.swept, with_traceback=settings.debug)
    if result.unwritten is not None:
        show_error(str(result.unwritten))
        raise typer.Exit(result.unwritten.exit_code)
    if result.swept.failed:
        raise typer.Exit(1)
