"""Global options, accepted before and after a command's name, and the surroundings they describe."""

from pathlib import Path
from typing import Annotated, Self

import typer
from pydantic import model_validator

import leap
from leap.cli.output import console
from leap.cli.progress import reporter
from leap.pipeline.cluster import Workforce
from leap.pipeline.events import Reporter
from leap.pipeline.stages.context import Context, data_folder
from leap.store import Store
from leap.store.option import Option, Options

PANEL = "Global options"


class Settings(Options):
    """Values of the global options; only what is given in one of the two places is set."""

    store: Annotated[
        str | None,
        Option(help="Directory or fsspec URL of the store [LEAP_STORE, else .leap].", panel=PANEL, metavar="URL"),
    ] = None
    data: Annotated[
        Path | None,
        Option(
            help="Where raw files are looked for before any download [LEAP_DATA, else ~/.cache/leap/data].",
            panel=PANEL,
            metavar="DIR",
        ),
    ] = None
    workers: Annotated[
        int | None,
        Option(help="Processes of a local Dask cluster; 0: none; default: as the work needs.", panel=PANEL),
    ] = None
    scheduler: Annotated[
        str | None,
        Option(help="A running Dask scheduler to use, such as tcp://host:8786.", panel=PANEL, metavar="ADDRESS"),
    ] = None
    as_json: Annotated[
        bool,
        Option(help="Print one JSON object on stdout; progress goes to stderr.", panel=PANEL, flags=("--json",)),
    ] = False
    quiet: Annotated[bool, Option(help="No progress and no notes.", panel=PANEL, flags=("--quiet", "-q"))] = False
    verbose: Annotated[
        bool,
        Option(
            help="Also say where things are, how long each step takes and how each epoch went.",
            panel=PANEL,
            flags=("--verbose", "-v"),
        ),
    ] = False
    debug: Annotated[bool, Option(help="Show the traceback of an error.", panel=PANEL)] = False

    @model_validator(mode="after")
    def _is_quiet_or_verbose(self) -> Self:
        if self.quiet and self.verbose:
            raise ValueError("--quiet and --verbose contradict each other. Give one of them")
        return self

    def open_store(self) -> Store:
        """Open the store."""
        return Store.open(self.store)

    @property
    def reporter(self) -> Reporter:
        """Where progress is reported."""
        return reporter(quiet=self.quiet, verbose=self.verbose, as_json=self.as_json)

    def context(self) -> Context:
        """Return what stages need."""
        store, data, told = self.open_store(), data_folder(self.data), self.reporter
        if self.verbose:
            told.note(f"store: {store.url}; raw files: {data}")
        return Context(store, data, Workforce(self.workers, self.scheduler), told)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        console.print(f"leap {leap.__version__}")
        raise typer.Exit


def root(
    settings: Settings,
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", metavar=" ", help="Print the version and exit.", is_eager=True, callback=_show_version
        ),
    ] = False,
) -> None:
    """Preprocess graphs once, cache everything, and train learnable local positional encodings on it.

    Stages build on each other and each makes what it needs first: ingest → extract → encode → train.
    Everything is kept in a store, and the same request is never computed twice.
    """
    context.obj = settings
