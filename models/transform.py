"""`dect`: the differentiable Euler characteristic transform of every neighbourhood (paper, section 3.1).

Float32 on the CPU goes through `fused`. The plain path here serves any device and precision, with autograd's own
gradients and memory bounded by blocks.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from leap.models import grouped
from leap.models.addresses import check_rows
from leap.models.devices import in_full_precision
from leap.models.fused import Index, fused_dect, fused_statistics
from leap.models.kernels.border import index_arrays
from leap.models.kernels.normalization import inverse_scale, is_constant
from leap.models.messages import check_edge_list
from leap.models.rows import Rows
from leap.store import Neighborhoods
from leap.store.errors import InvalidInputError
from leap.store.graphs.neighborhoods import check_ids

if TYPE_CHECKING:
    from leap.models.backbones import GraphBatch

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
    edge_weight: float | Tensor = 1.0,
    rows: Rows | None = None,
) -> Tensor:
    """Transform every neighbourhood: Σ_nodes σ(s (t_j - h_u)) - Σ_edges w · σ(s (t_j - max(h_a, h_b))).

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
    edge_weight : w, finite; 1 gives the Euler characteristic, 2 the published code, which met each edge twice. A
        tensor (K,) has a weight for each entry of `neighborhoods.edges`, as `edge_weights` makes it; where that
        requires a gradient, the plain operations serve float32 on the CPU too.
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


def graph_dect(
    x: Tensor,
    graphs: "GraphBatch",
    directions: Tensor,
    thresholds: Tensor,
    scale: float,
    *,
    edge_weight: float = 1.0,
) -> Tensor:
    """Transform every graph of a batch as `dect` transforms a neighbourhood: (G, D, T), zeros for an empty graph.

    Where the batch has weights of its edges, each edge's is multiplied by `edge_weight`.
    """
    weights = None if graphs.edge_weights is None else edge_weight * graphs.edge_weights
    fits = _fits(thresholds, scale, edge_weight if weights is None else weights)
    if fits and x.device.type == "cpu" and x.dtype == torch.float32 and not _is_learned(weights):
        index = _whole_graphs(graphs)
        one = edge_weight if weights is None else _of_pairs(weights, graphs.edge_index)
        return fused_dect(x, index, directions, thresholds, scale, None, one, graphs.rows)
    # The host does not know which of an edge's two directions comes first: both count, half each.
    nodes, edges = torch.arange(len(x), device=x.device), graphs.edge_index
    members = _Members(nodes, graphs.batch, graphs.ptr.diff(), edges, graphs.batch[edges[0]])
    kind = x.dtype if fits else torch.float64
    with in_full_precision(x.device):
        out = _plain_dect(
            members,
            x.to(kind),
            directions.to(kind),
            thresholds.to(kind),
            scale,
            None,
            edge_weight / 2 if weights is None else weights / 2,
            graphs.rows,
            graphs.graph_rows,
        )
    return out.to(x.dtype)


def _whole_graphs(graphs: "GraphBatch") -> Index:
    """Return all nodes and edges of each graph of a batch, as if they were neighbourhoods."""
    ptr = graphs.sequences()
    nodes, edges = int(ptr[-1]), graphs.edge_index.numpy()
    tails, heads = edges[:, edges[0] < edges[1]]
    if (tails[1:] < tails[:-1]).any():
        order = np.argsort(tails, kind="stable")
        tails, heads = tails[order], heads[order]
    return index_arrays(ptr, np.arange(nodes), np.searchsorted(tails, ptr), np.stack([tails, heads]), nodes)


def _of_pairs(weights: Tensor, edge_index: Tensor) -> Tensor:
    """Return the weight of each undirected edge in the order of `_whole_graphs`: the mean of its two directions."""
    tails, heads = edge_index.numpy()
    one, other = np.flatnonzero(tails < heads), np.flatnonzero(tails > heads)
    if len(weights) != len(tails) or len(one) != len(other):
        raise InvalidInputError(
            f"edge_weights must have an entry per edge, and each edge both directions. Got {len(weights)} weights, and "
            f"{len(one)} edges one way, {len(other)} the other."
        )
    order = np.lexsort((heads[one], tails[one]))
    other = other[np.lexsort((tails[other], heads[other]))][np.argsort(order)]  # the reverse of each of `one`
    order = np.argsort(tails[one], kind="stable")
    return (weights[torch.from_numpy(one[order])] + weights[torch.from_numpy(other[order])]) / 2


