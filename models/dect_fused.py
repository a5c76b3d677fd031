"""The fused CPU path of `dect`: one autograd node around the numba kernels."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leap.models.ect import inverse_scales, kernels_for
from leap.models.normalization import normalize, spread_means, spread_scales
from leap.models.threads import cut, share
from leap.models.twice import refuse_second_derivatives

# Sigmoids below which one thread is faster: torch's own threads keep spinning for a while after whatever torch did
# before, and a second thread of ours would share a core with them.
SERIAL_WORK = 1_000_000

Index = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


def fused_dect(
    x: Tensor,
    index: Index,
    directions: Tensor,
    thresholds: Tensor,
    scale: float,
    stats: tuple[Tensor, Tensor] | None,
    edge_weight: float,
) -> Tensor:
    """Evaluate `dect` for float32 on the CPU; `index` comes from `index_arrays`, thresholds ascend and are finite."""
    mean, width = (None, None) if stats is None else stats
    result: Tensor = _Fused.apply(x, directions, thresholds, index, scale, mean, width, edge_weight)
    return result


class _Fused(torch.autograd.Function):
    """Forward and backward through the kernels; heights are projected in float64, so that nothing cancels.

    Products are torch's, which keeps to its number of threads: numpy's would wake threads of their own at every step.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        directions: Tensor,
        thresholds: Tensor,
        index: Index,
        s: float,
        mean: Tensor | None,
        width: Tensor | None,
        edge_weight: float,
    ) -> Tensor:
        """Return the transform (N, D, T)."""
        features, basis = x.detach().double().contiguous(), directions.detach().double()
        index = _copied(index)
        grid = thresholds.detach().numpy().astype(np.float64)
        heights = (features @ basis).numpy()
        nodes, count = heights.shape
        farthest = np.zeros(nodes, np.int64)
        centre: Tensor | None = None
        if mean is None or width is None:
            offsets, extent = np.empty((nodes, count)), np.empty(nodes)
            normalize(features.numpy(), index[0], index[1], heights, offsets, extent, farthest)
        else:
            centre = mean.double()
            offsets, extent = (centre @ basis).numpy(), width.double().numpy()
        inverse = inverse_scales(extent)
        out = np.empty((nodes, count, len(grid)), np.float32)
        threads = _threads(index, count)
        kernels = kernels_for(grid, s)

        def run(begin: int, end: int) -> None:
            kernels.forward(begin, end, *index, heights, offsets, inverse, grid, s, edge_weight, out)

        share(run, nodes, threads, blocks_a_thread=4)
        ctx.save_for_backward(x, directions, thresholds)
        ctx.kernels = kernels
        ctx.saved = (features, basis, grid, index, heights, offsets, extent, inverse, farthest, centre)
        ctx.scalars = (s, edge_weight, threads)
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Return the gradients of features, directions and thresholds."""
        found: tuple[Tensor | None, ...] = _gradients(ctx, gradients[0].detach())
        if torch.is_grad_enabled():
            found = refuse_second_derivatives("dect", found, (gradients[0], *ctx.saved_tensors))
        return *found, None, None, None, None, None


def _copied(index: Index) -> Index:
    """Return arrays of our own: a gradient belongs to what was seen, whatever the caller does with theirs meanwhile."""
    node_ptr, nodes, edge_ptr, tails, heads = index
    return node_ptr.copy(), nodes.copy(), edge_ptr.copy(), tails.copy(), heads.copy()


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    features, basis, grid, index, heights, offsets, extent, inverse, farthest, centre = ctx.saved
    s, edge_weight, threads = ctx.scalars
    upstream = gradient.contiguous().numpy()
    nodes, count = heights.shape
    needs_x, needs_directions, needs_thresholds = ctx.needs_input_grad[:3]

    # Made here and not in the threads, whose memory goes back to the system each time and has to be mapped anew.
    blocks = cut(count, threads)
    made = [
        (
            np.zeros((nodes, b - a)),
            np.zeros((nodes, b - a)),
            np.zeros(nodes),
            np.zeros(len(grid) * needs_thresholds),
        )
        for a, b in blocks
    ]

    def run(begin: int, end: int) -> None:
        for block, own in zip(blocks[begin:end], made[begin:end], strict=True):
            known = (heights, offsets, inverse, grid, s, edge_weight, upstream)
            ctx.kernels.backward(*block, *index, *known, *own)

    share(run, len(blocks), threads)
    on_heights, on_offsets = made[0][:2] if len(made) == 1 else (np.hstack([own[i] for own in made]) for i in (0, 1))
    node_ptr, members = index[0], index[1]
    on_x = on_directions = on_thresholds = None
    if needs_thresholds:
        on_thresholds = torch.from_numpy(np.sum([own[3] for own in made], axis=0).astype(np.float32))
    if centre is None:
        spread_means(node_ptr, members, on_offsets, on_heights)
    if needs_x:
        total = torch.from_numpy(on_heights) @ basis.T
        if centre is None:
            on_scale = -(inverse**2) * np.sum([own[2] for own in made], axis=0)
            spread_scales(features.numpy(), node_ptr, members, extent, farthest, on_scale, total.numpy())
        on_x = total.float()
    if needs_directions:
        product = features.T @ torch.from_numpy(on_heights)
        if centre is not None:
            product += centre.T @ torch.from_numpy(on_offsets)
        on_directions = product.float()
    return on_x, on_directions, on_thresholds


def _threads(index: Index, count: int) -> int:
    work = (len(index[1]) + len(index[3])) * count
    return 1 if work < SERIAL_WORK else torch.get_num_threads()
