"""Backbones that turn node features into scores: gcn, gat, gin and nomp, with the paper's sizes, gine and mlp.

Each maps (N, in_channels) to (N, out_channels). Summing a graph's rows gives the graph's scores; an empty graph's are
zeros. What message passing needs from the edges is computed once for all layers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from leap.models import grouped, noise
from leap.models.addresses import is_compiled
from leap.models.convolutions import sum_layers
from leap.models.devices import send
from leap.models.layers import (
    NOTHING,
    SITES,
    AttentionLayer,
    BatchNorm,
    Drop,
    EdgeSumLayer,
    MapAndBias,
    Noisy,
    SumLayer,
    add_bias,
    dropped,
    layer_norm,
    linear,
    transform_sequences,
)
from leap.models.messages import MANY, Sums, Weights, attend, gather, gcn_weights, sum_messages, sum_weights
from leap.models.registries import BACKBONES, backbone_traits
from leap.models.rows import Rows
from leap.store.errors import InvalidInputError

T = TypeVar("T")


@dataclass(frozen=True)
class GraphBatch:
    """The graphs of a batch, side by side.

    Attributes
    ----------
    edge_index : (2, E) int64, both directions of every edge.
    ptr : (G + 1,) int64, graph g owns the nodes ptr[g] to ptr[g + 1].
    batch : (N,) int64, graph of each node.
    rows, graph_rows : of a stack, which nodes and which graphs belong to which network; None for one network.
    host_ptr : `ptr` as an array on the host, if it is known there.
    edge_attr : (E, c) attributes of the edges in the order of `edge_index`, where the network needs them: int64
        categories as they are stored, reals as backbones take them.
    edge_rows : of a stack, which edges belong to which network.
    edge_weights : (E,) what each edge weighs in transforms of whole graphs and neighbourhoods; None: all the same.
    """

    edge_index: Tensor
    ptr: Tensor
    batch: Tensor
    rows: Rows | None = None
    graph_rows: Rows | None = None
    host_ptr: NDArray[np.int64] | None = None
    edge_attr: Tensor | None = None
    edge_rows: Rows | None = None
    edge_weights: Tensor | None = None
    _made: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def num_graphs(self) -> int:
        """Number of graphs, empty ones included."""
        return len(self.ptr) - 1

    def pool(self, rows: Tensor) -> Tensor:
        """Sum the rows of each graph."""
        return grouped.pool(rows, self.sequences())

    def to(self, device: torch.device | str) -> "GraphBatch":
        """Return the same on a device, with the pointers kept on the host too."""
        edge_index, ptr, batch = (send(each, device) for each in (self.edge_index, self.ptr, self.batch))
        moved = replace(self, edge_index=edge_index, ptr=ptr, batch=batch, host_ptr=self.sequences())
        attributes, weights = (
            None if each is None else send(each, device) for each in (self.edge_attr, self.edge_weights)
        )
        return replace(moved, edge_attr=attributes, edge_weights=weights)

    def attributes(self) -> Tensor:
        """Return the attributes of the edges (E, c), or say that the batch lacks them."""
        if self.edge_attr is None:
            raise InvalidInputError(
                "the network needs attributes of the edges, and the batch has none. Give GraphBatch its edge_attr."
            )
        shape, edges = tuple(self.edge_attr.shape), self.edge_index.shape[1]
        if self.edge_attr.ndim != 2 or shape[0] != edges:
            raise InvalidInputError(f"edge_attr must have shape ({edges}, c), a row per edge. Got {shape}.")
        return self.edge_attr

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return what is made of these graphs at the first call by this name."""
        if name not in self._made:
            self._made[name] = make()
        made: T = self._made[name]
        return made

    def sequences(self) -> NDArray[np.int64]:
        """Return `ptr` as an array on the host."""
        found: NDArray[np.int64] = self.ptr.cpu().numpy() if self.host_ptr is None else self.host_ptr
        return found

    def mean(self, rows: Tensor) -> Tensor:
        """Average the rows of each graph; an empty graph's are zeros."""
        return self.pool(rows) / self.ptr.diff().clamp_min(1)[:, None]


NORMS: dict[str, Callable[[int], nn.Module]] = {"layer": nn.LayerNorm, "batch": BatchNorm}

Widen = Callable[[int, Tensor], Tensor]
Run = Callable[[nn.Module, Tensor, bool, Drop], Tensor]


