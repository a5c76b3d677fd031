"""Folds as jobs: made of a run, spread over workers, watched while they are trained.

This is the one place that decides which folds go to the workers, in which order and how many at a time.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from leap.models.network_config import DatasetFacts
from leap.pipeline import engine
from leap.pipeline.cluster import employ, refuse_threaded_worker
from leap.pipeline.engine.prepare import Prepared
from leap.pipeline.engine.run_folder import EPOCHS, NO_SPACE, FolderLock, RunFolder, done_fold, not_removed, read_epochs
from leap.pipeline.events import EpochEnded, FoldEnded, FoldsProgress, Reporter, RunningFold
from leap.pipeline.failures import sentence
from leap.pipeline.stages.context import Context
from leap.pipeline.training.options import TrainOptions
from leap.pipeline.training.requirements import dataset_facts, needs_statistics
from leap.pipeline.training.splits import Split, class_frequencies, make_splits
from leap.store.disk import needing_space
from leap.store.errors import WorkFailedError

PERIOD_SECONDS = 0.4
GIB = 2**30


@dataclass(frozen=True)
class InputKeys:
    """Where a worker finds the artifacts: keys in a store, with the dimension of a view where it is one."""

    url: str
    dataset: str
    neighborhoods: tuple[str, ...] = ()
    encodings: tuple[tuple[str, int | None], ...] = ()
    with_stats: bool = False

    @classmethod
    def of(cls, prepared: Prepared, url: str) -> "InputKeys":
        """Return the keys of a run's artifacts."""
        return cls(
            url,
            prepared.dataset.key,
            tuple(artifact.key for artifact in prepared.neighborhoods),
            tuple((artifact.key, artifact.dim) for artifact in prepared.encodings),
            needs_statistics(prepared.options),
        )


@dataclass(frozen=True)
class FoldJob:
    """Everything that a fold depends on, and where its results go.

    Attributes
    ----------
    label, seconds : the run in a few words, and how long the fold is expected to take.
    """

    inputs: InputKeys
    options: TrainOptions
    facts: DatasetFacts
    split: Split
    class_weights: list[float] | None
    selection: str
    fingerprint: str
    folder: str
    checkpoint_steps: int
    memory_bytes: int
    label: str
    seconds: float


def make_jobs(
    prepared: Prepared,
    folder: RunFolder,
    context: Context,
    *,
    label: str,
    seconds: float,
    memory_gb: float,
    checkpoint_steps: int,
) -> list[FoldJob]:
    """Return the folds of a run.

    Raises
    ------
    InvalidInputError
        If the dataset cannot be cut into folds.
    """
    options, dataset = prepared.options, prepared.dataset
    facts, name = dataset_facts(dataset), dataset.manifest.dataset
    is_weighted = options.class_weight == "frequency" and facts.task != "graph-regression"
    weights = class_frequencies(dataset) if is_weighted else None
    return [
        FoldJob(
            InputKeys.of(prepared, context.store.url),
            options,
            facts,
            split,
            weights,
            options.selection(name),
            prepared.fingerprint,
            str(folder.fold(split.number).resolve()),
            checkpoint_steps,
            int(memory_gb * GIB),
            label,
            seconds,
        )
        for split in make_splits(dataset, options)
    ]


def train_folds(
    jobs: Sequence[FoldJob],
    context: Context,
    on_done: Callable[[FoldJob, dict[str, Any]], None],
    on_failed: Callable[[FoldJob, Exception], None],
) -> None:
    """Train folds on the context's workforce, one thread each, and hand over each result or failure as it comes."""
    by_name = {(job.fingerprint, job.split.number): job for job in jobs}
    with (
        employ(context.workforce, len(jobs), sum(job.seconds for job in jobs)) as runner,
        FoldsWatch(jobs, runner.workers, context.reporter) as watch,
    ):

        def done(result: dict[str, Any]) -> None:
            job = by_name[result["fingerprint"], result["fold"]]
            watch.end(job, result)
            on_done(job, result)

        def failed(arguments: tuple[FoldJob], error: Exception) -> None:
            on_failed(arguments[0], error)
            watch.end(arguments[0], error)

        runner.run(run_fold, [(job,) for job in jobs], done, failed)


def run_fold(job: FoldJob) -> dict[str, Any]:
    """Train and test one fold, going on from its last checkpoint if there is one; the task that workers run.

    The same fold in another process is waited for, and its result taken.

    Raises
    ------
    InvalidInputError
        On a Dask worker with several threads.
    WorkFailedError
        If the folder was given to another run, or removed.
    """
    refuse_threaded_worker()
    folder, number = Path(job.folder), job.split.number
    with needing_space(folder.parent, NO_SPACE), not_removed(folder), FolderLock(folder):
        done = done_fold(folder, number, job.fingerprint)
        if done is not None:
            return done
        config = RunFolder(folder.parent).config()
        if config is None:
            raise WorkFailedError(
                f"{folder.parent} was removed while its run was being trained. Run the same command again."
            )
        if config["fingerprint"] != job.fingerprint:
            raise WorkFailedError(f"{folder.parent} is another run's by now; fold {number} is not trained there.")
        return engine.fold.train_fold(job)


class FoldsWatch:
    """Tells how far folds are, from a thread of its own while the block runs: workers note epochs in files.

    Parameters
    ----------
    jobs : in the order in which they are started.
    """

    def __init__(self, jobs: Sequence[FoldJob], workers: int, reporter: Reporter) -> None:
        self._jobs, self._workers, self._reporter = list(jobs), workers, reporter
        self._waiting = list(jobs)
        self._epochs: dict[str, list[dict[str, Any]]] = {job.folder: [] for job in jobs}
        self._started: dict[str, float] = {}
        self._done, self._failed, self._spent, self._foreseen = 0, 0, 0.0, 0.0
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
            ended, folds = self._done + self._failed, len(self._jobs)
            self._reporter.emit(FoldEnded(job.label, job.split.number, ended, folds, result, text, left))

    def progress(self, *, is_over: bool = False) -> FoldsProgress:
        """Return the state of this moment."""
        now = time.monotonic()
        with self._lock:
            # Folds are started in order, so those under way are the first that have not ended.
            running = self._waiting[: self._workers]
            for job in running:
                self._started.setdefault(job.folder, now)
            pace, left = self._spent / self._foreseen if self._foreseen else 1.0, 0.0
            for job in self._waiting:
                expected = job.seconds * pace
                spent = now - self._started.get(job.folder, now)
                left += max(0.1 * expected, expected - spent)
            folds = tuple(
                RunningFold(
                    job.label, job.split.number, job.options.epochs, next(reversed(self._epochs[job.folder]), None)
                )
                for job in running
            )
            left /= max(1, self._workers)
            return FoldsProgress(len(self._jobs), self._done, self._failed, folds, left, is_over)

    def _keep_looking(self) -> None:
        while not self._over.wait(PERIOD_SECONDS):
            self._look()

    def _look(self, *, is_over: bool = False) -> None:
        with self._lock:
            for job in self._waiting[: self._workers]:
                self._look_at(job)
            self._reporter.emit(self.progress(is_over=is_over))

    def _look_at(self, job: FoldJob) -> None:
        """Tell about the epochs that a fold has noted since the last look."""
        epochs, seen = read_epochs(Path(job.folder) / EPOCHS), len(self._epochs[job.folder])
        for values in epochs[seen:]:
            self._reporter.emit(EpochEnded(job.label, job.split.number, values))
        if len(epochs) > seen:
            self._epochs[job.folder] = epochs
