"""Batches of a stream as PyG's `Batch`, and a torch dataset of them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info
from torch_geometric.data import Batch

from leap.store.errors import InvalidInputError
from leap.store.graphs import ArrayBatch, GraphStream
from leap.store.graphs.attachment import SHIFTED, attachment, attribute_name, graph_fingerprints

_tensor = torch.from_numpy
_OWN_NAMES = frozenset(
    {"x", "edge_index", "edge_attr", "y", "batch", "ptr", "number", "train_mask", "val_mask", "test_mask"}
)


def to_pyg_batch(batch: ArrayBatch) -> Batch:
    """Return a batch as PyG's `Batch`, as if its graphs had gone through `AddNeighborhoods` and PyG's collation.

    It has `x`, `edge_index`, `y`, `batch` and `ptr`, and `edge_attr` if the stream reads it; each encoding under its
    name; `Neighborhoods.from_data` finds the neighbourhoods; `khop1_mean` and `khop1_scale` are the statistics of those
    of one hop; `number` tells which graphs of the dataset these are. `to_data_list` and indexing work.
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
    if batch.edge_attr is not None:
        values["edge_attr"], slices["edge_attr"] = _tensor(batch.edge_attr), slices["edge_index"]
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
