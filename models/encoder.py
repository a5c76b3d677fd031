"""`LEAP`: a learnable local positional encoding as a torch module (paper, section 3)."""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from leap.models.backbones import GraphBatch
from leap.models.generator import borrowed_generator
from leap.models.kernels.border import whole_number
from leap.models.kernels.directions import random_directions, threshold_grid
from leap.models.layers import linear
from leap.models.projections import ProjectionMaker, make_projection, project, reset_module
from leap.models.rows import Rows
from leap.models.transform import Statistics, check_neighborhoods, dect, graph_dect, place
from leap.store import Neighborhoods
from leap.store.errors import InvalidInputError


class _UnitDirections(nn.Module):
    """Directions that stay on the unit sphere while they are learned."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.original = nn.Parameter(_unit_columns(start))

    def forward(self) -> Tensor:
        """Return unit columns, whatever length they have been given."""
        return _unit_columns(self.original)


def _unit_columns(directions: Tensor) -> Tensor:
    """Return columns of length one; of a stack's directions (S, d, D) too."""
    unit: Tensor = directions / torch.linalg.vector_norm(directions, dim=-2, keepdim=True).clamp_min(1e-12)
    return unit


class _OneHop(nn.Module):
    """Transform and projection for one hop count."""

    directions: Tensor
    thresholds: Tensor

    def __init__(
        self,
        in_channels: int,
        directions: int,
        thresholds: int,
        radius: float,
        projection: nn.Module,
        learn_directions: bool,
        learn_thresholds: bool,
        seed: int | None,
    ) -> None:
        super().__init__()
        self.radius, self.learn_directions = radius, learn_directions
        start = _first_directions(in_channels, directions, seed)
        grid = torch.from_numpy(threshold_grid(thresholds, radius)).float()
        if learn_directions:
            self.parametrizations = nn.ModuleDict({"directions": _UnitDirections(start)})  # named as checkpoints do
        else:
            self.register_buffer("directions", start)
        if learn_thresholds:
            self.thresholds = nn.Parameter(grid)
        else:
            self.register_buffer("thresholds", grid)
        self.projection = projection

    def unit_directions(self) -> Tensor:
        """Return the directions (d, D); learned ones are scaled to length one at each call."""
        if not self.learn_directions:
            return self.directions
        unit: Tensor = self.parametrizations["directions"]()
        return unit

    @torch.no_grad()
    def reset_parameters(self, seed: int | None) -> None:
        dim, count = self.unit_directions().shape
        start = _first_directions(dim, count, seed)
        if self.learn_directions:
            self.parametrizations["directions"].load_state_dict({"original": _unit_columns(start)})
        else:
            self.directions.copy_(start)
        self.thresholds.copy_(torch.from_numpy(threshold_grid(len(self.thresholds), self.radius)))
        reset_module(self.projection)


