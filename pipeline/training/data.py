"""Batches for networks: picks of one or many folds as tensors, with labels to learn and the numbers of their items."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from leap.models.backbones import GraphBatch
from leap.models.devices import CPU, send
from leap.models.encodings import NodeData
from leap.models.rows import Rows
from leap.models.stack import Stack
from leap.models.transform import Statistics
from leap.pipeline.training.requirements import mean_nodes
from leap.store import Artifact
from leap.store.graphs import ArrayBatch, GraphStream, Pick, assemble

KEPT_BYTES = 256 * 2**20  # tensors of validation parts that stay from epoch to epoch
EVALUATION_NODES = 16_384
MOST_GRAPHS = 512

Ids = NDArray[np.int64]


class Batch(NamedTuple):
    """What one forward pass needs, of one network or of many, one network's rows after the other's.

    Attributes
    ----------
    y : labels or targets of the items, which are the graphs, or the nodes of a mask.
    items : numbers of the items in the dataset.
    chosen : for node tasks, which rows of the scores are the items; None: all.
    node_ptr, graph_ptr, ptr : (n + 1,), network i owns the nodes node_ptr[i] to node_ptr[i + 1], and so on; `ptr` is of
        items.
    edge_ptr : of edges, where they have attributes.
    """

    x: Tensor
    nodes: NodeData
    y: Tensor | None
    items: Ids
    chosen: Tensor | None
    node_ptr: Ids
    graph_ptr: Ids
    ptr: Ids
    edge_ptr: Ids | None = None

    def to(self, device: torch.device) -> "Batch":
        """Return the same on a device, which the host does not wait for."""
        if device.type == "cpu":
            return self
        x, y, chosen = (None if each is None else send(each, device) for each in (self.x, self.y, self.chosen))
        assert x is not None
        return self._replace(x=x, nodes=self.nodes.to(device), y=y, chosen=chosen)

    def scores(self, network: nn.Module, slots: Ids, noise: NDArray[np.uint64] | None = None) -> Tensor:
        """Return the scores of the items.

        Parameters
        ----------
        network : a stack, or a single network.
        slots : where each network of the batch stands in the stack.
        noise : keys of their randomness.
        """
        nodes = self.nodes
        if isinstance(network, Stack) and network.is_grouped:
            rows, graph_rows = (Rows(ptr, noise, slots) for ptr in (self.node_ptr, self.graph_ptr))
            edge_rows = None if self.edge_ptr is None else Rows(self.edge_ptr, noise, slots)
            nodes = replace(nodes, graphs=replace(nodes.graphs, rows=rows, graph_rows=graph_rows, edge_rows=edge_rows))
        out: Tensor = network(self.x, nodes)
        return out if self.chosen is None else out[self.chosen]


class Part:
    """The training, validation or test part of a fold.

    Parameters
    ----------
    stream : of the part's graphs.
    mask : for node tasks, name of the part and column of the dataset's masks; None: all nodes.
    items : what is predicted; None: what the dataset's task says.
    """

    def __init__(
        self,
        stream: GraphStream,
        mask: tuple[str, int] | None = None,
        *,
        items: Literal["graph", "node"] | None = None,
    ) -> None:
        self._stream, self._mask = stream, mask
        self.is_node_task = stream.dataset.is_node_task
        self._has_node_items = self.is_node_task if items is None else items == "node"
        self._kept: Batch | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that its graphs take in memory, estimated."""
        return self._stream.nbytes

    def steps(self, epoch: int) -> int:
        """How many batches an epoch has."""
        return self._stream.batches(epoch)

    def picks(self, epoch: int = 0, start: int = 0) -> Generator[Pick, None, None]:
        """Return the batches of an epoch from number `start` on, not yet assembled."""
        return self._stream.picks(epoch, start)

    def batch(self, picks: Sequence[Pick], device: torch.device = CPU) -> Batch:
        """Assemble picks of one or more networks; a node task has one, whose batch stays from step to step.

        Nothing waits for the device: while it computes, the next batch is assembled and sent.
        """
        if self._kept is not None:
            return self._kept
        arrays, rows, graphs = assemble(picks)
        batch = self._tensors(arrays, rows, graphs).to(device)
        if self.is_node_task and self._stream.nbytes <= KEPT_BYTES:
            self._kept = batch
        return batch

    def _tensors(self, arrays: ArrayBatch, rows: Ids, graphs: Ids) -> Batch:
        nodes, x = node_data(arrays), torch.from_numpy(arrays.x)
        y = None if arrays.y is None else torch.from_numpy(arrays.y)
        edges = None if arrays.edge_attr is None else np.searchsorted(arrays.edge_index[0], rows)  # sources ascend
        if not self._has_node_items:
            return Batch(x, nodes, y, arrays.graphs, None, rows, graphs, graphs, edges)
        if self._mask is None or arrays.masks is None:
            y = y if self.is_node_task else None
            return Batch(x, nodes, y, np.arange(len(arrays.x)), None, rows, graphs, rows, edges)
        items = np.flatnonzero(arrays.masks[self._mask[0]][:, self._mask[1]])
        chosen, ptr = torch.from_numpy(items), np.array([0, len(items)])
        return Batch(x, nodes, None if y is None else y[chosen], items, chosen, rows, graphs, ptr, edges)


