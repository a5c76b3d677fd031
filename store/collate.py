"""Graphs side by side in memory, and batches of any of them assembled with array arithmetic.

A `Block` numbers the nodes of each graph from zero, so that blocks are joined without touching an id; a batch adds the
place of each graph to its ids. Nothing here runs once per graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leap.store.neighborhoods import Neighborhoods

Array = NDArray[Any]
Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ArrayBatch:
    """Graphs of a batch side by side, as numpy arrays.

    The receiver may change them, except for node tasks, whose single batch shares memory with what the stream keeps.

    Attributes
    ----------
    graphs : (g,) int64, numbers of the graphs in the dataset, in the order of the batch.
    ptr : (g + 1,) int64, graph i owns the nodes ptr[i] to ptr[i + 1] of the batch.
    batch : (n,) int64, graph of each node, 0…g-1.
    x : (n, d) float32, or int64 for categorical features.
    edge_index : (2, 2E) int64, both directions of every edge, sorted by source and target.
    y : (g,) int64 labels or (g, t) float32 targets of graphs, (n,) int64 labels of nodes, or None.
    neighborhoods : by hops, with ids of the batch.
    stats : by hops where they are stored, mean (n, d) and scale (n,) float32.
    encodings : by name, (n, …) float32.
    masks : for node tasks {"train", "val", "test"} -> (n, splits) bool, else None.
    """

    graphs: Ids
    ptr: Ids
    batch: Ids
    x: Array
    edge_index: Ids
    y: Array | None
    neighborhoods: dict[int, Neighborhoods]
    stats: dict[int, tuple[Array, Array]]
    encodings: dict[str, Array]
    masks: dict[str, NDArray[np.bool_]] | None

    @property
    def num_graphs(self) -> int:
        """Number of graphs, empty ones included."""
        return len(self.graphs)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all graphs together."""
        return len(self.x)


@dataclass
class Rows:
    """Columns whose rows belong to graphs, one graph's after the other's.

    Attributes
    ----------
    ptr : (G + 1,) int64, graph i owns the rows ptr[i] to ptr[i + 1].
    columns : by name; rows are the first axis of columns of nodes, the last axis of the column "ids".
    axis : which of the two.
    sizes : (G,) rows of each graph.
    """

    ptr: Ids
    columns: dict[str, Array]
    axis: int = 0
    sizes: Ids = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = self.ptr[1:] - self.ptr[:-1]

    def locate(self, graphs: Ids) -> tuple[Ids, Ids, Ids]:
        """Return the rows of some graphs, how many each has, and where each one's end when put side by side."""
        sizes = self.sizes.take(graphs)
        ends = sizes.cumsum()
        shifts = self.ptr.take(graphs)
        shifts += sizes
        shifts -= ends
        rows = shifts.repeat(sizes)
        rows += np.arange(len(rows))
        return rows, sizes, ends

    def take_ids(self, graphs: Ids, first: Array) -> Array:
        """Return the column of ids of some graphs, each id moved up by its graph's entry of `first`."""
        rows, sizes, _ = self.locate(graphs)
        moved: Array = self.columns["ids"].take(rows, axis=-1) + first.repeat(sizes)
        return moved

    def nbytes(self) -> int:
        """Bytes of pointers and columns."""
        return 2 * self.ptr.nbytes + sum(column.nbytes for column in self.columns.values())


class HoodNames(NamedTuple):
    """Columns of nodes that belong to the neighbourhoods of one hop count; no statistics: None."""

    hops: int
    cap: int | None
    members: str
    edges: str
    mean: str | None
    scale: str | None


