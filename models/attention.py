"""Attention over neighbours as one operation: what gat does in every layer.

As in `messages`: on the CPU, float32 goes through compiled loops over the edges, forward and backward; other types and
devices through torch operations.
"""

import math
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from leap.models.indices import check_edge_list, lie_inside
from leap.models.twice import refuse_second_derivatives
from leap.store.errors import InvalidInputError
from leap.store.neighborhoods import check_ids


def attend(x: Tensor, scores: Tensor, edge_index: Tensor, slope: float = 0.2) -> Tensor:
    """Return Σ_{u→v} w(u→v) x[u] for every node v, where w is a softmax over the edges into v.

    What goes into the softmax is leaky_relu(scores[u, 0] + scores[v, 1]). Differentiable in `x` and `scores`. A node
    without incoming edges gets zeros.

    Parameters
    ----------
    x : (N, d).
    scores : (N, 2), of each node as source and as target.
    edge_index : (2, E) int64, source and target; loops, if wanted, included.
    slope : of the leaky ReLU below zero.

    Raises
    ------
    InvalidInputError
        For edges that join other than the N nodes, or scores of another shape.
    """
    if x.ndim != 2 or tuple(scores.shape) != (len(x), 2):
        raise InvalidInputError(
            f"x must have shape (N, d) and scores (N, 2). Got {tuple(x.shape)} and {tuple(scores.shape)}."
        )
    if x.device.type == "cpu" and x.dtype == torch.float32:
        check_edge_list(edge_index)
        result: Tensor = _Attend.apply(x, scores, edge_index, slope)
        return result
    source, target = edge_index
    logits = torch.nn.functional.leaky_relu(scores[source, 0] + scores[target, 1], slope)
    highest = logits.new_full((len(x),), -math.inf).scatter_reduce(0, target, logits.detach(), "amax")
    powers = (logits - highest[target]).exp()
    weights = powers / powers.new_zeros(len(x)).index_add(0, target, powers)[target]
    return torch.zeros_like(x).index_add(0, target, x[source] * weights[:, None])


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scores: Tensor, edge_index: Tensor, slope: float) -> Tensor:
        source, target = edge_index[0].numpy(), edge_index[1].numpy()
        values = x.detach().contiguous().numpy()
        out, weights = np.zeros_like(values), np.empty(len(source), np.float32)
        is_low = np.empty(len(source), np.bool_)
        if not _forward(source, target, values, scores.detach().contiguous().numpy(), slope, weights, is_low, out):
            check_ids("edge_index", edge_index.numpy(), len(values))
        ctx.save_for_backward(x, scores, edge_index)
        ctx.known = (slope, weights, is_low)
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, scores, edge_index = ctx.saved_tensors  # torch raises if one was changed in place
        check_ids("edge_index", edge_index.numpy(), len(x))
        source, target = edge_index[0].numpy(), edge_index[1].numpy()
        values = x.detach().contiguous().numpy()
        slope, weights, is_low = ctx.known
        on_values, on_scores = np.zeros_like(values), np.zeros((len(values), 2), np.float32)
        upstream = gradients[0].detach().contiguous().numpy()
        _backward(source, target, values, slope, weights, is_low, upstream, on_values, on_scores)
        found: tuple[Tensor | None, ...] = (torch.from_numpy(on_values), torch.from_numpy(on_scores))
        if torch.is_grad_enabled():
            found = refuse_second_derivatives("attend", found, (gradients[0], x, scores))
        return *found, None, None


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _forward(source: Any, target: Any, x: Any, scores: Any, slope: float, weights: Any, is_low: Any, out: Any) -> bool:
    """Fill the weight of every edge, whether it lies on the flat side of the leaky ReLU, and the weighted sums.

    Returns False where an edge joins other than the rows.
    """
    if not (lie_inside(source, len(x)) and lie_inside(target, len(x))):
        return False
    highest, total = np.full(len(x), -np.inf, np.float32), np.zeros(len(x))
    for e in range(len(source)):
        logit = scores[source[e], 0] + scores[target[e], 1]
        is_low[e] = not logit > 0.0
        weights[e] = np.float32(slope) * logit if is_low[e] else logit
        highest[target[e]] = max(highest[target[e]], weights[e])
    for e in range(len(source)):
        weights[e] = np.exp(weights[e] - highest[target[e]])
        total[target[e]] += weights[e]
    for e in range(len(source)):
        u, v = source[e], target[e]
        weights[e] /= total[v]
        for i in range(x.shape[1]):
            out[v, i] += weights[e] * x[u, i]
    return True


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _backward(
    source: Any,
    target: Any,
    x: Any,
    slope: float,
    weights: Any,
    is_low: Any,
    upstream: Any,
    on_x: Any,
    on_scores: Any,
) -> None:
    """Add the gradients of x and scores."""
    wanted, mean = np.empty(len(source)), np.zeros(len(x))
    for e in range(len(source)):
        u, v, along = source[e], target[e], 0.0
        for i in range(x.shape[1]):
            along += upstream[v, i] * x[u, i]
            on_x[u, i] += weights[e] * upstream[v, i]
        wanted[e] = along
        mean[v] += weights[e] * along
    for e in range(len(source)):
        u, v = source[e], target[e]
        change = weights[e] * (wanted[e] - mean[v]) * (slope if is_low[e] else 1.0)
        on_scores[u, 0] += change
        on_scores[v, 1] += change