class Backbone(nn.Module, ABC):
    """A map from node features to node scores, made with (in_channels, out_channels).

    `hidden` is passed on if it was chosen, and so is `layers` to one that has layers, and what else its traits say that
    it takes. One that takes LEAP in every layer is told how many columns come beside its states (`extra`), and lists
    the `widths` of features, states and scores. One that takes attributes of edges is told how many columns they have
    (`edge_channels`) and finds them as `graphs.attributes()`.
    """

    widths: list[int]

    @abstractmethod
    def forward(self, x: Tensor, graphs: GraphBatch, widen: Widen | None = None) -> Tensor:
        """Map (N, in_channels) to (N, out_channels).

        `widen(number, states)` returns columns to put beside the states that enter layer `number` ≥ 1; only backbones
        made with `extra` columns take it.
        """


class GraphBackbone(nn.Module, ABC):
    """A map from whole graphs to scores.

    Made with (in_channels, out_channels) and the options of the transform: directions, thresholds, scale, radius and
    edge_weight.
    """

    @abstractmethod
    def forward(self, x: Tensor, graphs: GraphBatch) -> Tensor:
        """Map features (N, in_channels) to scores (G, out_channels)."""


class LayeredBackbone(Backbone, Noisy):
    """Message-passing layers with ReLU between them, or blocks.

    With `norm`, `residual` or `feed_forward` every layer is a block on states of one width, between a linear map from
    the features and one to the scores: it normalizes the states, applies a layer with its ReLU and maybe a second
    linear map, and adds the result to the states, or replaces them.

    Parameters
    ----------
    extra : columns that `widen` will add to the states before every layer but the first, and before every block.
    norm : "none", "layer" or "batch", before every block and after the last.
    residual : whether a block adds to the states.
    feed_forward : whether a block has a second map; with its layer's own it is a feed-forward part.
    dropout : share of what every map but the last gives that is dropped in training.
    edge_channels : columns of the attributes of edges, for layers that take them.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden: int = 32,
        layers: int = 5,
        extra: int = 0,
        norm: str = "none",
        residual: bool = False,
        feed_forward: bool = False,
        dropout: float = 0.0,
        edge_channels: int = 0,
    ) -> None:
        super().__init__()
        self.residual, self.dropout, self.edge_channels = residual, dropout, edge_channels
        self.has_blocks = norm != "none" or residual or feed_forward
        self.sites = max(SITES, 2 * layers + 1)
        if not self.has_blocks:
            self.widths = [in_channels, *[hidden] * (layers - 1), out_channels]
            sizes = [(a + (extra if number else 0), b) for number, (a, b) in enumerate(pairwise(self.widths))]
            self.layers = nn.ModuleList(self.make_layer(a, b) for a, b in sizes)
            return
        self.widths = [in_channels, *[hidden] * layers, out_channels]
        self.embed = nn.Linear(in_channels, hidden)
        self.layers = nn.ModuleList(self.make_layer(hidden + extra, hidden) for _ in range(layers))
        self.maps = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(layers if feed_forward else 0))
        self.norms = nn.ModuleList(NORMS[norm](hidden) for _ in range(0 if norm == "none" else layers + 1))
        self.readout = nn.Linear(hidden, out_channels)

    @abstractmethod
    def make_layer(self, in_channels: int, out_channels: int) -> nn.Module:
        """Return a layer that maps states of the one width to the other."""

    @abstractmethod
    def along(self, x: Tensor, graphs: GraphBatch) -> Run:
        """Return a function of a layer, states, whether a ReLU follows and what is dropped after it.

        What all need from the edges comes once.
        """

    @override
    def forward(self, x: Tensor, graphs: GraphBatch, widen: Widen | None = None) -> Tensor:
        run, last = self.along(x, graphs), len(self.layers) - 1
        if self.has_blocks:
            return self._through_blocks(x, graphs.rows, run, widen)
        for number, layer in enumerate(self.layers):
            if number and widen is not None:
                x = torch.cat([x, widen(number, x)], dim=1)
            is_last = number == last
            x = run(layer, x, not is_last, NOTHING if is_last else self._drop(number, graphs.rows))
        return x

    def _through_blocks(self, x: Tensor, rows: Rows | None, run: Run, widen: Widen | None) -> Tensor:
        x = self._map(self.embed, x, rows, self._drop(0, rows), relu=True)
        for number, layer in enumerate(self.layers):
            seen = self._normalized(number, x, rows)
            if widen is not None:
                seen = torch.cat([seen, widen(number + 1, seen)], dim=1)
            seen = run(layer, seen, True, self._drop(2 * number + 1, rows))
            if len(self.maps):
                seen = self._map(self.maps[number], seen, rows, self._drop(2 * number + 2, rows))
            x = x + seen if self.residual else seen
        return self._map(self.readout, self._normalized(len(self.layers), x, rows), rows)

    def _map(
        self, layer: nn.Module, x: Tensor, rows: Rows | None, drop: Drop = NOTHING, *, relu: bool = False
    ) -> Tensor:
        assert isinstance(layer, nn.Linear)
        return linear(x, layer.weight, layer.bias, rows, relu=relu, drop=drop.share, keys=drop.keys)

    def _normalized(self, number: int, x: Tensor, rows: Rows | None) -> Tensor:
        if not len(self.norms):
            return x
        norm = self.norms[number]
        normalized: Tensor = layer_norm(x, norm, rows) if isinstance(norm, nn.LayerNorm) else norm(x)
        return normalized

    def _drop(self, site: int, rows: Rows | None) -> Drop:
        if not (self.training if rows is None else rows.noise is not None):
            return NOTHING
        return Drop(self.dropout, None if rows is None else noise.site(rows.noise, self.first_site + site))


class SummingBackbone(LayeredBackbone):
    """Layers that sum over neighbours, then map. A stack's are one operation, unless something comes in between."""

    @abstractmethod
    def weights(self, edge_index: Tensor, num_nodes: int) -> Weights:
        """Return how much of each node goes where."""

    @abstractmethod
    def map_of(self, layer: nn.Module) -> tuple[Tensor, Tensor]:
        """Return weight and bias of a layer."""

    @override
    def along(self, x: Tensor, graphs: GraphBatch) -> Run:
        edges = graphs.edge_index
        if edges.shape[1] >= MANY and graphs.rows is None and is_compiled(x) and not torch.compiler.is_compiling():
            sums: Callable[[Tensor], Tensor] = graphs.once(
                self.weights.__qualname__, lambda: Sums(edges, self.weights(edges, len(x)))
            )
        else:
            sums = partial(gather, edge_index=edges, weights=self.weights(edges, len(x)))

        def run(layer: nn.Module, states: Tensor, relu: bool, drop: Drop) -> Tensor:
            summed = sums(states)
            return linear(summed, *self.map_of(layer), graphs.rows, relu=relu, drop=drop.share, keys=drop.keys)

        return run

    @override
    def forward(self, x: Tensor, graphs: GraphBatch, widen: Widen | None = None) -> Tensor:
        maps = [self.map_of(layer) for layer in self.layers]
        is_plain = not (self.has_blocks or self.dropout) and widen is None
        if not is_plain or graphs.rows is None or not is_compiled(x, maps[0][0]):
            return super().forward(x, graphs, widen)
        return sum_layers(x, graphs.edge_index, self.weights(graphs.edge_index, len(x)), maps, graphs.rows)


