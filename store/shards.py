"""Read shards: whole graphs of one partition of a dataset, with the matching rows of everything derived from it."""

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np

from leap.store.artifact import Artifact
from leap.store.blocks import Array, Block, Ids, Rows
from leap.store.chunks import read_arrays
from leap.store.manifest import Partition
from leap.store.selection import Selection

T = TypeVar("T")


@dataclass(frozen=True)
class Shard:
    """Partitions of a dataset that hold whole graphs: one, or all pieces of a graph that was cut."""

    partitions: tuple[Partition, ...]

    @property
    def graph_lo(self) -> int:
        """Its first graph."""
        return self.partitions[0].graph_lo

    @property
    def node_lo(self) -> int:
        """Its first node."""
        return self.partitions[0].node_lo

    @property
    def node_hi(self) -> int:
        """The end of its nodes."""
        return self.partitions[-1].node_hi


def shards_of(dataset: Artifact) -> tuple[list[Shard], Ids]:
    """Return the shards of a dataset, and the first graph of each followed by the end of the last."""
    groups: list[list[Partition]] = []
    for part in dataset.partitions:
        if part.graph_hi == part.graph_lo:
            continue
        if groups and part.graph_lo < groups[-1][-1].graph_hi:
            groups[-1].append(part)
        else:
            groups.append([part])
    starts = [group[0].graph_lo for group in groups]
    return [Shard(tuple(group)) for group in groups], np.array([*starts, dataset.manifest.summary["graphs"]], np.int64)


class _Ranges:
    """The nodes that each partition of a derived artifact owns; they need not follow the dataset's partitions."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self._lows = np.array([part.node_lo for part in artifact.partitions], np.int64)
        self._highs = np.array([part.node_hi for part in artifact.partitions], np.int64)

    def overlapping(self, lo: int, hi: int) -> list[Partition]:
        """Return the partitions with a node from lo to hi; for no nodes any one, which tells dtypes and shapes."""
        first = int(np.searchsorted(self._highs, lo, side="right"))
        last = int(np.searchsorted(self._lows, hi, side="left"))
        parts = self.artifact.partitions
        return parts[first:last] if hi > lo else parts[:1]


class ShardReader:
    """Reads shards of a selection; the labels of the graphs are read once and kept."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self._labels: Array | None = None
        self._hoods = {hops: _Ranges(artifact) for hops, artifact in selection.neighborhoods.items()}
        self._encodings = {name: _Ranges(artifact) for name, artifact in selection.encodings.items()}

    def read(self, shard: Shard, graphs: Ids) -> Block:
        """Return the given graphs of a shard, by their ascending numbers in the dataset.

        Raises
        ------
        DamagedArtifactError
            If a file is missing or any of its bits differ from what was published.
        """
        dataset, lo, hi = self.selection.dataset, shard.node_lo, shard.node_hi
        own = self.selection.node_columns
        parts = [read_arrays(dataset, p.index, ["node_ptr", "indptr", "indices", *own]) for p in shard.partitions]
        ptr = parts[0]["node_ptr"] - lo  # the pieces of a cut graph all name the whole graph
        sizes = np.diff(ptr)
        columns: dict[str, Array] = {name: _joined([part[name] for part in parts]) for name in own}
        degree = _joined([np.diff(part["indptr"]) for part in parts])
        indices = _joined([part["indices"] for part in parts])
        first = np.repeat(ptr[:-1], sizes).astype(indices.dtype)
        entries = np.empty((2, len(indices)), indices.dtype)
        entries[0] = np.repeat(np.arange(hi - lo, dtype=indices.dtype) - first, degree)
        first += indices.dtype.type(lo)
        np.subtract(indices, np.repeat(first, degree), out=entries[1])
        members, edges = {}, {}
        for hops, ranges in self._hoods.items():
            names = ["mean", "scale"] if hops in self.selection.stats else []
            hoods = _read_hoods(ranges, lo, hi, names)
            starts = first.astype(hoods["nodes"].dtype, copy=False)
            hoods["nodes"] -= np.repeat(starts, hoods["members"])
            hoods["edges"] -= np.repeat(starts, hoods["edge_counts"])
            members[hops] = Rows(_at(hoods["members"], ptr), {"ids": hoods["nodes"]}, axis=-1)
            edges[hops] = Rows(_at(hoods["edge_counts"], ptr), {"ids": hoods["edges"]}, axis=-1)
            columns |= {f"members{hops}": hoods["members"], f"edges{hops}": hoods["edge_counts"]}
            columns |= {f"{name}{hops}": hoods[name] for name in names}
        for name, ranges in self._encodings.items():
            columns[f"encoding {name}"] = _read_rows(ranges, lo, hi)
        numbers = np.arange(shard.graph_lo, shard.graph_lo + len(sizes))
        labels = self._graph_labels()
        y = None if labels is None else labels[numbers]
        table = Rows(_at(degree, ptr), {"ids": entries}, axis=-1)
        block = Block(numbers, y, Rows(ptr, columns), table, members, edges)
        return block if len(graphs) == len(numbers) else block.take(graphs - shard.graph_lo)

    def _graph_labels(self) -> Array | None:
        task = self.selection.dataset.manifest.summary["task"]
        if self._labels is None and task in ("graph-classification", "graph-regression"):
            self._labels = _read_labels(self.selection.dataset)
        return self._labels


