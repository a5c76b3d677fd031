"""The published evaluation protocol: five seeded folds over graphs, and random masks over nodes."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.graphs import RawGraphs, Task
from leap.store.errors import InvalidInputError
from leap.store.graphs.dataset import PARTS, Fold
from leap.store.graphs.tasks import is_graph_task
from leap.store.lazy import lazy_module

cut = lazy_module("sklearn.model_selection")

VALIDATION_SHARE = 0.25


def folds(y: NDArray[Any] | None, task: Task, num_graphs: int, seed: int = 42, n_folds: int = 5) -> list[Fold]:
    """Cut graphs into cross-validation folds as the published code does.

    Classification: scikit-learn's ``StratifiedKFold(n_folds, shuffle=True, random_state=seed)`` over the
    dataset's own order; regression and multi-label tasks: ``KFold`` likewise. Each training part then loses 25 % to
    validation by ``train_test_split(test_size=0.25, random_state=seed)``, unstratified.

    Parameters
    ----------
    y : (G,) labels or (G, t) targets or labels, empty graphs included.
    task : node-level datasets and those without a task have no folds.
    num_graphs : G.

    Returns
    -------
    list of {"train", "val", "test"}
        int64 graph numbers in scikit-learn's order (train and val shuffled, test ascending). Empty where the
        protocol cannot be followed: another task, fewer than `n_folds` graphs, no class with `n_folds`
        members, or a training part too small to be split. A class with fewer members than folds is merely
        absent from some test parts.
    """
    if not is_graph_task(task) or y is None or num_graphs < n_folds:
        return []
    stratified = task == "graph-classification"
    if stratified and np.unique(y, return_counts=True)[1].max() < n_folds:
        return []
    if num_graphs - -(-num_graphs // n_folds) < 2:
        return []

    sklearn_folds = cut.StratifiedKFold if stratified else cut.KFold
    splitter = sklearn_folds(n_folds, shuffle=True, random_state=seed)
    result: list[Fold] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "the least populated class has only …": documented above
        for rest, test in splitter.split(np.zeros(num_graphs), y if stratified else None):
            train, val = cut.train_test_split(rest, test_size=VALIDATION_SHARE, random_state=seed)
            parts = (members.astype(np.int64) for members in (train, val, test))
            result.append(dict(zip(PARTS, parts, strict=True)))
    return result


def masks_of(splits: Any, num_graphs: int) -> dict[str, NDArray[np.bool_]]:
    """Turn official splits into masks of graphs, one column per split.

    Parameters
    ----------
    splits : one split or several, each the numbers of the graphs of the three parts: (train, val, test), or a mapping
        with these names, of which "val" may be called "valid".

    Raises
    ------
    InvalidInputError
        Other parts, or numbers that no graph has.
    """
    several = _as_several(splits)
    masks = {part: np.zeros((num_graphs, len(several)), np.bool_) for part in PARTS}
    for number, split in enumerate(several):
        if not hasattr(split, "__len__"):
            raise InvalidInputError(f"a split has the parts train, val and test. Split {number} is {split!r:.60}.")
        named = dict(split) if isinstance(split, Mapping) else dict(zip(PARTS, split, strict=False))
        if "valid" in named:
            named["val"] = named.pop("valid")
        if set(named) != set(PARTS) or len(split) != len(PARTS):
            raise InvalidInputError(
                f"a split has the parts train, val and test. Split {number} has {len(split)}: {', '.join(named)}."
            )
        for part, given in named.items():
            try:
                members = np.asarray(given)
            except ValueError:  # lists of different lengths
                members = np.asarray(given, dtype=object)
            if members.ndim != 1 or (members.size and members.dtype.kind not in "iu"):
                raise InvalidInputError(
                    f"the {part} part of split {number} must be numbers of graphs. Got {members.dtype} of shape "
                    f"{members.shape}."
                )
            if members.size and not 0 <= int(members.min()) <= int(members.max()) < num_graphs:
                odd = members[(members < 0) | (members >= num_graphs)][0]
                raise InvalidInputError(
                    f"the {part} part of split {number} names graph {odd}, but the numbers are 0 to {num_graphs - 1}."
                )
            masks[part][members.astype(np.int64), number] = True
    return masks


def _as_several(splits: Any) -> list[Any]:
    """Return splits as a list, also where one is given: three parts, each of numbers."""
    if isinstance(splits, Mapping):
        return [splits]
    try:
        several = list(splits)
    except TypeError:
        raise InvalidInputError(
            f"splits are the parts (train, val, test), each the numbers of its graphs, or a list of such. Got "
            f"{splits!r:.60}."
        ) from None

    def is_part(one: Any) -> bool:
        try:
            return not isinstance(one, Mapping) and np.ndim(one) == 1
        except ValueError:
            return False

    return [several] if len(several) == len(PARTS) and any(map(is_part, several)) else several


def with_splits(raw: RawGraphs, splits: Any) -> RawGraphs:
    """Return graphs with official splits; None: as they are."""
    if splits is None:
        return raw
    if not is_graph_task(raw.task):
        raise InvalidInputError(f"splits are of graphs, and the task is {raw.task}. Give nodes masks instead.")
    return replace(raw, masks=masks_of(splits, len(raw.node_counts)))


def node_masks(y: NDArray[Any], seed: int = 42, splits: int = 10) -> dict[str, NDArray[np.bool_]]:
    """Random 50/25/25 masks for a node task that brings none.

    Each class is dealt out in random order, train, val, train, test and again, the deal running on from class
    to class: overall shares are exact up to rounding, those of a class up to one node in each part. A split
    depends only on the seed and its own number, so more splits leave the first ones as they are. Nodes with targets
    are dealt out as if they were of one class.

    Parameters
    ----------
    y : (N,) node labels, or (N, t) real targets; nodes that lack one (NaN) are in no mask.

    Returns
    -------
    dict
        "train", "val", "test" -> (N, splits) bool, disjoint and together all nodes that have labels.
    """
    if y.ndim == 2:
        has_targets = ~np.isnan(y).any(axis=1)
        of_labelled = node_masks(np.zeros(int(has_targets.sum())), seed, splits)
        masks = {part: np.zeros((len(y), splits), np.bool_) for part in PARTS}
        for part, mask in of_labelled.items():
            masks[part][has_targets] = mask
        return masks
    labels = np.unique(np.asarray(y), return_inverse=True)[1].reshape(-1)
    dealt = np.empty((len(labels), splits), dtype=np.int8)
    deal = np.resize(np.array([0, 1, 0, 2], dtype=np.int8), len(labels))
    for split in range(splits):
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, split])))
        dealt[np.lexsort((rng.random(len(labels)), labels)), split] = deal
    return {part: dealt == code for code, part in enumerate(PARTS)}
