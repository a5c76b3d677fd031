"""Events: how far work is, how long it will take and what went wrong, emitted here and rendered by whoever listens."""

import contextlib
import itertools
import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, TextIO

METRICS = (("accuracy", "accuracy", ".1%"), ("auroc", "AUROC", ".3f"), ("r2", "R²", ".3f"))


@dataclass(frozen=True)
class Event:
    """Something that a person waiting would like to know. As text it is a line of a log."""

    def as_json(self) -> dict[str, Any]:
        """Return JSON values; "event" names the kind."""
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(self).__name__).lower()
        return {"event": name, **asdict(self)}


@dataclass(frozen=True)
class Note(Event):
    """A remark in passing."""

    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class TaskProgress(Event):
    """How far a task is; `total` is None if nobody knows what there is to do."""

    task: int
    description: str
    total: float | None
    done: float
    is_over: bool = False

    def __str__(self) -> str:
        done = f"{self.done:,.0f}" + ("" if self.total is None else f" of {self.total:,.0f}")
        return f"{self.description}: {done}"


@dataclass(frozen=True)
class EpochEnded(Event):
    """An epoch of a fold; `values` are losses, metrics and rate by name, as in curves.parquet."""

    run: str
    fold: int
    values: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.run}, fold {self.fold}, epoch {self.values['epoch']}: {_status(self.values)}"


@dataclass(frozen=True)
class RunningFold:
    """A fold under way; `last` are the values of its last epoch, None before the first has ended."""

    run: str
    fold: int
    epochs_at_most: int
    last: dict[str, Any] | None

    @property
    def status(self) -> str:
        """Losses and the metric that matters, in a few words."""
        return "" if self.last is None else _status(self.last)


@dataclass(frozen=True)
class FoldEnded(Event):
    """A fold that is done, or failed.

    Attributes
    ----------
    ended, folds : how many folds have ended, of all that this call has to do.
    result : content of the fold's result.json; None if it failed.
    error : what went wrong.
    seconds_left : expected time until all folds have ended.
    """

    run: str
    fold: int
    ended: int
    folds: int
    result: dict[str, Any] | None
    error: str | None
    seconds_left: float

    def __str__(self) -> str:
        start = f"[{self.ended}/{self.folds}] {self.run}, fold {self.fold}"
        if self.result is None:
            return f"{start} failed: {self.error}"
        epochs = self.result["epochs"]
        took = f"{epochs} epoch{'' if epochs == 1 else 's'}, {duration(self.result['seconds'])}"
        left = f"; about {duration(self.seconds_left)} left" if self.ended < self.folds else ""
        return f"{start}: {took}{_metric(self.result['test'])}{left}"


@dataclass(frozen=True)
class FoldsProgress(Event):
    """How far the folds of all runs are.

    Attributes
    ----------
    folds, done, failed : of this call; what was done before is not counted.
    running : folds under way.
    seconds_left : expected time until all have ended.
    """

    folds: int
    done: int
    failed: int
    running: tuple[RunningFold, ...]
    seconds_left: float
    is_over: bool = False

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.done} of {self.folds} folds are done{failed}; about {duration(self.seconds_left)} left"


Listener = Callable[[Event], None]


class Reporter:
    """Hands events to listeners, one at a time, whichever thread they come from."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = listeners
        self._lock = threading.RLock()
        self._numbers = itertools.count()

    def also(self, *listeners: Listener | None) -> "Reporter":
        """Return a reporter that has further listeners."""
        return Reporter(*self._listeners, *(each for each in listeners if each is not None))

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    def emit(self, event: Event) -> None:
        """Hand over an event."""
        with self._lock:
            for listener in self._listeners:
                listener(event)

    def note(self, message: str) -> None:
        """Say something in passing."""
        self.emit(Note(message))

    @contextlib.contextmanager
    def task(self, description: str, total: float | None) -> Iterator[Callable[[float], None]]:
        """Tell about a task while the block runs; the function inside advances it by an amount."""
        number, done = next(self._numbers), 0.0

        def advance(amount: float) -> None:
            nonlocal done
            done += amount
            self.emit(TaskProgress(number, description, total, done))

        advance(0)
        try:
            yield advance
        finally:
            self.emit(TaskProgress(number, description, total, done, is_over=True))


class Lines:
    """A listener for logs, scripts and notebooks: a line for every fold that ends, and for every note.

    Parameters
    ----------
    stream : where lines go; None: sys.stderr as it is at that moment.
    render : what an event's line is.

    Examples
    --------
    >>> import sys
    >>> from leap.pipeline import Context, Lines
    >>> from leap.pipeline.events import Reporter
    >>> Reporter(Lines(sys.stdout)).note("waiting for another process")
    waiting for another process
    """

    def __init__(self, stream: TextIO | None = None, render: Callable[[Event], str] = str) -> None:
        self._stream, self._render = stream, render

    def __call__(self, event: Event) -> None:
        """Write a line if the event deserves one."""
        if isinstance(event, (Note, FoldEnded)):
            print(self._render(event), file=self._stream or sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Return a duration such as "0.12 s", "3 min" or "2 days".

    >>> duration(0.1234), duration(200), duration(86400 * 3)
    ('0.12 s', '3 min', '3 days')
    """
    for limit, divisor, unit in ((100, 1, "s"), (6000, 60, "min"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            value = seconds / divisor
            return f"{value:.2f} {unit}" if value < 10 and unit == "s" else f"{value:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"


def _status(values: dict[str, Any]) -> str:
    return f"loss {values['train_loss']:.3f}, val {values['val_loss']:.3f}" + _metric(values, "val_")


def _metric(values: dict[str, Any], prefix: str = "") -> str:
    for name, shown, form in METRICS:
        value = values.get(prefix + name)
        if value is not None:
            return f", {shown} {value:{form}}".replace("%", " %")
    return ""
