"""`leap sweep`: many runs from one file, such as those behind a table of the paper."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from leap.cli.options import Several
from leap.cli.output import INTERRUPTED, console, errors, human_seconds, plural, print_json, show_stop, table
from leap.cli.settings import Settings
from leap.cli.stage_options import BudgetGb
from leap.cli.train import show_mean
from leap.pipeline.stages.ingest import IngestOptions
from leap.pipeline.training.options import TrainOptions

if TYPE_CHECKING:
    from leap.pipeline.experiments.plan import SweepPlan
    from leap.pipeline.experiments.sweep import Outcome, SweepResult

PART = "A part of it"
INSTEAD = "Instead of the file's; repeat for several values"
WORK = "The work"
ALWAYS_SHOWN = ("dataset", "backbone", "encoding")


def sweep(
    settings: Settings,
    reading: IngestOptions,
    instead: Annotated[dict[str, Any], Several(TrainOptions, INSTEAD)],
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SWEEP",
            help="Name of a preset ([bold]--list[/] shows all), or a YAML file of your own.",
            show_default=False,
        ),
    ] = None,
    show_list: Annotated[
        bool, typer.Option("--list", metavar=" ", help="List the presets and how many runs each has.")
    ] = False,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            metavar=" ",
            help="Show how many runs there are, how many are done, what must be made and the time to expect.",
        ),
    ] = False,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            "--dataset", "--datasets", metavar="NAME", help="Only runs on this one; repeatable.", rich_help_panel=PART
        ),
    ] = None,
    backbone: Annotated[
        list[str] | None,
        typer.Option(
            "--backbone", "-b", metavar="NAME", help="Only runs with this one; repeatable.", rich_help_panel=PART
        ),
    ] = None,
    encoding: Annotated[
        list[str] | None,
        typer.Option(
            "--encoding", "-e", metavar="NAME", help="Only runs with this one; repeatable.", rich_help_panel=PART
        ),
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on",
            metavar="DATASET",
            help="Instead of the file's datasets: a name, or the path of your own data; repeatable.",
            rich_help_panel=PART,
        ),
    ] = None,
    runs: Annotated[
        Path,
        typer.Option("--runs", metavar="DIR", help="Folder of all runs and of results.parquet.", rich_help_panel=WORK),
    ] = Path("runs"),
    memory_gb: Annotated[
        float, typer.Option(metavar="GIB", help="Memory for the data of a fold.", rich_help_panel=WORK)
    ] = 2.0,
    checkpoint_steps: Annotated[
        int,
        typer.Option(metavar="N", help="Checkpoint every N steps, and after every epoch.", rich_help_panel=WORK, min=1),
    ] = 500,
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
    budget_gb: BudgetGb = 4.0,
) -> None:
    """Do all runs of a sweep: a preset for a table or figure of the paper, or a file of your own.

    What is missing in the store is made once, then all folds are trained in parallel.

    Stop it whenever you like: the same command goes on where it was. A run that fails does not stop the others.

    A file is YAML with a list 'grids'. A grid has a value or a list of values for 'datasets', 'backbones', 'encodings'
    and any other option of leap train, and stands for all their combinations.

    Options of leap train that are given here count instead of the file's, except that a grid which compares several
    values of an option of the network keeps them.

    [dim]leap sweep quick[/]
    [dim]leap sweep paper-main --dataset Letter-high --dataset DHFR --plan[/]
    [dim]leap sweep compare --on ./mine.json[/]
    """
    if show_list or source in (None, "list"):
        _list(settings)
        return
    from leap.pipeline.experiments.expand import Selection
    from leap.pipeline.experiments.sweep_file import load

    file = load(str(source))
    # What is given on the command line counts more than what the file says.
    file = file.model_copy(update={"reading": file.reading.model_copy(update=reading.model_dump(exclude_unset=True))})
    only = {"dataset": dataset, "backbone": backbone, "encoding": encoding}
    selection = Selection(
        {name: values for name, values in only.items() if values}, instead | ({"dataset": on} if on else {})
    )
    if plan:
        from leap.pipeline.experiments.plan import plan_sweep

        planned = plan_sweep(file, settings.context(), selection=selection, runs=runs)
        print_json(planned.as_json()) if settings.as_json else _show_plan(planned)
        return
    from leap.cli.sweep_progress import sweep_bar
    from leap.pipeline import sweep as work

    try:
        with sweep_bar(quiet=settings.quiet) as on_event:
            result = work(
                file,
                settings.context(),
                selection=selection,
                runs=runs,
                budget_gb=budget_gb,
                memory_gb=memory_gb,
                checkpoint_steps=checkpoint_steps,
                on_event=on_event,
            )
    except KeyboardInterrupt as interrupt:
        show_stop(interrupt, "The same command goes on from here.")
        raise typer.Exit(INTERRUPTED) from None
    if not result.failed:
        from leap.pipeline.experiments.stage_output import write_stage_output

        write_stage_output(result, out, metrics, curves)
    if settings.as_json:
        print_json(result.as_json())
    elif not settings.quiet:
        _show_result(result)
    if result.failed:
        _show_failures(result, with_traceback=settings.debug)
        raise typer.Exit(1)


def _list(settings: Settings) -> None:
    from leap.pipeline.experiments.expand import expand
    from leap.pipeline.experiments.sweep_file import load, presets

    entries: list[dict[str, Any]] = []
    for name in presets():
        file = load(name)
        expanded = expand(file)
        number = sum(run.options.folds for run in expanded)
        entries.append({"name": name, "runs": len(expanded), "folds": number, "description": file.description})
    if settings.as_json:
        print_json({"presets": entries})
        return
    shown = table("preset", "runs", "folds", "what", right=("runs", "folds"), fold=("what",))
    for entry in entries:
        shown.add_row(entry["name"], f"{entry['runs']:,}", f"{entry['folds']:,}", escape(entry["description"]))
    console.print(shown)


def _show_plan(plan: "SweepPlan") -> None:
    facts = plan.as_json()
    console.print(f"[bold]{escape(plan.file.name)}[/]: {escape(plan.file.description)}")
    right = ("runs", "done", "folds", "done ", "to make", "time")
    shown = table("dataset", *right, right=right)
    for entry in plan.datasets:
        shown.add_row(
            escape(entry.dataset),
            f"{len(entry.runs):,}",
            f"{entry.runs_done:,}",
            f"{entry.folds:,}",
            f"{entry.folds_done:,}",
            f"{len(entry.artifacts):,}",
            _about(entry.seconds, plan.workers),
        )
    if len(plan.datasets) > 1:
        counts = (facts[name] for name in ("runs", "runs_done", "folds", "folds_done", "artifacts"))
        shown.add_row("[bold]all[/]", *(f"[bold]{count:,}[/]" for count in counts), _about(plan.seconds, 1))
    console.print(shown)
    for entry in plan.datasets:
        if entry.data_absent:
            errors.print(
                f"[yellow]raw files of {escape(entry.dataset)} are absent: {plural(entry.data_absent, 'run')} on it "
                "counted as done by name and options alone[/]"
            )
        if entry.problem is not None:
            errors.print(f"[yellow]{escape(entry.problem)}[/]")
        elif entry.seconds is None:
            errors.print(
                f"[dim]{escape(entry.dataset)} is not in the store yet: its size, and any error in it, is not known.[/]"
            )
    measured = sum(run.is_measured for entry in plan.datasets for run in entry.runs if not run.is_done)
    origin = (
        "the time is a guess from the sizes of the datasets"
        if not measured
        else f"the time of {plural(measured, 'run')} is from earlier ones"
    )
    console.print(f"[dim]with {plural(plan.workers, 'worker')}; {origin}. Nothing is trained.[/]")


def _about(seconds: float | None, workers: int) -> str:
    return "unknown" if seconds is None else human_seconds(seconds / max(1, workers)) if seconds else "–"


def _show_result(result: "SweepResult") -> None:
    done = [outcome for outcome in result.outcomes if outcome.metrics is not None]
    if done:
        varying = _varying(done)
        shown = table(*varying, "result", "", right=("result",))
        for outcome in done:
            values = outcome.spec.values()
            shown.add_row(*(_cell(values.get(name)) for name in varying), _score(outcome), _state(outcome))
        console.print(shown)
    facts = result.as_json()
    where = f"; mean ± std over the folds' test parts, all in {escape(facts['results'])}" if done else ""
    console.print(
        f"[dim]{facts['trained']:,} trained, {facts['cached']:,} cached, {facts['failed']:,} failed{where}[/]"
    )


def _state(outcome: "Outcome") -> str:
    if outcome.state == "cached":
        return "[green]cached[/]" + (" (data absent)" if outcome.data_absent else "")
    return "[yellow]trained[/]"


def _varying(outcomes: "list[Outcome]") -> list[str]:
    """Names of the options in which runs differ, with those that always tell what a run is."""
    rows = [outcome.spec.values() for outcome in outcomes]
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if name in ALWAYS_SHOWN or len({str(r[name]) for r in rows if name in r}) > 1]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return "+".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else escape(str(value))


def _score(outcome: "Outcome") -> str:
    assert outcome.metrics is not None
    return show_mean(outcome.metric, outcome.metrics["test"][outcome.metric])


def _show_failures(result: "SweepResult", *, with_traceback: bool) -> None:
    """Print each error once, with the runs that it stopped."""
    stopped: dict[tuple[str, str | None], list[Outcome]] = {}
    for outcome in result.failed:
        stopped.setdefault((outcome.spec.dataset, outcome.error), []).append(outcome)
    for (dataset, error), outcomes in stopped.items():
        what = outcomes[0].spec.label if len(outcomes) == 1 else f"{len(outcomes)} runs on {dataset}"
        if with_traceback:
            errors.print(outcomes[0].traceback, markup=False, soft_wrap=True)
        errors.print(f"[bold red]Failed:[/] {escape(what)}: {escape(error or '')}", soft_wrap=not errors.is_terminal)
    if result.failed:
        errors.print(f"{plural(len(result.failed), 'run')} failed. The same command tries again.")
