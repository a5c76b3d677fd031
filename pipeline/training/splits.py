"""The parts of each fold: graph numbers for graph tasks, the number of a mask for node tasks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.folds import folds
from leap.pipeline.training.options import PUBLISHED_FOLDS, PUBLISHED_SPLIT_SEED, TrainOptions
from leap.pipeline.wording import plural
from leap.store import Artifact
from leap.store.errors import InvalidInputError
from leap.store.graphs import StoredGraphs
from leap.store.graphs.dataset import PARTS, Fold


@dataclass(frozen=True)
class Split:
    """One fold.

    Attributes
    ----------
    graphs : "train", "val" and "test" -> graph numbers; None for node tasks.
    mask : for node tasks, the column of the dataset's masks.
    """

    number: int
    graphs: Fold | None = None
    mask: int | None = None


def make_splits(dataset: Artifact, options: TrainOptions) -> list[Split]:
    """Return the folds: the published ones where folds and split seed are those, else cut in the same way.

    Raises
    ------
    InvalidInputError
        If the dataset is too small to be cut.
    """
    stored = StoredGraphs.of(dataset)
    if stored.is_node_task:
        return [Split(number, mask=number) for number in range(min(options.folds, stored.num_masks))]
    if (options.folds, options.split_seed) == (PUBLISHED_FOLDS, PUBLISHED_SPLIT_SEED):
        found: list[Fold] = stored.folds()
    else:
        found = folds(stored.labels(), stored.task, stored.num_graphs, options.split_seed, options.folds)
    if not found:
        classes = stored.classes or ()
        counts = np.bincount(labels_of(dataset)) if classes else np.array([stored.num_graphs])
        most, least = int(counts.max()), int(counts.min())
        if most < options.folds <= stored.num_graphs:
            fewer = f"Use at most {most} --folds, a" if most > 1 else "Use a"
            raise InvalidInputError(
                f"no class of {dataset.manifest.dataset!r} has more than {plural(most, 'graph')} (the smallest has "
                f"{least:,}), fewer than the {options.folds} folds. {fewer} label with fewer classes (it has "
                f"{len(classes):,}), or more graphs."
            )
        raise InvalidInputError(
            f"{dataset.manifest.dataset!r} has {stored.num_graphs:,} graphs, too few for {options.folds} folds with a "
            "validation part each. Use fewer --folds or more graphs."
        )
    return [Split(number, graphs=parts) for number, parts in enumerate(found)]


def part_sizes(dataset: Artifact, split: Split) -> dict[str, int]:
    """Return how many graphs or nodes each part of a fold has."""
    if split.graphs is not None:
        return {part: len(split.graphs[part]) for part in PARTS}
    masks = StoredGraphs.of(dataset).masks() or {}
    return {part: int(mask[:, split.mask].sum()) for part, mask in masks.items()}


def labels_of(dataset: Artifact) -> NDArray[Any]:
    """Labels or targets of all graphs or, for node tasks, nodes of a dataset that has some."""
    labels = StoredGraphs.of(dataset).labels()
    assert labels is not None
    return labels


def class_frequencies(dataset: Artifact) -> list[float]:
    """Share of each class in the whole dataset."""
    counts = np.bincount(labels_of(dataset), minlength=len(dataset.manifest.summary["classes"]))
    return [float(share) for share in counts / counts.sum()]
