"""What is minimized and how predictions are judged: cross-entropy for classes and labels, squared error for targets."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from leap.models.devices import CPU, segments, send
from leap.models.grouped import pool
from leap.pipeline.training.metrics import Metrics, classification_metrics, multilabel_metrics, regression_metrics
from leap.store.graphs.tasks import is_regression


class StackLoss(Protocol):
    """The losses of a stack's networks, each the mean over its own items and a function of them alone."""

    def __call__(self, scores: Tensor, y: Tensor, ptr: NDArray[np.int64]) -> Tensor:
        """Return (n,) losses; network i owns the items ptr[i] to ptr[i + 1]."""


class Objective(ABC):
    """The loss of scores, and predictions made from them."""

    @abstractmethod
    def loss(self, scores: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss."""

    @classmethod
    @abstractmethod
    def together(cls, objectives: Sequence[Self], device: torch.device = CPU) -> StackLoss:
        """Return the losses of networks that are trained as one stack on a device, in their order."""

    @abstractmethod
    def predict(self, scores: Tensor) -> NDArray[Any]:
        """Return probabilities (n, C), those of label 1 (n, t), or targets (n, t) in their own units."""

    @abstractmethod
    def metrics(self, predictions: NDArray[Any], y: NDArray[Any]) -> Metrics:
        """Judge predictions."""

    @abstractmethod
    def state(self) -> dict[str, list[float]]:
        """Numbers that a later prediction needs."""


class CrossEntropy(Objective):
    """Cross-entropy, optionally with a weight for each class."""

    def __init__(self, weights: Sequence[float] | None = None) -> None:
        self._weights = None if weights is None else torch.tensor(weights, dtype=torch.float32)

    def loss(self, scores: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss."""
        return functional.cross_entropy(scores, y, self._weights)

    @classmethod
    @override
    def together(cls, objectives: Sequence[Self], device: torch.device = CPU) -> StackLoss:
        given = [each._weights for each in objectives]
        classes = next((len(weights) for weights in given if weights is not None), 0)
        weights_of = [torch.ones(classes) if weights is None else weights for weights in given]
        table = send(torch.stack(weights_of), device)

        def losses(scores: Tensor, y: Tensor, ptr: NDArray[np.int64]) -> Tensor:
            values = functional.cross_entropy(scores, y, reduction="none")
            if not classes:
                return pool(values, ptr) / _counts(ptr, device)
            weights = table[segments(ptr, device)[0], y]
            return pool(values * weights, ptr) / pool(weights, ptr)

        return losses

    def predict(self, scores: Tensor) -> NDArray[Any]:
        """Return probabilities."""
        probabilities: NDArray[Any] = scores.softmax(1).numpy()
        return probabilities

    def metrics(self, predictions: NDArray[Any], y: NDArray[Any]) -> Metrics:
        """Accuracy, AUROC and average precision."""
        return classification_metrics(predictions, y)

    def state(self) -> dict[str, list[float]]:
        """Nothing."""
        return {}


class BinaryCrossEntropy(Objective):
    """Binary cross-entropy, the mean over the labels that are there; zero where none is."""

    def loss(self, scores: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss."""
        values, is_there = _binary(scores, y)
        return values.sum() / is_there.sum().clamp(min=1)

    @classmethod
    @override
    def together(cls, objectives: Sequence[Self], device: torch.device = CPU) -> StackLoss:
        def losses(scores: Tensor, y: Tensor, ptr: NDArray[np.int64]) -> Tensor:
            values, is_there = _binary(scores, y)
            ends = ptr * y.shape[1]
            return pool(values.flatten(), ends) / pool(is_there.flatten(), ends).clamp(min=1)

        return losses

    def predict(self, scores: Tensor) -> NDArray[Any]:
        """Return probabilities of label 1."""
        probabilities: NDArray[Any] = scores.double().sigmoid().numpy()  # float32 would make ties of large scores
        return probabilities

    def metrics(self, predictions: NDArray[Any], y: NDArray[Any]) -> Metrics:
        """Accuracy, AUROC and average precision."""
        return multilabel_metrics(predictions, y)

    def state(self) -> dict[str, list[float]]:
        """Nothing."""
        return {}


class StandardizedError(Objective):
    """Mean squared error on targets standardized by the training part; metrics are in the targets' own units."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self._mean = torch.tensor(mean, dtype=torch.float32)
        self._std = torch.tensor(std, dtype=torch.float32)

    @classmethod
    def of(cls, targets: NDArray[Any]) -> "StandardizedError":
        """Standardize by these targets (n, t); one that never varies keeps its scale."""
        wide = targets.astype(np.float64)
        std = wide.std(0)
        return cls(wide.mean(0).tolist(), np.where(std > 0, std, 1.0).tolist())

    def loss(self, scores: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss."""
        return functional.mse_loss(scores, (y - self._mean) / self._std)

    @classmethod
    @override
    def together(cls, objectives: Sequence[Self], device: torch.device = CPU) -> StackLoss:
        means, stds = (
            send(torch.stack([getattr(each, name) for each in objectives]), device) for name in ("_mean", "_std")
        )

        def losses(scores: Tensor, y: Tensor, ptr: NDArray[np.int64]) -> Tensor:
            owners, targets = segments(ptr, device)[0], y.shape[1]
            values = (scores - (y - means[owners]) / stds[owners]).square()
            return pool(values.flatten(), ptr * targets) / _counts(ptr * targets, device)

        return losses

    def predict(self, scores: Tensor) -> NDArray[Any]:
        """Return targets in their own units."""
        targets: NDArray[Any] = (scores * self._std + self._mean).numpy()
        return targets

    def metrics(self, predictions: NDArray[Any], y: NDArray[Any]) -> Metrics:
        """R², MAE and MSE."""
        return regression_metrics(predictions, y)

    def state(self) -> dict[str, list[float]]:
        """Mean and standard deviation of each target."""
        return {"mean": self._mean.tolist(), "std": self._std.tolist()}


def restored(task: str, state: Mapping[str, Sequence[float]]) -> Objective:
    """Return the objective of a trained network, of which `state` is kept; it predicts and judges."""
    if is_regression(task):
        return StandardizedError(**state)
    return BinaryCrossEntropy() if task == "graph-multilabel" else CrossEntropy()


def _binary(scores: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss of each label, 0 for missing ones, and which are there, as ones and zeros.

    It is the cross-entropy of the scores 0 and s, because torch's own binary one computes the last few entries of an
    array, and so their bits, otherwise than the rest.
    """
    is_there = ~y.isnan()
    pairs = torch.stack((torch.zeros_like(scores), scores), -1).flatten(0, 1)
    values = functional.cross_entropy(pairs, torch.where(is_there, y, 0.0).flatten().long(), reduction="none")
    return torch.where(is_there, values.view_as(scores), 0.0), is_there.to(scores.dtype)


def _counts(ptr: NDArray[np.int64], device: torch.device) -> Tensor:
    return send(torch.from_numpy((ptr[1:] - ptr[:-1]).astype(np.float32)), device)
