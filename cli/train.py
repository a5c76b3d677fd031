"""`leap train`: cross-validate a network on a dataset."""

from pathlib import Path
from typing import Annotated

import typer

from leap import pipeline
from leap.cli.output import INTERRUPTED, print_json, show_stop
from leap.cli.runs import show_plan, show_training
from leap.cli.settings import Settings
from leap.cli.stage_options import WORK, Dataset, WorkOptions
from leap.pipeline.stages.ingest import IngestOptions
from leap.pipeline.training.options import TrainOptions


def train(
    settings: Settings,
    reading: IngestOptions,
    dataset: Dataset,
    options: TrainOptions,
    work: WorkOptions,
    run: Annotated[
        Path | None,
        typer.Option(
            "--run",
            metavar="DIR",
            help="Folder of the run (default: one in --runs).",
            show_default=False,
            rich_help_panel=WORK,
        ),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            metavar=" ",
            help="Show the plan and the parameter counts, and train nothing.",
            rich_help_panel=WORK,
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", metavar=" ", help="Continue an interrupted run, to the same result.", rich_help_panel=WORK
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", metavar=" ", help="Train again even if the result is there.", rich_help_panel=WORK),
    ] = False,
) -> None:
    """Train and test a network by cross-validation, on what the store holds; missing artifacts are made first.

    Folds are trained in stacks, several as one, by one process per core. The same request is answered from its folder.

    [dim]leap train letters-high --backbone nomp --encoding leap-l --projection conv1d[/]
    [dim]leap train letters-high --backbone gcn --encoding lape+leap-l --plan[/]
    """
    if plan:
        planned = pipeline.plan_training(
            dataset, options, settings.context(), reading, runs=work.runs, stack=work.stack
        )
        print_json(planned.as_json()) if settings.as_json else show_plan(planned)
        return
    try:
        result = pipeline.train(
            dataset,
            options,
            settings.context(),
            run=run,
            resume=resume,
            force=force,
            ingest_options=reading,
            **work.model_dump(),
        )
    except KeyboardInterrupt as interrupt:
        has_begun = bool(getattr(interrupt, "__notes__", ()))
        show_stop(interrupt, f"The same command{' with --resume' if has_begun else ''} goes on from here.")
        raise typer.Exit(INTERRUPTED) from None
    if settings.as_json:
        print_json(result.as_json())
    elif not settings.quiet:
        show_training(result)
