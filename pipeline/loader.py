"""Batches of a stream as tensors: for our own training, and as PyG's `Batch` for anybody's."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info
from torch_geometric.data import Batch

from leap.models.backbones import GraphBatch
from leap.models.transform import Statistics
from leap.store import Neighborhoods
from leap.store.errors import InvalidInputError
from leap.store.graphs import ArrayBatch, GraphStream
from leap.store.graphs.attachment import SHIFTED, attachment, attribute_name, graph_fingerprints

_tensor = torch.from_numpy
_OWN_NAMES = frozenset({"x", "edge_index", "y", "batch", "ptr", "number", "train_mask", "val_mask", "test_mask"})


@dataclass(frozen=True, eq=False)
class TensorBatch:
    """A batch as tensors; attributes as in `ArrayBatch`, whose memory they share.

    Attributes
    ----------
    numbers : (g,) int64, numbers of the graphs in the dataset.
    graphs : the graphs side by side: `edge_index`, `ptr`, `batch`.
    x : (n, d) float32, or int64 for categorical features.
    y : labels or targets of graphs or nodes, or None.
    neighborhoods : by hops, as tensors.
    stats : by hops, mean (n, d) and scale (n,).
    encodings : by name, (n, …).
    masks : for node tasks {"train", "val", "test"} -> (n, splits), else None.
    """

    numbers: Tensor
    graphs: GraphBatch
    x: Tensor
    y: Tensor | None
    neighborhoods: dict[int, Neighborhoods]
    stats: dict[int, Statistics]
    encodings: dict[str, Tensor]
    masks: dict[str, Tensor] | None

    def to(self, device: torch.device | str) -> "TensorBatch":
        """Return the batch on a device."""
        graphs = self.graphs
        return replace(
            self,
            numbers=self.numbers.to(device),
            graphs=GraphBatch(graphs.edge_index.to(device), graphs.ptr.to(device), graphs.batch.to(device)),
            x=self.x.to(device),
            y=None if self.y is None else self.y.to(device),
            neighborhoods={hops: hoods.to(device) for hops, hoods in self.neighborhoods.items()},
            stats={hops: Statistics(s.mean.to(device), s.scale.to(device)) for hops, s in self.stats.items()},
            encodings={name: tensor.to(device) for name, tensor in self.encodings.items()},
            masks=None if self.masks is None else {part: mask.to(device) for part, mask in self.masks.items()},
        )


def to_tensors(batch: ArrayBatch) -> TensorBatch:
    """Return a batch as tensors on the CPU, without copying.

    Examples
    --------
    >>> import tempfile
    >>> from leap.pipeline import Context, ingest
    >>> from leap.store import Store
    >>> store = Store.open(tempfile.mkdtemp())
    >>> stream = GraphStream(store.get(ingest("letters-low", context=Context(store=store))["dataset"].key))
    >>> to_tensors(next(stream.epoch(0))).graphs.num_graphs
    16
    """
    hoods = {
        hops: Neighborhoods(_tensor(h.node_ptr), _tensor(h.nodes), _tensor(h.edge_ptr), _tensor(h.edges), hops, h.cap)
        for hops, h in batch.neighborhoods.items()
    }
    return TensorBatch(
        _tensor(batch.graphs),
        GraphBatch(_tensor(batch.edge_index), _tensor(batch.ptr), _tensor(batch.batch)),
        _tensor(batch.x),
        None if batch.y is None else _tensor(batch.y),
        hoods,
        {hops: Statistics(_tensor(mean), _tensor(scale)) for hops, (mean, scale) in batch.stats.items()},
        {name: _tensor(array) for name, array in batch.encodings.items()},
        None if batch.masks is None else {part: _tensor(mask) for part, mask in batch.masks.items()},
    )


def to_pyg_batch(batch: ArrayBatch) -> Batch:
    """Return a batch as PyG's `Batch`, as if its graphs had gone through `AddNeighborhoods` and PyG's collation.

    It has `x`, `edge_index`, `y`, `batch` and `ptr`; each encoding under its name; `Neighborhoods.from_data` finds the
    neighbourhoods; `khop1_mean` and `khop1_scale` are the statistics of those of one hop; `number` tells which graphs
    of the dataset these are. `to_data_list` and indexing work.
    """
    ptr, nodes = batch.ptr, _tensor(batch.ptr)
    entries: NDArray[np.int64] = np.searchsorted(batch.edge_index[0], ptr)  # sources ascend
    each = torch.arange(batch.num_graphs + 1)
    no_shift, shift = torch.zeros(batch.num_graphs, dtype=torch.int64), nodes[:-1]
    values: dict[str, Any] = {
        "x": _tensor(batch.x),
        "edge_index": _tensor(batch.edge_index),
        "number": _tensor(batch.graphs),
        **{name: _tensor(array) for name, array in batch.encodings.items()},
        **{f"{part}_mask": _tensor(mask) for part, mask in (batch.masks or {}).items()},
    }
    slices: dict[str, Any] = {"edge_index": _tensor(entries), "number": each}
    shifts: dict[str, Any] = {"edge_index": shift}
    if batch.y is not None:
        values["y"] = _tensor(batch.y)
        slices["y"] = each if batch.masks is None else nodes
    fingerprints = graph_fingerprints(batch.edge_index, ptr) if batch.neighborhoods else ptr
    for hops, hoods in batch.neighborhoods.items():
        name = attribute_name(hops)
        values[name], slices[name] = attachment(hoods, ptr, fingerprints)
        shifts[name] = dict.fromkeys(values[name], no_shift) | dict.fromkeys(SHIFTED, shift)
    for hops, (mean, scale) in batch.stats.items():
        name = attribute_name(hops)
        values |= {f"{name}_mean": _tensor(mean), f"{name}_scale": _tensor(scale)}
    result = Batch(**values, batch=_tensor(batch.batch), ptr=nodes)
    result._num_graphs = batch.num_graphs
    result._slice_dict = {name: slices.get(name, nodes) for name in values}
    result._inc_dict = {name: shifts.get(name, no_shift) for name in values}
    return result


class StreamDataset(IterableDataset[Any]):
    """A stream as a torch dataset whose items are PyG batches; give it to a `DataLoader` with `batch_size=None`.

    The loader's workers share the batches out among themselves, and hand them over in the order of the stream: an
    epoch is the same for any number of workers. Each worker reads whatever its batches need, with a memory of its own.

    Parameters
    ----------
    stream : what to iterate over.

    Raises
    ------
    InvalidInputError
        If an encoding has a name that PyG needs for something else.

    Examples
    --------
    >>> import tempfile
    >>> from torch.utils.data import DataLoader
    >>> from leap.pipeline import Context, ingest
    >>> from leap.store import Store
    >>> store = Store.open(tempfile.mkdtemp())
    >>> stream = GraphStream(store.get(ingest("letters-low", context=Context(store=store))["dataset"].key))
    >>> dataset = StreamDataset(stream)
    >>> for epoch in range(2):
    ...     dataset.set_epoch(epoch)
    ...     print(sum(batch.num_graphs for batch in DataLoader(dataset, batch_size=None)))
    2250
    2250
    """

    def __init__(self, stream: GraphStream) -> None:
        taken = sorted(_OWN_NAMES & set(stream.encoding_names))
        if taken:
            raise InvalidInputError(f"an encoding cannot be called {taken[0]!r} in a PyG batch. Choose another name.")
        self.stream = stream
        # In shared memory, so that workers which live through several epochs learn of the next one.
        self._epoch: Tensor = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]

    def set_epoch(self, number: int) -> None:
        """Choose the epoch that the next iteration goes through; it stays the same otherwise."""
        self._epoch.fill_(number)

    def __len__(self) -> int:
        return self.stream.batches(int(self._epoch))

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        start, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for batch in self.stream.epoch(int(self._epoch), start, step=step):
            yield to_pyg_batch(batch)
