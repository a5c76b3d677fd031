"""The global classifiers dect-4k and dect-65k: the transform of a whole graph as an image, read by a small CNN."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from leap.models.backbones import GraphBackbone, GraphBatch
from leap.models.kernels.directions import random_directions, threshold_grid
from leap.models.transform import graph_dect
from leap.store.errors import InvalidInputError

CELLS = 4  # the CNN's last image is averaged to 2 × 2


class GlobalDect(GraphBackbone):
    """Classify graphs by their Euler characteristic transform alone.

    The width of the last hidden layer is chosen so that the number of parameters is the closest to the budget.
    Directions are learned unless they would take more than half of it.

    Attributes
    ----------
    budget : number of parameters.
    channels : of the two convolutions.
    """

    budget: ClassVar[int]
    channels: ClassVar[tuple[int, int]]
    thresholds: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        directions: int = 16,
        thresholds: int = 16,
        scale: float = 128.0,
        radius: float = 1.1,
        edge_weight: float = 1.0,
    ) -> None:
        super().__init__()
        if min(directions, thresholds) < CELLS:
            raise InvalidInputError(
                f"dect-4k and dect-65k need at least {CELLS} directions and thresholds. Got {directions} and "
                f"{thresholds}."
            )
        self.scale, self.edge_weight = scale, edge_weight
        start = torch.from_numpy(random_directions(in_channels, directions, 0)).float()
        self.directions = nn.Parameter(start, requires_grad=start.numel() <= self.budget // 2)
        self.register_buffer("thresholds", torch.from_numpy(threshold_grid(thresholds, radius)).float())
        first, second = self.channels
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, first, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(first, second, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        taken = sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)
        flat = second * CELLS
        width = max(1, round((self.budget - taken - out_channels) / (flat + 1 + out_channels)))
        self.mlp = nn.Sequential(nn.Linear(flat, width), nn.ReLU(), nn.Linear(width, out_channels))

    def forward(self, x: Tensor, graphs: GraphBatch) -> Tensor:
        """Map features (N, in_channels) to scores (G, out_channels); an empty graph's are zeros."""
        image = self.transform(x, graphs).unsqueeze(1)
        scores: Tensor = self.mlp(self.convolutions(image))
        return scores * (graphs.ptr.diff() > 0).unsqueeze(1)

    def transform(self, x: Tensor, graphs: GraphBatch) -> Tensor:
        """Return the transform of every graph, (G, directions, thresholds)."""
        unit = self.directions / torch.linalg.vector_norm(self.directions, dim=0).clamp_min(1e-12)
        return graph_dect(x, graphs, unit, self.thresholds, self.scale, edge_weight=self.edge_weight)


class SmallGlobalDect(GlobalDect):
    """`dect-4k`."""

    budget, channels = 4_000, (8, 16)


class LargeGlobalDect(GlobalDect):
    """`dect-65k`."""

    budget, channels = 65_000, (32, 64)
