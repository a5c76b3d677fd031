"""How far a sweep is: folds that are done, what is being trained, and the time that is left."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from leap.pipeline.training.run_folder import EPOCHS, read_epochs

if TYPE_CHECKING:
    from leap.pipeline.training.fold import FoldJob

PERIOD_SECONDS = 0.5


@dataclass(frozen=True)
class SweepEvent:
    """The state of a sweep.

    Attributes
    ----------
    folds, done, failed : of this call; what was done before is not counted.
    running : folds under way in a few words, such as "letters-high gcn rwpe, fold 2, epoch 14".
    seconds_left : expected time until the end.
    """

    folds: int
    done: int
    failed: int
    running: tuple[str, ...]
    seconds_left: float


class SweepWatch:
    """Tells about a sweep from a thread of its own while the block runs.

    Parameters
    ----------
    jobs : in the order in which they are started.
    labels, expected : words for a run, and seconds that one of its folds is expected to take, by fingerprint.
    """

    def __init__(
        self,
        jobs: "Sequence[FoldJob]",
        labels: dict[str, str],
        expected: dict[str, float],
        workers: int,
        on_event: Callable[[SweepEvent], None] | None,
    ) -> None:
        self._labels, self._expected, self._workers, self._tell = labels, expected, workers, on_event
        self._waiting = {(job.fingerprint, job.split.number): Path(job.folder) for job in jobs}
        self._count, self._done, self._failed = len(jobs), 0, 0
        self._spent, self._foreseen = 0.0, 0.0
        self._started: dict[tuple[str, int], float] = {}
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._keep_telling, daemon=True)

    def __enter__(self) -> "SweepWatch":
        if self._tell is not None and self._count:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def done(self, fingerprint: str, fold: int, seconds: float) -> None:
        """Note that a fold is done."""
        with self._lock:
            self._done += 1
            self._spent += seconds
            self._foreseen += self._expected[fingerprint]
            self._waiting.pop((fingerprint, fold), None)

    def failed(self, fingerprint: str, fold: int) -> None:
        """Note that a fold failed."""
        with self._lock:
            self._failed += 1
            self._waiting.pop((fingerprint, fold), None)

    def event(self) -> SweepEvent:
        """Return the state of this moment."""
        now = time.monotonic()
        with self._lock:
            waiting = dict(self._waiting)
            pace = self._spent / self._foreseen if self._foreseen else 1.0
            counts = self._count, self._done, self._failed
        # Folds are started in order, so those under way are the first that are not done.
        running = list(waiting)[: self._workers]
        for entry in running:
            self._started.setdefault(entry, now)
        left = 0.0
        for entry in waiting:
            expected = self._expected[entry[0]] * pace
            spent = now - self._started[entry] if entry in self._started else 0.0
            left += max(0.1 * expected, expected - spent) if entry in running else expected
        texts = tuple(self._words(entry, waiting[entry]) for entry in running)
        return SweepEvent(*counts, texts, left / max(1, self._workers))

    def _words(self, entry: tuple[str, int], folder: Path) -> str:
        epochs = len(read_epochs(folder / EPOCHS))
        return f"{self._labels[entry[0]]}, fold {entry[1]}" + (f", epoch {epochs}" if epochs else "")

    def _keep_telling(self) -> None:
        assert self._tell is not None
        while not self._over.wait(PERIOD_SECONDS):
            self._tell(self.event())
