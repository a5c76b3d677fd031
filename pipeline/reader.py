"""Read the graphs around a partition: its own nodes and, where a graph is cut, those within some hops of them."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.recent import RecentValues
from leap.store import Partition, Store
from leap.store.graphs import Ragged, StoredGraphs
from leap.store.graphs.ragged import overlap

MEMORY_BYTES = 1024 * 2**20
WHOLE_GRAPH_BYTES = 512 * 2**20

V = TypeVar("V")
Memory = RecentValues[Any]


@dataclass(frozen=True)
class LocalGraph:
    """A piece of the dataset with nodes renumbered in ascending order of their dataset-wide ids.

    Attributes
    ----------
    ids : (n,) dataset-wide ids, ascending.
    indptr, indices : CSR over local ids; entries that lead out of the piece are left out.
    sources : local ids of the nodes asked for; all within the wanted hops of them are in the piece.
    """

    ids: NDArray[np.int64]
    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    sources: NDArray[np.int64]

    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in (self.ids, self.indptr, self.indices, self.sources))


def new_memory(budget: int = MEMORY_BYTES) -> Memory:
    """Return a memory for arrays and pieces of datasets."""
    return RecentValues(budget, lambda value: value.nbytes if isinstance(value, np.ndarray) else value.nbytes())


MEMORY = new_memory()
"""What the tasks of this process read lately; consecutive partitions ask for the same again and again."""


class _RememberedGraphs(StoredGraphs):
    """A stored dataset whose arrays are kept in a memory, under the path of the artifact, and cannot be written to."""

    def __init__(self, dataset: StoredGraphs, memory: Memory) -> None:
        super().__init__(dataset._location, dataset.manifest)
        self._dataset, self._memory = dataset, memory

    def read(self, partition: int, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
        """Return arrays of one partition, remembered."""

        def remembered(name: str) -> NDArray[Any]:
            array = self._dataset.read(partition, [name])[name]
            array.flags.writeable = False
            return array

        wanted = self.array_names() if names is None else names
        return {name: self._memory.get((self.path, partition, name), partial(remembered, name)) for name in wanted}


@dataclass(frozen=True)
class GraphReader:
    """Pieces of a stored dataset by node ranges, for one task.

    A cut graph is loaded whole if its arrays take at most `whole_graph_bytes`, and otherwise gathered row by row
    around the nodes asked for. Both ways give the same neighbourhoods.

    Attributes
    ----------
    memory : what tasks have read lately; threads may share it.
    """

    dataset: StoredGraphs
    memory: Memory = field(default=MEMORY, repr=False)
    whole_graph_bytes: int = WHOLE_GRAPH_BYTES

    def __post_init__(self) -> None:
        object.__setattr__(self, "dataset", _RememberedGraphs(self.dataset, self.memory))

    def remember(self, name: Hashable, make: Callable[[], V]) -> V:
        """Return what was made under a name lately, or make it; it must know its bytes as `nbytes()`."""
        found: V = self.memory.get(name, make)
        return found

    def node_ptr(self, partition: Partition) -> NDArray[np.int64]:
        """First node of each graph of the partition, and the end of the last, as dataset-wide ids."""
        if partition.graph_hi == partition.graph_lo:
            return np.array([partition.node_lo], dtype=np.int64)
        return self.dataset.node_ptr(partition.graph_lo, partition.graph_hi)

    def features(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """Return the features of ascending dataset-wide ids, reading one partition at a time."""
        return self.dataset.features(ids)

    def around(self, lo: int, hi: int, hops: int) -> LocalGraph:
        """Return a piece that holds everything within `hops` of the nodes lo to hi."""
        return self.around_ids(np.arange(lo, hi, dtype=np.int64), hops)

    def around_ids(self, sources: NDArray[np.int64], hops: int) -> LocalGraph:
        """Return a piece that holds everything within `hops` of the given ascending nodes."""
        if not len(sources):
            none = self.dataset.neighbours(sources)
            return LocalGraph(sources, none.ptr, none["ids"], sources)
        closed = self._closed_range(int(sources[0]), int(sources[-1]) + 1)
        if closed is None:
            return self._halo(sources, hops)
        piece = self.remember((self.dataset.path, *closed), lambda: self._whole(*closed))
        return replace(piece, sources=sources - closed[0])

    def _whole(self, lo: int, hi: int) -> LocalGraph:
        ids = np.arange(lo, hi, dtype=np.int64)
        rows = self.dataset.neighbours(ids)
        indices = rows["ids"]
        return LocalGraph(ids, rows.ptr, (indices - indices.dtype.type(lo)) if lo else indices, ids[:0])

    def _closed_range(self, lo: int, hi: int) -> tuple[int, int] | None:
        """Return a node range of whole graphs around lo to hi if it is small enough to load, else None."""
        parts = self._overlapping(lo, hi)
        first, last = self.node_ptr(parts[0]), self.node_ptr(parts[-1])
        start = int(first[np.searchsorted(first, lo, side="right") - 1])
        end = int(last[np.searchsorted(last, hi, side="left")])
        is_cut = start < parts[0].node_lo or end > parts[-1].node_hi
        if not is_cut:
            return start, end
        size = sum(self.dataset.entries(p.index) * 4 + p.num_nodes * 8 for p in self._overlapping(start, end))
        return None if size > self.whole_graph_bytes else (start, end)

    def _overlapping(self, lo: int, hi: int) -> list[Partition]:
        parts = self.dataset.partitions
        return [parts[part] for part, _, _ in overlap(self.dataset.node_ranges, lo, hi)]

    def _halo(self, sources: NDArray[np.int64], hops: int) -> LocalGraph:
        owners, rows = [sources], [self.dataset.neighbours(sources)]
        for _ in range(hops):
            reached = np.unique(rows[-1]["ids"]).astype(np.int64)
            owners.append(np.setdiff1d(reached, np.concatenate(owners), assume_unique=True))
            rows.append(self.dataset.neighbours(owners[-1]))
        order = np.argsort(np.concatenate(owners), kind="stable")
        ids = np.concatenate(owners)[order]
        found = Ragged.concatenate(rows).take(order)
        neighbours = found["ids"]
        position = np.minimum(np.searchsorted(ids, neighbours), len(ids) - 1)
        inside = ids[position] == neighbours
        kept = Ragged(found.ptr, {"ids": position.astype(neighbours.dtype)}).where(inside)
        return LocalGraph(ids, kept.ptr, kept["ids"], np.searchsorted(ids, sources))


def open_reader(url: str, key: str) -> GraphReader:
    """Return a reader of a dataset for a task."""
    return GraphReader(StoredGraphs.of(Store.open(url).get(key)))
