"""Tables of an artifact as Parquet, in memory: files are read and written whole, for the sake of their checksums."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def make(columns: Mapping[str, Any]) -> pa.Table:
    """Return a table of columns."""
    return pa.table(dict(columns))


def from_records(records: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return a table with a row per record."""
    return pa.Table.from_pylist(list(records))


def coded(codes: Any, values: Sequence[str]) -> pa.DictionaryArray:
    """Return a column of few texts, given the number of each."""
    return pa.DictionaryArray.from_arrays(codes, pa.array(list(values)))


def encode(table: pa.Table) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def decode(data: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the table, or some of its columns, that a Parquet file holds."""
    return pq.read_table(pa.BufferReader(data), columns=None if columns is None else list(columns))
