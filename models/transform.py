"""`dect`: the differentiable Euler characteristic transform of every neighbourhood (paper, section 3.1)."""

from typing import NamedTuple

import torch
from torch import Tensor

from leap.models.dect_fused import fused_dect
from leap.models.dect_plain import plain_dect
from leap.store import Neighborhoods
from leap.store.errors import InvalidInputError


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
) -> Tensor:
    """Transform every neighbourhood: Σ_nodes σ(s (t_j - h_u)) - edge_weight · Σ_edges σ(s (t_j - max(h_a, h_b))).

    Heights are h_u = ⟨θ_i, (x(u) - mean) / (scale + 1e-6)⟩ inside each neighbourhood. Differentiable in features,
    directions and thresholds; without `stats` also through the mean and scale of the features.

    On the CPU, float32 runs through a fused kernel; double precision and other devices through plain torch
    operations. Both give the same result.

    Parameters
    ----------
    x : (N, d) features.
    neighborhoods : of the N nodes, as tensors or numpy arrays.
    directions : (d, D), unit columns.
    thresholds : (T,) in any order.
    scale : s, the steepness of the sigmoid.
    stats : mean and scale of each neighbourhood, computed earlier from these very features; they count as constants.
    edge_weight : 1 gives the Euler characteristic; 2 the published code, which met each edge twice.

    Returns
    -------
    (N, D, T) of the dtype of `x`.

    Raises
    ------
    InvalidInputError
        For shapes that do not fit; the message has them.

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
    _check(x, neighborhoods, directions, thresholds, scale, stats)
    order = None
    if len(thresholds) > 1 and not bool((thresholds[1:] > thresholds[:-1]).all()):
        thresholds, order = thresholds.sort()
    statistics = None if stats is None else (stats[0].detach(), stats[1].detach())
    is_fused = x.device.type == "cpu" and x.dtype == torch.float32
    transform = fused_dect if is_fused else plain_dect
    out = transform(x, neighborhoods, directions, thresholds, float(scale), statistics, float(edge_weight))
    return out if order is None else torch.empty_like(out).index_copy(2, order, out)


def _check(
    x: Tensor,
    neighborhoods: Neighborhoods,
    directions: Tensor,
    thresholds: Tensor,
    scale: float,
    stats: Statistics | tuple[Tensor, Tensor] | None,
) -> None:
    if x.ndim != 2 or not x.is_floating_point():
        raise InvalidInputError(f"x must be floating point of shape (N, d). Got {x.dtype} of shape {tuple(x.shape)}.")
    nodes, dim = x.shape
    if len(neighborhoods) != nodes:
        raise InvalidInputError(
            f"x has {nodes} rows, and there are {len(neighborhoods)} neighbourhoods. Both must be of the same nodes."
        )
    expected = {
        "directions": (directions, (dim, directions.shape[-1])),
        "thresholds": (thresholds, (thresholds.numel(),)),
    }
    if stats is not None:
        expected |= {"stats mean": (stats[0], (nodes, dim)), "stats scale": (stats[1], (nodes,))}
    for name, (tensor, shape) in expected.items():
        if tuple(tensor.shape) != shape:
            raise InvalidInputError(f"{name} must have shape {shape}. Got {tuple(tensor.shape)}.")
    if not scale > 0:
        raise InvalidInputError(f"scale must be positive. Got {scale}.")
    if thresholds.numel() == 0 or directions.shape[-1] == 0:
        raise InvalidInputError("dect needs at least one direction and one threshold.")
