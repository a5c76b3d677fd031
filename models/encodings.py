"""Encodings as a network uses them: stored ones read from the batch, LEAP computed or projected."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from typing_extensions import override

from leap.models import noise
from leap.models.backbones import GraphBatch
from leap.models.devices import send
from leap.models.encoder import LEAP
from leap.models.layers import Noisy
from leap.models.network_config import LEAP_PARTS, DatasetFacts, NetworkConfig, transform_name, uses_cached_transform
from leap.models.projections import make_projection
from leap.models.registries import ENCODINGS
from leap.models.transform import Statistics, edge_weights, place
from leap.store import Neighborhoods
from leap.store.errors import InvalidInputError


@dataclass(frozen=True)
class NodeData:
    """What is known of the nodes of a batch.

    Attributes
    ----------
    neighborhoods, stats : by hop count; statistics are those of the raw features.
    encodings : stored ones by name, (N, …); for each hop count m, dect{m} (N, D, T) is what LEAP-F projects.
    """

    graphs: GraphBatch
    neighborhoods: Mapping[int, Neighborhoods] = field(default_factory=dict)
    stats: Mapping[int, Statistics] = field(default_factory=dict)
    encodings: Mapping[str, Tensor] = field(default_factory=dict)

    def to(self, device: torch.device | str) -> "NodeData":
        """Return the same on a device, which the host does not wait for; pointers that it has stay with it."""
        return NodeData(
            self.graphs.to(device),
            {
                hops: hoods.torch().map(lambda tensor: send(tensor, device))
                for hops, hoods in self.neighborhoods.items()
            },
            {hops: Statistics(*(send(tensor, device) for tensor in stats)) for hops, stats in self.stats.items()},
            {name: send(tensor, device) for name, tensor in self.encodings.items()},
        )

    def encoding(self, kind: str) -> Tensor:
        """Return a stored encoding, or say that the batch lacks it."""
        if kind not in self.encodings:
            raise InvalidInputError(f"the network needs the encoding {kind}, and the batch has {list(self.encodings)}.")
        return self.encodings[kind]

    def hoods(self, hops: tuple[int, ...]) -> list[Neighborhoods]:
        """Return neighbourhoods by hop counts, or say which the batch lacks."""
        for count in hops:
            if count not in self.neighborhoods:
                raise InvalidInputError(
                    f"the network needs neighbourhoods of {count} hops, and the batch has those of "
                    f"{list(self.neighborhoods)}."
                )
        return [self.neighborhoods[count] for count in hops]


class NodeEncoding(nn.Module, ABC):
    """Columns that are put beside the features of the nodes."""

    out_channels: int

    @abstractmethod
    def forward(self, x: Tensor, nodes: NodeData) -> Tensor:
        """Return (N, out_channels) for features or learned coordinates `x`."""


class FixedEncoding(NodeEncoding):
    """An encoding of the store as it is, flattened."""

    def __init__(self, kind: str, out_channels: int) -> None:
        super().__init__()
        self.kind, self.out_channels = kind, out_channels

    @override
    def forward(self, x: Tensor, nodes: NodeData) -> Tensor:
        stored = nodes.encoding(self.kind).flatten(1)
        if stored.shape[1] != self.out_channels:
            raise InvalidInputError(
                f"{self.kind} must have {self.out_channels} columns. Got an encoding of shape {tuple(stored.shape)}."
            )
        return stored


class SignlessEncoding(FixedEncoding, Noisy):
    """A stored encoding whose signs mean nothing: in training each column of every graph draws a new one."""

    @override
    def forward(self, x: Tensor, nodes: NodeData) -> Tensor:
        stored, rows = super().forward(x, nodes), nodes.graphs.graph_rows
        if not self.training if rows is None else rows.noise is None:
            return stored
        graphs = nodes.graphs
        if rows is None or rows.noise is None:
            drawn = torch.randint(0, 2, (graphs.num_graphs, self.out_channels))  # the same on all devices
            signs = send(drawn, stored.device).to(stored.dtype) * 2 - 1
        else:
            keys = noise.site(rows.noise, self.first_site)
            assert keys is not None
            signs = noise.signs(keys, rows.ptr, self.out_channels, stored)
        return stored * signs[graphs.batch]


class LeapEncoding(NodeEncoding):
    """LEAP on features, on another encoding or on hidden states.

    Parameters
    ----------
    source : "features", or the kind of encoding that LEAP looks at instead.
    has_stats : whether the batch's statistics are those of what LEAP looks at.
    is_cached : whether the transform is read from the batch instead of being computed.
    with_place : whether a node's place in its neighbourhood stands beside its encoding.
    """

    def __init__(
        self,
        config: NetworkConfig,
        in_channels: int,
        source: str = "features",
        has_stats: bool = False,
        is_cached: bool = False,
        with_place: bool = False,
    ) -> None:
        super().__init__()
        self.source, self.has_stats, self.is_cached = source, has_stats, is_cached
        self.leap = LEAP(
            in_channels,
            config.dim,
            hops=config.hops,
            directions=config.directions,
            thresholds=config.thresholds,
            scale=config.scale,
            radius=config.radius,
            projection=config.projection,
            learn_directions=config.learns_directions,
            learn_thresholds=config.learn_thresholds,
            edge_weight=config.edge_weight,
            place=with_place,
            seed=0,
        )
        self.out_channels = self.leap.columns
        # Directions always start from seed 0; the projection's start is part of what a run's seed changes.
        size = (in_channels, config.directions, config.thresholds, config.dim // len(config.hops))
        for encoder in self.leap.encoders:
            encoder.projection = make_projection(config.projection, *size)

    @override
    def forward(self, x: Tensor, nodes: NodeData) -> Tensor:
        rows = nodes.graphs.rows
        if self.is_cached:
            names = map(transform_name, self.leap.hops)
            columns = [self.leap.project(nodes.encoding(name), i, rows=rows) for i, name in enumerate(names)]
            if self.leap.place:
                columns += [place(x, hood, nodes.stats.get(hood.hops)) for hood in nodes.hoods(self.leap.hops)]
            return torch.cat(columns, dim=1)
        hoods = nodes.hoods(self.leap.hops)
        if self.source != "features":
            x = nodes.encoding(self.source).flatten(1).to(x.dtype)
        stats = [nodes.stats[count] for count in self.leap.hops] if self.has_stats and nodes.stats else None
        graphs, weights = nodes.graphs, None
        if graphs.edge_weights is not None:
            weights = [edge_weights(hood, graphs.edge_index, graphs.edge_weights) for hood in hoods]
        out: Tensor = self.leap(x, hoods, stats, edge_weights=weights, rows=rows)
        return out


def make_encoding(part: str, config: NetworkConfig, facts: DatasetFacts, coordinates: int) -> NodeEncoding:
    """Return one part of a network's encoding.

    Parameters
    ----------
    coordinates : columns of the features that LEAP looks at.
    """
    if part not in LEAP_PARTS:
        recipe = ENCODINGS[part].of_options(config.model_dump())
        return (SignlessEncoding if recipe.random_signs else FixedEncoding)(part, recipe.columns)
    on_features = config.leap_on == "features"
    if not on_features:
        coordinates = ENCODINGS[config.leap_on].of_options(config.model_dump()).columns
    return LeapEncoding(
        config,
        coordinates,
        config.leap_on,
        has_stats=on_features and facts.codes is None,
        is_cached=uses_cached_transform(config, is_categorical=facts.codes is not None),
        with_place=config.shows_place,
    )
