"""Projections of a neighbourhood's transform to a few numbers: the five of the paper, section 3.2.

Each maps (N, D, T), one Euler characteristic curve for each direction, to (N, k), and is told the directions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from leap.models.addresses import is_compiled
from leap.models.channels import mix_channels, project_curves
from leap.models.layers import Noisy, linear, mlp, spread, sum_each, transform_sequences
from leap.models.registries import PROJECTIONS
from leap.models.rows import Rows
from leap.store.errors import InvalidInputError

HIDDEN = 8
STATE = 16
FEED_FORWARD = 32


class Projection(nn.Module, ABC):
    """A learnable map from a transform to an encoding.

    Attributes
    ----------
    is_invariant : whether the order of the directions does not matter.
    can_stack : whether `forward` obeys `rows`, so that several networks can be trained as one.
    """

    is_invariant = False
    can_stack = False

    @abstractmethod
    def forward(self, transform: Tensor, directions: Tensor, rows: Rows | None = None) -> Tensor:
        """Project (N, D, T), computed along `directions` (d, D), to (N, k).

        In a stack `rows` says which rows belong to which network, and directions are (S, d, D).
        """

    def reset_parameters(self) -> None:
        """Draw the parameters anew, in the order in which they were drawn when the projection was made."""
        for part in self.children():
            reset_module(part)


class LinearProjection(Projection):
    """Flatten and multiply."""

    can_stack = True

    def __init__(self, dim: int, directions: int, thresholds: int, out_channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(directions * thresholds, out_channels)

    @override
    def forward(self, transform: Tensor, directions: Tensor, rows: Rows | None = None) -> Tensor:
        return linear(transform.flatten(1), self.linear.weight, self.linear.bias, rows)


class ConvolutionProjection(Projection):
    """Directions as channels of a series over thresholds: three convolutions of width 1, their mean, an MLP.

    A convolution of width 1 is a linear map of the channels, and the mean over the last one's channels can be taken
    of its weights: the same function, several times cheaper.
    """

    can_stack = True

    def __init__(self, dim: int, directions: int, thresholds: int, out_channels: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(directions, HIDDEN, 1)
        self.second = nn.Conv1d(HIDDEN, HIDDEN, 1)
        self.third = nn.Conv1d(HIDDEN, directions, 1)
        self.mlp = _mlp(thresholds, STATE, out_channels)

    @override
    def forward(self, transform: Tensor, directions: Tensor, rows: Rows | None = None) -> Tensor:
        assert self.first.bias is not None
        assert self.second.bias is not None
        assert self.third.bias is not None
        if rows is not None and is_compiled(transform, self.first.weight):
            convolutions = (self.first, self.second, self.third)
            return project_curves(transform, _weights(convolutions), _weights((self.mlp[0], self.mlp[2])), rows)
        hidden = mix_channels(transform, self.first.weight.squeeze(-1), self.first.bias, rows, relu=True)
        hidden = mix_channels(hidden, self.second.weight.squeeze(-1), self.second.bias, rows, relu=True)
        weight, bias = self.third.weight.squeeze(-1).mean(-2, keepdim=True), self.third.bias.mean(-1, keepdim=True)
        return mlp(self.mlp, mix_channels(hidden, weight, bias, rows).squeeze(1), rows)


class DeepSetsProjection(Projection):
    """The curves as a set: an MLP for each, their sum, another MLP."""

    is_invariant = True
    can_stack = True

    def __init__(self, dim: int, directions: int, thresholds: int, out_channels: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(thresholds, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
        self.outer = _mlp(HIDDEN, HIDDEN, out_channels)

    @override
    def forward(self, transform: Tensor, directions: Tensor, rows: Rows | None = None) -> Tensor:
        _, curves, steps = transform.shape
        inner = mlp(self.inner, transform.reshape(-1, steps), None if rows is None else rows.times(curves))
        return mlp(self.outer, sum_each(inner, curves, rows), rows)


class AttentionProjection(Projection, Noisy):
    """The curves as a set: one transformer encoder layer with one head, the sum, an MLP."""

    is_invariant = True
    can_stack = True

    def __init__(self, dim: int, directions: int, thresholds: int, out_channels: int) -> None:
        super().__init__()
        self.embed = nn.Linear(thresholds, STATE)
        self.encoder = nn.TransformerEncoderLayer(STATE, 1, FEED_FORWARD, batch_first=True)
        self.mlp = _mlp(STATE, STATE, out_channels)

    @override
    def forward(self, transform: Tensor, directions: Tensor, rows: Rows | None = None) -> Tensor:
        nodes, curves, steps = transform.shape
        tokens = None if rows is None else rows.times(curves)
        states = linear(transform.reshape(-1, steps), self.embed.weight, self.embed.bias, tokens)
        ptr = np.arange(0, (nodes + 1) * curves, curves)
        states = transform_sequences(self.encoder, states, ptr, tokens, self.first_site)
        return mlp(self.mlp, sum_each(states, curves, rows), rows)


class DirectedAttentionProjection(AttentionProjection):
    """As attention, with each curve followed by its direction."""

    def __init__(self, dim: int, directions: int, thresholds: int, out_channels: int) -> None:
        super().__init__(dim, directions, thresholds + dim, out_channels)

    @override
    def forward(self, transform: Tensor, directions: Tensor, rows: Rows | None = None) -> Tensor:
        along = directions.mT
        along = along.expand(len(transform), -1, -1) if rows is None else spread(along, rows)
        return super().forward(torch.cat([transform, along], dim=2), directions, rows)


ProjectionMaker = Callable[[int, int, int, int], nn.Module]


def make_projection(
    projection: str | nn.Module | ProjectionMaker, dim: int, directions: int, thresholds: int, out_channels: int
) -> nn.Module:
    """Make a projection by its registered name, or with a callable of these four sizes; a module is taken as it is.

    Parameters
    ----------
    dim : dimension of the features, which is that of a direction.

    Raises
    ------
    InvalidInputError
        If nothing has this name, or what was made is no torch module.
    """
    if isinstance(projection, nn.Module):
        return projection
    make: ProjectionMaker = PROJECTIONS[projection] if isinstance(projection, str) else projection
    made = make(dim, directions, thresholds, out_channels)
    if not isinstance(made, nn.Module):
        raise InvalidInputError(f"the projection {projection!r} must make a torch module. Got {type(made).__name__}.")
    return made


def project(projection: nn.Module, transform: Tensor, directions: Tensor, rows: Rows | None = None) -> Tensor:
    """Project (N, D, T) to (N, k); any module will do, and a `Projection` is told the directions."""
    if not isinstance(projection, Projection):
        out: Tensor = projection(transform)
    elif rows is None:  # one of another package may know nothing of stacks
        out = projection(transform, directions)
    else:
        out = projection(transform, directions, rows)
    return out


def reset_module(module: nn.Module) -> None:
    """Reset a module by its own `reset_parameters`, or its parts one after the other; what has none stays."""
    own = getattr(module, "reset_parameters", None)
    if own is None:
        for part in module.children():
            reset_module(part)
        own = getattr(module, "_reset_parameters", None)  # torch's attention calls it so
    if own is not None:
        own()


def _weights(layers: Iterable[Any]) -> list[Tensor]:
    """Return weight and bias of each; `parameters()` takes longer than what is done with them."""
    return [part for layer in layers for part in (layer.weight, layer.bias)]


def _mlp(size: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, out))
