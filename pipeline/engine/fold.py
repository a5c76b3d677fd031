"""Folds, each a function of its job alone: claimed, trained in stacks, tested, and written to the run's folder."""

import contextlib
import json
import warnings
import weakref
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from leap.models.devices import CPU
from leap.models.generator import borrowed_generator
from leap.models.network import Network
from leap.models.network_config import DatasetFacts
from leap.pipeline.engine.jobs import FoldJob, FoldOutcome, InputKeys
from leap.pipeline.engine.run_folder import EPOCHS, PREDICTIONS, RESULT, FolderLock, RunFolder, done_fold, writing
from leap.pipeline.training.data import Part, evaluation_batch_size
from leap.pipeline.training.evaluate import Evaluation
from leap.pipeline.training.loop import StackTrainer
from leap.pipeline.training.objective import BinaryCrossEntropy, CrossEntropy, Objective, StandardizedError
from leap.pipeline.training.requirements import Inputs
from leap.pipeline.training.splits import labels_of, members, part_sizes
from leap.pipeline.training.trainee import Epoch, State, Trainee, write_epochs
from leap.store import Artifact, Store
from leap.store.disk import replacing, write
from leap.store.errors import SmallerStackWarning, WorkFailedError
from leap.store.graphs.dataset import PARTS
from leap.store.graphs.tasks import is_node_task, is_regression


def open_inputs(keys: InputKeys) -> Inputs:
    """Open the artifacts that batches are made of."""
    store = Store.open(keys.url)
    return Inputs(
        store.get(keys.dataset),
        [store.get(key) for key in keys.neighborhoods],
        [store.get(key).view(dim) for key, dim in keys.encodings],
        keys.with_stats,
        keys.with_edge_attr,
    )