def edge_weights(neighborhoods: Neighborhoods, edge_index: Tensor, weights: Tensor) -> Tensor:
    """Return the weight of each edge of the neighbourhoods, from those of the edges of their graph.

    An edge whose two directions have different weights has the mean of both. Differentiable in `weights`.

    Parameters
    ----------
    neighborhoods : of the graph's nodes.
    edge_index : (2, E) edges of the graph, in one direction or both.
    weights : (E,) of its entries.

    Returns
    -------
    (K,), in the order of `neighborhoods.edges`; `dect` takes it as `edge_weight`.

    Raises
    ------
    InvalidInputError
        For shapes that do not fit, and neighbourhoods with an edge that the graph lacks.

    Examples
    --------
    >>> import torch
    >>> from leap.pipeline import khop
    >>> edges = torch.tensor([[0, 1], [1, 2]])
    >>> hoods = khop(edges, 3)
    >>> hoods.edges.tolist()
    [[0, 0, 1, 1], [1, 1, 2, 2]]
    >>> edge_weights(hoods, edges, torch.tensor([0.5, 2.0])).tolist()
    [0.5, 0.5, 2.0, 2.0]
    """
    check_neighborhoods(neighborhoods)
    check_edge_list(edge_index)
    _check_tensor("weights", weights, (edge_index.shape[1],), edge_index.device)
    on_host = weights.device.type == "cpu"
    if on_host:
        hoods = neighborhoods.numpy()
        nodes = max(0, np.size(hoods.node_ptr) - 1)
        *_, first, second = index_arrays(hoods.node_ptr, hoods.nodes, hoods.edge_ptr, hoods.edges, nodes)
        check_ids("edge_index", edge_index.numpy(), nodes)
        tails, heads = (torch.from_numpy(ends.astype(np.int64)) for ends in (first, second))
    else:
        nodes = len(neighborhoods.node_ptr) - 1
        tails, heads = neighborhoods.torch().to(weights.device).edges.long()
    if not edge_index.shape[1]:
        if len(tails):
            raise InvalidInputError(f"neighbourhoods have {len(tails)} edges, and their graph has none.")
        return weights.new_zeros(0)
    keys, found = edge_index[0] * nodes + edge_index[1], weights
    if not (on_host and bool((keys[1:] >= keys[:-1]).all())):  # batches of a stream are in order
        keys, order = keys.sort(stable=True)
        found = weights[order]
    total, count = weights.new_zeros(len(tails)), torch.zeros_like(tails)
    for wanted in (tails * nodes + heads, heads * nodes + tails):
        # NumPy's is faster where what is looked for is nearly in order.
        if on_host:
            place = torch.from_numpy(np.searchsorted(keys.numpy(), wanted.numpy()))
        else:
            place = torch.searchsorted(keys, wanted)
        place = place.clamp_max(len(keys) - 1)
        is_there = keys[place] == wanted
        total, count = total + torch.where(is_there, found[place], 0.0), count + is_there
    if on_host and len(count) and not int(count.min()):
        edge = int((count == 0).nonzero()[0])
        raise InvalidInputError(
            f"neighbourhoods have an edge of the nodes {int(tails[edge])} and {int(heads[edge])}, which edge_index "
            "lacks. Both must be of the same graph."
        )
    return total / count


class _Members(NamedTuple):
    """Nodes and edges of groups, such as neighbourhoods; which group owns each, and how many nodes it has."""

    nodes: Tensor
    owner: Tensor
    sizes: Tensor
    edges: Tensor
    edge_owner: Tensor


def place(x: Tensor, neighborhoods: Neighborhoods, stats: Statistics | tuple[Tensor, Tensor] | None = None) -> Tensor:
    """Say where each node stands in its neighbourhood, how wide that is and how many nodes it has.

    The transform is normalized and forgets all three.

    Parameters
    ----------
    x : (N, d) features.
    neighborhoods : of the N nodes.
    stats : mean and scale of each neighbourhood, computed earlier from these very features; they count as constants.
        None: computed from `x`, and differentiable.

    Returns
    -------
    (N, d + 2): (x(v) - mean) / (scale + 1e-6), zeros in a constant neighbourhood; log(1 + scale); log(1 + nodes).

    Raises
    ------
    InvalidInputError
        For shapes that do not fit, and neighbourhoods with a pointer or an id outside their arrays.

    Examples
    --------
    >>> import torch
    >>> from leap.pipeline import khop
    >>> x = torch.tensor([[0.0], [1.0], [2.0]])
    >>> place(x, khop([[0, 1], [1, 2]])).round(decimals=2)
    tensor([[-1.0000,  0.4100,  1.1000],
            [ 0.0000,  0.6900,  1.3900],
            [ 1.0000,  0.4100,  1.1000]])
    """
    check_neighborhoods(neighborhoods)
    if x.ndim != 2 or not x.is_floating_point():
        raise InvalidInputError(f"x must be floating point of shape (N, d). Got {x.dtype} of shape {tuple(x.shape)}.")
    _check_counts(x, neighborhoods)
    if stats is None:
        mean, extent = _computed_statistics(x, neighborhoods)
    else:
        _check_statistics(x, stats)
        mean, extent = stats[0].detach().to(x.dtype), stats[1].detach().to(x.dtype)
    sizes = neighborhoods.node_ptr[1:] - neighborhoods.node_ptr[:-1]
    counts = torch.as_tensor(sizes, device=x.device).to(x.dtype)
    own = (x - mean) * inverse_scale(extent)[:, None]
    return torch.cat([own, extent.log1p()[:, None], counts.log1p()[:, None]], dim=1)


