"""`LEAP`: a learnable local positional encoding as a torch module (paper, section 3)."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from leap.models.generator import borrowed_generator
from leap.models.kernels.directions import random_directions, threshold_grid
from leap.models.projections import make_projection
from leap.models.transform import Statistics, dect
from leap.store import Neighborhoods
from leap.store.errors import InvalidInputError


class UnitColumns(nn.Module):
    """Keep every direction on the unit sphere while it is learned."""

    def forward(self, raw: Tensor) -> Tensor:
        """Scale columns to length one."""
        unit: Tensor = raw / torch.linalg.vector_norm(raw, dim=0).clamp_min(1e-12)
        return unit

    def right_inverse(self, directions: Tensor) -> Tensor:
        """Accept directions of any length."""
        return self.forward(directions)


class _OneHop(nn.Module):
    """Transform and projection for one hop count."""

    directions: Tensor
    thresholds: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        directions: int,
        thresholds: int,
        radius: float,
        projection: str,
        learn_directions: bool,
        learn_thresholds: bool,
        seed: int,
    ) -> None:
        super().__init__()
        start = torch.from_numpy(random_directions(in_channels, directions, seed)).float()
        grid = torch.from_numpy(threshold_grid(thresholds, radius)).float()
        if learn_directions:
            self.directions = nn.Parameter(start)
            parametrize.register_parametrization(self, "directions", UnitColumns())
        else:
            self.register_buffer("directions", start)
        if learn_thresholds:
            self.thresholds = nn.Parameter(grid)
        else:
            self.register_buffer("thresholds", grid)
        self.projection = make_projection(projection, in_channels, directions, thresholds, out_channels)


class LEAP(nn.Module):
    """Local Euler-characteristic-transform positional encoding.

    Parameters
    ----------
    in_channels : dimension d of the features.
    out_channels : dimension k of the encoding; with several hops each contributes k / len(hops).
    hops : hop counts of the neighbourhoods that will be given, in this order.
    directions, thresholds : size of the transform, D × T.
    scale : steepness of the sigmoid.
    radius : thresholds are evenly spaced on [-radius, radius].
    projection : "linear", "conv1d", "deepsets", "attention" or "attention-pe".
    learn_directions : learn them on the unit sphere (LEAP-L) or keep them fixed (LEAP-F).
    learn_thresholds : learn the thresholds too.
    edge_weight : 1 gives the Euler characteristic, 2 the published code's transform.
    seed : of the directions and of the projection's initialization; torch's global generator is left alone.

    Raises
    ------
    InvalidInputError
        If k is not a multiple of the number of hops, or a size is not positive.

    Examples
    --------
    >>> import torch
    >>> from leap.pipeline import khop
    >>> encoder = LEAP(2, out_channels=10, projection="linear")
    >>> hoods = khop([[0, 1, 2], [1, 2, 0]])
    >>> encoder(torch.randn(3, 2), hoods).shape
    torch.Size([3, 10])
    >>> sum(p.numel() for p in encoder.parameters()) - 2 * 16
    2570
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int = 10,
        *,
        hops: Sequence[int] = (1,),
        directions: int = 16,
        thresholds: int = 16,
        scale: float = 128.0,
        radius: float = 1.1,
        projection: str = "conv1d",
        learn_directions: bool = True,
        learn_thresholds: bool = False,
        edge_weight: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.hops = (hops,) if isinstance(hops, int) else tuple(hops)
        _check_sizes(in_channels, out_channels, self.hops, directions, thresholds, scale)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.scale, self.radius, self.edge_weight, self.seed = scale, radius, edge_weight, seed
        self.projection, self.learn_directions, self.learn_thresholds = projection, learn_directions, learn_thresholds
        self.num_directions, self.num_thresholds = directions, thresholds
        with borrowed_generator(seed):
            self.encoders = nn.ModuleList(
                _OneHop(
                    in_channels,
                    out_channels // len(self.hops),
                    directions,
                    thresholds,
                    radius,
                    projection,
                    learn_directions,
                    learn_thresholds,
                    seed,
                )
                for _ in self.hops
            )

    def forward(
        self,
        x: Tensor,
        neighborhoods: Neighborhoods | Sequence[Neighborhoods],
        stats: Statistics | Sequence[Statistics] | None = None,
    ) -> Tensor:
        """Encode every node.

        Parameters
        ----------
        x : (N, in_channels) features.
        neighborhoods : of the N nodes; a sequence, one for each hop count, with several hops.
        stats : mean and scale of each neighbourhood, computed from these very features (see `dect`).

        Returns
        -------
        (N, out_channels).
        """
        hoods = self._per_hop(neighborhoods)
        known = [None] * len(hoods) if stats is None else [stats] if isinstance(stats, Statistics) else list(stats)
        columns = []
        for number, (hood, statistics) in enumerate(zip(hoods, known, strict=True)):
            directions = self._encoder(number).directions  # once, as each access normalizes them
            transform = self._transform(x, hood, number, statistics, directions)
            columns.append(self._encoder(number).projection(transform, directions))
        return torch.cat(columns, dim=1) if len(columns) > 1 else columns[0]

    def transform(
        self, x: Tensor, neighborhoods: Neighborhoods, number: int = 0, stats: Statistics | None = None
    ) -> Tensor:
        """Return the transform (N, D, T) for the hop count at position `number`."""
        return self._transform(x, neighborhoods, number, stats, self._encoder(number).directions)

    def _transform(
        self, x: Tensor, neighborhoods: Neighborhoods, number: int, stats: Statistics | None, directions: Tensor
    ) -> Tensor:
        if x.ndim != 2 or x.shape[1] != self.in_channels:
            raise InvalidInputError(f"x must have shape (N, {self.in_channels}). Got {tuple(x.shape)}.")
        thresholds = self._encoder(number).thresholds
        return dect(x, neighborhoods, directions, thresholds, self.scale, stats=stats, edge_weight=self.edge_weight)

    def project(self, transform: Tensor, number: int = 0) -> Tensor:
        """Project a transform, such as one cached in the store, for the hop count at position `number`."""
        encoder = self._encoder(number)
        out: Tensor = encoder.projection(transform, encoder.directions)
        return out

    def _encoder(self, number: int) -> _OneHop:
        encoder = self.encoders[number]
        assert isinstance(encoder, _OneHop)
        return encoder

    def _per_hop(self, neighborhoods: Neighborhoods | Sequence[Neighborhoods]) -> list[Neighborhoods]:
        hoods = [neighborhoods] if isinstance(neighborhoods, Neighborhoods) else list(neighborhoods)
        met = tuple(hood.hops for hood in hoods)
        if met != self.hops:
            raise InvalidInputError(
                f"this LEAP needs neighbourhoods of {self.hops} hops, in that order. Got those of {met} hops."
            )
        return hoods

    def extra_repr(self) -> str:
        """Return every parameter, so that two encoders that differ look different."""
        shown = {
            "in_channels": self.in_channels,
            "out_channels": self.out_channels,
            "hops": self.hops,
            "directions": self.num_directions,
            "thresholds": self.num_thresholds,
            "scale": self.scale,
            "radius": self.radius,
            "projection": self.projection,
            "learn_directions": self.learn_directions,
            "learn_thresholds": self.learn_thresholds,
            "edge_weight": self.edge_weight,
            "seed": self.seed,
        }
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())


def _check_sizes(
    in_channels: int, out_channels: int, hops: tuple[int, ...], directions: int, thresholds: int, scale: float
) -> None:
    sizes = {
        "in_channels": in_channels,
        "out_channels": out_channels,
        "directions": directions,
        "thresholds": thresholds,
    }
    for name, value in sizes.items():
        if value < 1:
            raise InvalidInputError(f"{name} must be at least 1. Got {value}.")
    if not hops or min(hops) < 1:
        raise InvalidInputError(f"hops must be one or more counts of at least 1. Got {hops}.")
    if out_channels % len(hops):
        raise InvalidInputError(
            f"{len(hops)} hop counts share the {out_channels} dimensions, which must divide. "
            f"Use a multiple of {len(hops)}."
        )
    if not 0 < scale < math.inf:
        raise InvalidInputError(f"scale must be positive and finite. Got {scale}.")
