"""Metrics of predictions: accuracy, AUROC and average precision, also of several labels; R², MAE and MSE."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Metrics = dict[str, float | None]


def classification_metrics(probabilities: NDArray[Any], labels: NDArray[np.int64]) -> Metrics:
    """Accuracy, AUROC and average precision.

    With two classes the last two are those of class 1; with more, the mean over the classes that occur and do not
    fill the part, each against the rest. None where that leaves nothing to compare.

    Parameters
    ----------
    probabilities : (n, C).
    labels : (n,) codes 0…C-1.
    """
    if not len(labels):
        return {"accuracy": None, "auroc": None, "average_precision": None}
    classes = np.array([1]) if probabilities.shape[1] == 2 else np.arange(probabilities.shape[1])
    counts = np.bincount(labels, minlength=probabilities.shape[1])[classes]
    classes = classes[(counts > 0) & (counts < len(labels))]
    areas, precisions = ranked_metrics(probabilities[:, classes].T, labels == classes[:, None])
    return {
        "accuracy": float((probabilities.argmax(1) == labels).mean()),
        "auroc": float(areas.mean()) if len(classes) else None,
        "average_precision": float(precisions.mean()) if len(classes) else None,
    }


def multilabel_metrics(probabilities: NDArray[Any], labels: NDArray[Any]) -> Metrics:
    """Accuracy over all labels that are there; AUROC and average precision, each the mean over columns.

    As in OGB's evaluators, a column counts if both values occur among its labels, of which missing ones are left out.
    None where no column does, or no label is there.

    Parameters
    ----------
    probabilities : (n, t), of label 1.
    labels : (n, t), 0, 1 and NaN for a missing one.
    """
    is_there, is_true = ~np.isnan(labels), labels == 1
    positive = is_true.sum(0)
    columns = np.flatnonzero((positive > 0) & (positive < is_there.sum(0)))
    judged = []
    for column in columns:
        rows = is_there[:, column]
        judged.append(ranked_metrics(probabilities[rows, column][None], is_true[rows, column][None]))
    areas, precisions = np.array(judged).reshape(-1, 2).T
    return {
        "accuracy": float(((probabilities > 0.5) == is_true)[is_there].mean()) if is_there.any() else None,
        "auroc": float(areas.mean()) if len(columns) else None,
        "average_precision": float(precisions.mean()) if len(columns) else None,
    }


def ranked_metrics(scores: NDArray[Any], truth: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return AUROC and average precision of several rankings, each of which has true entries and false ones.

    The former is the probability that a true entry scores higher than a false one, equal scores counting half; the
    latter the precision at each distinct threshold, weighted by the recall gained there.

    Parameters
    ----------
    scores, truth : (k, n).
    """
    count, size = scores.shape
    order = np.argsort(-scores, axis=1, kind="stable")
    falling, hits = np.take_along_axis(scores, order, 1), np.take_along_axis(truth, order, 1).cumsum(1)
    # Entries with equal scores are one threshold, at the last of them; what is not a number equals nothing.
    is_end = np.ones((count, size), bool)
    is_end[:, :-1] = falling[:, 1:] != falling[:, :-1]
    rows, ends = np.nonzero(is_end)
    is_first = np.append(True, rows[1:] != rows[:-1])[: len(rows)]
    starts = np.where(is_first, 0, np.roll(ends, 1) + 1)
    hit = hits[rows, ends]
    gained = hit - np.where(is_first, 0, np.roll(hit, 1))
    positive = hits[:, -1]
    # Each true entry is above the false ones that come later, and level with those of its own threshold.
    missed = (ends + 1 - starts) - gained
    after = size - positive[rows] - (ends + 1 - hit)
    areas = np.bincount(rows, gained * (after + missed / 2), count) / (positive * (size - positive))
    precisions = np.bincount(rows, gained / positive[rows] * hit / (ends + 1), count)
    return areas, precisions


def regression_metrics(predicted: NDArray[Any], targets: NDArray[Any]) -> Metrics:
    """R², MAE and MSE, each the mean over targets; R² is None where no target varies.

    Parameters
    ----------
    predicted, targets : (n, t).
    """
    if not len(targets):
        return {"r2": None, "mae": None, "mse": None}
    error = predicted.astype(np.float64) - targets
    spread = ((targets - targets.mean(0, dtype=np.float64)) ** 2).sum(0)
    varies = spread > 0
    scores = 1 - (error**2).sum(0)[varies] / spread[varies]
    return {
        "r2": float(scores.mean()) if varies.any() else None,
        "mae": float(np.abs(error).mean()),
        "mse": float((error**2).mean()),
    }


def mean_and_std(folds: Sequence[Mapping[str, float | None]]) -> dict[str, dict[str, float | None]]:
    """Mean and standard deviation (ddof = 1) of each metric over the folds where it is defined."""
    result: dict[str, dict[str, float | None]] = {}
    for name in folds[0] if folds else ():
        values = [value for fold in folds if (value := fold.get(name)) is not None]
        result[name] = {
            "mean": float(np.mean(values)) if values else None,
            "std": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        }
    return result
