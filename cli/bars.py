"""Progress bars for stages, on stderr, only where somebody is looking."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from leap.cli.output import errors

PATIENCE_SECONDS = 0.5


class Bars:
    """A reporter with one bar for each task; silent when stderr is not a terminal or `--quiet` is given."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._is_shown = not quiet and errors.is_terminal

    @contextlib.contextmanager
    def task(self, description: str, total: float | None) -> Iterator[Callable[[float], None]]:
        """Show a bar while the block runs; an unknown total shows a spinner and a count."""
        if not self._is_shown:
            yield lambda amount: None
            return
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        progress = Progress(*columns, console=errors, transient=True)
        task = progress.add_task(description, total=total)
        # Most work is over before anybody could read a bar; it would only flicker.
        appearance = threading.Timer(PATIENCE_SECONDS, progress.start)
        appearance.daemon = True
        appearance.start()
        try:
            yield lambda amount: progress.advance(task, amount)
        finally:
            appearance.cancel()
            appearance.join()
            progress.stop()

    def note(self, message: str) -> None:
        """Say something in passing."""
        if not self._quiet:
            errors.print(f"[dim]{escape(message)}[/]")
