"""What people see: tables, human units and errors; results go to stdout, everything else to stderr."""

import json
import os
import sys
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from leap.pipeline.events import duration


class _Console(Console):
    """A console for which a reader that has seen enough, such as `head`, is no failure."""

    def on_broken_pipe(self) -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0)


INTERRUPTED = 130
human_seconds = duration
# A pipe or file has no width of its own; folding a table for it would only break what reads it.
PIPED_WIDTH = 1000
console = _Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
errors = _Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else PIPED_WIDTH)


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


def human_bytes(size: float) -> str:
    """Return a size such as "4.2 MiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def human_params(params: dict[str, Any], kind: str | None = None) -> str:
    """Return parameters in one line; what is not set, or means nothing without something else, is left out.

    With a kind, so are those that have their default, except what artifacts are told apart by at a glance.
    """
    shown = []
    defaults = _defaults(kind)
    for name, value in params.items():
        if name in defaults and defaults[name] == value:
            continue
        if value is None or value is False or (name == "cap_seed" and params.get("cap") is None):
            continue
        if name == "partition_bytes":
            name, value = "partition", human_bytes(value).replace(".0 ", " ")
        elif name == "direction_values":
            name, value = "directions", "given"
        shown.append(f"{name}={value}")
    return " ".join(shown)


def _defaults(kind: str | None) -> dict[str, Any]:
    from leap.pipeline.derived import RECIPES
    from leap.pipeline.stages.ingest import IngestOptions

    if kind == "dataset":
        return IngestOptions().params
    if kind is None or kind not in RECIPES:
        return {}
    fields = RECIPES[kind].model_fields
    return {name: field.default for name, field in fields.items() if name not in ("hops", "dim")}


def table(*columns: str, title: str | None = None, right: tuple[str, ...] = (), fold: tuple[str, ...] = ()) -> Table:
    """Return an empty table in the house style.

    Columns in `right` are aligned for numbers; those in `fold` break over lines when the terminal is narrow, and the
    others are kept whole.
    """
    result = Table(
        title=title, title_justify="left", box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0)
    )
    for column in columns:
        result.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=column not in fold,
        )
    return result


def plural(count: int, noun: str) -> str:
    """Return "1 artifact", "2 artifacts"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
