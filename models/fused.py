"""What runs through compiled kernels on the CPU in float32, as one autograd node each: `dect`, `gather` and others.

Second derivatives are refused. Torch's `once_differentiable` does so only where the incoming gradient itself is
differentiated; after `out.sum()` that gradient is a constant, and the second derivative would be taken for zero.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leap.models.addresses import check_compiled
from leap.models.kernels.channel_loops import add_outer_products, add_products
from leap.models.kernels.compiling import read_only
from leap.models.kernels.message_loops import (
    add_messages,
    add_messages_backward,
    attend_backward,
    attend_forward,
    sum_along_edges,
    sum_along_rows,
)
from leap.models.kernels.normalization import inverse_scale, normalize, spread_means, spread_scales
from leap.models.kernels.threads import cut, share
from leap.models.kernels.transforms import kernels_for
from leap.models.rows import Rows
from leap.store.errors import InvalidInputError
from leap.store.graphs.neighborhoods import check_ids

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
    edge_weight: float | Tensor,
    rows: Rows | None = None,
) -> Tensor:
    """Evaluate `dect` for float32 on the CPU; `index` comes from `index_arrays`, thresholds ascend and are finite.

    Weights of single edges (K,) count as constants.
    """
    mean, width = (None, None) if stats is None else stats
    weights = _weights(edge_weight, index)
    result: Tensor = _Dect.apply(x, directions, thresholds, index, scale, mean, width, weights, rows)
    return result


def fused_statistics(x: Tensor, node_ptr: NDArray[Any], members: NDArray[Any]) -> tuple[Tensor, Tensor]:
    """Return mean and scale of each neighbourhood for float32 on the CPU; the index comes from `index_arrays`."""
    result: tuple[Tensor, Tensor] = _Statistics.apply(x, node_ptr, members)
    return result


def fused_gather(x: Tensor, edge_index: Tensor, edges: Tensor, own: Tensor) -> Tensor:
    """Evaluate `messages.gather` for float32 on the CPU, with weights of the edges and of the nodes themselves."""
    result: Tensor = _Gather.apply(x, edge_index, edges, own)
    return result


def fused_messages(x: Tensor, edge_index: Tensor, along: Tensor) -> Tensor:
    """Evaluate `messages.sum_messages` for float32 on the CPU."""
    result: Tensor = _Messages.apply(x, edge_index, along)
    return result


def fused_attend(x: Tensor, scores: Tensor, edge_index: Tensor, slope: float) -> Tensor:
    """Evaluate `messages.attend` for float32 on the CPU."""
    result: Tensor = _Attend.apply(x, scores, edge_index, slope)
    return result


class _Dect(torch.autograd.Function):
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
        edge_weights: NDArray[np.float64],
        rows: Rows | None,
    ) -> Tensor:
        """Return the transform (n, D, T) of n neighbourhoods, or of other groups of nodes."""
        features, basis = x.detach().double().contiguous(), directions.detach().double()
        index = _copied(index)
        grid = thresholds.detach().double().numpy()
        heights = _product(features, basis, rows)
        groups, count = len(index[0]) - 1, heights.shape[1]
        farthest = np.zeros(groups, np.int64)
        centre: Tensor | None = None
        if mean is None or width is None:
            offsets, extent = np.empty((groups, count)), np.empty(groups)
            normalize(features.numpy(), index[0], index[1], heights, offsets, extent, farthest)
        else:
            centre = mean.double()
            offsets, extent = _product(centre, basis, rows), width.double().numpy()
        inverse = inverse_scale(extent)
        out = np.empty((groups, count, len(grid)), np.float32)
        threads = _threads(index, count)
        kernels = kernels_for(grid, s)

        def run(begin: int, end: int) -> None:
            kernels.forward(begin, end, *index, heights, offsets, inverse, grid, s, edge_weights, True, out)

        share(run, groups, threads, blocks_per_thread=4)
        ctx.save_for_backward(x, directions, thresholds)
        ctx.kernels = kernels
        ctx.saved = (features, basis, grid, index, heights, offsets, extent, inverse, farthest, centre)
        ctx.known = (s, edge_weights, threads, rows)
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Return the gradients of features, directions and thresholds."""
        found: tuple[Tensor | None, ...] = _gradients(ctx, gradients[0].detach())
        if torch.is_grad_enabled():
            found = refuse_second_derivatives("dect", found, (gradients[0], *ctx.saved_tensors))
        return *found, None, None, None, None, None, None


