"""The peer of training: the same network and loop, fed by PyG's loader and with PyG's way to LEAP."""

from collections.abc import Iterator, Sequence

import numpy as np
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from leap.models.backbones import GraphBatch
from leap.models.encodings import LeapEncoding, NodeData, NodeEncoding
from leap.pipeline.bench.pyg_leap import PygTransform
from leap.pipeline.training.data import Batch


class PygPart:
    """Shuffled batches of PyG's loader, in the form that the loop of training takes."""

    def __init__(self, graphs: Sequence[Data], batch_size: int) -> None:
        self._loader = DataLoader(graphs, batch_size=batch_size, shuffle=True)

    def batches(self, epoch: int = 0, start: int = 0) -> Iterator[Batch]:
        """Return the batches of an epoch, which is another one in every call."""
        for batch in self._loader:
            nodes = NodeData(GraphBatch(batch.edge_index, batch.ptr, batch.batch))
            yield Batch(batch.x, nodes, batch.y, np.zeros(0, np.int64), None)


class PygEncoding(NodeEncoding):
    """The peer's transform with the projection of an encoding of ours."""

    def __init__(self, ours: LeapEncoding) -> None:
        super().__init__()
        encoder = ours.leap.encoders[0]
        self.transform = PygTransform(encoder.unit_directions())  # type: ignore[operator]
        self.projection = encoder.projection
        self.out_channels = ours.out_channels

    def forward(self, x: Tensor, nodes: NodeData) -> Tensor:
        """Return (N, out_channels)."""
        transform = self.transform(x, nodes.graphs.edge_index)
        out: Tensor = self.projection(transform, self.transform.directions)  # type: ignore[operator]
        return out