class GcnBackbone(SummingBackbone):
    """Graph convolutions. The parameters are those of PyG's `GCNConv`, the sums over neighbours are `gather`.

    Sums come before the linear map, which is the same, so that the map's bias and ReLU are one operation with it.
    """

    @override
    def make_layer(self, in_channels: int, out_channels: int) -> nn.Module:
        return MapAndBias(in_channels, out_channels)

    @override
    def weights(self, edge_index: Tensor, num_nodes: int) -> Weights:
        return gcn_weights(edge_index, num_nodes)

    @override
    def map_of(self, layer: nn.Module) -> tuple[Tensor, Tensor]:
        assert isinstance(layer, MapAndBias)
        return layer.lin.weight, layer.bias


class GatBackbone(LayeredBackbone):
    """Graph attention with one head. The parameters are those of PyG's `GATConv`, the attention is `attend`."""

    @override
    def make_layer(self, in_channels: int, out_channels: int) -> nn.Module:
        return AttentionLayer(in_channels, out_channels)

    def along(self, x: Tensor, graphs: GraphBatch) -> Run:
        """Attend to neighbours and the node itself."""
        themselves = torch.arange(len(x), device=graphs.edge_index.device).expand(2, -1)
        edges = torch.cat([graphs.edge_index, themselves], dim=1)

        def run(layer: nn.Module, states: Tensor, relu: bool, drop: Drop) -> Tensor:
            assert isinstance(layer, AttentionLayer)
            mapped = linear(states, layer.lin.weight, None, graphs.rows)
            vectors = torch.cat([layer.att_src, layer.att_dst], dim=-2).squeeze(-3)
            scores = linear(mapped, vectors, None, graphs.rows)
            seen = attend(mapped, scores, edges)
            shifted = add_bias(seen, layer.bias, graphs.rows)
            return dropped(shifted.relu() if relu else shifted, drop, graphs.rows)

        return run


class GinBackbone(SummingBackbone):
    """Sums over neighbours and the node itself, each followed by one linear map, as PyG's `GINConv` has it."""

    @override
    def make_layer(self, in_channels: int, out_channels: int) -> nn.Module:
        return SumLayer(in_channels, out_channels)

    @override
    def weights(self, edge_index: Tensor, num_nodes: int) -> Weights:
        return sum_weights(edge_index, num_nodes)

    @override
    def map_of(self, layer: nn.Module) -> tuple[Tensor, Tensor]:
        assert isinstance(layer, SumLayer)
        return layer.nn.weight, layer.nn.bias