@dataclass
class Block:
    """Graphs of the dataset with everything derived of them.

    Attributes
    ----------
    graphs : (G,) int64, ascending numbers in the dataset.
    y : labels or targets of the graphs, or None.
    nodes : columns of nodes: features, counts of members and edges, statistics, encodings, labels, masks.
    entries : adjacency (2, 2E), ids counted from the first node of their graph.
    members, edges : by hops, ids of neighbourhoods (M,) and (2, K), counted likewise.
    """

    graphs: Ids
    y: Array | None
    nodes: Rows
    entries: Rows
    members: dict[int, Rows]
    edges: dict[int, Rows]

    def tables(self) -> list[Rows]:
        """Return everything that has rows."""
        return [self.nodes, self.entries, *self.members.values(), *self.edges.values()]

    def nbytes(self) -> int:
        """Bytes of all arrays."""
        own = self.graphs.nbytes + (0 if self.y is None else self.y.nbytes)
        return own + sum(table.nbytes() for table in self.tables())

    def _map(self, y: Array | None, graphs: Ids, tables: Sequence[Rows]) -> "Block":
        hops = list(self.members)
        members = dict(zip(hops, tables[2 : 2 + len(hops)], strict=True))
        edges = dict(zip(hops, tables[2 + len(hops) :], strict=True))
        return Block(graphs, y, tables[0], tables[1], members, edges)

    def copy(self) -> "Block":
        """Return a block of its own that shares the arrays."""
        tables = [Rows(table.ptr, dict(table.columns), table.axis) for table in self.tables()]
        return self._map(self.y, self.graphs, tables)

    def take(self, chosen: Ids) -> "Block":
        """Return a block of some of the graphs, by their places in this one."""

        def pick(table: Rows) -> Rows:
            rows, _, ends = table.locate(chosen)
            columns = {name: column.take(rows, axis=table.axis) for name, column in table.columns.items()}
            return Rows(np.append(np.zeros(1, np.int64), ends), columns, table.axis)

        y = None if self.y is None else self.y[chosen]
        return self._map(y, self.graphs[chosen], [pick(table) for table in self.tables()])


def join(blocks: list[Block]) -> Block:
    """Return several blocks as one, in their order. The given blocks are emptied, to need little memory twice."""
    if len(blocks) == 1:
        return blocks[0]

    def joined(tables: list[Rows]) -> Rows:
        ptr = np.zeros(1 + sum(len(table.sizes) for table in tables), np.int64)
        np.cumsum(np.concatenate([table.sizes for table in tables]), out=ptr[1:])
        names, axis = list(tables[0].columns), tables[0].axis
        columns = {name: np.concatenate([t.columns.pop(name) for t in tables], axis=axis) for name in names}
        return Rows(ptr, columns, axis)

    y = None if blocks[0].y is None else np.concatenate([block.y for block in blocks if block.y is not None])
    graphs = np.concatenate([block.graphs for block in blocks])
    tables = [joined(list(parts)) for parts in zip(*(block.tables() for block in blocks), strict=True)]
    return blocks[0]._map(y, graphs, tables)


class Collator:
    """Assembles batches of a block's graphs.

    Parameters
    ----------
    hoods : columns of each hop count.
    encodings : names of encodings -> columns of nodes.
    masks : parts -> columns of nodes, or None.
    node_labels : whether labels are of nodes, in the column "y".
    shares : whether a batch of the only graph of a block may share its arrays: a large graph is not copied.
    """

    def __init__(
        self,
        hoods: Sequence[HoodNames],
        encodings: dict[str, str],
        masks: dict[str, str] | None = None,
        node_labels: bool = False,
        shares: bool = False,
    ) -> None:
        self.hoods, self.encodings, self.masks = hoods, encodings, masks
        self.node_labels, self.shares = node_labels, shares

    def assemble(self, block: Block, chosen: Ids) -> ArrayBatch:
        """Return a batch of graphs, given by their places in the block; at least one."""
        nodes = block.nodes
        is_shared = self.shares and len(block.graphs) == 1
        rows, sizes, ends = nodes.locate(chosen)
        if is_shared:
            columns = nodes.columns
        else:
            columns = {name: column.take(rows, axis=0) for name, column in nodes.columns.items()}
        ptr = np.zeros(len(chosen) + 1, np.int64)
        ptr[1:] = ends
        first = ptr[:-1]
        y = columns["y"] if self.node_labels else None if block.y is None else block.y.take(chosen, axis=0)
        hoods, stats = {}, {}
        for hood in self.hoods:
            members, edges = block.members[hood.hops], block.edges[hood.hops]
            moved = first.astype(members.columns["ids"].dtype, copy=False)
            hoods[hood.hops] = Neighborhoods(
                _pointers(columns[hood.members]),
                members.columns["ids"] if is_shared else members.take_ids(chosen, moved),
                _pointers(columns[hood.edges]),
                edges.columns["ids"] if is_shared else edges.take_ids(chosen, moved),
                hood.hops,
                hood.cap,
            )
            if hood.mean is not None and hood.scale is not None:
                stats[hood.hops] = (columns[hood.mean], columns[hood.scale])
        return ArrayBatch(
            block.graphs.take(chosen),
            ptr,
            np.arange(len(chosen)).repeat(sizes),
            columns["x"],
            block.entries.take_ids(chosen, first),
            y,
            hoods,
            stats,
            {name: columns[column] for name, column in self.encodings.items()},
            None if self.masks is None else {part: columns[column] for part, column in self.masks.items()},
        )


def _pointers(counts: Array) -> Ids:
    pointers = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=pointers[1:])
    return pointers
