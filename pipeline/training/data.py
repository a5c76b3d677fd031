"""Batches for a network: arrays of a stream as tensors, with the labels to learn and the numbers of their items."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leap.models.backbones import GraphBatch
from leap.models.encodings import NodeData
from leap.models.transform import Statistics
from leap.pipeline.training.requirements import name_in_batch
from leap.store import Artifact
from leap.store.graphs import ArrayBatch, GraphStream, StoredGraphs

KEPT_BYTES = 256 * 2**20  # tensors of a validation or test part that stay from epoch to epoch
EVALUATION_NODES = 16_384
MOST_GRAPHS = 512


class Batch(NamedTuple):
    """What one step needs.

    Attributes
    ----------
    y : labels or targets of the items, which are the graphs, or the nodes of a mask.
    items : numbers of the items in the dataset.
    rows : for node tasks, which rows of the scores are the items; None: all.
    """

    x: Tensor
    nodes: NodeData
    y: Tensor | None
    items: NDArray[np.int64]
    rows: Tensor | None


class Inputs(NamedTuple):
    """The artifacts that batches are made of."""

    dataset: Artifact
    neighborhoods: list[Artifact]
    encodings: list[Artifact]
    with_stats: bool


class Part:
    """Batches of the training, validation or test part of a fold.

    Parameters
    ----------
    graphs : numbers of the graphs; None: all.
    mask : for node tasks, name of the part and column of the dataset's masks; None: all nodes.
    items : what is predicted; None: what the dataset's task says.
    """

    def __init__(
        self,
        inputs: Inputs,
        graphs: NDArray[np.int64] | None,
        mask: tuple[str, int] | None,
        *,
        batch_size: int,
        shuffle: bool,
        seed: int,
        memory_bytes: int,
        items: Literal["graph", "node"] | None = None,
    ) -> None:
        self._stream = GraphStream(
            inputs.dataset,
            inputs.neighborhoods,
            {name_in_batch(encoding): encoding for encoding in inputs.encodings},
            graphs=graphs,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            memory_bytes=memory_bytes,
            with_stats=inputs.with_stats,
        )
        self._mask = mask
        self._is_node_task = self._stream.dataset.is_node_task
        self._has_node_items = self._is_node_task if items is None else items == "node"
        self._is_kept = (not shuffle or self._is_node_task) and self._stream.nbytes <= KEPT_BYTES
        self._kept: list[Batch] | None = None

    def steps(self, epoch: int) -> int:
        """How many batches an epoch has."""
        return self._stream.batches(epoch)

    def batches(self, epoch: int = 0, start: int = 0) -> Iterator[Batch]:
        """Return the batches of an epoch from number `start` on."""
        if not self._is_kept:
            return (self._tensors(arrays) for arrays in self._stream.epoch(epoch, start))
        if self._kept is None:
            self._kept = [self._tensors(arrays) for arrays in self._stream.epoch(0)]
        return iter(self._kept[start:])

    def _tensors(self, arrays: ArrayBatch) -> Batch:
        nodes, x = node_data(arrays), torch.from_numpy(arrays.x)
        y = None if arrays.y is None else torch.from_numpy(arrays.y)
        if not self._has_node_items:
            return Batch(x, nodes, y, arrays.graphs, None)
        if self._mask is None or arrays.masks is None:
            return Batch(x, nodes, y if self._is_node_task else None, np.arange(len(arrays.x)), None)
        chosen = np.flatnonzero(arrays.masks[self._mask[0]][:, self._mask[1]])
        rows = torch.from_numpy(chosen)
        return Batch(x, nodes, None if y is None else y[rows], chosen, rows)


def node_data(arrays: ArrayBatch) -> NodeData:
    """Return what encodings and backbones see of a batch beside its features, as tensors that share its memory."""
    edges, ptr, batch = map(torch.from_numpy, (arrays.edge_index, arrays.ptr, arrays.batch))
    graphs = GraphBatch(edges, ptr, batch)
    stats = {hops: Statistics(*map(torch.from_numpy, pair)) for hops, pair in arrays.stats.items()}
    encodings = {name: torch.from_numpy(values) for name, values in arrays.encodings.items()}
    return NodeData(graphs, arrays.neighborhoods, stats, encodings)


def evaluation_batch_size(dataset: Artifact, batch_size: int) -> int:
    """Graphs evaluated at once: many, where they are small."""
    graphs = StoredGraphs.of(dataset)
    nodes = max(1.0, graphs.num_nodes / max(1, graphs.num_graphs))
    return max(batch_size, min(MOST_GRAPHS, int(EVALUATION_NODES / nodes)))
