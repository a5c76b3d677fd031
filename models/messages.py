"""Sums over neighbours as one operation: what gcn and gin do in every layer.

Small graphs pay for every torch call. On the CPU, float32 goes through a compiled loop over the edges, forward and
backward; other types and devices through torch operations.
"""

from typing import Any, NamedTuple

import numba
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from leap.models.indices import check_edge_list, lie_inside
from leap.store.errors import InvalidInputError
from leap.store.neighborhoods import check_ids


class Weights(NamedTuple):
    """How much of each node goes where: `edges` (E,) along every directed edge, `own` (N,) to the node itself."""

    edges: Tensor
    own: Tensor


def gcn_weights(edge_index: Tensor, num_nodes: int) -> Weights:
    """Return 1/√(d_a d_b) for simple graphs, where d counts neighbours and the node itself."""
    degrees = torch.bincount(edge_index[1], minlength=num_nodes) + 1
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
    counts = (len(weights.edges), len(weights.own))
    if x.ndim != 2 or counts != (edge_index.shape[-1], len(x)):
        raise InvalidInputError(
            f"x must have shape (N, d), with a weight for each edge and node. Got {tuple(x.shape)}, and {counts[0]} "
            f"and {counts[1]} weights for {edge_index.shape[-1]} edges."
        )
    if x.device.type == "cpu" and x.dtype == torch.float32:
        check_edge_list(edge_index)
        result: Tensor = _Gather.apply(x, edge_index, weights.edges, weights.own)
        return result
    messages = x[edge_index[0]] * weights.edges.to(x.dtype)[:, None]
    return (x * weights.own.to(x.dtype)[:, None]).index_add(0, edge_index[1], messages)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, edge_index: Tensor, edges: Tensor, own: Tensor) -> Tensor:
        ctx.save_for_backward(edge_index, edges, own)
        return _run(x, edge_index, 0, edges, own)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        edge_index, edges, own = ctx.saved_tensors  # torch raises if one was changed in place
        return _run(gradients[0], edge_index, 1, edges, own), None, None, None


def _run(x: Tensor, edge_index: Tensor, source: int, edges: Tensor, own: Tensor) -> Tensor:
    """`source` is the row of `edge_index` that sums come from."""
    ends, out = edge_index.numpy(), x.detach() * own[:, None]
    if not _add(ends[source], ends[1 - source], edges.numpy(), x.detach().contiguous().numpy(), out.numpy()):
        check_ids("edge_index", ends, len(x))
    return out


@numba.njit(cache=True, nogil=True)
def _add(source: Any, target: Any, weights: Any, x: Any, out: Any) -> bool:
    """Add to `out`, or return False where an edge joins other than the rows."""
    if not (lie_inside(source, len(x)) and lie_inside(target, len(x))):
        return False
    for e in range(len(source)):
        u, v, weight = source[e], target[e], weights[e]
        for i in range(x.shape[1]):
            out[v, i] += weight * x[u, i]
    return True
