"""`leap train`: cross-validate a network on a dataset."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from leap.cli.output import INTERRUPTED, console, human_params, human_seconds, plural, print_json, show_stop, table
from leap.cli.settings import Settings
from leap.cli.stage_options import (
    BudgetGb,
    Cap,
    CapSeed,
    Dataset,
)
from leap.pipeline.stages.ingest import IngestOptions

if TYPE_CHECKING:
    from leap.pipeline.training.plan import TrainPlan
    from leap.pipeline.training.stage import TrainResult

NETWORK = "The network"
LEAP = "LEAP and the static transforms"
PROTOCOL = "The protocol"
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
    backbone: Annotated[
        str, typer.Option("--backbone", "-b", help="gcn, gat, gin, nomp, gps, dect-4k or dect-65k.")
    ] = "gcn",
    encoding: Annotated[
        str | None,
        typer.Option(
            "--encoding",
            "-e",
            help="none, rwpe, lape, lect, leap-f, leap-l, or a sum such as lape+leap-l "
            "(default: leap-l; none for dect-4k, dect-65k).",
            show_default=False,
        ),
    ] = None,
    projection: Annotated[
        str, typer.Option("--projection", "-p", help="linear, conv1d, deepsets, attention or attention-pe.")
    ] = "conv1d",
    dim: Annotated[int, typer.Option(metavar="K", help="Dimension of an encoding.", rich_help_panel=NETWORK)] = 10,
    hidden: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Width of the backbone (default: the paper's).",
            show_default=False,
            rich_help_panel=NETWORK,
        ),
    ] = None,
    layers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Layers of the backbone (default: the paper's).",
            show_default=False,
            rich_help_panel=NETWORK,
        ),
    ] = None,
    pooling: Annotated[
        str,
        typer.Option(help="A graph's scores are the 'sum' of its nodes' or their 'mean'.", rich_help_panel=NETWORK),
    ] = "sum",
    lape_drop: Annotated[
        str,
        typer.Option(help="lape: zero eigenvalues to leave out, 'components' or 'one'.", rich_help_panel=NETWORK),
    ] = "components",
    hops: Annotated[
        list[int] | None,
        typer.Option(
            "--hops",
            metavar="M",
            help="Hop count; repeat for several (default: 1).",
            show_default=False,
            rich_help_panel=LEAP,
        ),
    ] = None,
    directions: Annotated[int, typer.Option(metavar="N", help="Directions.", rich_help_panel=LEAP)] = 16,
    thresholds: Annotated[int, typer.Option(metavar="N", help="Thresholds.", rich_help_panel=LEAP)] = 16,
    scale: Annotated[float, typer.Option(help="Steepness of the sigmoid.", rich_help_panel=LEAP)] = 128.0,
    radius: Annotated[float, typer.Option(help="Thresholds span [-radius, radius].", rich_help_panel=LEAP)] = 1.1,
    edge_weight: Annotated[
        float, typer.Option(help="Weight of an edge; 2 is the published code's.", rich_help_panel=LEAP)
    ] = 1.0,
    learn_thresholds: Annotated[
        bool, typer.Option("--learn-thresholds", metavar=" ", help="Learn the thresholds too.", rich_help_panel=LEAP)
    ] = False,
    leap_on: Annotated[
        str, typer.Option(help="What LEAP looks at: features, rwpe or lape.", rich_help_panel=LEAP)
    ] = "features",
    leap_every_layer: Annotated[
        bool,
        typer.Option(
            "--leap-every-layer",
            metavar=" ",
            help="LEAP of the hidden states too, before every layer of gcn, gat or gin.",
            rich_help_panel=LEAP,
        ),
    ] = False,
    lect_complex: Annotated[str, typer.Option(help="lect: 'points' or 'edges'.", rich_help_panel=LEAP)] = "points",
    folds: Annotated[
        int, typer.Option(metavar="N", help="Folds; of a node task's splits at most N.", rich_help_panel=PROTOCOL)
    ] = 5,
    epochs: Annotated[int, typer.Option(metavar="N", help="At most N epochs.", rich_help_panel=PROTOCOL)] = 100,
    batch_size: Annotated[int, typer.Option(metavar="N", help="Graphs of a step.", rich_help_panel=PROTOCOL)] = 16,
    lr: Annotated[float, typer.Option(help="Learning rate of Adam.", rich_help_panel=PROTOCOL)] = 1e-3,
    seed: Annotated[int, typer.Option(help="Of initialization and order.", rich_help_panel=PROTOCOL)] = 42,
    split_seed: Annotated[int, typer.Option(help="Of the folds.", rich_help_panel=PROTOCOL)] = 42,
    class_weight: Annotated[
        str,
        typer.Option(
            help="Weight of a class: 'none', or its 'frequency', the published code's.", rich_help_panel=PROTOCOL
        ),
    ] = "none",
    select: Annotated[
        str | None,
        typer.Option(
            help="What chooses the tested epoch: validation 'loss' or 'auroc' (default: loss; auroc for hiv).",
            show_default=False,
            rich_help_panel=PROTOCOL,
        ),
    ] = None,
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
    cap: Cap = None,
    cap_seed: CapSeed = 0,
    budget_gb: BudgetGb = 4.0,
) -> None:
    """Train and test a network by cross-validation, on what the store holds; missing artifacts are made first.

    Folds run in parallel, one thread each. The same request is answered from its run folder.

    [dim]leap train letters-high --backbone nomp --encoding leap-l --projection conv1d[/]
    [dim]leap train letters-high --backbone gcn --encoding lape+leap-l --dry-run[/]
    """
    from leap.models.network_config import GLOBAL_BACKBONES, NetworkConfig
    from leap.pipeline.stages.options import validated
    from leap.pipeline.training.options import TrainOptions

    network = validated(
        NetworkConfig,
        backbone=backbone,
        encoding=encoding or ("none" if backbone in GLOBAL_BACKBONES else "leap-l"),
        projection=projection,
        dim=dim,
        hops=tuple(hops or (1,)),
        directions=directions,
        thresholds=thresholds,
        scale=scale,
        radius=radius,
        edge_weight=edge_weight,
        learn_thresholds=learn_thresholds,
        leap_on=leap_on,
        leap_every_layer=leap_every_layer,
        hidden=hidden,
        layers=layers,
        pooling=pooling,
    )
    options = validated(
        TrainOptions,
        network=network,
        folds=folds,
        epochs=epochs,
        batch_size=batch_size,
        lr=lr,
        seed=seed,
        split_seed=split_seed,
        class_weight=class_weight,
        select=select,
        lape_drop=lape_drop,
        lect_complex=lect_complex,
        cap=cap,
        cap_seed=cap_seed if cap is not None else 0,
    )
    if dry_run:
        from leap.pipeline.training.plan import plan_training

        plan = plan_training(dataset, options, settings.context(), reading)
        print_json(plan.as_json()) if settings.json else _show_plan(plan)
        return
    from leap.cli.train_progress import fold_bars
    from leap.pipeline import train as work

    try:
        with fold_bars(epochs, quiet=bool(settings.quiet)) as on_epoch:
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
    if settings.json:
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
