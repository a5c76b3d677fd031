"""Metrics of predictions: accuracy, AUROC and average precision; R², MAE and MSE."""

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
    classes = [1] if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    pairs = [(probabilities[:, c], labels == c) for c in classes]
    pairs = [(scores, truth) for scores, truth in pairs if truth.any() and not truth.all()]
    return {
        "accuracy": float((probabilities.argmax(1) == labels).mean()),
        "auroc": float(np.mean([auroc(*pair) for pair in pairs])) if pairs else None,
        "average_precision": float(np.mean([average_precision(*pair) for pair in pairs])) if pairs else None,
    }


def auroc(scores: NDArray[Any], truth: NDArray[np.bool_]) -> float:
    """Probability that a true entry scores higher than a false one; equal scores count half."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    positive = int(truth.sum())
    above = float(ranks[truth].sum()) - positive * (positive + 1) / 2
    return above / (positive * (len(truth) - positive))


def average_precision(scores: NDArray[Any], truth: NDArray[np.bool_]) -> float:
    """Precision at each distinct threshold, weighted by the recall gained there."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(truth[order])
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    gained = np.diff(hits[ends], prepend=0) / hits[-1]
    return float((gained * hits[ends] / (ends + 1)).sum())


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
