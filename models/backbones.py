"""Backbones that turn node features into scores: gcn, gat, gin, nomp and gps, with the paper's sizes.

Each maps (N, in_channels) to (N, out_channels). Summing a graph's rows gives the graph's scores; an empty graph's are
zeros. What message passing needs from the edges is computed once for all layers.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, GPSConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_self_loops

from leap.store.errors import InvalidInputError


@dataclass(frozen=True)
class GraphBatch:
    """The graphs of a batch, side by side.

    Attributes
    ----------
    edge_index : (2, E) int64, both directions of every edge.
    ptr : (G + 1,) int64, graph g owns the nodes ptr[g] to ptr[g + 1].
    batch : (N,) int64, graph of each node.
    """

    edge_index: Tensor
    ptr: Tensor
    batch: Tensor

    @property
    def num_graphs(self) -> int:
        """Number of graphs, empty ones included."""
        return len(self.ptr) - 1

    def pool(self, rows: Tensor) -> Tensor:
        """Sum the rows of each graph."""
        return rows.new_zeros(self.num_graphs, rows.shape[1]).index_add(0, self.batch, rows)


class Backbone(nn.Module, ABC):
    """A map from node features to node scores."""

    @abstractmethod
    def forward(self, x: Tensor, graphs: GraphBatch) -> Tensor:
        """Map (N, in_channels) to (N, out_channels)."""


def _sizes(in_channels: int, hidden: int, out_channels: int, layers: int) -> list[tuple[int, int]]:
    widths = [in_channels, *[hidden] * (layers - 1), out_channels]
    return list(pairwise(widths))


class GcnBackbone(Backbone):
    """Graph convolutions with ReLU between them."""

    def __init__(self, in_channels: int, out_channels: int, hidden: int = 32, layers: int = 5) -> None:
        super().__init__()
        sizes = _sizes(in_channels, hidden, out_channels, layers)
        self.layers = nn.ModuleList(GCNConv(a, b, normalize=False) for a, b in sizes)

    def forward(self, x: Tensor, graphs: GraphBatch) -> Tensor:
        """Map (N, in_channels) to (N, out_channels)."""
        edge_index, weight = gcn_norm(graphs.edge_index, None, len(x), add_self_loops=True, dtype=x.dtype)
        for number, layer in enumerate(self.layers):
            x = layer(x.relu() if number else x, edge_index, weight)
        return x


class GatBackbone(Backbone):
    """Graph attention with one head and ReLU between layers."""

    def __init__(self, in_channels: int, out_channels: int, hidden: int = 32, layers: int = 5) -> None:
        super().__init__()
        sizes = _sizes(in_channels, hidden, out_channels, layers)
        self.layers = nn.ModuleList(GATConv(a, b, heads=1, add_self_loops=False) for a, b in sizes)

    def forward(self, x: Tensor, graphs: GraphBatch) -> Tensor:
        """Map (N, in_channels) to (N, out_channels)."""
        edge_index, _ = add_self_loops(graphs.edge_index, num_nodes=len(x))
        for number, layer in enumerate(self.layers):
            x = layer(x.relu() if number else x, edge_index)
        return x


class GinBackbone(Backbone):
    """Sums over neighbours, each followed by one linear map, with ReLU between layers."""

    def __init__(self, in_channels: int, out_channels: int, hidden: int = 32, layers: int = 5) -> None:
        super().__init__()
        sizes = _sizes(in_channels, hidden, out_channels, layers)
        self.layers = nn.ModuleList(GINConv(nn.Linear(a, b)) for a, b in sizes)

    def forward(self, x: Tensor, graphs: GraphBatch) -> Tensor:
        """Map (N, in_channels) to (N, out_channels)."""
        for number, layer in enumerate(self.layers):
            x = layer(x.relu() if number else x, graphs.edge_index)
        return x


class NompBackbone(Backbone):
    """No message passing: one transformer encoder layer over the nodes of a graph, whatever its edges."""

    def __init__(self, in_channels: int, out_channels: int, hidden: int = 16, feed_forward: int = 64) -> None:
        super().__init__()
        self.embed = nn.Linear(in_channels, hidden)
        self.encoder = nn.TransformerEncoderLayer(hidden, 1, feed_forward, batch_first=True)
        self.readout = nn.Linear(hidden, out_channels)

    def forward(self, x: Tensor, graphs: GraphBatch) -> Tensor:
        """Map (N, in_channels) to (N, out_channels)."""
        sizes = graphs.ptr.diff()
        # A graph without nodes would be a row of padding alone, whose attention is not a number.
        row_of_graph = (sizes > 0).cumsum(0) - 1
        row = row_of_graph[graphs.batch]
        place = torch.arange(len(x), device=x.device) - graphs.ptr[graphs.batch]
        rows, width = int((sizes > 0).sum()), int(sizes.max()) if len(sizes) else 0
        if rows == 0:
            return self.readout(self.embed(x))
        hidden = self.embed(x)
        if rows * width == len(x):
            return self.readout(self.encoder(hidden.view(rows, width, -1)).reshape(len(x), -1))
        flat = row * width + place
        padded = hidden.new_zeros(rows * width, hidden.shape[1]).index_copy(0, flat, hidden)
        is_padding = torch.ones(rows * width, dtype=torch.bool, device=x.device)
        is_padding[flat] = False
        mixed = self.encoder(padded.view(rows, width, -1), src_key_padding_mask=is_padding.view(rows, width))
        return self.readout(mixed.reshape(rows * width, -1)[flat])


class GpsBackbone(Backbone):
    """PyG's GPS layers: message passing and global attention side by side."""

    def __init__(self, in_channels: int, out_channels: int, hidden: int = 32, layers: int = 5) -> None:
        super().__init__()
        self.embed = nn.Linear(in_channels, hidden)
        self.layers = nn.ModuleList(
            GPSConv(hidden, GINConv(nn.Linear(hidden, hidden)), heads=1, dropout=0.1) for _ in range(layers)
        )
        self.readout = nn.Linear(hidden, out_channels)

    def forward(self, x: Tensor, graphs: GraphBatch) -> Tensor:
        """Map (N, in_channels) to (N, out_channels)."""
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x, graphs.edge_index, graphs.batch)
        return self.readout(x)


BACKBONES: dict[str, type[Backbone]] = {
    "gcn": GcnBackbone,
    "gat": GatBackbone,
    "gin": GinBackbone,
    "nomp": NompBackbone,
    "gps": GpsBackbone,
}
LAYERED = frozenset({"gcn", "gat", "gin", "gps"})


def make_backbone(
    name: str, in_channels: int, out_channels: int, hidden: int | None = None, layers: int | None = None
) -> Backbone:
    """Return a backbone by name; sizes that are not given are the paper's."""
    if name not in BACKBONES:
        raise InvalidInputError(f"no backbone {name!r}. Choose from {', '.join(BACKBONES)}.")
    given: dict[str, int] = {}
    if hidden is not None:
        given["hidden"] = hidden
    if layers is not None:
        if name not in LAYERED:
            raise InvalidInputError(f"{name} has one layer. Leave the number of layers out.")
        given["layers"] = layers
    return BACKBONES[name](in_channels, out_channels, **given)
