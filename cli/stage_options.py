"""Options that several stage commands share, and how their results are shown."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field
from rich.markup import escape

from leap.cli.options import completing
from leap.cli.output import console, print_json, show_table
from leap.cli.settings import Settings
from leap.pipeline.datasets import known_names
from leap.pipeline.experiments.expand import SweepSelection
from leap.pipeline.stages.materialize import DEFAULT_BUDGET_GB, checked_gib
from leap.pipeline.stages.result import COLUMNS, StageResult
from leap.pipeline.training.options import CHECKPOINT_SECONDS, DEFAULT_RUNS
from leap.store.errors import InvalidInputError
from leap.store.option import Option, Options

WORK = "The work"
PART = "A part of it"
DEVICE_HELP = "Where networks compute: cpu, cuda, cuda:N, mps, or auto: cuda or mps where there is one."
dataset_names = completing(lambda: sorted(known_names()))
Dataset = Annotated[
    str,
    typer.Argument(
        metavar="DATASET",
        help="A name that [bold]leap datasets[/] lists, or the path of your own data.",
        autocompletion=dataset_names,
    ),
]
BudgetGb = Annotated[
    float, typer.Option(metavar="GIB", help="Refuse if neighbourhoods are estimated to take more than this.")
]
Device = Annotated[str, typer.Option(metavar="NAME", help=DEVICE_HELP)]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Also write the keys, without timings, to this JSON file; DVC's stages use it as their output.",
    ),
]


Plan = Annotated[
    bool,
    typer.Option(
        "--plan",
        metavar=" ",
        help="Show how many runs there are, how many are done, what must be made and the time to expect.",
    ),
]
Seeds = Annotated[
    str | None,
    typer.Option(
        metavar="N|LIST",
        help="Train with N seeds, the first and those that follow, or with those of a list: 42,43,7.",
        show_default=False,
        rich_help_panel=PART,
    ),
]


def selected(only: dict[str, Any], instead: dict[str, Any], also: dict[str, Any]) -> SweepSelection:
    """Return which runs to do, and what was given in place of the file's values.

    Raises
    ------
    InvalidInputError
        If seeds are given in two ways.
    """
    if also.get("seeds") is not None and "seed" in instead:
        raise InvalidInputError("--seed and --seeds are both given. Keep one of them: --seeds 3, or --seeds 42,43,7.")
    return SweepSelection(
        {name: values for name, values in only.items() if values},
        instead | {name: values for name, values in also.items() if values not in (None, [])},
    )


class WorkOptions(Options):
    """What trainings may use, and where they leave their runs; nothing here changes a result."""

    runs: Annotated[Path, Option(help="Folder of all runs and of results.parquet.", panel=WORK, metavar="DIR")] = Path(
        DEFAULT_RUNS
    )
    stack: Annotated[
        int | None,
        Field(ge=1),
        Option(
            help="Folds that are trained as one; 1: one at a time (default: by the sizes of their batches).",
            panel=WORK,
            metavar="N",
        ),
    ] = None
    device: Annotated[str, Option(help=DEVICE_HELP, panel=WORK, metavar="NAME")] = "auto"
    memory_gb: Annotated[
        float, Option(help="Memory for the data of the folds of a worker.", panel=WORK, metavar="GIB")
    ] = 2.0
    checkpoint_steps: Annotated[
        int | None,
        Field(ge=1),
        Option(
            help=f"Checkpoint a fold every N of its steps (default: every {CHECKPOINT_SECONDS} seconds), and at its "
            "end.",
            panel=WORK,
            metavar="N",
        ),
    ] = None
    budget_gb: Annotated[
        float,
        Option(help="Refuse if neighbourhoods are estimated to take more than this.", panel=WORK, metavar="GIB"),
    ] = DEFAULT_BUDGET_GB

    def model_post_init(self, _: Any) -> None:
        """Refuse what is no amount of memory, before a plan too."""
        checked_gib("memory_gb", self.memory_gb)
        checked_gib("budget_gb", self.budget_gb)


def show_result(result: StageResult, settings: Settings, out: Path | None) -> None:
    """Print what a stage did, and write its manifest if asked to."""
    if out is not None:
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(result.manifest(), indent=1, sort_keys=True) + "\n")
        except OSError as error:
            raise InvalidInputError(f"cannot write --out {str(out)!r}: {error.strerror}. Give another path.") from error
    if settings.as_json:
        print_json(result.as_json())
        return
    if settings.quiet:
        return
    console.print(f"[bold]{escape(result.dataset)}[/]: {escape(result.about)}")
    rows = [dict(zip(COLUMNS, report.cells(), strict=True)) for report in result.artifacts]
    for row, report in zip(rows, result.artifacts, strict=True):
        row[""] = f"[{'green' if report.cached else 'yellow'}]{row['']}[/]"
    show_table(rows, right=COLUMNS[-3:], fold=("parameters",))
