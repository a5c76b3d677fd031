"""Scores of whole parts, and what they are worth."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from leap.pipeline.training.data import United
from leap.pipeline.training.metrics import Metrics
from leap.pipeline.training.objective import Objective


@dataclass(frozen=True)
class Evaluation:
    """Predictions of a part.

    Attributes
    ----------
    items : (n,) numbers of the graphs or nodes.
    y : their labels or targets; None where there are none.
    predictions : (n, C) probabilities or (n, t) targets.
    loss, metrics : None and empty without labels.
    """

    items: NDArray[np.int64]
    y: NDArray[Any] | None
    predictions: NDArray[Any]
    loss: float | None
    metrics: Metrics


@dataclass(frozen=True)
class Scored:
    """What a network said about a part."""

    items: NDArray[np.int64]
    scores: Tensor
    y: Tensor | None

    @torch.inference_mode()
    def judged(self, objective: Objective) -> Evaluation:
        """Return predictions, with loss and metrics; the loss is that of the whole part at once."""
        found = self.predicted(objective)
        if self.y is None or found.y is None:
            return found
        metrics = objective.metrics(found.predictions, found.y)
        return Evaluation(found.items, found.y, found.predictions, float(objective.loss(self.scores, self.y)), metrics)

    @torch.inference_mode()
    def predicted(self, objective: Objective) -> Evaluation:
        """Return predictions alone: labels may be numbered otherwise than the network's."""
        y = None if self.y is None else self.y.numpy()
        return Evaluation(self.items, y, objective.predict(self.scores), None, {})


@torch.inference_mode()
def score(network: nn.Module, batches: Iterable[United], slots: Sequence[int], outputs: int) -> list[Scored]:
    """Run networks over their parts, without dropout or random signs.

    Parameters
    ----------
    network : a stack, or a single network.
    slots : where the network of each part stands in the stack.
    outputs : columns of the scores.
    """
    network.eval()
    places = np.asarray(slots, np.int64)
    computed: list[Tensor] = []
    labels: list[Tensor] = []
    found: list[list[tuple[NDArray[np.int64], int, int]]] = [[] for _ in slots]
    before = 0
    for batch, parts in batches:
        computed.append(batch.scores(network, places[parts]))
        labels += [] if batch.y is None else [batch.y]
        for number, low, high in zip(parts.tolist(), batch.ptr[:-1].tolist(), batch.ptr[1:].tolist(), strict=True):
            found[number].append((batch.items[low:high], before + low, before + high))
        before += len(computed[-1])
    # Only here the host waits for the device.
    scores = torch.cat(computed).cpu() if computed else torch.zeros(0, outputs)
    y = torch.cat(labels).cpu() if labels else None
    return [_joined(pieces, scores, y) for pieces in found]


def _joined(pieces: list[tuple[NDArray[np.int64], int, int]], scores: Tensor, y: Tensor | None) -> Scored:
    if not pieces:
        return Scored(np.zeros(0, np.int64), scores[:0], None)
    # Copies: what is computed of them must not depend on where they lay in a batch of many networks.
    own = torch.cat([scores[low:high] for _, low, high in pieces])
    labels = None if y is None else torch.cat([y[low:high] for _, low, high in pieces])
    return Scored(np.concatenate([items for items, _, _ in pieces]), own, labels)
