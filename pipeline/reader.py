"""Read the graphs around a partition: its own nodes and, where a graph is cut, those within some hops of them."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.recent import RecentValues
from leap.store import Artifact, Partition, Store

CACHE_BYTES = 512 * 2**20
WHOLE_GRAPH_BYTES = 512 * 2**20


class Sized(Protocol):
    """Something that knows how many bytes it takes."""

    def nbytes(self) -> int:
        """Bytes of all arrays."""
        ...


S = TypeVar("S", bound=Sized)


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


class GraphReader:
    """Random access to a stored dataset by node ranges, keeping lately read arrays within a memory budget.

    A cut graph is loaded whole if its arrays take at most `whole_graph_bytes`, and otherwise gathered row by row
    around the nodes asked for. Both ways give the same neighbourhoods. Tasks on several threads may share a reader:
    it never changes but for what it remembers, and the arrays that it returns cannot be written to.
    """

    def __init__(
        self, dataset: Artifact, cache_bytes: int = CACHE_BYTES, whole_graph_bytes: int = WHOLE_GRAPH_BYTES
    ) -> None:
        self.dataset = dataset
        self._whole_graph_bytes = whole_graph_bytes
        self._arrays: RecentValues[NDArray[Any]] = RecentValues(cache_bytes, lambda array: array.nbytes)
        # Consecutive partitions of one cut graph ask for the same piece again and again.
        self._pieces: RecentValues[LocalGraph] = RecentValues(whole_graph_bytes, LocalGraph.nbytes)
        self._inputs: RecentValues[Any] = RecentValues(cache_bytes, lambda part: part.nbytes())

    def array(self, partition: int, name: str) -> NDArray[Any]:
        """Return one array of a partition of the dataset."""

        def read() -> NDArray[Any]:
            array = self.dataset.read(partition, [name])[name]
            array.flags.writeable = False
            return array

        return self._arrays.get((partition, name), read)

    def input(self, artifact: Artifact, partition: int, read: Callable[[Artifact, int], S]) -> S:
        """Return what `read` makes of a partition of another artifact of the dataset, and remember it.

        Parts of a result that are smaller than their input come one after the other, on this thread or another.
        """
        found: S = self._inputs.get((artifact.key, partition, read), lambda: read(artifact, partition))
        return found

    def overlapping(self, lo: int, hi: int) -> list[Partition]:
        """Return the partitions of the dataset that own a node from lo to hi."""
        return [part for part in self.dataset.partitions if part.node_lo < hi and part.node_hi > lo]

    def node_ptr(self, partition: Partition) -> NDArray[np.int64]:
        """First node of each graph of the partition, and the end of the last, as dataset-wide ids."""
        chosen = [
            p for p in self.dataset.partitions if p.graph_lo < partition.graph_hi and p.graph_hi > partition.graph_lo
        ]
        pieces: list[NDArray[np.int64]] = []
        covered = partition.graph_lo
        for part in chosen:
            ptr = self.array(part.index, "node_ptr")
            lo = max(part.graph_lo, covered)
            hi = min(part.graph_hi, partition.graph_hi)
            if hi > lo:
                piece = ptr[lo - part.graph_lo : hi - part.graph_lo + 1]
                pieces.append(piece if not pieces else piece[1:])
                covered = hi
        if not pieces:
            return np.array([partition.node_lo], dtype=np.int64)
        return np.concatenate(pieces)

    def features(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """Return the feature rows of ascending dataset-wide ids, reading one partition at a time."""
        return self._gather("x", ids)

    def _gather(self, name: str, ids: NDArray[np.int64]) -> NDArray[Any]:
        pieces = []
        for part, lo, hi in self._runs(ids):
            rows = self.array(part.index, name)
            wanted = ids[lo:hi] - part.node_lo
            contiguous = len(wanted) == part.num_nodes
            pieces.append(rows if contiguous else rows[wanted])
        if not pieces:
            return self.array(0, name)[:0]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _runs(self, ids: NDArray[np.int64]) -> list[tuple[Partition, int, int]]:
        """Split ascending ids into runs that one partition owns: (partition, from, to)."""
        runs = []
        at = 0
        for part in self.dataset.partitions:
            to = int(np.searchsorted(ids, part.node_hi, side="left"))
            if to > at:
                runs.append((part, at, to))
                at = to
        return runs

    def rows(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the adjacency rows of ascending ids as (counts, neighbours with dataset-wide ids)."""
        counts: list[NDArray[np.int64]] = []
        neighbours: list[NDArray[Any]] = []
        for part, lo, hi in self._runs(ids):
            indptr, indices = self.array(part.index, "indptr"), self.array(part.index, "indices")
            local = ids[lo:hi] - part.node_lo
            size = indptr[local + 1] - indptr[local]
            counts.append(size)
            if len(local) == part.num_nodes:
                neighbours.append(indices)
            else:
                neighbours.append(indices[_spread(indptr[local], size)])
        if not counts:
            return np.zeros(0, np.int64), self.array(0, "indices")[:0]
        return np.concatenate(counts), np.concatenate(neighbours)

    def around(self, lo: int, hi: int, hops: int) -> LocalGraph:
        """Return a piece that holds everything within `hops` of the nodes lo to hi."""
        return self.around_ids(np.arange(lo, hi, dtype=np.int64), hops)

    def around_ids(self, sources: NDArray[np.int64], hops: int) -> LocalGraph:
        """Return a piece that holds everything within `hops` of the given ascending nodes."""
        if not len(sources):
            empty = np.zeros(0, np.int64)
            return LocalGraph(empty, np.zeros(1, np.int64), self.array(0, "indices")[:0], empty)
        closed = self._closed_range(int(sources[0]), int(sources[-1]) + 1)
        if closed is None:
            return self._halo(sources, hops)
        piece = self._pieces.get(closed, lambda: self._whole(*closed))
        return replace(piece, sources=sources - closed[0])

    def _whole(self, lo: int, hi: int) -> LocalGraph:
        ids = np.arange(lo, hi, dtype=np.int64)
        counts, neighbours = self.rows(ids)
        return LocalGraph(
            ids, _pointers(counts), (neighbours - neighbours.dtype.type(lo)) if lo else neighbours, ids[:0]
        )

    def _closed_range(self, lo: int, hi: int) -> tuple[int, int] | None:
        """Return a node range of whole graphs around lo to hi if it is small enough to load, else None."""
        parts = self.overlapping(lo, hi)
        first = self.array(parts[0].index, "node_ptr")
        last = self.array(parts[-1].index, "node_ptr")
        start = int(first[np.searchsorted(first, lo, side="right") - 1])
        end = int(last[np.searchsorted(last, hi, side="left")])
        size = sum(self._structure_bytes(part) for part in self.overlapping(start, end))
        is_cut = start < parts[0].node_lo or end > parts[-1].node_hi
        return None if is_cut and size > self._whole_graph_bytes else (start, end)

    def _structure_bytes(self, part: Partition) -> int:
        return int(self.array(part.index, "indptr")[-1]) * 4 + part.num_nodes * 8

    def _halo(self, sources: NDArray[np.int64], hops: int) -> LocalGraph:
        ids = frontier = sources
        gathered = [(sources, *self.rows(sources))]
        for _ in range(hops):
            reached = np.unique(gathered[-1][2]).astype(np.int64)
            frontier = np.setdiff1d(reached, ids, assume_unique=True)
            gathered.append((frontier, *self.rows(frontier)))
            ids = np.union1d(ids, frontier)
        counts = np.zeros(len(ids), np.int64)
        for owners, sizes, _ in gathered:
            counts[np.searchsorted(ids, owners)] = sizes
        indptr = _pointers(counts)
        neighbours = np.empty(int(indptr[-1]), dtype=gathered[0][2].dtype)
        for owners, sizes, entries in gathered:
            neighbours[_spread(indptr[np.searchsorted(ids, owners)], sizes)] = entries
        position = np.minimum(np.searchsorted(ids, neighbours), len(ids) - 1)
        inside = ids[position] == neighbours
        kept = np.add.reduceat(np.append(inside, False), indptr[:-1]) if len(ids) else counts
        kept = np.where(counts > 0, kept, 0)
        return LocalGraph(
            ids, _pointers(kept), position[inside].astype(neighbours.dtype), np.searchsorted(ids, sources)
        )


def _pointers(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _spread(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return start, start + 1, …, start + size - 1 for each pair, one after the other."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    positions: NDArray[np.int64] = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - sizes), sizes)
    return positions


@functools.lru_cache(maxsize=4)
def open_reader(url: str, key: str) -> GraphReader:
    """Return this process's reader of a dataset; opened lazily in each worker, kept between tasks."""
    return GraphReader(Store.open(url).get(key))


def degrees(reader: GraphReader) -> NDArray[np.int64]:
    """Degree of every node of the dataset."""
    parts: Sequence[Partition] = reader.dataset.partitions
    return np.concatenate([np.diff(reader.array(part.index, "indptr")) for part in parts])


def all_node_ptr(reader: GraphReader) -> NDArray[np.int64]:
    """First node of every graph of the dataset, and the end of the last."""
    parts = reader.dataset.partitions
    return reader.node_ptr(
        Partition(index=0, graph_lo=0, graph_hi=parts[-1].graph_hi, node_lo=0, node_hi=parts[-1].node_hi)
    )
