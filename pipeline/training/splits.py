"""The parts of each fold: graph numbers for graph tasks, the number of a mask for node tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.folds import folds
from leap.pipeline.training.options import PUBLISHED_FOLDS, PUBLISHED_SPLIT_SEED, TrainOptions
from leap.pipeline.wording import plural
from leap.store import Artifact
from leap.store.errors import InvalidInputError
from leap.store.graphs import StoredGraphs
from leap.store.graphs.dataset import PARTS, Fold
from leap.store.graphs.tasks import NO_LABEL

SplitOrigin = Literal["official", "generated", "cross-validation"]
COLUMNS_SHOWN = 10


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
    """Return what is trained on and tested.

    These are the first of the dataset's own splits: of official ones, or of masks. A graph task without official
    splits, or with `cross_validation`, is cut into folds: the published ones where folds and split seed are those, else
    cut in the same way.

    Raises
    ------
    InvalidInputError
        If the dataset is too small to be cut.
    """
    stored = StoredGraphs.of(dataset)
    origin = splits_of(dataset, options)
    if stored.is_node_task:
        return [Split(number, mask=number) for number in range(min(options.folds, stored.num_masks))]
    if origin == "official":
        return [Split(number, graphs=parts) for number, parts in enumerate(stored.folds()[: options.folds])]
    has_published = not stored.has_official_splits
    if has_published and (options.folds, options.split_seed) == (PUBLISHED_FOLDS, PUBLISHED_SPLIT_SEED):
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


def splits_of(dataset: Artifact, options: TrainOptions) -> SplitOrigin:
    """Say where the splits of a run come from."""
    stored = StoredGraphs.of(dataset)
    if stored.is_node_task:
        return "official" if stored.has_official_splits else "generated"
    return "official" if stored.has_official_splits and not options.cross_validation else "cross-validation"


def split_count(dataset: Artifact, options: TrainOptions) -> int:
    """Return how many splits a run has, without cutting any."""
    stored = StoredGraphs.of(dataset)
    if splits_of(dataset, options) == "cross-validation":
        return options.folds
    own = stored.num_masks if stored.is_node_task else dataset.manifest.summary["official_splits"]
    return min(options.folds, int(own))


def check_labels(dataset: Artifact, splits: Sequence[Split]) -> list[str]:
    """Return remarks on labels that some training parts lack; these are nothing to learn from.

    Raises
    ------
    InvalidInputError
        If a part of a split has no label at all.
    """
    stored = StoredGraphs.of(dataset)
    if stored.task != "graph-multilabel":
        return []
    is_there, name = ~np.isnan(labels_of(dataset)), dataset.manifest.dataset
    lacking: set[int] = set()
    found = 0
    for split in splits:
        for part in PARTS:
            if not is_there[members(dataset, split, part)].any():
                instead = "fewer --folds" if stored.has_official_splits else "another --split-seed or fewer --folds"
                raise InvalidInputError(
                    f"the {part} part of split {split.number} of {name!r} has no label at all. Use {instead}, or "
                    "graphs with labels."
                )
        absent = np.flatnonzero(~is_there[members(dataset, split, "train")].any(axis=0)).tolist()
        lacking.update(absent)
        found += bool(absent)
    if not lacking:
        return []
    shown = ", ".join(map(str, sorted(lacking)[:COLUMNS_SHOWN])) + (" …" if len(lacking) > COLUMNS_SHOWN else "")
    return [
        f"{name}: in {found} of {plural(len(splits), 'split')} the training part has no label of "
        f"{plural(len(lacking), 'column')}, counted from 0: {shown}. Nothing is learned for them there."
    ]


def members(dataset: Artifact, split: Split, part: str) -> NDArray[np.int64]:
    """Return the numbers of the graphs or nodes of a part."""
    if split.graphs is not None:
        return split.graphs[part]
    masks = StoredGraphs.of(dataset).masks() or {}
    return np.flatnonzero(masks[part][:, split.mask])


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
    """Share of each class in the whole dataset, nodes without a label left out."""
    codes = labels_of(dataset)
    counts = np.bincount(codes[codes != NO_LABEL], minlength=len(dataset.manifest.summary["classes"]))
    return [float(share) for share in counts / counts.sum()]