def train_stack(jobs: Sequence[FoldJob], size: int, device: torch.device = CPU) -> Generator[FoldOutcome, None, None]:
    """Train the folds of jobs that make one stack, up to `size` at a time, and yield each outcome as it comes.

    Each fold is claimed when there is room for it. One whose folder another process holds is passed over and has no
    outcome; one that is done is not trained again.

    Runs on one thread and seeds torch itself, so that the results do not depend on who runs it. Torch's generator and
    number of threads, which belong to the process, are as before afterwards; meanwhile other stacks in this process
    wait.

    Warns
    -----
    SmallerStackWarning
        If folds could not take a step together, as where memory ran out: all that are left go on from their
        checkpoints, half as many at a time. Who cannot take a step alone fails.
    """
    left = {job.name: job for job in jobs}
    with borrowed_generator(), _one_thread():
        while True:
            try:
                for outcome in _train(list(left.values()), size, device):
                    del left[outcome.name]
                    yield outcome
                return
            except Exception as error:
                if size == 1:
                    raise
                size = max(1, min(size, len(left)) // 2)
                warnings.warn(
                    f"folds trained as one could not take a step ({type(error).__name__}: {error}); they go on from "
                    f"their checkpoints, {size} at a time",
                    SmallerStackWarning,
                    stacklevel=2,
                )


def _train(jobs: Sequence[FoldJob], size: int, device: torch.device) -> Iterator[FoldOutcome]:
    with contextlib.closing(_Claims(jobs)) as claims:
        trainer = StackTrainer(jobs[0].options.network, jobs[0].facts, size, device)
        for trainee, test, error in trainer.run(iter(claims)):
            yield from claims.settled()
            assert isinstance(trainee, Fold)
            yield claims.settle(trainee, test, error)
        yield from claims.settled()


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class _Claims:
    """Folds of which this process takes one after the other, as long as nobody else has them.

    Parameters
    ----------
    jobs : in the order in which they are begun.
    """

    def __init__(self, jobs: Sequence[FoldJob]) -> None:
        self._jobs = jobs
        self._held: list[Fold] = []
        self._settled: list[FoldOutcome] = []
        self._data: weakref.WeakValueDictionary[InputKeys, FoldData] = weakref.WeakValueDictionary()

    def __iter__(self) -> Iterator["Fold"]:
        for job in self._jobs:
            lock = FolderLock(Path(job.folder))
            try:
                with writing(Path(job.folder)):
                    if not lock.take():
                        continue
                    done = done_fold(Path(job.folder), job.split.number, job.fingerprint)
                    fold = self._begin(job, lock) if done is None else None
            except Exception as error:
                lock.release()
                self._settled.append(FoldOutcome.of(job, error=error))
                continue
            if fold is None:
                lock.release()
                self._settled.append(FoldOutcome.of(job, done))
                continue
            self._held.append(fold)
            yield fold

    def _begin(self, job: FoldJob, lock: FolderLock) -> "Fold":
        folder = Path(job.folder)
        config = RunFolder(folder.parent).config()
        if config is None:
            raise WorkFailedError(
                f"{folder.parent} was removed while its run was being trained. Run the same command again."
            )
        if config["fingerprint"] != job.fingerprint:
            raise WorkFailedError(
                f"{folder.parent} is another run's by now; fold {job.split.number} is not trained there."
            )
        data = self._data.get(job.inputs)
        if data is None:
            data = self._data[job.inputs] = FoldData(job)
        return begin_fold(job, data, lock)

    def settle(self, fold: "Fold", test: Evaluation | None, error: Exception | None) -> FoldOutcome:
        """Write what a fold leaves, and give up its folder."""
        result = None
        if test is not None and error is None:
            try:
                with writing(fold.folder):
                    result = fold.finish(test)
            except Exception as found:
                error = found
        self._held.remove(fold)
        fold.lock.release()
        return FoldOutcome.of(fold.job, result, error)

    def settled(self) -> Iterator[FoldOutcome]:
        """Yield the outcomes of folds that needed no training, or could not have any, since the last call."""
        while self._settled:
            yield self._settled.pop(0)

    def close(self) -> None:
        """Give up all folders."""
        while self._held:
            fold = self._held.pop()
            fold.close()
            fold.lock.release()


class FoldData:
    """What the folds of a run, and of others on the same artifacts, read; in memory once for all of them."""

    def __init__(self, job: FoldJob) -> None:
        self.inputs = open_inputs(job.inputs)
        self.stream = self.inputs.stream(job.memory_bytes)

    def part(self, job: FoldJob, name: str) -> Part:
        """Return the training, validation or test part of a fold."""
        split, options, is_training = job.split, job.options, name == "train"
        size = options.batch_size if is_training else evaluation_batch_size(self.inputs.dataset, options.batch_size)
        graphs = None if split.graphs is None else split.graphs[name]
        part = self.stream.part(graphs, batch_size=size, shuffle=is_training, seed=options.seed)
        return Part(part, None if split.mask is None else (name, split.mask))


class Fold(Trainee):
    """A fold in training whose folder this process holds."""

    def __init__(self, job: FoldJob, data: FoldData, lock: FolderLock) -> None:
        self.job, self.data, self.lock = job, data, lock
        super().__init__(
            {name: data.part(job, name) for name in PARTS},
            _objective(job, data.inputs.dataset),
            job.options,
            Path(job.folder),
            f"{job.fingerprint} fold {job.split.number}",
            self._fresh,
            selection=job.selection,
            checkpoint_steps=job.checkpoint_steps,
        )

    def _fresh(self) -> State:
        with borrowed_generator(self.job.options.seed):
            return Network(self.job.options.network, self.job.facts).state_dict()

    def finish(self, test: Evaluation) -> dict[str, Any]:
        """Write what the fold leaves, its result last, and return that."""
        progress = self.progress
        best = progress.history[progress.best_epoch]
        result = {
            "fold": self.job.split.number,
            "fingerprint": self.job.fingerprint,
            "epochs": progress.epoch,
            "best_epoch": progress.best_epoch,
            "test": {"loss": test.loss, **test.metrics},
            "val": {name: best[f"val_{name}"] for name in ("loss", *test.metrics)},
            "sizes": part_sizes(self.data.inputs.dataset, self.job.split),
            "seconds": progress.seconds,
            "seconds_an_epoch": _seconds_an_epoch(progress.history),
        }
        self.save_best()
        write_epochs(self.folder / EPOCHS, progress.history)
        _write_predictions(self.folder / PREDICTIONS, self.job, test)
        write(self.folder / RESULT, json.dumps(result, indent=1) + "\n")
        return result


def begin_fold(job: FoldJob, data: FoldData, lock: FolderLock) -> Fold:
    """Return a fold at its last checkpoint, or at its start."""
    return Fold(job, data, lock)


def _seconds_an_epoch(history: list[Epoch]) -> float:
    """Median, so that neither imports in the first epoch nor a pause of the machine counts."""
    ends = [0.0, *(entry["seconds"] for entry in history)]
    return float(np.median(np.diff(ends)))


def _objective(job: FoldJob, dataset: Artifact) -> Objective:
    if job.facts.task == "graph-multilabel":
        return BinaryCrossEntropy()
    if not is_regression(job.facts.task):
        return CrossEntropy(job.class_weights)
    return StandardizedError.of(labels_of(dataset)[members(dataset, job.split, "train")])


def _write_predictions(path: Path, job: FoldJob, test: Evaluation) -> None:
    """Columns fold and graph or node; then those of `prediction_table`."""
    fold = pa.array(np.full(len(test.items), job.split.number, np.int32))
    with replacing(path) as partial:
        pq.write_table(prediction_table(job.facts, test).add_column(0, "fold", fold), partial)


def prediction_table(facts: DatasetFacts, evaluation: Evaluation) -> Any:
    """Return predictions as a table, one row for each graph or node.

    It has label, predicted and a probability for each class; for several labels, label and probability of each; for
    targets, target and predicted value of each.
    """
    item = "node" if is_node_task(facts.task) else "graph"
    columns: dict[str, Any] = {item: evaluation.items}
    if is_regression(facts.task) or facts.task == "graph-multilabel":
        true, said = ("target", "predicted") if is_regression(facts.task) else ("label", "probability")
        for column in range(facts.outputs):
            if evaluation.y is not None:
                columns[f"{true}_{column}"] = evaluation.y[:, column]
            columns[f"{said}_{column}"] = evaluation.predictions[:, column]
        return pa.table(columns)
    if evaluation.y is not None:
        columns["label"] = evaluation.y
    columns["predicted"] = evaluation.predictions.argmax(1)
    columns |= {f"probability_{c}": evaluation.predictions[:, c] for c in range(facts.outputs)}
    return pa.table(columns)