class _Statistics(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, node_ptr: NDArray[Any], members: NDArray[Any]) -> tuple[Tensor, Tensor]:
        features, index = x.detach().double().contiguous().numpy(), (node_ptr.copy(), members.copy())
        count = len(node_ptr) - 1
        mean, scale = np.empty((count, features.shape[1])), np.empty(count)
        farthest = np.zeros(count, np.int64)
        normalize(features, *index, features, mean, scale, farthest)
        ctx.save_for_backward(x)
        ctx.known = (features, index, scale, farthest)
        return torch.from_numpy(mean).float(), torch.from_numpy(scale).float()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        features, index, scale, farthest = ctx.known
        on_mean, on_scale = (gradient.detach().double().contiguous().numpy() for gradient in gradients)
        total = np.zeros_like(features)
        spread_means(*index, on_mean, total)
        spread_scales(features, *index, scale, farthest, on_scale, total)
        found: tuple[Tensor | None, ...] = (torch.from_numpy(total).float(),)
        if torch.is_grad_enabled():
            found = refuse_second_derivatives("place", found, (*gradients, *ctx.saved_tensors))
        return *found, None, None


def _weights(edge_weight: float | Tensor, index: Index) -> NDArray[np.float64]:
    """Return one weight for all edges, or one per edge, in memory of our own."""
    if not isinstance(edge_weight, Tensor):
        return read_only(np.array([edge_weight]), np.float64)
    weights = edge_weight.detach().double().numpy().copy()
    if weights.shape != index[3].shape:
        raise InvalidInputError(f"{len(index[3])} edges need as many weights. Got shape {weights.shape}.")
    return read_only(weights, np.float64)


def _copied(index: Index) -> Index:
    """Return arrays of our own: a gradient belongs to what was seen, whatever the caller does with theirs meanwhile."""
    node_ptr, nodes, edge_ptr, tails, heads = index
    return node_ptr.copy(), nodes.copy(), edge_ptr.copy(), tails.copy(), heads.copy()


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    features, basis, grid, index, heights, offsets, extent, inverse, farthest, centre = ctx.saved
    s, edge_weights, threads, rows = ctx.known
    upstream = gradient.contiguous().numpy()
    (nodes, count), groups = heights.shape, len(extent)
    needs_x, needs_directions, needs_thresholds = ctx.needs_input_grad[:3]

    # Made here and not in the threads, whose memory goes back to the system each time and has to be mapped anew.
    blocks = cut(count, threads)
    made = [
        (
            np.zeros((nodes, b - a)),
            np.zeros((groups, b - a)),
            np.zeros(groups),
            np.zeros(len(grid) * needs_thresholds),
        )
        for a, b in blocks
    ]

    def run(begin: int, end: int) -> None:
        for block, own in zip(blocks[begin:end], made[begin:end], strict=True):
            known = (heights, offsets, inverse, grid, s, edge_weights, True, upstream)
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
        total = torch.from_numpy(_product(torch.from_numpy(on_heights), basis.mT, rows))
        if centre is None:
            on_scale = -(inverse**2) * np.sum([own[2] for own in made], axis=0)
            spread_scales(features.numpy(), node_ptr, members, extent, farthest, on_scale, total.numpy())
        on_x = total.float()
    if needs_directions:
        product = _outer(features, on_heights, basis, rows)
        if centre is not None:
            product += _outer(centre, on_offsets, basis, rows)
        on_directions = product.float()
    return on_x, on_directions, on_thresholds


def _product(points: Tensor, basis: Tensor, rows: Rows | None) -> NDArray[np.float64]:
    """Return points · basis, (N, D); in a stack the sums of each row are the same whatever the other rows."""
    if rows is None:
        return (points @ basis).numpy()
    out = np.zeros((len(points), basis.shape[-1]))
    own = basis.reshape(-1, *basis.shape[-2:]).contiguous()
    add_products(*_groups(rows, basis, len(points)), points.numpy(), own.numpy(), out)
    return out


def _outer(points: Tensor, heights: NDArray[np.float64], basis: Tensor, rows: Rows | None) -> Tensor:
    """Return pointsᵀ · heights, of each network's own rows in their order."""
    if rows is None:
        return points.T @ torch.from_numpy(heights)
    out = np.zeros((len(basis) if basis.ndim == 3 else 1, *basis.shape[-2:]))
    add_outer_products(*_groups(rows, basis, len(points)), points.numpy(), heights, out)
    return torch.from_numpy(out).view(basis.shape)


