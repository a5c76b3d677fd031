"""`leap sweep`: many runs from one file, such as those behind a table of the paper."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from leap import pipeline
from leap.cli.options import Several, completing, completing_choices
from leap.cli.output import INTERRUPTED, print_json, show_stop, show_table
from leap.cli.runs import show_failures, show_plan, show_sweep
from leap.cli.settings import Settings
from leap.cli.stage_options import (
    PART,
    WORK,
    Plan,
    Seeds,
    WorkOptions,
    dataset_names,
    selected,
)
from leap.pipeline.experiments.expand import expand
from leap.pipeline.experiments.sweep_file import load, presets
from leap.pipeline.stages.ingest import IngestOptions
from leap.pipeline.training.options import OPTIONS, TrainOptions

INSTEAD = "Instead of the file's; repeat for several values"


def sweep(
    settings: Settings,
    reading: IngestOptions,
    instead: Annotated[dict[str, Any], Several(TrainOptions, INSTEAD)],
    work: WorkOptions,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SWEEP",
            help="Name of a preset ([bold]--list[/] shows all), or a YAML file of your own.",
            autocompletion=completing(presets),
            show_default=False,
        ),
    ] = None,
    show_list: Annotated[
        bool, typer.Option("--list", metavar=" ", help="List the presets and how many runs each has.")
    ] = False,
    plan: Plan = False,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            "--dataset",
            "--datasets",
            metavar="NAME",
            help="Only runs on this one; repeatable.",
            rich_help_panel=PART,
            autocompletion=dataset_names,
        ),
    ] = None,
    backbone: Annotated[
        list[str] | None,
        typer.Option(
            "--backbone",
            "-b",
            metavar="NAME",
            help="Only runs with this one; repeatable.",
            rich_help_panel=PART,
            autocompletion=completing_choices(OPTIONS["backbone"]),
        ),
    ] = None,
    encoding: Annotated[
        list[str] | None,
        typer.Option(
            "--encoding",
            "-e",
            metavar="NAME",
            help="Only runs with this one; repeatable.",
            rich_help_panel=PART,
            autocompletion=completing_choices(OPTIONS["encoding"]),
        ),
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on",
            metavar="DATASET",
            help="Instead of the file's datasets: a name, or the path of your own data; repeatable.",
            rich_help_panel=PART,
            autocompletion=dataset_names,
        ),
    ] = None,
    seeds: Seeds = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write the keys, without results, to this JSON file; DVC's stage uses it as its output.",
            show_default=False,
            rich_help_panel=WORK,
        ),
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Also write one test score per backbone and encoding to DIR/DATASET.json, for dvc metrics.",
            show_default=False,
            rich_help_panel=WORK,
        ),
    ] = None,
    curves: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Also write the curves of these runs to DIR/DATASET.csv, for dvc plots.",
            show_default=False,
            rich_help_panel=WORK,
        ),
    ] = None,
) -> None:
    """Do all runs of a sweep: a preset for a table or figure of the paper, or a file of your own.

    What is missing in the store is made once, then all folds are trained, in stacks and in parallel.

    Stop it whenever you like: the same command goes on where it was. A run that fails does not stop the others.

    A file is YAML with a list 'grids'. A grid has a value or a list of values for 'datasets', 'backbones', 'encodings'
    and any other option of leap train, and stands for all their combinations.

    Options of leap train that are given here count instead of the file's, except that a grid which compares several
    values of an option of the network keeps them.

    [dim]leap sweep quick[/]
    [dim]leap sweep paper-main --dataset Letter-high --dataset DHFR --plan[/]
    [dim]leap sweep compare --on ./mine.json[/]
    [dim]leap sweep paper-hops --seeds 3[/]
    """
    if show_list or source in (None, "list"):
        _list(settings)
        return
    file = load(str(source))
    # What is given on the command line counts more than what the file says.
    file = file.model_copy(update={"reading": file.reading.model_copy(update=reading.model_dump(exclude_unset=True))})
    only = {"dataset": dataset, "backbone": backbone, "encoding": encoding}
    selection = selected(only, instead, {"dataset": on, "seeds": seeds})
    if plan:
        planned = pipeline.plan_sweep(file, settings.context(), selection=selection, runs=work.runs, stack=work.stack)
        print_json(planned.as_json()) if settings.as_json else show_plan(planned)
        return
    try:
        result = pipeline.sweep(
            file,
            settings.context(),
            selection=selection,
            command=shlex.join(["leap", *sys.argv[1:]]),
            **work.model_dump(),
        )
    except KeyboardInterrupt as interrupt:
        show_stop(interrupt, "The same command goes on from here.")
        raise typer.Exit(INTERRUPTED) from None
    if not result.failed:
        pipeline.write_stage_output(result, out, metrics, curves)
    if settings.as_json:
        print_json(result.as_json())
    elif not settings.quiet:
        show_sweep(result)
    if result.failed:
        show_failures(result, with_traceback=settings.debug)
        raise typer.Exit(1)


def _list(settings: Settings) -> None:
    entries: list[dict[str, Any]] = []
    for name in presets():
        file = load(name)
        expanded = expand(file)
        number = sum(run.options.folds for run in expanded)
        entries.append({"name": name, "runs": len(expanded), "folds": number, "description": file.description})
    if settings.as_json:
        print_json({"presets": entries})
        return
    rows = (
        {
            "preset": entry["name"],
            "runs": f"{entry['runs']:,}",
            "folds": f"{entry['folds']:,}",
            "what": escape(entry["description"]),
        }
        for entry in entries
    )
    show_table(rows, right=("runs", "folds"), fold=("what",))
