"""A fold, a function of its job alone: trained, tested, and written to the run's folder."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from leap.models.generator import borrowed_generator
from leap.models.network import Network
from leap.models.network_config import DatasetFacts
from leap.pipeline.engine.jobs import FoldJob, InputKeys
from leap.pipeline.engine.run_folder import EPOCHS, PREDICTIONS, RESULT
from leap.pipeline.training.data import Inputs, Part, evaluation_batch_size
from leap.pipeline.training.evaluate import Evaluation, evaluate
from leap.pipeline.training.loop import Epoch, Training
from leap.pipeline.training.objective import CrossEntropy, Objective, StandardizedError
from leap.pipeline.training.splits import labels_of, part_sizes
from leap.store import Artifact, Store
from leap.store.disk import replacing, write


def open_inputs(keys: InputKeys) -> Inputs:
    """Open the artifacts that batches are made of."""
    store = Store.open(keys.url)
    return Inputs(
        store.get(keys.dataset),
        [store.get(key) for key in keys.neighborhoods],
        [store.get(key).view(dim) for key, dim in keys.encodings],
        keys.with_stats,
    )


def train_fold(job: FoldJob) -> dict[str, Any]:
    """Train a fold and write what it leaves into its folder, which the caller holds.

    Runs on one thread and seeds torch itself, so that the result does not depend on who runs it. Torch's generator and
    number of threads, which belong to the process, are as before afterwards; meanwhile other folds in this process
    wait.
    """
    with borrowed_generator(job.options.seed):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return _train(job)
        finally:
            torch.set_num_threads(threads)


def _train(job: FoldJob) -> dict[str, Any]:
    options, folder = job.options, Path(job.folder)
    inputs = open_inputs(job.inputs)
    parts = {name: _part(job, inputs, name) for name in ("train", "val", "test")}
    network = Network(options.network, job.facts)
    training = Training(
        network,
        _objective(job, inputs.dataset),
        options,
        folder,
        f"{job.fingerprint} fold {job.split.number}",
        selection=job.selection,
        checkpoint_steps=job.checkpoint_steps,
    )
    log = folder / EPOCHS
    _write_epochs(log, training.progress.history)

    def note(entry: Epoch) -> None:
        with log.open("a") as stream:
            stream.write(json.dumps(entry) + "\n")

    training.run(parts["train"], parts["val"], note)
    val, test = (evaluate(network, parts[name].batches(), training.objective) for name in ("val", "test"))
    progress = training.progress
    result = {
        "fold": job.split.number,
        "fingerprint": job.fingerprint,
        "epochs": progress.epoch,
        "best_epoch": progress.best_epoch,
        "test": {"loss": test.loss, **test.metrics},
        "val": {"loss": val.loss, **val.metrics},
        "sizes": part_sizes(inputs.dataset, job.split),
        "seconds": progress.seconds,
        "seconds_an_epoch": _seconds_an_epoch(progress.history),
    }
    _write_epochs(log, progress.history)
    _write_predictions(folder / PREDICTIONS, job, test)
    write(folder / RESULT, json.dumps(result, indent=1) + "\n")
    return result


def _write_epochs(path: Path, history: list[Epoch]) -> None:
    write(path, "".join(json.dumps(entry) + "\n" for entry in history))


def _seconds_an_epoch(history: list[Epoch]) -> float:
    """Median, so that neither imports in the first epoch nor a pause of the machine counts."""
    ends = [0.0, *(entry["seconds"] for entry in history)]
    return float(np.median(np.diff(ends)))


def _part(job: FoldJob, inputs: Inputs, name: str) -> Part:
    split, options, is_training = job.split, job.options, name == "train"
    size = options.batch_size if is_training else evaluation_batch_size(inputs.dataset, options.batch_size)
    return Part(
        inputs,
        None if split.graphs is None else split.graphs[name],
        None if split.mask is None else (name, split.mask),
        batch_size=size,
        shuffle=is_training,
        seed=options.seed,
        memory_bytes=int(job.memory_bytes * (0.6 if is_training else 0.2)),
    )


def _objective(job: FoldJob, dataset: Artifact) -> Objective:
    if job.facts.task != "graph-regression":
        return CrossEntropy(job.class_weights)
    assert job.split.graphs is not None
    return StandardizedError.of(labels_of(dataset)[job.split.graphs["train"]])


def _write_predictions(path: Path, job: FoldJob, test: Evaluation) -> None:
    """Columns fold and graph or node; label, predicted and probabilities, or targets and predicted ones."""
    fold = pa.array(np.full(len(test.items), job.split.number, np.int32))
    with replacing(path) as partial:
        pq.write_table(prediction_table(job.facts, test).add_column(0, "fold", fold), partial)


def prediction_table(facts: DatasetFacts, evaluation: Evaluation) -> Any:
    """Return predictions as a table, one row for each graph or node."""
    item = "node" if facts.task == "node-classification" else "graph"
    columns: dict[str, Any] = {item: evaluation.items}
    if facts.task == "graph-regression":
        for column in range(facts.outputs):
            if evaluation.y is not None:
                columns[f"target_{column}"] = evaluation.y[:, column]
            columns[f"predicted_{column}"] = evaluation.predictions[:, column]
        return pa.table(columns)
    if evaluation.y is not None:
        columns["label"] = evaluation.y
    columns["predicted"] = evaluation.predictions.argmax(1)
    columns |= {f"probability_{c}": evaluation.predictions[:, c] for c in range(facts.outputs)}
    return pa.table(columns)
