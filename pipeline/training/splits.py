"""The parts of each fold: graph numbers for graph tasks, the number of a mask for node tasks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.folds import folds
from leap.pipeline.training.options import PUBLISHED_FOLDS, PUBLISHED_SPLIT_SEED, TrainOptions
from leap.pipeline.training.requirements import target_columns
from leap.store import Artifact
from leap.store.errors import InvalidInputError

PARTS = ("train", "val", "test")


@dataclass(frozen=True)
class Split:
    """One fold.

    Attributes
    ----------
    graphs : "train", "val" and "test" -> graph numbers; None for node tasks.
    mask : for node tasks, the column of the dataset's masks.
    """

    number: int
    graphs: dict[str, NDArray[np.int64]] | None = None
    mask: int | None = None


def make_splits(dataset: Artifact, options: TrainOptions) -> list[Split]:
    """Return the folds: the published ones where folds and split seed are those, else cut in the same way.

    Raises
    ------
    InvalidInputError
        If the dataset is too small to be cut.
    """
    summary = dataset.manifest.summary
    if summary["task"] == "node-classification":
        columns = dataset.read(0, ["train_mask"])["train_mask"].shape[1]
        return [Split(number, mask=number) for number in range(min(options.folds, columns))]
    is_published = (options.folds, options.split_seed) == (PUBLISHED_FOLDS, PUBLISHED_SPLIT_SEED)
    found = _stored(dataset) if is_published else _cut(dataset, options)
    if not found:
        raise InvalidInputError(
            f"{dataset.manifest.dataset!r} has {summary['graphs']:,} graphs, too few for {options.folds} folds with a "
            "validation part each. Use fewer --folds or more graphs."
        )
    return found


def _stored(dataset: Artifact) -> list[Split]:
    table = dataset.table("folds")
    graph, fold = table["graph"].to_numpy(), table["fold"].to_numpy()
    part = table["part"].combine_chunks()
    names, codes = part.dictionary.to_pylist(), part.indices.to_numpy()
    return [
        Split(int(number), {name: graph[(fold == number) & (codes == names.index(name))] for name in PARTS})
        for number in np.unique(fold)
    ]


def _cut(dataset: Artifact, options: TrainOptions) -> list[Split]:
    summary = dataset.manifest.summary
    labels = graph_labels(dataset)
    cut = folds(labels, summary["task"], summary["graphs"], options.split_seed, options.folds)
    return [Split(number, dict(zip(PARTS, parts, strict=True))) for number, parts in enumerate(cut)]


def graph_labels(dataset: Artifact) -> NDArray[Any]:
    """Labels (G,) or targets (G, t) of all graphs."""
    table = dataset.table("graphs")
    if "label" in table.column_names:
        labels: NDArray[Any] = table["label"].to_numpy()
        return labels
    return np.stack([table[name].to_numpy() for name in target_columns(dataset)], axis=1)


def class_frequencies(dataset: Artifact) -> list[float]:
    """Share of each class in the whole dataset."""
    is_node_task = dataset.manifest.summary["task"] == "node-classification"
    labels = dataset.load("y") if is_node_task else graph_labels(dataset)
    counts = np.bincount(labels, minlength=len(dataset.manifest.summary["classes"]))
    return [float(share) for share in counts / counts.sum()]
