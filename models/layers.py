"""Layers for one network or a stack: what backbones and projections are made of.

A parameter with a leading dimension more than its layer's belongs to a stack, and `rows` says which rows of the batch
each network owns. Without it there is one network, and torch's own functions do the work.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from typing_extensions import override

from leap.models import grouped, noise
from leap.models.addresses import is_compiled
from leap.models.devices import send
from leap.models.generator import dropout
from leap.models.rows import Rows
from leap.models.sequences import encode_sequences, self_attention

SITES = 4
"""Places of a transformer layer where something is random."""

Keys = NDArray[np.uint64] | None


class Drop(NamedTuple):
    """What is dropped at a place of the forward pass: the share, and in a stack the keys of its randomness there."""

    share: float = 0.0
    keys: Keys = None


NOTHING = Drop()


class Noisy:
    """A module that is random while it is trained; a network gives each one numbers of its own for that.

    Attributes
    ----------
    first_site : number of its first random place in the forward pass.
    sites : how many it may use.
    """

    first_site = 0
    sites = SITES


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    rows: Rows | None,
    *,
    relu: bool = False,
    drop: float = 0.0,
    keys: Keys = None,
) -> Tensor:
    """Return drop(relu(x Wᵀ + b)), each row with the parameters of its network.

    Parameters
    ----------
    x : (N, K).
    weight, bias : (C, K) and (C,), or (S, C, K) and (S, C).
    drop, keys : share of the entries to drop, and the keys of the stack's randomness (`noise.site`).
    """
    if rows is not None:
        return grouped.linear(x, weight, bias, rows, relu=relu, drop=drop, keys=keys)
    out = functional.linear(x, weight, bias).to(x.dtype)
    out = out.relu() if relu else out
    return dropout(out, drop) if drop else out


def dropped(x: Tensor, drop: Drop, rows: Rows | None) -> Tensor:
    """Drop entries of x (N, C); `linear` does it by the way."""
    if not drop.share:
        return x
    if rows is None:
        return dropout(x, drop.share)
    assert drop.keys is not None
    return x * noise.dropout_factors(x, drop.share, drop.keys, rows)


def spread(values: Tensor, rows: Rows) -> Tensor:
    """Give each row what its network has: (S, …) to (N, …)."""
    given: Tensor = _Spread.apply(values, rows)
    return given


class _Spread(torch.autograd.Function):
    """Gradients are added up by `grouped.pool`, row by row; torch's own sum would be slower, or in another order."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: Rows) -> Tensor:
        ctx.known = (values.shape, rows)
        return values.index_select(0, rows.owners(values.device))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        shape, rows = ctx.known
        sums = grouped.pool(gradients[0].flatten(1), rows.ptr).view(-1, *shape[1:])
        slots = send(torch.from_numpy(rows.slots), sums.device)
        return sums.new_zeros(shape).index_copy(0, slots, sums), None


def add_bias(x: Tensor, bias: Tensor, rows: Rows | None) -> Tensor:
    """Add the bias (C,) or, in a stack, that of each row's network (S, C)."""
    return x + bias if rows is None else grouped.add_bias(x, bias, rows)


def sum_each(x: Tensor, count: int, rows: Rows | None) -> Tensor:
    """Sum every `count` consecutive rows."""
    if rows is None:
        return x.view(-1, count, x.shape[1]).sum(1)
    return grouped.pool(x, np.arange(0, len(x) + count, count))


def mlp(layers: nn.Sequential, x: Tensor, rows: Rows | None) -> Tensor:
    """Apply linear layers with ReLUs between or after them."""
    for number, layer in enumerate(layers):
        if isinstance(layer, nn.Linear):
            is_activated = number + 1 < len(layers) and isinstance(layers[number + 1], nn.ReLU)
            x = linear(x, layer.weight, layer.bias, rows, relu=is_activated)
    return x


def layer_norm(x: Tensor, norm: nn.LayerNorm, rows: Rows | None, residual: Tensor | None = None) -> Tensor:
    """Normalize each row of x + residual."""
    if rows is not None:
        return grouped.layer_norm(x, norm.weight, norm.bias, rows, norm.eps, residual=residual)
    normalized: Tensor = norm(x if residual is None else x + residual)
    return normalized


class BatchNorm(nn.BatchNorm1d):
    """Batch normalization of one network; fewer than two rows, which have no variance, get the running statistics."""

    @override
    def forward(self, input: Tensor) -> Tensor:
        is_training = self.training and len(input) > 1
        known = (self.running_mean, self.running_var, self.weight, self.bias)
        return functional.batch_norm(input, *known, is_training, self.momentum or 0.0, self.eps)


