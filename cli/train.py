"""`leap train`: cross-validate a network on a dataset."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from leap.cli.output import INTERRUPTED, console, human_params, human_seconds, plural, print_json, show_stop, table
from leap.cli.settings import Settings
from leap.cli.stage_options import BudgetGb, Dataset
from leap.pipeline.stages.ingest import IngestOptions
from leap.pipeline.training.options import TrainOptions

if TYPE_CHECKING:
    from leap.pipeline.training.plan import TrainPlan
    from leap.pipeline.training.stage import TrainResult

RUN = "The run"
SHOWN = {
    "accuracy": ("accuracy", 100.0, " %", 1),
    "auroc": ("AUROC", 1.0, "", 3),
    "average_precision": ("AP", 1.0, "", 3),
    "r2": ("R²", 1.0, "", 3),
    "mae": ("MAE", 1.0, "", 4),
    "mse": ("MSE", 1.0, "", 4),
    "loss": ("loss", 1.0, "", 3),
}


def train(
    settings: Settings,
    reading: IngestOptions,
    dataset: Dataset,
    options: TrainOptions,
    run: Annotated[
        Path | None,
        typer.Option(
            "--run",
            metavar="DIR",
            help="Folder of the run (default: one in --runs).",
            show_default=False,
            rich_help_panel=RUN,
        ),
    ] = None,
    runs: Annotated[
        Path, typer.Option("--runs", metavar="DIR", help="Folder of all runs.", rich_help_panel=RUN)
    ] = Path("runs"),
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            metavar=" ",
            help="Show the plan and the parameter counts, and train nothing.",
            rich_help_panel=RUN,
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", metavar=" ", help="Continue an interrupted run, to the same result.", rich_help_panel=RUN
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", metavar=" ", help="Train again even if the result is there.", rich_help_panel=RUN),
    ] = False,
    checkpoint_steps: Annotated[
        int,
        typer.Option(metavar="N", help="Checkpoint every N steps, and after every epoch.", rich_help_panel=RUN, min=1),
    ] = 500,
    memory_gb: Annotated[
        float, typer.Option(metavar="GIB", help="Memory for the data of a fold.", rich_help_panel=RUN)
    ] = 2.0,
    budget_gb: BudgetGb = 4.0,
) -> None:
    """Train and test a network by cross-validation, on what the store holds; missing artifacts are made first.

    Folds run in parallel, one thread each. The same request is answered from its run folder.

    [dim]leap train letters-high --backbone nomp --encoding leap-l --projection conv1d[/]
    [dim]leap train letters-high --backbone gcn --encoding lape+leap-l --dry-run[/]
    """
    if dry_run:
        from leap.pipeline.training.plan import plan_training

        plan = plan_training(dataset, options, settings.context(), reading)
        print_json(plan.as_json()) if settings.as_json else _show_plan(plan)
        return
    from leap.cli.train_progress import fold_bars
    from leap.pipeline import train as work

    try:
        with fold_bars(options.epochs, quiet=settings.quiet) as on_epoch:
            result = work(
                dataset,
                options,
                settings.context(),
                run=run,
                runs=runs,
                resume=resume,
                force=force,
                ingest_options=reading,
                budget_gb=budget_gb,
                memory_gb=memory_gb,
                checkpoint_steps=checkpoint_steps,
                on_epoch=on_epoch,
            )
    except KeyboardInterrupt as interrupt:
        has_begun = bool(getattr(interrupt, "__notes__", ()))
        show_stop(interrupt, f"The same command{' with --resume' if has_begun else ''} goes on from here.")
        raise typer.Exit(INTERRUPTED) from None
    if settings.as_json:
        print_json(result.as_json())
    elif not settings.quiet:
        _show_result(result)


def _show_plan(plan: "TrainPlan") -> None:
    network, options = plan.options.network, plan.options
    console.print(
        f"[bold]{escape(plan.dataset)}[/]: {plan.facts.task}, {network.backbone} with {network.encoding}; nothing is "
        "trained"
    )
    shown = table("parameters", "", right=("",))
    for name, count in plan.parameters.items():
        shown.add_row(name, f"{count:,}")
    console.print(shown)
    shown = table("artifact", "parameters", "key", "", fold=("parameters",))
    for entry in plan.artifacts:
        state = "[green]stored[/]" if entry["cached"] else "[yellow]to be made[/]"
        shown.add_row(entry["kind"], human_params(entry["params"], entry["kind"]), entry["key"][:12], state)
    console.print(shown)
    sizes = plan.folds[0]
    unit = "node" if plan.facts.task == "node-classification" else "graph"
    console.print(
        f"{plural(len(plan.folds), 'fold')} of {plural(sizes['train'], unit)} to train, {sizes['val']:,} to validate, "
        f"{sizes['test']:,} to test; at most {plural(options.epochs, 'epoch')} in batches of {options.batch_size}"
    )


def _show_result(result: "TrainResult") -> None:
    metrics = result.metrics
    network = metrics["options"]["network"]
    kind = f"{network['backbone']} with {network['encoding']}"
    console.print(
        f"[bold]{escape(metrics['dataset'])}[/]: {kind}, {metrics['parameters']['total']:,} parameters, seed "
        f"{metrics['options']['seed']}" + (" [green](cached)[/]" if result.cached else "")
    )
    names = [name for name in SHOWN if name in metrics["test"] and name != "loss"]
    heads = [SHOWN[name][0] for name in names]
    shown = table("fold", *heads, "best", "epochs", "time", right=(*heads, "best", "epochs", "time"))
    for fold in metrics["folds"]:
        values = [show_metric(name, fold["test"][name]) for name in names]
        shown.add_row(
            str(fold["fold"]), *values, str(fold["best_epoch"]), str(fold["epochs"]), human_seconds(fold["seconds"])
        )
    summary = [show_mean(name, metrics["test"][name]) for name in names]
    shown.add_row("[bold]mean ± std[/]", *(f"[bold]{text}[/]" for text in summary), "", "", "")
    console.print(shown)
    console.print(f"[dim]{escape(str(result.path))}: config.yaml, metrics.json, curves, predictions, checkpoints[/]")


def show_mean(name: str, entry: dict[str, Any]) -> str:
    """Return mean and standard deviation of a metric as people read them."""
    if entry["std"] is None:
        return show_metric(name, entry["mean"])
    factor, unit, digits = SHOWN[name][1:]
    return f"{entry['mean'] * factor:.{digits}f} ± {entry['std'] * factor:.{digits}f}{unit}"


def show_metric(name: str, value: float | None) -> str:
    """Return a metric as people read it; a dash where it is not defined."""
    _, factor, unit, digits = SHOWN[name]
    return "–" if value is None else f"{value * factor:.{digits}f}{unit}"
