"""Graphs side by side in memory, with everything that is stored of them.

A `Block` numbers the nodes of each graph from zero, so that blocks are joined without touching an id. Nothing here runs
once per graph.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Ids = NDArray[np.int64]


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
        names, axis = list(tables[0].columns), tables[0].axis
        columns = {name: np.concatenate([t.columns.pop(name) for t in tables], axis=axis) for name in names}
        return Rows(_joined_ptr(tables), columns, axis)

    return _joined_block(blocks, joined)


def gather(blocks: Iterable[Block], rows: Sequence[int]) -> Block:
    """Return blocks as one, each copied when it comes and forgotten: what they take is never needed twice.

    Parameters
    ----------
    rows : for each table, at least as many rows as all blocks have together. What is too much is never touched, and
        so takes no memory.
    """
    wholes: list[dict[str, Array]] = []
    at = [0] * len(rows)
    frames: list[Block] = []
    for block in blocks:
        tables = block.tables()
        wholes = wholes or [_space(table, size) for table, size in zip(tables, rows, strict=True)]
        for number, table in enumerate(tables):
            end = at[number] + int(table.ptr[-1])
            for name in list(table.columns):
                target = wholes[number][name]
                place = target[at[number] : end] if table.axis == 0 else target[..., at[number] : end]
                place[...] = table.columns.pop(name)
            at[number] = end
        frames.append(block)
    filled = iter(zip(wholes, at, strict=True))

    def cut(tables: list[Rows]) -> Rows:
        columns, end = next(filled)
        axis = tables[0].axis
        kept = {name: column[:end] if axis == 0 else _narrow(column, end) for name, column in columns.items()}
        return Rows(_joined_ptr(tables), kept, axis)

    return _joined_block(frames, cut)


def _space(table: Rows, size: int) -> dict[str, Array]:
    shapes = {
        name: (size, *column.shape[1:]) if table.axis == 0 else (*column.shape[:-1], size)
        for name, column in table.columns.items()
    }
    return {name: np.empty(shape, table.columns[name].dtype) for name, shape in shapes.items()}


def _narrow(array: Array, end: int) -> Array:
    """Return array[..., :end] of one or two dimensions as contiguous rows, moved together in place."""
    size = array.shape[-1]
    if array.ndim == 1 or end == size:
        return array[..., :end]
    flat = array.reshape(-1)
    for row in range(1, len(array)):
        flat[row * end : (row + 1) * end] = flat[row * size : row * size + end]
    return flat[: len(array) * end].reshape(len(array), end)


def _joined_ptr(tables: list[Rows]) -> Ids:
    ptr = np.zeros(1 + sum(len(table.sizes) for table in tables), np.int64)
    np.cumsum(np.concatenate([table.sizes for table in tables]), out=ptr[1:])
    return ptr


def _joined_block(blocks: list[Block], joined: Callable[[list[Rows]], Rows]) -> Block:
    y = None if blocks[0].y is None else np.concatenate([block.y for block in blocks if block.y is not None])
    graphs = np.concatenate([block.graphs for block in blocks])
    tables = [joined(list(parts)) for parts in zip(*(block.tables() for block in blocks), strict=True)]
    return blocks[0]._map(y, graphs, tables)
