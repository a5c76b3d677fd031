"""`dect`: the differentiable Euler characteristic transform of every neighbourhood (paper, section 3.1).

Float32 on the CPU goes through `fused`. The plain path here serves any device and precision, with autograd's own
gradients and memory bounded by blocks.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from leap.models import grouped
from leap.models.addresses import check_rows
from leap.models.devices import in_full_precision
from leap.models.fused import fused_dect
from leap.models.kernels.border import index_arrays
from leap.models.kernels.normalization import inverse_scale, is_constant
from leap.models.rows import Rows
from leap.store import Neighborhoods
from leap.store.errors import InvalidInputError

LARGEST_FACTOR = 1e30  # steepness times weight of edges: with gradients, the kernel's products stay in float32
CHUNK_CELLS = 2**24  # sigmoids that the plain path evaluates at once


class Statistics(NamedTuple):
    """Normalization of each neighbourhood: mean (N, d) and largest norm after centring (N,)."""

    mean: Tensor
    scale: Tensor


def dect(
    x: Tensor,
    neighborhoods: Neighborhoods,
    directions: Tensor,
    thresholds: Tensor,
    scale: float,
    *,
    stats: Statistics | tuple[Tensor, Tensor] | None = None,
    edge_weight: float = 1.0,
    rows: Rows | None = None,
) -> Tensor:
    """Transform every neighbourhood: Σ_nodes σ(s (t_j - h_u)) - edge_weight · Σ_edges σ(s (t_j - max(h_a, h_b))).

    Heights are h_u = ⟨θ_i, (x(u) - mean) / (scale + 1e-6)⟩ inside each neighbourhood. Differentiable in features,
    directions and thresholds; without `stats` also through the mean and scale of the features.

    On the CPU, float32 runs through a fused kernel; double precision and other devices through plain torch
    operations. Both give the same result: not a number exactly where the formula gives none. Only double precision has
    second derivatives.

    Parameters
    ----------
    x : (N, d) features.
    neighborhoods : of the N nodes, as tensors or numpy arrays.
    directions : (d, D), unit columns.
    thresholds : (T,) in any order.
    scale : s, the steepness of the sigmoid; positive and finite.
    stats : mean and scale of each neighbourhood, computed earlier from these very features; they count as constants.
    edge_weight : finite; 1 gives the Euler characteristic, 2 the published code, which met each edge twice.
    rows : which nodes belong to which network of a stack; directions may then be (S, d, D), one set per network.

    Returns
    -------
    (N, D, T) of the dtype of `x`.

    Raises
    ------
    InvalidInputError
        For shapes that do not fit, and neighbourhoods with a pointer or an id outside their arrays; the message has
        them.

    Examples
    --------
    >>> import torch
    >>> from leap.pipeline import khop
    >>> hoods = khop([[0, 1], [1, 2]])
    >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    >>> right = torch.tensor([[1.0], [0.0]])
    >>> dect(x, hoods, right, torch.tensor([-0.5, 0.5, 1.1]), 500.0)[1, 0].round().abs()
    tensor([1., 1., 1.])
    """
    if torch.compiler.is_compiling():
        return _untraced_dect(x, neighborhoods, directions, thresholds, scale, stats, edge_weight, rows)
    return _dect(x, neighborhoods, directions, thresholds, scale, stats, edge_weight, rows)


def _dect(
    x: Tensor,
    neighborhoods: Neighborhoods,
    directions: Tensor,
    thresholds: Tensor,
    scale: float,
    stats: Statistics | tuple[Tensor, Tensor] | None,
    edge_weight: float,
    rows: Rows | None,
) -> Tensor:
    check_neighborhoods(neighborhoods)
    if x.ndim != 2 or not x.is_floating_point():
        raise InvalidInputError(f"x must be floating point of shape (N, d). Got {x.dtype} of shape {tuple(x.shape)}.")
    if x.dtype in (torch.float16, torch.bfloat16):  # too coarse for sums of squares, and float16 ends at 65,504
        wide = (x.float(), neighborhoods, directions.float(), thresholds.float(), scale)
        return _dect(*wide, stats, edge_weight, rows).to(x.dtype)
    on_host = x.device.type == "cpu"
    hoods = neighborhoods.numpy() if on_host else neighborhoods
    _check(x, hoods, directions, thresholds, scale, stats, edge_weight, rows)
    statistics = None if stats is None else (stats[0].detach(), stats[1].detach())
    numbers = (float(scale), statistics, float(edge_weight))
    fits = scale * max(1.0, abs(edge_weight)) < LARGEST_FACTOR
    if on_host:  # on others torch looks after its indices, and nothing waits for numbers from there
        node_ptr, nodes, edge_ptr, *ends = index_arrays(
            hoods.node_ptr, hoods.nodes, hoods.edge_ptr, hoods.edges, len(x)
        )
        grid = thresholds.detach().double().numpy()
        # Thresholds that are not numbers, as when learning them diverges, do not fit either.
        fits = fits and bool(np.isfinite(grid).all())
        if fits and x.dtype == torch.float32:
            index, order = (node_ptr, nodes, edge_ptr, ends[0], ends[1]), None
            if not (grid[1:] > grid[:-1]).all():
                thresholds, order = thresholds.sort()
            out = fused_dect(x, index, directions, thresholds, *numbers, rows)
            return out if order is None else torch.empty_like(out).index_copy(2, order, out)
        hoods = replace(hoods, node_ptr=node_ptr, nodes=nodes, edge_ptr=edge_ptr, edges=np.stack(ends))
    kind = x.dtype if fits else torch.float64
    with in_full_precision(x.device):
        out = plain_dect(x.to(kind), hoods, directions.to(kind), thresholds.to(kind), *numbers, rows)
    return out.to(x.dtype)


# Compiled kernels and numpy are nothing that torch.compile could trace: there it breaks the graph and runs as it is.
# Torch's lazy form of `torch.compiler.disable`, which would import the whole compiler here.
_untraced_dect: Any = torch._disable_dynamo(_dect)  # type: ignore[attr-defined]


def check_neighborhoods(met: Any, hops: tuple[int, ...] = (1,)) -> None:
    """Refuse what is not Neighborhoods, such as the edge_index that layers of PyG take."""
    if not isinstance(met, Neighborhoods):
        shape = f" of shape {tuple(met.shape)}" if isinstance(met, Tensor) else ""
        count = hops[0] if len(hops) == 1 else hops
        raise InvalidInputError(
            f"the neighbourhoods of the nodes must be given as Neighborhoods. Got a {type(met).__name__}{shape}. "
            "Make them once with `leap.pipeline.khop(edge_index, num_nodes, hops)`, or with the transform "
            f"`AddNeighborhoods(hops={count})` and `Neighborhoods.from_data(batch, hops)`."
        )


def _check(
    x: Tensor,
    neighborhoods: Neighborhoods,
    directions: Tensor,
    thresholds: Tensor,
    scale: float,
    stats: Statistics | tuple[Tensor, Tensor] | None,
    edge_weight: float,
    rows: Rows | None,
) -> None:
    nodes, dim = x.shape
    if tuple(neighborhoods.node_ptr.shape) != (nodes + 1,):
        raise InvalidInputError(
            f"x has {nodes} rows, and node_ptr of the neighbourhoods has shape {tuple(neighborhoods.node_ptr.shape)}, "
            f"not ({nodes + 1},). Both must be of the same nodes."
        )
    is_stacked = rows is not None and directions.ndim == 3
    if rows is not None:
        check_rows(rows, nodes, len(directions) if is_stacked else int(rows.slots.max(initial=0)) + 1)
    before, count = directions.shape[:1] if is_stacked else (), directions.shape[-1:] if directions.ndim > 1 else (1,)
    expected = {
        "directions": (directions, (*before, dim, *count)),
        "thresholds": (thresholds, (thresholds.numel(),)),
    }
    if stats is not None:
        expected |= {"stats mean": (stats[0], (nodes, dim)), "stats scale": (stats[1], (nodes,))}
    for name, (tensor, shape) in expected.items():
        if tuple(tensor.shape) != shape:
            raise InvalidInputError(f"{name} must have shape {shape}. Got {tuple(tensor.shape)}.")
        if tensor.device != x.device or tensor.is_complex():
            kind = str(tensor.dtype).removeprefix("torch.")
            raise InvalidInputError(
                f"{name} must hold real numbers on {x.device}, as x. Got {kind} on {tensor.device}."
            )
    if not 0 < scale < math.inf:
        raise InvalidInputError(f"scale must be positive and finite. Got {scale}.")
    if not math.isfinite(edge_weight):
        raise InvalidInputError(f"edge_weight must be finite. Got {edge_weight}.")
    if thresholds.numel() == 0 or directions.shape[-1] == 0:
        raise InvalidInputError("dect needs at least one direction and one threshold.")


def plain_dect(
    x: Tensor,
    neighborhoods: Neighborhoods,
    directions: Tensor,
    thresholds: Tensor,
    scale: float,
    stats: tuple[Tensor, Tensor] | None,
    edge_weight: float,
    rows: Rows | None = None,
) -> Tensor:
    """Evaluate `dect` with vectorized torch operations, none of which makes the host wait for a device."""
    hoods = neighborhoods.torch().to(x.device)
    nodes, edges = hoods.nodes.long(), hoods.edges.long()
    sizes = hoods.node_ptr.diff()
    owner = torch.repeat_interleave(sizes, output_size=len(nodes))
    edge_owner = torch.repeat_interleave(hoods.edge_ptr.diff(), output_size=edges.shape[1])
    # Centring keeps float32 differences exact for features far from zero; the transform does not notice it. By the
    # median: what is huge or not finite must not be felt outside its neighbourhoods.
    shift = x.detach().nanmedian(0).values.nan_to_num(0.0, 0.0, 0.0) if x.numel() else x.new_zeros(x.shape[1])
    centred = x - shift
    heights = _along(directions, centred, rows)
    if not len(x):  # multiplied, so that a gradient, of zeros, can be asked for
        return heights[:, :, None] * thresholds
    if stats is None:
        mean, extent = _statistics(centred, x, owner, nodes, sizes)
    else:
        mean, extent = stats[0].to(x) - shift, stats[1].to(x)
    offsets = _along(directions, mean, rows)
    inverse = inverse_scale(extent)
    tops = torch.maximum(heights[edges[0]], heights[edges[1]])
    node_heights = (heights[nodes] - offsets[owner]) * inverse[owner, None]
    edge_heights = (tops - offsets[edge_owner]) * inverse[edge_owner, None]

    def curves(directions: slice, thresholds: Tensor) -> Tensor:
        out = x.new_zeros(len(x), directions.stop - directions.start, len(thresholds))
        below = torch.sigmoid(scale * (thresholds - node_heights[:, directions, None]))
        out = out.index_add(0, owner, below)
        below = torch.sigmoid(scale * (thresholds - edge_heights[:, directions, None]))
        return out.index_add(0, edge_owner, below, alpha=-edge_weight)

    return _in_blocks(curves, len(nodes) + edges.shape[1], heights.shape[1], thresholds)


def _in_blocks(curves: Callable[[slice, Tensor], Tensor], members: int, directions: int, thresholds: Tensor) -> Tensor:
    """Return the curves of all directions at all thresholds, with about CHUNK_CELLS sigmoids in memory at a time.

    Sigmoids of a block are forgotten and computed again for gradients, except where there is one block. Blocks are of
    directions, and of thresholds where one direction is too much: so their borders follow from shapes alone.
    """
    columns = max(1, CHUNK_CELLS // max(1, members))
    if directions * len(thresholds) <= columns:
        return curves(slice(0, directions), thresholds)
    wide, high = max(1, columns // len(thresholds)), min(columns, len(thresholds))
    rows = []
    for low in range(0, directions, wide):
        block = slice(low, min(low + wide, directions))
        parts = [
            checkpoint(curves, block, part, use_reentrant=False, preserve_rng_state=False)
            for part in thresholds.split(high)
        ]
        rows.append(torch.cat(parts, dim=2))
    return torch.cat(rows, dim=1)


def _along(directions: Tensor, points: Tensor, rows: Rows | None) -> Tensor:
    """Heights of points along the directions, each network's own in a stack."""
    if directions.ndim == 2:
        return points @ directions
    assert rows is not None
    return grouped.linear(points, directions.mT, None, rows)


def _statistics(centred: Tensor, x: Tensor, owner: Tensor, nodes: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and largest distance from it, differentiable; rounding errors of a constant neighbourhood count as none."""
    count = len(sizes)
    mean = centred.new_zeros(count, centred.shape[1]).index_add(0, owner, centred[nodes]) / sizes.to(x)[:, None]
    squares = (centred[nodes] - mean[owner]).square().sum(1)
    largest = squares.new_zeros(count).scatter_reduce(0, owner, squares, "amax", include_self=False)
    entries = x.detach().abs().amax(1)[nodes] if x.shape[1] else squares.detach()
    peaks = entries.new_zeros(count).scatter_reduce(0, owner, entries, "amax")
    constant = is_constant(largest.detach().sqrt(), peaks)
    # The square root has no gradient at zero; constant neighbourhoods get none.
    extent = torch.where(constant, torch.ones_like(largest), largest).sqrt()
    return mean, torch.where(constant, torch.zeros_like(extent), extent)