def _computed_statistics(x: Tensor, neighborhoods: Neighborhoods) -> tuple[Tensor, Tensor]:
    if x.device.type == "cpu" and x.dtype == torch.float32:
        hoods = neighborhoods.numpy()
        node_ptr, nodes, *_ = index_arrays(hoods.node_ptr, hoods.nodes, hoods.edge_ptr, hoods.edges, len(x))
        return fused_statistics(x, node_ptr, nodes)
    return _statistics(x, x, _members(neighborhoods, x.device))


def _dect(
    x: Tensor,
    neighborhoods: Neighborhoods,
    directions: Tensor,
    thresholds: Tensor,
    scale: float,
    stats: Statistics | tuple[Tensor, Tensor] | None,
    edge_weight: float | Tensor,
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
    numbers = (float(scale), statistics, edge_weight if isinstance(edge_weight, Tensor) else float(edge_weight))
    fits = _fits(thresholds, scale, edge_weight)
    if on_host:  # on others torch looks after its indices, and nothing waits for numbers from there
        node_ptr, nodes, edge_ptr, *ends = index_arrays(
            hoods.node_ptr, hoods.nodes, hoods.edge_ptr, hoods.edges, len(x)
        )
        if fits and x.dtype == torch.float32 and not _is_learned(edge_weight):
            index, order = (node_ptr, nodes, edge_ptr, ends[0], ends[1]), None
            if not bool((thresholds[1:] > thresholds[:-1]).all()):
                thresholds, order = thresholds.sort()
            out = fused_dect(x, index, directions, thresholds, *numbers, rows)
            return out if order is None else torch.empty_like(out).index_copy(2, order, out)
        hoods = replace(hoods, node_ptr=node_ptr, nodes=nodes, edge_ptr=edge_ptr, edges=np.stack(ends))
    kind = x.dtype if fits else torch.float64
    with in_full_precision(x.device):
        out = plain_dect(x.to(kind), hoods, directions.to(kind), thresholds.to(kind), *numbers, rows)
    return out.to(x.dtype)


def _is_learned(edge_weight: float | Tensor | None) -> bool:
    return isinstance(edge_weight, Tensor) and edge_weight.requires_grad and torch.is_grad_enabled()


def _fits(thresholds: Tensor, scale: float, edge_weight: float | Tensor) -> bool:
    """Whether float32 holds what comes up on the way; of what is on other devices the host does not know."""
    if thresholds.device.type == "cpu" and not thresholds.isfinite().all():  # as when learning them diverges
        return False
    if isinstance(edge_weight, Tensor):
        is_known = edge_weight.device.type == "cpu" and len(edge_weight) > 0
        edge_weight = float(edge_weight.detach().abs().max()) if is_known else 1.0
    return scale * max(1.0, abs(edge_weight)) < LARGEST_FACTOR


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
    edge_weight: float | Tensor,
    rows: Rows | None,
) -> None:
    nodes, dim = x.shape
    _check_counts(x, neighborhoods)
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
    if isinstance(edge_weight, Tensor):
        _check_tensor("edge_weight", edge_weight, tuple(neighborhoods.edges.shape)[-1:], x.device)
        if x.device.type == "cpu" and not bool(edge_weight.isfinite().all()):
            at = int((~edge_weight.isfinite()).nonzero()[0])
            raise InvalidInputError(f"edge_weight must be finite. Got {edge_weight[at].item()} for edge {at}.")
    elif not math.isfinite(edge_weight):
        raise InvalidInputError(f"edge_weight must be finite. Got {edge_weight}.")
    if thresholds.numel() == 0 or directions.shape[-1] == 0:
        raise InvalidInputError("dect needs at least one direction and one threshold.")


def _check_counts(x: Tensor, neighborhoods: Neighborhoods) -> None:
    shape = tuple(neighborhoods.node_ptr.shape)
    if shape != (len(x) + 1,):
        raise InvalidInputError(
            f"x has {len(x)} rows, and node_ptr of the neighbourhoods has shape {shape}, not ({len(x) + 1},). Both "
            "must be of the same nodes."
        )