def read_ahead(jobs: Iterable[Callable[[], T]]) -> Generator[T, None, None]:
    """Yield the results of the jobs in order, each worked on in a thread while the one before it is used.

    No more than one result waits. Closing the generator waits for the job under way and leaves no thread behind.
    """
    with ThreadPoolExecutor(1, "leap-read-ahead") as thread:
        pending: Future[T] | None = None
        for job in jobs:
            result = None if pending is None else pending.result()
            is_first, pending = pending is None, thread.submit(job)
            if not is_first:
                yield cast(T, result)
            del result  # the one who asked for it may drop it now
        if pending is not None:
            yield pending.result()


def _read_labels(dataset: Artifact) -> Array | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(dataset.read_file("graphs.parquet")))
    names = [name for name in file.schema_arrow.names if name == "label" or name.startswith("target_")]
    if not names:
        return None
    table = file.read(columns=names)
    columns = [table[name].to_numpy() for name in names]
    labels: Array = columns[0].astype(np.int64) if names == ["label"] else np.stack(columns, 1).astype(np.float32)
    return labels


def _read_rows(ranges: "_Ranges", lo: int, hi: int) -> Array:
    pieces = []
    for part in ranges.overlapping(lo, hi):
        rows = read_arrays(ranges.artifact, part.index, ["encoding"])["encoding"]
        pieces.append(rows[max(lo - part.node_lo, 0) : max(hi - part.node_lo, 0)])
    return np.ascontiguousarray(_joined(pieces))


def _read_hoods(ranges: "_Ranges", lo: int, hi: int, names: list[str]) -> dict[str, Array]:
    """Return members and edges with dataset-wide ids, how many of each a node has, and columns of nodes."""
    pieces: dict[str, list[Array]] = {}
    for part in ranges.overlapping(lo, hi):
        arrays = read_arrays(ranges.artifact, part.index, ["node_ptr", "nodes", "edge_ptr", "edges", *names])
        begin, end = max(lo - part.node_lo, 0), max(min(hi, part.node_hi) - part.node_lo, 0)
        begin = min(begin, end)
        members, edges = arrays["node_ptr"][begin : end + 1], arrays["edge_ptr"][begin : end + 1]
        found = {
            "nodes": arrays["nodes"][members[0] : members[-1]],
            "edges": arrays["edges"][:, edges[0] : edges[-1]],
            "members": np.diff(members).astype(np.int32),
            "edge_counts": np.diff(edges).astype(np.int32),
            **{name: arrays[name][begin:end] for name in names},
        }
        for name, array in found.items():
            pieces.setdefault(name, []).append(array)
    return {name: _joined(arrays, axis=-1 if name == "edges" else 0) for name, arrays in pieces.items()}


def _joined(pieces: Sequence[Array], axis: int = 0) -> Array:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=axis)


def _at(counts: Array, ptr: Ids) -> Ids:
    """Return running totals of the counts of nodes where graphs begin and the last one ends."""
    totals = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=totals[1:])
    return totals[ptr]
