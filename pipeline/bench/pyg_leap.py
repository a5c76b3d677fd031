"""The peer of LEAP: what one writes with PyG alone, every neighbourhood found, batched and normalized at every step."""

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.utils import scatter

from leap.models.kernels.directions import threshold_grid
from leap.models.kernels.normalization import MARGIN
from leap.pipeline.bench.pyg_khop import khop_loop


class PygTransform(nn.Module):
    """The differentiable Euler characteristic transform of 1-hop neighbourhoods, every sigmoid evaluated.

    Parameters
    ----------
    directions : (d, D) to start from; they are learned, and nothing keeps them on the sphere.
    """

    grid: Tensor

    def __init__(self, directions: Tensor, thresholds: int = 16, scale: float = 128.0, radius: float = 1.1) -> None:
        super().__init__()
        self.directions = nn.Parameter(directions.detach().clone())
        self.register_buffer("grid", torch.from_numpy(threshold_grid(thresholds, radius)).float()[:, None, None])
        self.scale = scale

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return (N, D, T) for features (N, d) and edges as PyG lists them."""
        found = khop_loop(edge_index, len(x), 1)
        hoods = Batch.from_data_list([Data(x=x[members], edge_index=edges) for members, edges in found])
        owner = hoods.batch
        centred = hoods.x - scatter(hoods.x, owner, reduce="mean")[owner]
        extent = scatter(centred.norm(dim=1), owner, reduce="max")[owner]
        heights = centred / (extent + MARGIN)[:, None] @ self.directions
        # Each edge once: PyG lists both directions of all of them.
        edges = hoods.edge_index[:, hoods.edge_index[0] < hoods.edge_index[1]]
        tops = torch.maximum(heights[edges[0]], heights[edges[1]])
        curves = x.new_zeros(len(self.grid), len(x), heights.shape[1])
        curves = curves.index_add(1, owner, torch.sigmoid(self.scale * (self.grid - heights)))
        curves = curves.index_add(1, owner[edges[0]], torch.sigmoid(self.scale * (self.grid - tops)), alpha=-1)
        return curves.permute(1, 2, 0)


class PygLeap(nn.Module):
    """The transform followed by one linear map to `out_channels` numbers."""

    def __init__(self, directions: Tensor, out_channels: int = 10) -> None:
        super().__init__()
        self.transform = PygTransform(directions)
        self.linear = nn.Linear(directions.shape[1] * len(self.transform.grid), out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return (N, out_channels)."""
        out: Tensor = self.linear(self.transform(x, edge_index).flatten(1))
        return out
