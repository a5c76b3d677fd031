"""The peers of `dect`: the best that vectorized torch operations give, with every index known beforehand."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from leap.models.kernels.normalization import MARGIN
from leap.models.transform import Statistics, plain_dect
from leap.store import Neighborhoods

BLOCK_NODES = 128
"""Neighbourhoods whose sigmoids, some 160,000, stay in a processor's cache."""


@dataclass(frozen=True)
class Operands:
    """What the transform takes; the thresholds ascend."""

    x: Tensor
    neighborhoods: Neighborhoods
    directions: Tensor
    thresholds: Tensor
    scale: float
    stats: Statistics


def torch_dects(operands: Operands) -> dict[str, Callable[[], Tensor]]:
    """Return several ways to the same transform (N, D, T); which is best depends on machine and size."""
    o = operands
    hoods = o.neighborhoods.torch()
    nodes, (lower, upper) = hoods.nodes.long(), hoods.edges.long()
    every = torch.arange(len(hoods))
    owner, edge_owner = (torch.repeat_interleave(every, ptr.diff()) for ptr in (hoods.node_ptr, hoods.edge_ptr))
    steepness = o.scale / (o.stats.scale + MARGIN)

    def heights() -> tuple[Tensor, Tensor]:
        """Heights of members and edges, multiplied by the scale while they are small."""
        height, offset = o.x @ o.directions, o.stats.mean @ o.directions
        tops = torch.maximum(height[lower], height[upper])
        members = (height[nodes] - offset[owner]) * steepness[owner, None]
        return members, (tops - offset[edge_owner]) * steepness[edge_owner, None]

    def whole() -> Tensor:
        return curves(*heights(), owner, edge_owner, len(hoods))

    def blocks() -> Tensor:
        members, tops = heights()
        pieces = zip(torch.split(members, sizes), torch.split(tops, edge_sizes), local, edge_local, counts, strict=True)
        return torch.cat([curves(*piece) for piece in pieces])

    def curves(members: Tensor, tops: Tensor, owner: Tensor, edge_owner: Tensor, count: int) -> Tensor:
        grid = o.scale * o.thresholds
        out = members.new_zeros(count, members.shape[1], len(grid))
        out.index_add_(0, owner, (grid - members[:, :, None]).sigmoid_())
        return out.index_add_(0, edge_owner, (grid - tops[:, :, None]).sigmoid_(), alpha=-1)

    bounds = [*range(0, len(hoods), BLOCK_NODES), len(hoods)]
    counts = [hi - lo for lo, hi in pairwise(bounds)]
    sizes, edge_sizes = hoods.node_ptr[bounds].diff().tolist(), hoods.edge_ptr[bounds].diff().tolist()
    local = [part - lo for part, lo in zip(torch.split(owner, sizes), bounds, strict=False)]
    edge_local = [part - lo for part, lo in zip(torch.split(edge_owner, edge_sizes), bounds, strict=False)]
    return {
        "plain": lambda: plain_dect(o.x, hoods, o.directions, o.thresholds, o.scale, o.stats, 1.0),
        "whole": whole,
        "blocks": blocks,
    }
