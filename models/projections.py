"""Projections of a neighbourhood's transform to a few numbers: the five of the paper, section 3.2.

Each maps (N, D, T), one Euler characteristic curve for each direction, to (N, k), and is told the directions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn
from typing_extensions import override

from leap.models.registries import PROJECTIONS
from leap.store.errors import InvalidInputError

HIDDEN = 8
STATE = 16
FEED_FORWARD = 32


class Projection(nn.Module, ABC):
    """A learnable map from a transform to an encoding.

    Attributes
    ----------
    is_invariant : whether the order of the directions does not matter.
    """

    is_invariant = False

    @abstractmethod
    def forward(self, transform: Tensor, directions: Tensor) -> Tensor:
        """Project (N, D, T), computed along `directions` (d, D), to (N, k)."""

    def reset_parameters(self) -> None:
        """Draw the parameters anew, in the order in which they were drawn when the projection was made."""
        for part in self.children():
            reset_module(part)


class LinearProjection(Projection):
    """Flatten and multiply."""

    def __init__(self, dim: int, directions: int, thresholds: int, out_channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(directions * thresholds, out_channels)

    @override
    def forward(self, transform: Tensor, directions: Tensor) -> Tensor:
        out: Tensor = self.linear(transform.flatten(1))
        return out


class ConvolutionProjection(Projection):
    """Directions as channels of a series over thresholds: three convolutions of width 1, their mean, an MLP.

    A convolution of width 1 is a linear map of the channels, and the mean over the last one's channels can be taken
    of its weights: the same function, several times cheaper.
    """

    def __init__(self, dim: int, directions: int, thresholds: int, out_channels: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(directions, HIDDEN, 1)
        self.second = nn.Conv1d(HIDDEN, HIDDEN, 1)
        self.third = nn.Conv1d(HIDDEN, directions, 1)
        self.mlp = _mlp(thresholds, STATE, out_channels)

    @override
    def forward(self, transform: Tensor, directions: Tensor) -> Tensor:
        assert self.third.bias is not None
        series = transform.transpose(1, 2)
        hidden = nn.functional.linear(series, self.first.weight.squeeze(2), self.first.bias).relu()
        hidden = nn.functional.linear(hidden, self.second.weight.squeeze(2), self.second.bias).relu()
        mean = hidden @ self.third.weight.squeeze(2).mean(0) + self.third.bias.mean()
        out: Tensor = self.mlp(mean)
        return out


class DeepSetsProjection(Projection):
    """The curves as a set: an MLP for each, their sum, another MLP."""

    is_invariant = True

    def __init__(self, dim: int, directions: int, thresholds: int, out_channels: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(thresholds, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
        self.outer = _mlp(HIDDEN, HIDDEN, out_channels)

    @override
    def forward(self, transform: Tensor, directions: Tensor) -> Tensor:
        out: Tensor = self.outer(self.inner(transform).sum(1))
        return out


class AttentionProjection(Projection):
    """The curves as a set: one transformer encoder layer with one head, the sum, an MLP."""

    is_invariant = True

    def __init__(self, dim: int, directions: int, thresholds: int, out_channels: int) -> None:
        super().__init__()
        self.embed = nn.Linear(thresholds, STATE)
        self.encoder = nn.TransformerEncoderLayer(STATE, 1, FEED_FORWARD, batch_first=True)
        self.mlp = _mlp(STATE, STATE, out_channels)

    @override
    def forward(self, transform: Tensor, directions: Tensor) -> Tensor:
        out: Tensor = self.mlp(self.encoder(self.embed(transform)).sum(1))
        return out


class DirectedAttentionProjection(AttentionProjection):
    """As attention, with each curve followed by its direction."""

    def __init__(self, dim: int, directions: int, thresholds: int, out_channels: int) -> None:
        super().__init__(dim, directions, thresholds + dim, out_channels)

    @override
    def forward(self, transform: Tensor, directions: Tensor) -> Tensor:
        along = directions.T.expand(len(transform), -1, -1)
        return super().forward(torch.cat([transform, along], dim=2), directions)


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


def project(projection: nn.Module, transform: Tensor, directions: Tensor) -> Tensor:
    """Project (N, D, T) to (N, k); any module will do, and a `Projection` is told the directions."""
    arguments = (transform, directions) if isinstance(projection, Projection) else (transform,)
    out: Tensor = projection(*arguments)
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


def _mlp(size: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, out))