def _first_directions(dim: int, count: int, seed: int | None) -> Tensor:
    """Draw directions with a seed; with one from torch's generator if it is None."""
    drawn = int(torch.randint(2**62, ())) if seed is None else seed
    return torch.from_numpy(random_directions(dim, count, drawn)).float()


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
    projection : "linear", "conv1d", "deepsets", "attention", "attention-pe" or another registered name; or a torch
        module that maps (N, directions, thresholds) to (N, out_channels); or a callable of (in_channels, directions,
        thresholds, k / len(hops)) that makes one, called once per hop count.
    learn_directions : learn them on the unit sphere (LEAP-L) or keep them fixed (LEAP-F).
    learn_thresholds : learn the thresholds too.
    edge_weight : 1 gives the Euler characteristic, 2 the published code's transform.
    place : put a node's place in its neighbourhood beside its encoding: for each hop count its normalized position,
        the neighbourhood's width and its number of nodes, in_channels + 2 further columns (`leap.models.place`).
    seed : of the directions and of the projection's initialization, which leave torch's global generator alone then.
        None: that generator decides, so that two encoders start differently and `torch.manual_seed` repeats both.

    Raises
    ------
    InvalidInputError
        If k is not a multiple of the number of hops, a size is not positive, there is no such projection, or one
        module is given for several hops.

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
        projection: str | nn.Module | ProjectionMaker = "conv1d",
        learn_directions: bool = True,
        learn_thresholds: bool = False,
        edge_weight: float = 1.0,
        place: bool = False,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.hops = (hops,) if isinstance(hops, int) else tuple(hops)
        _check_sizes(in_channels, out_channels, self.hops, directions, thresholds, scale)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.scale, self.radius, self.edge_weight, self.seed = scale, radius, edge_weight, seed
        self.place = place
        self.learn_directions, self.learn_thresholds = learn_directions, learn_thresholds
        self.num_directions, self.num_thresholds = directions, thresholds
        if isinstance(projection, nn.Module) and len(self.hops) > 1:
            raise InvalidInputError(
                f"one projection cannot serve {len(self.hops)} hop counts. Give a callable that makes one for each."
            )
        self.encoders = nn.ModuleList()
        with _drawing_from(seed):
            for _ in self.hops:
                size = (in_channels, directions, thresholds)
                made = make_projection(projection, *size, out_channels // len(self.hops))
                self.encoders.append(_OneHop(*size, radius, made, learn_directions, learn_thresholds, seed))
        self.projection = projection if isinstance(projection, str) else type(self._encoder(0).projection).__name__

    @property
    def columns(self) -> int:
        """Columns of what `forward` returns."""
        return self.out_channels + self.place * len(self.hops) * (self.in_channels + 2)

    def reset_parameters(self) -> None:
        """Draw directions and projections anew, as when the encoder was made, and put the thresholds back.

        With a seed that gives the same start again. Of a projection that was given, the parts are reset that know how.
        """
        with _drawing_from(self.seed):
            for number in range(len(self.hops)):
                self._encoder(number).reset_parameters(self.seed)

    def forward(
        self,
        x: Tensor,
        neighborhoods: Neighborhoods | Sequence[Neighborhoods],
        stats: Statistics | Sequence[Statistics] | None = None,
        *,
        edge_weights: Tensor | Sequence[Tensor] | None = None,
        rows: Rows | None = None,
    ) -> Tensor:
        """Encode every node.

        Parameters
        ----------
        x : (N, in_channels) features.
        neighborhoods : of the N nodes; a sequence, one for each hop count, with several hops.
        stats : mean and scale of each neighbourhood, computed from these very features (see `dect`).
        edge_weights : what each edge of the neighbourhoods weighs, times `edge_weight` (see `models.edge_weights`); a
            sequence, one tensor for each hop count, with several hops.
        rows : which nodes belong to which network, for the encoders of a `Stack`.

        Returns
        -------
        (N, columns): the encoding of out_channels, and the places if they are wanted.
        """
        hoods = self._per_hop(neighborhoods)
        known = [None] * len(hoods) if stats is None else [stats] if isinstance(stats, Statistics) else list(stats)
        weights: list[Tensor | None] = [edge_weights] if isinstance(edge_weights, Tensor) else [*(edge_weights or ())]
        weights = weights or [None] * len(hoods)
        columns = []
        for number, (hood, statistics, weight) in enumerate(zip(hoods, known, weights, strict=True)):
            directions = self._encoder(number).unit_directions()  # once, as each call normalizes them
            transform = self._transform(x, hood, number, statistics, directions, rows, weight)
            columns.append(self._project(transform, number, directions, rows))
        if self.place:
            columns += [place(x, hood, statistics) for hood, statistics in zip(hoods, known, strict=True)]
        return torch.cat(columns, dim=1) if len(columns) > 1 else columns[0]

    def transform(
        self, x: Tensor, neighborhoods: Neighborhoods, number: int = 0, stats: Statistics | None = None
    ) -> Tensor:
        """Return the transform (N, D, T) for the hop count at position `number`."""
        return self._transform(x, neighborhoods, number, stats, self._encoder(number).unit_directions())

    def _transform(
        self,
        x: Tensor,
        neighborhoods: Neighborhoods,
        number: int,
        stats: Statistics | None,
        directions: Tensor,
        rows: Rows | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        if not isinstance(x, Tensor) or (x.dtype != directions.dtype and not torch.is_autocast_enabled(x.device.type)):
            kind, wanted = type(x).__name__, str(directions.dtype).removeprefix("torch.")
            raise InvalidInputError(
                f"x must be a tensor of {wanted}, as the encoder. Got {getattr(x, 'dtype', '')} in a {kind}. Give "
                f"torch.as_tensor(x, dtype=torch.{wanted}), or move the encoder with .to()."
            )
        if x.ndim != 2 or x.shape[1] != self.in_channels:
            raise InvalidInputError(f"x must have shape (N, {self.in_channels}). Got {tuple(x.shape)}.")
        thresholds = self._encoder(number).thresholds
        edge_weight = self.edge_weight if weights is None else self.edge_weight * weights
        return dect(
            x, neighborhoods, directions, thresholds, self.scale, stats=stats, edge_weight=edge_weight, rows=rows
        )

    def project(self, transform: Tensor, number: int = 0, *, rows: Rows | None = None) -> Tensor:
        """Project a transform, such as one cached in the store, for the hop count at position `number`."""
        return self._project(transform, number, self._encoder(number).unit_directions(), rows)

    def _project(self, transform: Tensor, number: int, directions: Tensor, rows: Rows | None) -> Tensor:
        if rows is not None and directions.ndim == 2:  # fixed ones, which all networks have
            directions = directions.expand(int(rows.slots.max(initial=0)) + 1, -1, -1)
        out = project(self._encoder(number).projection, transform, directions, rows)
        wanted = (len(transform), self.out_channels // len(self.hops))
        if tuple(out.shape) != wanted:
            raise InvalidInputError(
                f"the projection {self.projection} must map {tuple(transform.shape)} to {wanted}. "
                f"Got {tuple(out.shape)}."
            )
        return out

    def _encoder(self, number: int) -> _OneHop:
        encoder = self.encoders[number]
        assert isinstance(encoder, _OneHop)
        return encoder

    def _per_hop(self, neighborhoods: Neighborhoods | Sequence[Neighborhoods]) -> list[Neighborhoods]:
        hoods: list[Any] = list(neighborhoods) if isinstance(neighborhoods, list | tuple) else [neighborhoods]
        for hood in hoods:
            check_neighborhoods(hood, self.hops)
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
            "place": self.place,
            "seed": self.seed,
        }
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())


class WholeGraphs(nn.Module):
    """Scores of graphs from their transforms, which are projected as LEAP does; an empty graph's are zeros.

    Directions start from a seed, and differ from those of LEAP.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        dim: int,
        directions: int,
        thresholds: int,
        scale: float,
        radius: float,
        projection: str,
        learn_directions: bool,
        edge_weight: float,
    ) -> None:
        super().__init__()
        self.scale, self.edge_weight = scale, edge_weight
        made = make_projection(projection, in_channels, directions, thresholds, dim)
        self.encoder = _OneHop(in_channels, directions, thresholds, radius, made, learn_directions, False, 1)
        self.readout = nn.Linear(dim, out_channels)

    def forward(self, x: Tensor, graphs: GraphBatch) -> Tensor:
        """Map features (N, in_channels) to scores (G, out_channels)."""
        directions, rows = self.encoder.unit_directions(), graphs.graph_rows
        curves = graph_dect(x, graphs, directions, self.encoder.thresholds, self.scale, edge_weight=self.edge_weight)
        encodings = project(self.encoder.projection, curves, directions, rows)
        scores = linear(encodings, self.readout.weight, self.readout.bias, rows)
        return scores * (graphs.ptr.diff() > 0)[:, None]


def _drawing_from(seed: int | None) -> AbstractContextManager[None]:
    return nullcontext() if seed is None else borrowed_generator(seed)


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
        if whole_number(name, value) < 1:
            raise InvalidInputError(f"{name} must be at least 1. Got {value}.")
    if not hops or min(whole_number("hops", count) for count in hops) < 1:
        raise InvalidInputError(f"hops must be one or more counts of at least 1. Got {hops}.")
    if out_channels % len(hops):
        raise InvalidInputError(
            f"{len(hops)} hop counts must divide the {out_channels} dimensions, of which each gets an equal share. "
            f"Use a multiple of {len(hops)}."
        )
    if not 0 < scale < math.inf:
        raise InvalidInputError(f"scale must be positive and finite. Got {scale}.")
