"""Columns of Parquet tables as NumPy arrays, and the ids in them as nodes numbered graph by graph.

Made for tens of millions of edges: columns are read one by one, and ids resolved without Python objects.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leap.pipeline.datasets.labels import check_codes
from leap.store.errors import InvalidInputError
from leap.store.suggestion import suggestion

Ids = NDArray[np.int64]

_ROWS_AT_ONCE = 1 << 16


class Columns:
    """One table, read column by column so that only what is used takes memory."""

    def __init__(self, path: Path, file: Any) -> None:
        self.path = path
        self._file = file
        self._schema = file.schema_arrow
        self.rows: int = file.metadata.num_rows

    @classmethod
    def open(cls, path: Path) -> "Columns | None":
        """Open a table, None if there is no such file; `InvalidInputError` if it is no Parquet."""
        if not path.is_file():
            return None
        try:
            return cls(path, pq.ParquetFile(path, memory_map=True))
        except (pa.ArrowException, OSError) as error:
            raise InvalidInputError(f"{path} is not a Parquet table that can be read ({error}).") from error

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self._schema.names)

    def __contains__(self, name: str) -> bool:
        return name in self._schema.names

    def kind(self, name: str) -> str:
        """Type of a column, as Arrow calls it."""
        return str(self._schema.field(name).type)

    def is_numeric(self, name: str) -> bool:
        """Whether a column holds numbers, truth values or lists of them."""
        kind = self._schema.field(name).type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            kind = kind.value_type
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))

    def column(self, name: str) -> pa.Array:
        """A column as one array; `InvalidInputError` if it is missing or has missing values."""
        if name not in self:
            raise InvalidInputError(
                f"{self.path} has no column {name!r}, only {', '.join(self.names) or 'none'}."
                f"{suggestion(name, self.names)}"
            )
        try:
            column = self._file.read(columns=[name]).column(name)
        except (pa.ArrowException, OSError) as error:
            raise InvalidInputError(f"{self.path}: column {name!r} cannot be read ({error}).") from error
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        array = column.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], type=array.type)
        if array.null_count:
            row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
            raise InvalidInputError(f"{self.path}: column {name!r} has no value in row {row} (counted from 0).")
        return array

    def values(self, name: str, *, with_gaps: bool = False) -> NDArray[Any]:
        """A column as an array: (rows,), or (rows, width) for lists of equal length.

        Parameters
        ----------
        with_gaps : turn missing numbers inside lists into NaN; otherwise they are refused.
        """
        array = self.column(name)
        kind = array.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            return self._lists(name, array, with_gaps)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return np.array(array.to_pylist(), dtype=np.str_)
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            return np.asarray(array.to_numpy(zero_copy_only=False))
        raise InvalidInputError(f"{self.path}: column {name!r} holds {kind}, neither numbers nor text.")

    def _lists(self, name: str, array: Any, with_gaps: bool) -> NDArray[Any]:
        if pa.types.is_fixed_size_list(array.type):
            width = array.type.list_size
        else:
            lengths = array.value_lengths().to_numpy()
            width = int(lengths[0]) if len(lengths) else 0
            if (lengths != width).any():
                row = int(np.argmax(lengths != width))
                raise InvalidInputError(
                    f"{self.path}: column {name!r} has {lengths[row]} values in row {row} and {width} in row 0."
                )
        flat = array.flatten()
        if flat.null_count and with_gaps and self.is_numeric(name):
            numbers = flat.cast(pa.uint8()) if pa.types.is_boolean(flat.type) else flat
            flat = numbers.cast(pa.float64()).fill_null(math.nan)
        if flat.null_count:
            row = int(np.argmax(flat.is_null().to_numpy(zero_copy_only=False))) // max(width, 1)
            raise InvalidInputError(f"{self.path}: column {name!r} misses a value in row {row} (counted from 0).")
        return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(array), width)

    def features(self, names: list[str]) -> NDArray[Any]:
        """Numeric columns side by side, (rows, width): int64 (categories) if all are whole numbers, else a float type.

        float32 stays float32; float64, which must fit, is narrowed by canonicalization.
        """
        for name in names:
            if name in self and not self.is_numeric(name):
                raise InvalidInputError(f"{self.path}: column {name!r} holds {self.kind(name)}, not numbers.")
        blocks = [self._finite(name) for name in names]
        kind = np.result_type(*(block.dtype for block in blocks))
        if np.issubdtype(kind, np.integer):
            kind = np.dtype(np.int64)
            for name, block in zip(names, blocks, strict=True):
                check_codes(block, f"column {name!r} of {self.path}")
        return blocks[0] if len(blocks) == 1 and blocks[0].dtype == kind else _side_by_side(blocks, kind)

    def _finite(self, name: str) -> NDArray[Any]:
        block = self.values(name).reshape(self.rows, -1)
        if np.issubdtype(block.dtype, np.floating):
            for first in range(0, self.rows, _ROWS_AT_ONCE):
                part = block[first : first + _ROWS_AT_ONCE]
                with np.errstate(over="ignore"):
                    finite = np.isfinite(part.astype(np.float32, copy=False))
                if not finite.all():
                    row, column = np.argwhere(~finite)[0]
                    raise InvalidInputError(
                        f"{self.path}: column {name!r} has {part[row, column]} in {self._row(first + int(row))}; "
                        "features must be finite float32 numbers. Repair or remove it."
                    )
        return block

    def _row(self, row: int) -> str:
        told = "".join(f", {name} {self.column(name)[row].as_py()!r}" for name in ("graph", "id") if name in self)
        return f"row {row} (counted from 0{told})"


def _side_by_side(blocks: list[NDArray[Any]], kind: np.dtype[Any]) -> NDArray[Any]:
    out = np.empty((len(blocks[0]), sum(block.shape[1] for block in blocks)), dtype=kind)
    first = 0
    while blocks:  # let go of each block once it is copied
        block = blocks.pop(0)
        out[:, first : first + block.shape[1]] = block
        first += block.shape[1]
    return out


@dataclass(frozen=True)
class NodeIds:
    """Tables resolved into numbers.

    Attributes
    ----------
    counts : (G,) nodes of each graph, in the order of the graphs table, else of sorted graph ids.
    edges : (2, E) numbers of nodes.
    order : (N,) row of the nodes table of each node, None where nodes keep the table's order.
    """

    counts: Ids
    edges: Ids
    order: Ids | None


def resolve_ids(edges: Columns, nodes: Columns | None, graphs: Columns | None) -> NodeIds:
    """Resolve the ids of an edge table.

    A node is told by its id or, where edges have a column "graph", by graph and id together. Without a nodes table the
    nodes are those that edges name, in ascending order.

    Raises
    ------
    InvalidInputError
        Ids of nodes or graphs that do not exist or are not unique, columns of the wrong kind.
    """
    named = [(nodes, "id")] if nodes is not None and "id" in nodes else []
    (source, target, *rest), shown = _numbers([(edges, "source"), (edges, "target"), *named])
    node_graph, edge_graph, count = _graphs(edges, nodes, graphs)
    if nodes is None:
        return _named_by_edges(source, target, edge_graph, count)
    ids = rest[0] if rest else np.arange(nodes.rows, dtype=np.int64)
    wanted = [source, target]
    if edge_graph is not None and node_graph is not None:
        (a, b, c), span = _compact([source, target, ids])
        wanted, ids = [edge_graph * span + a, edge_graph * span + b], node_graph * span + c
    numbers = np.empty((2, edges.rows), dtype=np.int64)
    for i, (name, met) in enumerate((("source", source), ("target", target))):
        numbers[i] = _positions(wanted[i], ids, nodes.path)
        if (numbers[i] < 0).any():
            row = int(np.argmin(numbers[i]))
            raise InvalidInputError(
                f"{edges.path}, row {row}: the {name} {shown(int(met[row]))!r} is no node of {nodes.path}"
                f"{'' if edge_graph is None else ' in the same graph'} (rows count from 0)."
            )
    if node_graph is None:
        return NodeIds(np.array([nodes.rows], dtype=np.int64), numbers, None)
    counts = np.bincount(node_graph, minlength=count).astype(np.int64)
    if (np.diff(node_graph) >= 0).all():
        return NodeIds(counts, numbers, None)
    order = np.argsort(node_graph, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return NodeIds(counts, rank[numbers], order)


def _named_by_edges(source: Ids, target: Ids, edge_graph: Ids | None, count: int) -> NodeIds:
    (a, b), span = _compact([source, target])
    if edge_graph is None:
        return NodeIds(np.array([span], dtype=np.int64), np.stack([a, b]), None)
    keys, inverse = np.unique(np.concatenate([edge_graph * span + a, edge_graph * span + b]), return_inverse=True)
    counts = np.bincount(keys // max(span, 1), minlength=count).astype(np.int64)
    return NodeIds(counts, inverse.reshape(2, -1).astype(np.int64), None)


def _graphs(edges: Columns, nodes: Columns | None, graphs: Columns | None) -> tuple[Ids | None, Ids | None, int]:
    """Number the graph of each node and of each edge, None where a table does not say; and count the graphs."""
    in_nodes, in_edges = nodes is not None and "graph" in nodes, "graph" in edges
    if in_edges and nodes is not None and not (in_nodes and "id" in nodes):
        raise InvalidInputError(
            f"{edges.path} has a column 'graph', so {nodes.path} needs the columns 'id' and 'graph' too."
        )
    if not in_nodes and not in_edges:
        if graphs is not None and graphs.rows != 1:
            raise InvalidInputError(
                f"{graphs.path} has {graphs.rows:,} rows, but neither edges nor nodes have a column 'graph'."
            )
        return None, None, 1
    tables = [table for table, present in ((nodes, in_nodes), (edges, in_edges)) if present and table is not None]
    members, shown = _numbers([(table, "graph") for table in (*tables, *([graphs] if graphs is not None else []))])
    known = members.pop() if graphs is not None else np.unique(members[0])
    numbered = []
    for table, values in zip(tables, members, strict=True):
        positions = _positions(values, known, graphs.path if graphs is not None else table.path)
        if (positions < 0).any():
            row = int(np.argmin(positions))
            where = graphs.path if graphs is not None else tables[0].path
            raise InvalidInputError(
                f"{table.path}, row {row}: no graph {shown(int(values[row]))!r} in {where} (rows count from 0)."
            )
        numbered.append(positions)
    return numbered[0] if in_nodes else None, numbered[-1] if in_edges else None, len(known)


def _numbers(columns: list[tuple[Columns, str]]) -> tuple[list[Ids], Callable[[int], Any]]:
    """Columns of ids as whole numbers, text by its rank; and a function back to the id for messages."""
    arrays = [table.column(name) for table, name in columns]
    if all(pa.types.is_integer(array.type) for array in arrays):
        try:
            return [array.cast(pa.int64()).to_numpy(zero_copy_only=False) for array in arrays], int
        except pa.ArrowInvalid as error:
            raise InvalidInputError(f"{columns[0][0].path}: ids must fit 64 bits ({error}).") from error
    if all(pa.types.is_string(array.type) or pa.types.is_large_string(array.type) for array in arrays):
        texts = [array.cast(pa.large_string()) for array in arrays]
        words = pc.unique(pa.chunked_array(texts))
        words = words.take(pc.sort_indices(words))
        codes = [pc.index_in(text, value_set=words).to_numpy(zero_copy_only=False).astype(np.int64) for text in texts]
        return codes, lambda code: words[code].as_py()
    kinds = ", ".join(
        f"{name} of {table.path.name}: {a.type}" for (table, name), a in zip(columns, arrays, strict=True)
    )
    raise InvalidInputError(f"ids must be all whole numbers or all text. Got {kinds}.")


def _compact(columns: list[Ids]) -> tuple[list[Ids], int]:
    """Number the distinct values of several columns together, ascending; return numbers and how many there are."""
    filled = [column for column in columns if len(column)]
    if not filled:
        return columns, 0
    low, high = min(int(c.min()) for c in filled), max(int(c.max()) for c in filled)
    if _is_dense(low, high, columns):  # a table of flags is cheaper than sorting
        seen = np.zeros(high - low + 1, dtype=np.bool_)
        for column in columns:
            seen[column - low] = True
        rank = np.cumsum(seen) - 1
        return [rank[column - low] for column in columns], int(rank[-1]) + 1
    values, inverse = np.unique(np.concatenate(columns), return_inverse=True)
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return [part.astype(np.int64) for part in np.split(inverse.reshape(-1), ends)], len(values)


def _is_dense(low: int, high: int, columns: list[Ids]) -> bool:
    return high - low < 4 * sum(map(len, columns)) + 1024


def _positions(wanted: Ids, ids: Ids, path: Any) -> Ids:
    """Row of each wanted id in `ids`, -1 where there is none; refuses ids that are not unique."""
    if not len(ids):
        return np.full(len(wanted), -1, dtype=np.int64)
    low, high = int(ids.min()), int(ids.max())
    if _is_dense(low, high, [ids, wanted]):
        rows = np.full(high - low + 1, -1, dtype=np.int64)
        rows[ids - low] = np.arange(len(ids))
        _check_unique(rows[ids - low] == np.arange(len(ids)), path)
        inside = (wanted >= low) & (wanted <= high)
        if inside.all():
            return rows[wanted - low]
        return np.where(inside, rows[np.where(inside, wanted - low, 0)], -1)
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    _check_unique(np.concatenate([[True], ordered[1:] != ordered[:-1]])[np.argsort(order)], path)
    found = np.minimum(np.searchsorted(ordered, wanted), len(ids) - 1)
    return np.where(ordered[found] == wanted, order[found], -1)


def _check_unique(is_first: NDArray[np.bool_], path: Any) -> None:
    if not is_first.all():
        row = int(np.argmin(is_first))
        raise InvalidInputError(f"{path}: the id of row {row} occurs twice (rows count from 0).")
