"""Progress on stderr: bars where somebody is looking, else a line for every fold that ends, JSON with `--json`."""

import json
import threading
import time
from collections.abc import Callable

from rich import progress as rich_progress
from rich.console import Group
from rich.live import Live
from rich.markup import escape

from leap.cli.output import errors
from leap.pipeline.events import (
    EpochEnded,
    Event,
    FoldsProgress,
    Lines,
    Listener,
    Note,
    Reporter,
    TaskProgress,
    duration,
)

PATIENCE_SECONDS = 0.5
SOON_SECONDS = 10.0
MOST_BARS = 8  # a stack has more folds under way than a terminal has lines


def reporter(*, quiet: bool, verbose: bool, as_json: bool) -> Reporter:
    """Return a reporter for whoever reads stderr, a person or a program."""
    if quiet:
        return Reporter()
    listener = Terminal() if errors.is_terminal else Lines(render=_json_line if as_json else str)
    return Reporter(listener, *([Steps(listener)] if verbose else []))


def _json_line(event: Event) -> str:
    return json.dumps(event.as_json(), default=str, ensure_ascii=False)


class Steps:
    """A listener that notes every task that is over, with the time it took, and every epoch.

    Parameters
    ----------
    told : receives the notes.
    """

    def __init__(self, told: Listener, clock: Callable[[], float] = time.monotonic) -> None:
        self._told, self._clock = told, clock
        self._began: dict[int, float] = {}

    def __call__(self, event: Event) -> None:
        """Note what has ended."""
        if isinstance(event, EpochEnded):
            self._told(Note(str(event)))
        elif isinstance(event, TaskProgress):
            began = self._began.setdefault(event.task, self._clock())
            if event.is_over:
                self._told(Note(f"{event} in {duration(self._clock() - began)}"))


class Terminal:
    """A listener that draws: a bar for each task, and, while folds are trained, a bar over all and one for each."""

    def __init__(self) -> None:
        self._tasks: dict[int, _TaskBar] = {}
        self._folds: _FoldBars | None = None

    def __call__(self, event: Event) -> None:
        """Draw what has changed."""
        if isinstance(event, Note):
            errors.print(f"[dim]{escape(event.message)}[/]")
        elif isinstance(event, TaskProgress):
            if event.task not in self._tasks:
                self._tasks[event.task] = _TaskBar(event)
            self._tasks[event.task].show(event)
            if event.is_over:
                self._tasks.pop(event.task).end()
        elif isinstance(event, FoldsProgress):
            if self._folds is None:
                self._folds = _FoldBars(event)
            self._folds.show(event)
            if event.is_over:
                self._folds.end()
                self._folds = None


class _TaskBar:
    def __init__(self, event: TaskProgress) -> None:
        self._progress = rich_progress.Progress(
            rich_progress.SpinnerColumn(),
            rich_progress.TextColumn("{task.description}", markup=False),
            rich_progress.BarColumn(bar_width=30),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TextColumn("left"),
            rich_progress.TimeRemainingColumn(),
            console=errors,
            transient=True,
        )
        self._task = self._progress.add_task(event.description, total=event.total)
        # Most work is over before anybody could read a bar; it would only flicker.
        self._appearance = threading.Timer(PATIENCE_SECONDS, self._progress.start)
        self._appearance.daemon = True
        self._appearance.start()

    def show(self, event: TaskProgress) -> None:
        self._progress.update(self._task, completed=event.done)

    def end(self) -> None:
        self._appearance.cancel()
        self._appearance.join()
        self._progress.stop()


class _FoldBars:
    def __init__(self, event: FoldsProgress) -> None:
        self._all = rich_progress.Progress(
            rich_progress.SpinnerColumn(),
            rich_progress.TextColumn("folds"),
            rich_progress.BarColumn(bar_width=24),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TextColumn("{task.fields[left]}", markup=False),
            console=errors,
        )
        self._running = rich_progress.Progress(
            rich_progress.TextColumn("  {task.description}", markup=False),
            rich_progress.BarColumn(bar_width=16),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TextColumn("{task.fields[status]}", markup=False),
            console=errors,
        )
        self._total = self._all.add_task("", total=event.folds, left="")
        self._lines: list[rich_progress.TaskID] = []
        group = Group(self._all, self._running)
        self._live = Live(group, console=errors, transient=True, refresh_per_second=4)
        self._live.start()

    def show(self, event: FoldsProgress) -> None:
        soon = event.seconds_left < SOON_SECONDS
        left = "a few seconds left" if soon else f"about {duration(event.seconds_left)} left"
        left += f", {event.failed} failed" if event.failed else ""
        shown = event.running[:MOST_BARS]
        left += f", {len(event.running)} under way" if len(shown) < len(event.running) else ""
        self._all.update(self._total, completed=event.done + event.failed, left=left)
        while len(self._lines) < len(shown):
            self._lines.append(self._running.add_task("", status=""))
        for line in self._lines[len(shown) :]:
            self._running.update(line, visible=False)
        for line, fold in zip(self._lines, shown, strict=False):
            self._running.update(
                line,
                description=f"{fold.run}, fold {fold.fold}",
                total=fold.epochs_at_most,
                completed=0 if fold.last is None else fold.last["epoch"] + 1,
                status=fold.status,
                visible=True,
            )

    def end(self) -> None:
        self._live.stop()