class GineBackbone(LayeredBackbone):
    """Sums over neighbours that see the edges: x[v] + Σ_{u→v} relu(x[u] + the edge's attributes, mapped), then a map.

    Both maps are linear with a bias, as PyG's `GINEConv` has them around one linear map, and belong to their layer.
    """

    @override
    def make_layer(self, in_channels: int, out_channels: int) -> nn.Module:
        return EdgeSumLayer(in_channels, out_channels, self.edge_channels)

    @override
    def along(self, x: Tensor, graphs: GraphBatch) -> Run:
        attributes, rows = graphs.attributes(), graphs.rows

        def run(layer: nn.Module, states: Tensor, relu: bool, drop: Drop) -> Tensor:
            assert isinstance(layer, EdgeSumLayer)
            beside = linear(attributes, layer.lin.weight, layer.lin.bias, graphs.edge_rows)
            summed = sum_messages(states, graphs.edge_index, beside)
            return linear(summed, layer.nn.weight, layer.nn.bias, rows, relu=relu, drop=drop.share, keys=drop.keys)

        return run


class NompBackbone(Backbone, Noisy):
    """No message passing: one transformer encoder layer over the nodes of a graph, whatever its edges."""

    def __init__(
        self, in_channels: int, out_channels: int, hidden: int = 16, feed_forward: int = 64, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.embed = nn.Linear(in_channels, hidden)
        self.encoder = nn.TransformerEncoderLayer(hidden, 1, feed_forward, dropout, batch_first=True)
        self.readout = nn.Linear(hidden, out_channels)

    @override
    def forward(self, x: Tensor, graphs: GraphBatch, widen: Widen | None = None) -> Tensor:
        rows = graphs.rows
        states = linear(x, self.embed.weight, self.embed.bias, rows)
        states = transform_sequences(self.encoder, states, graphs.sequences(), rows, self.first_site)
        return linear(states, self.readout.weight, self.readout.bias, rows)


class MlpBackbone(LayeredBackbone):
    """Linear maps of each node by itself, with as many parameters as graph convolutions.

    As with `nomp`, edges are seen through the encoding alone; its attention between all pairs of nodes is out of reach
    on a large graph, and this is not.
    """

    @override
    def make_layer(self, in_channels: int, out_channels: int) -> nn.Module:
        return nn.Linear(in_channels, out_channels)

    @override
    def along(self, x: Tensor, graphs: GraphBatch) -> Run:
        def run(layer: nn.Module, states: Tensor, relu: bool, drop: Drop) -> Tensor:
            return self._map(layer, states, graphs.rows, drop, relu=relu)

        return run


def make_backbone(
    name: str,
    in_channels: int,
    out_channels: int,
    hidden: int | None = None,
    layers: int | None = None,
    extra: int = 0,
    norm: str = "none",
    residual: bool = False,
    feed_forward: bool = False,
    dropout: float | None = None,
    edge_channels: int = 0,
) -> Backbone:
    """Return a backbone by name; what is not given is its own, the paper's for built-in ones.

    Parameters
    ----------
    edge_channels : columns of the attributes of edges; 0 for a backbone that is to do without.

    Raises
    ------
    InvalidInputError
        If there is no such backbone, or it cannot have these sizes.
    """
    traits = backbone_traits(name)
    if layers is not None and not traits.has_layers:
        raise InvalidInputError(f"{name} has one layer. Leave the number of layers out.")
    if extra and not traits.takes_leap_in_every_layer:
        able = [other for other in BACKBONES if backbone_traits(other).takes_leap_in_every_layer]
        raise InvalidInputError(f"{name} takes nothing beside its states. Use {', '.join(able)}.")
    if traits.needs_edges and not edge_channels:
        raise InvalidInputError(f"{name} needs attributes of edges. Give edge_channels, how many columns they have.")
    if edge_channels and not traits.takes_edges:
        able = [other for other in BACKBONES if backbone_traits(other).takes_edges]
        raise InvalidInputError(f"{name} takes no attributes of edges. Use {', '.join(able)}.")
    blocks = {"norm": norm, "residual": residual, "feed_forward": feed_forward} if traits.takes_blocks else {}
    given = {"hidden": hidden, "layers": layers, "extra": extra or None, "dropout": dropout, **blocks}
    given["edge_channels"] = edge_channels or None
    chosen = {option: value for option, value in given.items() if value is not None}
    backbone: Backbone = BACKBONES[name](in_channels, out_channels, **chosen)
    return backbone