def _check_statistics(x: Tensor, stats: Statistics | tuple[Tensor, Tensor]) -> None:
    _check_tensor("stats mean", stats[0], tuple(x.shape), x.device)
    _check_tensor("stats scale", stats[1], (len(x),), x.device)


def _check_tensor(name: str, tensor: Tensor, shape: tuple[int, ...], device: torch.device) -> None:
    if tuple(tensor.shape) != shape:
        raise InvalidInputError(f"{name} must have shape {shape}. Got {tuple(tensor.shape)}.")
    if tensor.device != device or tensor.is_complex():
        kind = str(tensor.dtype).removeprefix("torch.")
        raise InvalidInputError(f"{name} must hold real numbers on {device}, as x. Got {kind} on {tensor.device}.")


def plain_dect(
    x: Tensor,
    neighborhoods: Neighborhoods,
    directions: Tensor,
    thresholds: Tensor,
    scale: float,
    stats: tuple[Tensor, Tensor] | None,
    edge_weight: float | Tensor,
    rows: Rows | None = None,
) -> Tensor:
    """Evaluate `dect` with vectorized torch operations, none of which makes the host wait for a device."""
    members = _members(neighborhoods, x.device)
    return _plain_dect(members, x, directions, thresholds, scale, stats, edge_weight, rows, rows)


def _members(neighborhoods: Neighborhoods, device: torch.device) -> _Members:
    hoods = neighborhoods.torch().to(device)
    nodes, edges = hoods.nodes.long(), hoods.edges.long()
    sizes = hoods.node_ptr.diff()
    owner = torch.repeat_interleave(sizes, output_size=len(nodes))
    edge_owner = torch.repeat_interleave(hoods.edge_ptr.diff(), output_size=edges.shape[1])
    return _Members(nodes, owner, sizes, edges, edge_owner)


def _plain_dect(
    members: _Members,
    x: Tensor,
    directions: Tensor,
    thresholds: Tensor,
    scale: float,
    stats: tuple[Tensor, Tensor] | None,
    edge_weight: float | Tensor,
    rows: Rows | None,
    group_rows: Rows | None,
) -> Tensor:
    nodes, owner, sizes, edges, edge_owner = members
    # Centring keeps float32 differences exact for features far from zero; the transform does not notice it. By the
    # median: what is huge or not finite must not be felt outside its neighbourhoods.
    shift = x.detach().nanmedian(0).values.nan_to_num(0.0, 0.0, 0.0) if x.numel() else x.new_zeros(x.shape[1])
    centred = x - shift
    heights = _along(directions, centred, rows)
    if not len(x):  # multiplied, so that a gradient, of zeros, can be asked for
        return (heights.sum(0) * sizes[:, None])[:, :, None] * thresholds
    if stats is None:
        mean, extent = _statistics(centred, x, members)
    else:
        mean, extent = stats[0].to(x) - shift, stats[1].to(x)
    offsets = _along(directions, mean, group_rows)
    inverse = inverse_scale(extent)
    tops = torch.maximum(heights[edges[0]], heights[edges[1]])
    node_heights = (heights[nodes] - offsets[owner]) * inverse[owner, None]
    edge_heights = (tops - offsets[edge_owner]) * inverse[edge_owner, None]

    def curves(directions: slice, thresholds: Tensor) -> Tensor:
        out = x.new_zeros(len(sizes), directions.stop - directions.start, len(thresholds))
        below = torch.sigmoid(scale * (thresholds - node_heights[:, directions, None]))
        out = out.index_add(0, owner, below)
        below = torch.sigmoid(scale * (thresholds - edge_heights[:, directions, None]))
        if isinstance(edge_weight, Tensor):
            return out.index_add(0, edge_owner, below * -edge_weight.to(below.dtype)[:, None, None])
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


def _statistics(centred: Tensor, x: Tensor, members: _Members) -> tuple[Tensor, Tensor]:
    """Mean and largest distance from it, differentiable; rounding errors of a constant neighbourhood count as none."""
    nodes, owner, sizes, *_ = members
    count = len(sizes)
    sums = centred.new_zeros(count, centred.shape[1]).index_add(0, owner, centred[nodes])
    mean = sums / sizes.clamp_min(1).to(x)[:, None]
    squares = (centred[nodes] - mean[owner]).square().sum(1)
    largest = squares.new_zeros(count).scatter_reduce(0, owner, squares, "amax", include_self=False)
    entries = x.detach().abs().amax(1)[nodes] if x.shape[1] else squares.detach()
    peaks = entries.new_zeros(count).scatter_reduce(0, owner, entries, "amax")
    constant = is_constant(largest.detach().sqrt(), peaks)
    # The square root has no gradient at zero; constant neighbourhoods get none.
    extent = torch.where(constant, torch.ones_like(largest), largest).sqrt()
    return mean, torch.where(constant, torch.zeros_like(extent), extent)