class United(NamedTuple):
    """A batch of several parts, given by their numbers."""

    batch: Batch
    parts: Ids


def united(parts: Sequence[Part], device: torch.device = CPU) -> Iterator[United]:
    """Yield all batches of parts that are evaluated together, as few as `EVALUATION_NODES` allows."""
    waiting: list[Pick] = []
    members: list[int] = []
    rows = 0
    for number, pick in _in_turns([part.picks() for part in parts]):
        if waiting and (number in members or rows + pick.num_nodes > EVALUATION_NODES):
            yield United(parts[0].batch(waiting, device), np.array(members))
            waiting, members, rows = [], [], 0
        waiting.append(pick)
        members.append(number)
        rows += pick.num_nodes
    if waiting:
        yield United(parts[0].batch(waiting, device), np.array(members))


def _in_turns(streams: Sequence[Iterator[Pick]]) -> Iterator[tuple[int, Pick]]:
    """Yield the first pick of each stream with the stream's number, then the second of each, and so on."""
    left = dict(enumerate(streams))
    while left:
        for number, stream in list(left.items()):
            pick = next(stream, None)
            if pick is None:
                del left[number]
            else:
                yield number, pick


class KeptUnions:
    """Batches of parts that are evaluated together again and again; the latest stay in memory while they fit."""

    def __init__(self, device: torch.device = CPU, limit: int = KEPT_BYTES) -> None:
        self._device, self._limit = device, limit
        self._kept: dict[tuple[Part, ...], list[United]] = {}

    def of(self, parts: Sequence[Part]) -> Iterator[United]:
        """Return all batches of some parts."""
        key = tuple(parts)
        if key in self._kept:
            return iter(self._kept[key])
        if _nbytes(key) > self._limit:
            return united(parts, self._device)
        while _nbytes(*self._kept, key) > self._limit:
            self._kept.pop(next(iter(self._kept)))
        self._kept[key] = list(united(parts, self._device))
        return iter(self._kept[key])

    def forget(self, part: Part) -> None:
        """Drop everything that a part has a share in."""
        self._kept = {key: batches for key, batches in self._kept.items() if part not in key}


def _nbytes(*keys: tuple[Part, ...]) -> int:
    return sum(part.nbytes for key in keys for part in key)


def node_data(arrays: ArrayBatch) -> NodeData:
    """Return what encodings and backbones see of a batch beside its features, as tensors that share its memory."""
    edge_index, ptr, batch = map(torch.from_numpy, (arrays.edge_index, arrays.ptr, arrays.batch))
    edge_attr = None if arrays.edge_attr is None else torch.from_numpy(arrays.edge_attr)
    graphs = GraphBatch(edge_index, ptr, batch, host_ptr=arrays.ptr, edge_attr=edge_attr)
    stats = {hops: Statistics(*map(torch.from_numpy, pair)) for hops, pair in arrays.stats.items()}
    encodings = {name: torch.from_numpy(values) for name, values in arrays.encodings.items()}
    return NodeData(graphs, arrays.neighborhoods, stats, encodings)


def evaluation_batch_size(dataset: Artifact, batch_size: int) -> int:
    """Graphs evaluated at once: many, where they are small."""
    return max(batch_size, min(MOST_GRAPHS, int(EVALUATION_NODES / mean_nodes(dataset))))
