"""Sums over neighbours and attention to them, each as one operation: what gcn, gin, gine and gat do in every layer.

Small graphs pay for every torch call. On the CPU, float32 goes through a compiled loop over the edges, forward and
backward; other types and devices through torch operations.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leap.models.fused import Lines, fused_attend, fused_gather, fused_messages, fused_sums
from leap.models.kernels.message_loops import sort_by
from leap.store.errors import InvalidInputError
from leap.store.graphs.neighborhoods import check_ids

MANY = 2**16
"""Edges from which on sorting them pays."""


class Weights(NamedTuple):
    """How much of each node goes where: `edges` (E,) along every directed edge, `own` (N,) to the node itself."""

    edges: Tensor
    own: Tensor


def gcn_weights(edge_index: Tensor, num_nodes: int) -> Weights:
    """Return 1/√(d_a d_b) for simple graphs, where d counts neighbours and the node itself."""
    target = edge_index[1]
    degrees = target.new_ones(num_nodes).index_add(0, target, torch.ones_like(target))
    roots = degrees.to(torch.get_default_dtype()).rsqrt()
    return Weights(roots[edge_index[0]] * roots[edge_index[1]], roots.square())


def sum_weights(edge_index: Tensor, num_nodes: int) -> Weights:
    """Return ones: the plain sum over neighbours and the node itself."""
    ones = torch.ones(edge_index.shape[1] + num_nodes, device=edge_index.device)
    return Weights(ones[num_nodes:], ones[:num_nodes])


def gather(x: Tensor, edge_index: Tensor, weights: Weights) -> Tensor:
    """Return own[v] · x[v] + Σ_{u→v} edges[u→v] · x[u] for every node v; differentiable in `x`.

    Parameters
    ----------
    x : (N, d).
    edge_index : (2, E) int64, source and target.

    Raises
    ------
    InvalidInputError
        For edges that join other than the N nodes, or another number of weights.
    """
    check_sums(x, edge_index, weights)
    if x.device.type == "cpu" and x.dtype == torch.float32 and not torch.compiler.is_compiling():
        return fused_gather(x, edge_index, *(part.to(x.dtype) for part in weights))
    messages = x[edge_index[0]] * weights.edges.to(x.dtype)[:, None]
    return (x * weights.own.to(x.dtype)[:, None]).index_add(0, edge_index[1], messages)


def sum_messages(x: Tensor, edge_index: Tensor, along: Tensor) -> Tensor:
    """Return x[v] + Σ_{e: u→v} relu(x[u] + along[e]) for every node v; differentiable in `x` and `along`.

    Parameters
    ----------
    x : (N, d).
    edge_index : (2, E) int64, source and target.
    along : (E, d), what is known of each edge.

    Raises
    ------
    InvalidInputError
        For edges that join other than the N nodes, or shapes that do not fit.
    """
    check_edge_list(edge_index)
    if x.ndim != 2 or tuple(along.shape) != (edge_index.shape[1], x.shape[1]):
        raise InvalidInputError(
            f"x must have shape (N, d) and what stands along {edge_index.shape[1]} edges shape (E, d). Got "
            f"{tuple(x.shape)} and {tuple(along.shape)}."
        )
    is_plain = torch.compiler.is_compiling() or along.device != x.device or along.dtype != x.dtype
    if x.device.type == "cpu" and x.dtype == torch.float32 and not is_plain:
        return fused_messages(x, edge_index, along)
    messages = (x[edge_index[0]] + along.to(x.dtype)).relu()
    return x.index_add(0, edge_index[1], messages)


class Sums:
    """`gather` along the edges of one graph again and again: in its order of additions, in half the time.

    Parameters
    ----------
    edge_index, weights : as for `gather`, for N nodes.

    Raises
    ------
    InvalidInputError
        As for `gather`.
    """

    def __init__(self, edge_index: Tensor, weights: Weights) -> None:
        count = len(weights.own)
        check_sums(weights.own[:, None], edge_index, weights)
        ends, along = edge_index.cpu().numpy(), weights.edges.float().cpu().numpy()
        check_ids("edge_index", ends, count)
        self._own: NDArray[np.float32] = weights.own.float().cpu().numpy()
        self._into, self._out_of = _lines(ends[1], ends[0], along, count), _lines(ends[0], ends[1], along, count)

    def __call__(self, x: Tensor) -> Tensor:
        """Return own[v] · x[v] + Σ_{u→v} edges[u→v] · x[u] for x (N, d) float32 on the CPU."""
        if x.ndim != 2 or len(x) != len(self._own):
            raise InvalidInputError(f"x must have shape ({len(self._own)}, d). Got {tuple(x.shape)}.")
        return fused_sums(x, self._into, self._out_of, self._own)


def _lines(ends: NDArray[np.int64], others: NDArray[np.int64], weights: NDArray[np.float32], count: int) -> Lines:
    ptr, order = sort_by(ends, count)
    return ptr, others[order].astype(np.int32), weights[order]


def check_sums(x: Tensor, edge_index: Tensor, weights: Weights) -> None:
    """Refuse features, edges and weights of other shapes; whether edges join the nodes, the kernels find out."""
    counts = (*weights.edges.shape, *weights.own.shape)
    if x.ndim != 2 or counts != (edge_index.shape[-1], x.shape[0]):
        raise InvalidInputError(
            f"x must have shape (N, d), with a weight for each edge and node. Got {tuple(x.shape)}, and {counts[0]} "
            f"and {counts[1]} weights for {edge_index.shape[-1]} edges."
        )
    check_edge_list(edge_index)


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
    if x.device.type == "cpu" and x.dtype == torch.float32 and not torch.compiler.is_compiling():
        check_edge_list(edge_index)
        return fused_attend(x, scores.to(x.dtype), edge_index, slope)
    source, target = edge_index
    logits = torch.nn.functional.leaky_relu(scores[source, 0] + scores[target, 1], slope)
    highest = logits.new_full((len(x),), -math.inf).scatter_reduce(0, target, logits.detach(), "amax")
    powers = (logits - highest[target]).exp()
    weights = powers / powers.new_zeros(len(x)).index_add(0, target, powers)[target]
    return torch.zeros_like(x).index_add(0, target, x[source] * weights[:, None])


def check_edge_list(edge_index: Tensor) -> None:
    """Refuse a tensor that is no (2, E) list of integers; whether they are rows, the kernels find out."""
    kind = edge_index.dtype
    is_number = not (kind.is_floating_point or kind.is_complex or kind == torch.bool)
    if edge_index.ndim != 2 or len(edge_index) != 2 or not is_number:
        raise InvalidInputError(
            f"edge_index must hold integers of shape (2, E). Got {edge_index.dtype} of shape {tuple(edge_index.shape)}."
        )
