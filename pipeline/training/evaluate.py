"""Scores of a whole part, and what they are worth."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from leap.models.network import Network
from leap.pipeline.training.data import Batch
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


@torch.inference_mode()
def evaluate(network: Network, batches: Iterable[Batch], objective: Objective, *, judged: bool = True) -> Evaluation:
    """Run the network over a part, without dropout or random signs; the loss is that of the whole part at once.

    `judged` false leaves loss and metrics out: labels may be numbered otherwise than the network's.
    """
    network.eval()
    scores, labels, items = [], [], []
    for batch in batches:
        out = network(batch.x, batch.nodes)
        scores.append(out if batch.rows is None else out[batch.rows])
        items.append(batch.items)
        if batch.y is not None:
            labels.append(batch.y)
    if not scores:
        nothing = np.zeros((0, network.facts.outputs), np.float32)
        return Evaluation(np.zeros(0, np.int64), None, nothing, None, {})
    joined = torch.cat(scores)
    predictions = objective.predict(joined)
    if not labels:
        return Evaluation(np.concatenate(items), None, predictions, None, {})
    y = torch.cat(labels)
    if not judged:
        return Evaluation(np.concatenate(items), y.numpy(), predictions, None, {})
    metrics = objective.metrics(predictions, y.numpy())
    return Evaluation(np.concatenate(items), y.numpy(), predictions, float(objective.loss(joined, y)), metrics)
