"""Watching folds while they are trained: how far they are, as workers note it in files."""

import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from leap.pipeline.engine.jobs import FoldJob
from leap.pipeline.engine.run_folder import EPOCHS, read_epochs
from leap.pipeline.events import EpochEnded, FoldEnded, FoldsProgress, Reporter, RunningFold
from leap.pipeline.failures import sentence

PERIOD_SECONDS = 0.4


class FoldsWatch:
    """Tells how far folds are, from a thread of its own while the block runs: workers note epochs in files.

    Parameters
    ----------
    stacks : jobs that are trained together and how many of them at a time, in the order in which they are started;
        tasks that share their jobs follow each other.
    before : how many folds of the same request are done, and how many failed.
    later : seconds that each of its other folds is foreseen to take, for which these have to end first.
    """

    def __init__(
        self,
        stacks: Sequence[tuple[Sequence[FoldJob], int]],
        workers: int,
        reporter: Reporter,
        before: tuple[int, int] = (0, 0),
        later: Sequence[float] = (),
    ) -> None:
        self._stacks, self._workers, self._reporter = list(stacks), workers, reporter
        self._jobs = list({job.name: job for jobs, _ in stacks for job in jobs}.values())
        self._folds, self._later = sum(before) + len(self._jobs) + len(later), sum(later)
        self._waiting = list(self._jobs)
        self._epochs: dict[str, list[dict[str, Any]]] = {job.folder: [] for job in self._jobs}
        (self._done, self._failed), self._spent, self._foreseen = before, 0.0, 0.0
        self._lock, self._over = threading.RLock(), threading.Event()
        self._thread = threading.Thread(target=self._keep_looking, daemon=True)

    def __enter__(self) -> "FoldsWatch":
        if self._reporter.is_heard and self._jobs:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._reporter.is_heard and self._jobs:
            self._look(is_over=True)

    def end(self, job: FoldJob, outcome: dict[str, Any] | Exception) -> None:
        """Tell that a fold has ended, by its result or by an error."""
        if not self._reporter.is_heard:
            return
        result, text = (None, sentence(outcome)) if isinstance(outcome, Exception) else (outcome, None)
        with self._lock:
            self._waiting = [each for each in self._waiting if each is not job]
            if result is None:
                self._failed += 1
            else:
                self._done += 1
                self._spent += result["seconds"]
                self._foreseen += job.seconds
            self._look_at(job)
            left = self.progress().seconds_left
            ended = self._done + self._failed
            self._reporter.emit(FoldEnded(job.label, job.split.number, ended, self._folds, result, text, left))

    def progress(self, *, is_over: bool = False) -> FoldsProgress:
        """Return the state of this moment."""
        with self._lock:
            pace = self._spent / self._foreseen if self._foreseen else 1.0
            left = self._later * pace
            for job in self._waiting:
                expected, last = job.seconds * pace, self._last(job)
                left += max(0.1 * expected, expected - (last["seconds"] if last is not None else 0.0))
            folds = tuple(
                RunningFold(job.label, job.split.number, job.options.epochs, self._last(job)) for job in self._running()
            )
            left /= max(1, self._workers)
            return FoldsProgress(self._folds, self._done, self._failed, folds, left, is_over)

    def _running(self) -> list[FoldJob]:
        """Return the folds under way: of the first stacks, for each worker one, the first that have not ended."""
        waiting, found, workers = {job.name for job in self._waiting}, dict[tuple[str, int], FoldJob](), self._workers
        for jobs, size in self._stacks:
            left = [job for job in jobs if job.name in waiting and job.name not in found]
            if left and workers:
                found |= {job.name: job for job in left[:size]}
                workers -= 1
        return list(found.values())

    def _last(self, job: FoldJob) -> dict[str, Any] | None:
        return next(reversed(self._epochs[job.folder]), None)

    def _keep_looking(self) -> None:
        while not self._over.wait(PERIOD_SECONDS):
            self._look()

    def _look(self, *, is_over: bool = False) -> None:
        with self._lock:
            for job in self._running():
                self._look_at(job)
            self._reporter.emit(self.progress(is_over=is_over))

    def _look_at(self, job: FoldJob) -> None:
        """Tell about the epochs that a fold has noted since the last look."""
        epochs, seen = read_epochs(Path(job.folder) / EPOCHS), len(self._epochs[job.folder])
        for values in epochs[seen:]:
            self._reporter.emit(EpochEnded(job.label, job.split.number, values))
        if len(epochs) > seen:
            self._epochs[job.folder] = epochs
