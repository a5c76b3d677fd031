"""What people see: tables, human units and errors; results go to stdout, everything else to stderr."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from leap.pipeline.events import duration
from leap.pipeline.wording import human_bytes as human_bytes
from leap.pipeline.wording import human_params as human_params
from leap.pipeline.wording import plural as plural


class _Console(Console):
    """A console for which a reader that has seen enough, such as `head`, is no failure."""

    def on_broken_pipe(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0)


INTERRUPTED = 130
human_seconds = duration
# A pipe or file has no width of its own; folding a table for it would only break what reads it.
PIPED_WIDTH = 1000
console = _Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
errors = _Console(stderr=True, highlight=False, emoji=False, width=None if sys.stderr.isatty() else PIPED_WIDTH)


def print_json(value: Any) -> None:
    """Print one JSON object on stdout."""
    try:
        sys.stdout.write(json.dumps(value, indent=1, default=str) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        console.on_broken_pipe()


def show_warning(message: str) -> None:
    """Print a warning as one paragraph."""
    errors.print(f"[yellow]Warning:[/] {escape(message)}", soft_wrap=not errors.is_terminal)


def show_error(message: str) -> None:
    """Print an error as one paragraph."""
    errors.print(f"[bold red]Error:[/] {escape(message)}", soft_wrap=not errors.is_terminal)


def show_stop(interrupt: KeyboardInterrupt, way_on: str) -> None:
    """Print how far an interrupted command came, and how to go on."""
    notes = ", ".join(getattr(interrupt, "__notes__", ()))
    errors.print(escape(f"Stopped: {notes}. {way_on}" if notes else f"Stopped. {way_on}"), soft_wrap=True)


def show_table(
    rows: Iterable[Mapping[str, str]], *, right: Sequence[str] = (), fold: Sequence[str] = (), has_head: bool = True
) -> None:
    """Print rows as a table in the house style; nothing if there are none.

    Parameters
    ----------
    rows : cells by column, in rich's markup; a column that a row lacks is empty there.
    right : columns that are aligned for numbers.
    fold : columns that break over lines when the terminal is narrow; the others are kept whole.
    """
    rows = list(rows)
    columns = dict.fromkeys(column for row in rows for column in row)
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0), show_header=has_head)
    for column in columns:
        side: Literal["left", "right"] = "right" if column in right else "left"
        table.add_column(column, justify=side, overflow="fold", no_wrap=column not in fold)
    for row in rows:
        table.add_row(*(row.get(column, "") for column in columns))
    if rows:
        console.print(table)