def transform_sequences(
    layer: nn.TransformerEncoderLayer, x: Tensor, ptr: NDArray[np.int64], rows: Rows | None, first_site: int = 0
) -> Tensor:
    """Apply a transformer encoder layer with one head, normalized after each part, to sequences of rows.

    Parameters
    ----------
    x : (N, h).
    ptr : (G + 1,) sequence g has the rows ptr[g] to ptr[g + 1].
    first_site : number of the first of four random places.
    """
    attention = layer.self_attn
    assert attention.in_proj_weight is not None
    is_noisy = layer.training if rows is None else rows.noise is not None
    drop = layer.dropout.p if is_noisy else 0.0
    if rows is not None and is_compiled(x, attention.in_proj_weight):
        keys_of_sites = noise.sites(rows.noise if drop else None, first_site, SITES)
        return encode_sequences(x, ptr, rows, _parameters(layer), layer.norm1.eps, drop, keys_of_sites)
    keys = [_keys(rows, first_site + site) if drop else None for site in range(SITES)]
    mapped = linear(x, attention.in_proj_weight, attention.in_proj_bias, rows)
    seen = self_attention(mapped, ptr, drop=drop, keys=keys[0], rows=rows)
    seen = linear(seen, attention.out_proj.weight, attention.out_proj.bias, rows, drop=drop, keys=keys[1])
    x = layer_norm(x, layer.norm1, rows, seen)
    hidden = linear(x, layer.linear1.weight, layer.linear1.bias, rows, relu=True, drop=drop, keys=keys[2])
    hidden = linear(hidden, layer.linear2.weight, layer.linear2.bias, rows, drop=drop, keys=keys[3])
    return layer_norm(x, layer.norm2, rows, hidden)


def _parameters(layer: nn.TransformerEncoderLayer) -> list[Tensor]:
    attention = layer.self_attn
    assert attention.in_proj_weight is not None
    assert attention.in_proj_bias is not None
    parts = (attention.out_proj, layer.linear1, layer.linear2, layer.norm1, layer.norm2)
    maps = [parameter for part in parts for parameter in (part.weight, part.bias)]
    return [attention.in_proj_weight, attention.in_proj_bias, *maps]


def _keys(rows: Rows | None, number: int) -> Keys:
    """Return the keys of a random place; a network alone draws one from torch's generator."""
    if rows is None:
        return np.array([int(torch.randint(2**62, ()))], np.uint64)
    assert rows.noise is not None
    return noise.site(rows.noise, number)


def _glorot(weight: Tensor) -> None:
    """Draw a weight; torch's own function may round the bound differently."""
    bound = math.sqrt(6.0 / sum(weight.shape[-2:]))
    nn.init.uniform_(weight, -bound, bound)


class GlorotLinear(nn.Linear):
    """A linear map without bias that starts as PyG's do."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels, bias=False)

    @override
    def reset_parameters(self) -> None:
        _glorot(self.weight)


class MapAndBias(nn.Module):
    """The parameters of PyG's `GCNConv`, without PyG, whose import takes longer than many a training.

    Here and below names are PyG's, and so are the numbers that a seed gives: PyG draws weights once more when the rest
    of a layer is made.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = GlorotLinear(in_channels, out_channels)
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.lin.reset_parameters()


class AttentionLayer(MapAndBias):
    """The parameters of PyG's `GATConv` with one head."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(in_channels, out_channels)
        self.att_src, self.att_dst = (nn.Parameter(torch.empty(1, 1, out_channels)) for _ in range(2))
        _glorot(self.att_src)
        _glorot(self.att_dst)


class EdgeSumLayer(nn.Module):
    """The parameters of PyG's `GINEConv` with one linear map and another of the edges; `eps` is zero."""

    def __init__(self, in_channels: int, out_channels: int, edge_channels: int) -> None:
        super().__init__()
        self.nn = nn.Linear(in_channels, out_channels)
        self.register_buffer("eps", torch.zeros(1))
        self.lin = nn.Linear(edge_channels, in_channels)
        self.nn.reset_parameters()
        self.lin.reset_parameters()


class SumLayer(nn.Module):
    """The parameters of PyG's `GINConv` with one linear map; `eps`, the node's own extra weight, is zero."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.nn = nn.Linear(in_channels, out_channels)
        self.register_buffer("eps", torch.zeros(1))
        self.nn.reset_parameters()
