"""Global options, accepted before and after a command's name, and the surroundings they describe."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leap.cli.sharing import sharing
from leap.store import Store

if TYPE_CHECKING:
    from leap.pipeline.stages.context import Context

PANEL = "Global options"

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Directory or fsspec URL of the store [LEAP_STORE, else .leap].",
        rich_help_panel=PANEL,
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Where raw files are looked for before any download [LEAP_DATA, else ~/.cache/leap/data].",
        rich_help_panel=PANEL,
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        help="Processes of a local Dask cluster; 0: none; default: as the work needs.",
        rich_help_panel=PANEL,
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="A running Dask scheduler to use, such as tcp://host:8786.",
        rich_help_panel=PANEL,
    ),
]
JsonOption = Annotated[
    bool | None,
    typer.Option(
        "--json", metavar=" ", help="Print one JSON object on stdout; progress goes to stderr.", rich_help_panel=PANEL
    ),
]
QuietOption = Annotated[
    bool | None, typer.Option("--quiet", "-q", metavar=" ", help="No progress and no notes.", rich_help_panel=PANEL)
]
DebugOption = Annotated[
    bool | None, typer.Option("--debug", metavar=" ", help="Show the traceback of an error.", rich_help_panel=PANEL)
]

_OPTIONS: dict[str, Any] = {
    "store": StoreOption,
    "data": DataOption,
    "workers": WorkersOption,
    "scheduler": SchedulerOption,
    "json": JsonOption,
    "quiet": QuietOption,
    "debug": DebugOption,
}


@dataclass(frozen=True)
class Settings:
    """Values of the global options; None where neither place gave one."""

    store: str | None = None
    data: Path | None = None
    workers: int | None = None
    scheduler: str | None = None
    json: bool | None = None
    quiet: bool | None = None
    debug: bool | None = None

    def merged(self, later: "Settings") -> "Settings":
        """Return these settings, overridden by those given after the command's name."""
        values = {f.name: getattr(later, f.name) for f in fields(later)}
        return Settings(**{n: v if v is not None else getattr(self, n) for n, v in values.items()})

    def open_store(self) -> Store:
        """Open the store."""
        return Store.open(self.store)

    def context(self) -> "Context":
        """Return what stages need."""
        from leap.cli.bars import Bars
        from leap.pipeline.cluster import Workforce
        from leap.pipeline.stages.context import Context, data_folder

        return Context(
            store=self.open_store(),
            data=data_folder(self.data),
            workforce=Workforce(self.workers, self.scheduler),
            reporter=Bars(quiet=bool(self.quiet)),
        )


def with_settings(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the global options after its name; it receives the merged `settings`."""

    def gather(ctx: typer.Context, **given: Any) -> Settings:
        return (ctx.find_object(Settings) or Settings()).merged(Settings(**given))

    context = {"ctx": (typer.Context, inspect.Parameter.empty)}
    return sharing(function, "settings", context | {name: (kind, None) for name, kind in _OPTIONS.items()}, gather)


def root(
    ctx: typer.Context,
    store: StoreOption = None,
    data: DataOption = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
    json: JsonOption = None,
    quiet: QuietOption = None,
    debug: DebugOption = None,
) -> None:
    """Preprocess graphs once, cache everything, and train learnable local positional encodings on it.

    Stages build on each other and each makes what it needs first: ingest → extract → encode → train.
    Everything is kept in a store, and the same request is never computed twice.
    """
    ctx.obj = Settings(store, data, workers, scheduler, json, quiet, debug)
