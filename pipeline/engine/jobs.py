"""Folds as jobs: all that a worker must know of one, and how it ended."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from leap.models.network_config import DatasetFacts
from leap.pipeline.engine.prepare import Prepared
from leap.pipeline.engine.run_folder import RunFolder, done_fold
from leap.pipeline.stages.context import Context
from leap.pipeline.training.options import TrainOptions
from leap.pipeline.training.requirements import Inputs, dataset_facts, mean_nodes, needs_statistics
from leap.pipeline.training.splits import Split, check_labels, class_frequencies, make_splits
from leap.store.graphs.tasks import is_classification
from leap.store.lazy import lazy_module

pickling = lazy_module("tblib.pickling_support")

GIB = 2**30


@dataclass(frozen=True)
class InputKeys:
    """Where a worker finds the artifacts: keys in a store, with the dimension of a view where it is one."""

    url: str
    dataset: str
    neighborhoods: tuple[str, ...] = ()
    encodings: tuple[tuple[str, int | None], ...] = ()
    with_stats: bool = False
    with_edge_attr: bool = False

    @classmethod
    def of(cls, prepared: Prepared, url: str) -> "InputKeys":
        """Return the keys of a run's artifacts."""
        return cls(
            url,
            prepared.dataset.key,
            tuple(artifact.key for artifact in prepared.neighborhoods),
            tuple((artifact.key, artifact.dim) for artifact in prepared.encodings),
            needs_statistics(prepared.options),
            prepared.options.network.needs_edge_attr,
        )


@dataclass(frozen=True)
class FoldJob:
    """Everything that a fold depends on, and where its results go.

    Attributes
    ----------
    label, seconds : the run in a few words, and how long the fold is expected to take.
    rows : nodes of a training batch, on average.
    fits_in_memory : whether the data is read only once.
    """

    inputs: InputKeys
    options: TrainOptions
    facts: DatasetFacts
    split: Split
    class_weights: list[float] | None
    selection: str
    fingerprint: str
    folder: str
    checkpoint_steps: int | None
    memory_bytes: int
    label: str
    seconds: float
    rows: float
    fits_in_memory: bool

    @property
    def name(self) -> tuple[str, int]:
        """What no other fold is called."""
        return self.fingerprint, self.split.number

    def result(self) -> dict[str, Any] | None:
        """Return the fold's result if it is done."""
        return done_fold(Path(self.folder), self.split.number, self.fingerprint)


class FoldOutcome(NamedTuple):
    """How a fold ended: with a result or an error; `name` is its job's."""

    name: tuple[str, int]
    result: dict[str, Any] | None
    error: Exception | None

    @classmethod
    def of(cls, job: FoldJob, result: dict[str, Any] | None = None, error: Exception | None = None) -> "FoldOutcome":
        """Return the outcome of a job; an error keeps its traceback on the way to another process."""
        if error is not None:
            pickling.install(error)
        return cls(job.name, result, error)


def make_jobs(
    prepared: Prepared,
    folder: RunFolder,
    context: Context,
    *,
    label: str,
    seconds: float,
    memory_gb: float,
    checkpoint_steps: int | None,
) -> list[FoldJob]:
    """Return the folds of a run.

    Raises
    ------
    InvalidInputError
        If the dataset cannot be cut into folds.
    """
    options, dataset, memory_bytes = prepared.options, prepared.dataset, int(memory_gb * GIB)
    known = (needs_statistics(options), options.network.needs_edge_attr)
    inputs = Inputs(dataset, prepared.neighborhoods, prepared.encodings, *known)
    fits_in_memory = inputs.stream(memory_bytes).fits_in_memory
    facts, name = dataset_facts(dataset, options.network), dataset.manifest.dataset
    is_weighted = options.class_weight == "frequency" and is_classification(facts.task)
    weights = class_frequencies(dataset) if is_weighted else None
    splits = make_splits(dataset, options)
    for remark in check_labels(dataset, splits):
        context.reporter.note(f"note: {remark}")
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
            memory_bytes,
            label,
            seconds,
            mean_nodes(dataset) * options.batch_size,
            fits_in_memory,
        )
        for split in splits
    ]
