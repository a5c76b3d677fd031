"""The backbone gps, apart from the others: PyG, whose layers it takes, is slow to import."""

from torch import Tensor, nn
from torch.nn.functional import dropout
from torch_geometric.nn import GINConv, GINEConv, GPSConv
from typing_extensions import override

from leap.models.backbones import Backbone, GraphBatch, Widen
from leap.models.layers import linear
from leap.models.messages import Weights, gather, sum_messages, sum_weights
from leap.models.sequences import self_attention


class GpsBackbone(Backbone):
    """GPS layers: message passing and global attention side by side.

    Messages are those of gin or, with attributes of edges, those of gine.

    The parameters are those of PyG's layer. Its forward pass pads graphs to the largest, for which it asks the device.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden: int = 32,
        layers: int = 5,
        dropout: float = 0.1,
        edge_channels: int = 0,
    ) -> None:
        super().__init__()
        self.edge_channels = edge_channels

        def convolution() -> nn.Module:
            inner = nn.Linear(hidden, hidden)
            return GINEConv(inner, edge_dim=edge_channels) if edge_channels else GINConv(inner)

        self.embed = nn.Linear(in_channels, hidden)
        alone = {"allow_single_element": True}  # a batch of one node gets the running statistics
        self.layers = nn.ModuleList(
            GPSConv(hidden, convolution(), heads=1, dropout=dropout, norm_kwargs=alone) for _ in range(layers)
        )
        self.readout = nn.Linear(hidden, out_channels)

    @override
    def forward(self, x: Tensor, graphs: GraphBatch, widen: Widen | None = None) -> Tensor:
        attributes = graphs.attributes() if self.edge_channels else None
        x, weights = self.embed(x).to(x.dtype), sum_weights(graphs.edge_index, len(x))
        for layer in self.layers if len(x) else ():  # normalizing no nodes is not defined
            assert isinstance(layer, GPSConv)
            x = _gps_layer(layer, x, graphs, weights, attributes)
        return self.readout(x)


def _gps_layer(layer: GPSConv, x: Tensor, graphs: GraphBatch, weights: Weights, attributes: Tensor | None) -> Tensor:
    drop = layer.dropout if layer.training else 0.0
    attention = layer.attn
    if attributes is None:
        summed = gather(x, graphs.edge_index, weights)
    else:
        summed = sum_messages(x, graphs.edge_index, layer.conv.lin(attributes).to(x.dtype))
    summed = layer.conv.nn(summed)
    near = layer.norm1(dropout(summed, drop) + x)
    mapped = linear(x, attention.in_proj_weight, attention.in_proj_bias, None)
    seen = attention.out_proj(self_attention(mapped, graphs.sequences()))
    out = near + layer.norm2(dropout(seen, drop) + x)
    result: Tensor = layer.norm3(out + layer.mlp(out))
    return result
