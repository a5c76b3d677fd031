"""Progress of a sweep in the terminal: one bar over all folds, with what is being trained and the time left."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from leap.cli.output import errors, human_seconds

if TYPE_CHECKING:
    from leap.pipeline.experiments.progress import SweepEvent

SOON_SECONDS = 10.0


@contextlib.contextmanager
def sweep_bar(*, quiet: bool) -> "Iterator[Callable[[SweepEvent], None] | None]":
    """Give what `sweep` tells about its progress; None where nobody is looking."""
    if quiet or not errors.is_terminal:
        yield None
        return
    progress = Progress(
        SpinnerColumn(),
        TextColumn("folds"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", markup=False),
        console=errors,
        transient=True,
    )
    running = Progress(TextColumn("  {task.description}", markup=False), console=errors, transient=True)
    tasks: list[TaskID] = []
    lines: list[TaskID] = []

    from rich.console import Group
    from rich.live import Live

    live = Live(Group(progress, running), console=errors, transient=True, refresh_per_second=4)

    def show(event: "SweepEvent") -> None:
        if not tasks:
            tasks.append(progress.add_task("", total=event.folds, left=""))
            live.start()
        soon = event.seconds_left < SOON_SECONDS
        left = "a few seconds left" if soon else f"about {human_seconds(event.seconds_left)} left"
        left += f", {event.failed} failed" if event.failed else ""
        progress.update(tasks[0], completed=event.done + event.failed, left=left)
        while len(lines) < len(event.running):
            lines.append(running.add_task(""))
        for number, line in enumerate(lines):
            is_used = number < len(event.running)
            running.update(line, description=event.running[number] if is_used else "", visible=is_used)

    try:
        yield show
    finally:
        if tasks:
            live.stop()
