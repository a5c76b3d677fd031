"""`leap predict`: use a finished run on other graphs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from leap import pipeline
from leap.cli.output import console, plural, print_json, show_table
from leap.cli.runs import SHOWN, show_metric
from leap.cli.settings import Settings
from leap.cli.stage_options import (
    BudgetGb,
    Dataset,
    Device,
)
from leap.pipeline.stages.ingest import IngestOptions


def predict(
    settings: Settings,
    reading: IngestOptions,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, such as runs/NAME.")],
    dataset: Dataset,
    fold: Annotated[
        int | None,
        typer.Option(metavar="N", help="Use the network of one fold (default: mean of all folds).", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Parquet file to write (default: RUN/predictions-DATASET.parquet).",
            show_default=False,
        ),
    ] = None,
    budget_gb: BudgetGb = 4.0,
    device: Device = "auto",
) -> None:
    """Encode graphs as a run's were and predict them with its networks.

    Where the graphs have labels that the run knows, the predictions are judged too.

    [dim]leap predict runs/NAME ./my-graphs --out predictions.parquet[/]
    """
    result = pipeline.predict(
        run,
        dataset,
        settings.context(),
        fold=fold,
        out=out,
        ingest_options=reading,
        budget_gb=budget_gb,
        device=device,
    )
    if settings.as_json:
        print_json(result.as_json())
        return
    if settings.quiet:
        return
    used = "fold " + str(result.folds[0]) if len(result.folds) == 1 else f"the mean of {len(result.folds)} folds"
    console.print(
        f"[bold]{escape(result.dataset)}[/]: {plural(result.items, 'prediction')} by {used} of {escape(result.run)}"
    )
    metrics = (result.metrics or {}).items()
    rows = ({"metric": SHOWN[name][0], "value": show_metric(name, value)} for name, value in metrics)
    show_table(rows, right=("value",))
    if result.unjudged is not None:
        console.print(f"[yellow]{escape(result.unjudged[0].upper() + result.unjudged[1:])}[/]")
    if result.was_trained_on:
        console.print(
            "[yellow]The run was trained on this very dataset; what it says about new graphs is in its metrics.json.[/]"
        )
    console.print(f"[dim]{escape(str(result.path))}[/]")