def _groups(rows: Rows, basis: Tensor, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pointers and slots of the networks; fixed directions are those of one network with all rows."""
    return (rows.ptr, rows.slots) if basis.ndim == 3 else (np.array([0, count]), np.zeros(1, np.int64))


def _threads(index: Index, count: int) -> int:
    work = (len(index[1]) + len(index[3])) * count
    return 1 if work < SERIAL_WORK else torch.get_num_threads()


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, edge_index: Tensor, edges: Tensor, own: Tensor) -> Tensor:
        ctx.save_for_backward(edge_index, edges, own)
        return _sums(x, edge_index, 0, edges, own)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        edge_index, edges, own = ctx.saved_tensors  # torch raises if one was changed in place
        found: tuple[Tensor | None, ...] = (_sums(gradients[0], edge_index, 1, edges, own),)
        if torch.is_grad_enabled():
            found = refuse_second_derivatives("gather", found, (gradients[0],))
        return *found, None, None, None


def _sums(x: Tensor, edge_index: Tensor, source: int, edges: Tensor, own: Tensor) -> Tensor:
    """`source` is the row of `edge_index` that sums come from."""
    x, edges, own = x.contiguous(), edges.contiguous(), own.contiguous()
    check_compiled(x, edges, own)
    ends, out = edge_index.numpy(), torch.empty_like(x)
    addresses = (edges.data_ptr(), own.data_ptr(), x.data_ptr())
    if not sum_along_edges(ends[source], ends[1 - source], *addresses, *x.shape, out.data_ptr()):
        check_ids("edge_index", ends, len(x))
    return out


Lines = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]
"""Edges by one of their ends: pointers (N + 1,), the other ends and the weights."""


def fused_sums(x: Tensor, into: Lines, out_of: Lines, own: NDArray[np.float32]) -> Tensor:
    """Evaluate `messages.gather` for float32 on the CPU, with edges sorted by target and by source."""
    result: Tensor = _Sums.apply(x, into, out_of, own)
    return result


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, into: Lines, out_of: Lines, own: NDArray[np.float32]) -> Tensor:
        ctx.known = (out_of, own)
        return _row_sums(x, into, own)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        found: tuple[Tensor | None, ...] = (_row_sums(gradients[0], *ctx.known),)
        if torch.is_grad_enabled():
            found = refuse_second_derivatives("gather", found, (gradients[0],))
        return *found, None, None, None


def _row_sums(x: Tensor, lines: Lines, own: NDArray[np.float32]) -> Tensor:
    x = x.contiguous()
    check_compiled(x)
    out = torch.empty_like(x)
    sum_along_rows(*lines, own, x.data_ptr(), x.shape[1], out.data_ptr())
    return out


class _Messages(torch.autograd.Function):
    """For the way back a truth value per entry is kept, not the messages themselves."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, edge_index: Tensor, along: Tensor) -> Tensor:
        x, along = x.contiguous(), along.contiguous()
        check_compiled(x, along)
        ends, out, is_on = edge_index.numpy(), torch.empty_like(x), np.empty(tuple(along.shape), np.bool_)
        if not add_messages(ends[0], ends[1], along.data_ptr(), x.data_ptr(), *x.shape, is_on, out.data_ptr()):
            check_ids("edge_index", ends, len(x))
        ctx.save_for_backward(edge_index)
        ctx.is_on = is_on
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (edge_index,) = ctx.saved_tensors  # torch raises if it was changed in place
        upstream, ends = gradients[0].contiguous(), edge_index.numpy()
        check_compiled(upstream)
        on_x, on_along = torch.empty_like(upstream), upstream.new_empty(ctx.is_on.shape)
        known = (ctx.is_on, upstream.data_ptr(), *upstream.shape, on_x.data_ptr(), on_along.data_ptr())
        if not add_messages_backward(ends[0], ends[1], *known):
            check_ids("edge_index", ends, len(upstream))
        found: tuple[Tensor | None, ...] = (on_x, on_along)
        if torch.is_grad_enabled():
            found = refuse_second_derivatives("sum_messages", found, (gradients[0],))
        return found[0], None, found[1]


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scores: Tensor, edge_index: Tensor, slope: float) -> Tensor:
        source, target = edge_index[0].numpy(), edge_index[1].numpy()
        values = x.detach().contiguous().numpy()
        out, weights = np.zeros_like(values), np.empty(len(source), np.float32)
        is_low = np.empty(len(source), np.bool_)
        if not attend_forward(
            source, target, values, scores.detach().contiguous().numpy(), slope, weights, is_low, out
        ):
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
        attend_backward(source, target, values, slope, weights, is_low, upstream, on_values, on_scores)
        found: tuple[Tensor | None, ...] = (torch.from_numpy(on_values), torch.from_numpy(on_scores))
        if torch.is_grad_enabled():
            found = refuse_second_derivatives("attend", found, (gradients[0], x, scores))
        return *found, None, None


def refuse_second_derivatives(
    name: str, gradients: tuple[Tensor | None, ...], depends_on: tuple[Tensor, ...]
) -> tuple[Tensor | None, ...]:
    """Return the gradients, made by the operation `name`, such that differentiating them raises InvalidInputError.

    Parameters
    ----------
    depends_on : the incoming gradient and the inputs, tensors that a second derivative could be asked of.
    """
    found: tuple[Tensor | None, ...] = _Refuse.apply(name, len(gradients), *gradients, *depends_on)
    return found


class _Refuse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: str, count: int, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.name = name
        return tuple(None if tensor is None else tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise InvalidInputError(
            f"{ctx.name} in float32 on the CPU has no second derivative. Use double precision, which has: "
            "`.double()` on features and modules."
        )
