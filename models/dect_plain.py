"""The plain torch path of `dect`: any device and precision, autograd's own gradients, memory bounded by chunks."""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from leap.models.ect import EPSILON
from leap.store import Neighborhoods

CHUNK_CELLS = 2**24  # sigmoids evaluated at once


def plain_dect(
    x: Tensor,
    neighborhoods: Neighborhoods,
    directions: Tensor,
    thresholds: Tensor,
    scale: float,
    stats: tuple[Tensor, Tensor] | None,
    edge_weight: float,
) -> Tensor:
    """Evaluate `dect` with vectorized torch operations; see there."""
    hoods = neighborhoods.torch().to(x.device)
    node_ptr, edge_ptr, nodes, edges = hoods.node_ptr, hoods.edge_ptr, hoods.nodes.long(), hoods.edges.long()
    owner = torch.repeat_interleave(torch.arange(len(hoods), device=x.device), node_ptr.diff())
    edge_owner = torch.repeat_interleave(torch.arange(len(hoods), device=x.device), edge_ptr.diff())
    # Centring keeps float32 differences exact for features far from zero; the transform does not notice it. By the
    # median: what is huge or not finite must not be felt outside its neighbourhoods.
    shift = x.detach().nanmedian(0).values.nan_to_num(0.0, 0.0, 0.0) if x.numel() else x.new_zeros(x.shape[1])
    centred = x - shift
    heights = centred @ directions
    if stats is None:
        mean, extent = _statistics(centred, x, owner, nodes, node_ptr)
    else:
        mean, extent = stats[0].to(x) - shift, stats[1].to(x)
    offsets = mean @ directions
    inverse = torch.where(extent <= 0, torch.zeros_like(extent), 1 / (extent + EPSILON))
    tops = torch.maximum(heights[edges[0]], heights[edges[1]])
    node_heights = (heights[nodes] - offsets[owner]) * inverse[owner, None]
    edge_heights = (tops - offsets[edge_owner]) * inverse[edge_owner, None]
    pieces = []
    for lo, hi in _chunks(node_ptr, edge_ptr, directions.shape[1] * len(thresholds)):
        n, e = slice(int(node_ptr[lo]), int(node_ptr[hi])), slice(int(edge_ptr[lo]), int(edge_ptr[hi]))
        arguments = (
            (node_heights[n], owner[n] - lo),
            (edge_heights[e], edge_owner[e] - lo),
            hi - lo,
            thresholds,
            scale,
            edge_weight,
        )
        is_whole = hi - lo == len(hoods)
        pieces.append(_curves(*arguments) if is_whole else checkpoint(_curves, *arguments, use_reentrant=False))
    if not pieces:
        return heights.new_zeros(0, directions.shape[1], len(thresholds))
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


def _statistics(centred: Tensor, x: Tensor, owner: Tensor, nodes: Tensor, node_ptr: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and largest distance from it, differentiable; rounding errors of a constant neighbourhood count as none."""
    count = len(node_ptr) - 1
    sizes = node_ptr.diff().to(x)
    mean = centred.new_zeros(count, centred.shape[1]).index_add(0, owner, centred[nodes]) / sizes[:, None]
    squares = (centred[nodes] - mean[owner]).square().sum(1)
    largest = squares.new_zeros(count).scatter_reduce(0, owner, squares, "amax", include_self=False)
    entries = x.detach().abs().amax(1)[nodes] if x.shape[1] else squares.detach()
    bound = entries.new_zeros(count).scatter_reduce(0, owner, entries, "amax") * torch.finfo(torch.float32).eps
    is_constant = largest.detach().sqrt() <= bound
    # The square root has no gradient at zero; constant neighbourhoods get none.
    extent = torch.where(is_constant, torch.ones_like(largest), largest).sqrt()
    return mean, torch.where(is_constant, torch.zeros_like(extent), extent)


def _chunks(node_ptr: Tensor, edge_ptr: Tensor, cells: int) -> list[tuple[int, int]]:
    """Cut the neighbourhoods into runs of at most CHUNK_CELLS sigmoids, one neighbourhood at least."""
    total = ((node_ptr + edge_ptr) * cells).tolist()
    count = len(total) - 1
    if count and total[-1] <= CHUNK_CELLS:
        return [(0, count)]
    runs, lo = [], 0
    for hi in range(1, count + 1):
        if hi == count or total[hi + 1] - total[lo] > CHUNK_CELLS:
            runs.append((lo, hi))
            lo = hi
    return runs


def _curves(
    nodes: tuple[Tensor, Tensor],
    edges: tuple[Tensor, Tensor],
    count: int,
    thresholds: Tensor,
    scale: float,
    edge_weight: float,
) -> Tensor:
    out = nodes[0].new_zeros(count, nodes[0].shape[1], len(thresholds))
    out = out.index_add(0, nodes[1], torch.sigmoid(scale * (thresholds - nodes[0][:, :, None])))
    return out.index_add(0, edges[1], torch.sigmoid(scale * (thresholds - edges[0][:, :, None])), alpha=-edge_weight)
