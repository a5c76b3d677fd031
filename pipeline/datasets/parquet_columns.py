"""Columns of a Parquet table as NumPy arrays, without missing values."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from leap.store.errors import InvalidInputError
from leap.store.suggestion import suggestion

if TYPE_CHECKING:
    import pyarrow as pa

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
        import pyarrow as pa
        import pyarrow.parquet as pq

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
        import pyarrow as pa

        kind = self._schema.field(name).type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            kind = kind.value_type
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))

    def column(self, name: str) -> "pa.Array":
        """A column as one array; `InvalidInputError` if it is missing or has missing values."""
        import pyarrow as pa

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

    def values(self, name: str) -> NDArray[Any]:
        """A column as an array: (rows,), or (rows, width) for lists of equal length."""
        import pyarrow as pa

        array = self.column(name)
        kind = array.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            return self._lists(name, array)
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return np.array(array.to_pylist(), dtype=np.str_)
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            return np.asarray(array.to_numpy(zero_copy_only=False))
        raise InvalidInputError(f"{self.path}: column {name!r} holds {kind}, neither numbers nor text.")

    def _lists(self, name: str, array: Any) -> NDArray[Any]:
        import pyarrow as pa

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
        if flat.null_count:
            row = int(np.argmax(flat.is_null().to_numpy(zero_copy_only=False))) // max(width, 1)
            raise InvalidInputError(f"{self.path}: column {name!r} misses a value in row {row} (counted from 0).")
        return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(array), width)

    def matrix(self, names: list[str]) -> NDArray[Any]:
        """Numeric columns side by side, (rows, width): int64 if all are whole numbers, else a float type.

        float32 stays float32; float64, which must fit, is narrowed by canonicalization.
        """
        for name in names:
            if name in self and not self.is_numeric(name):
                raise InvalidInputError(f"{self.path}: column {name!r} holds {self.kind(name)}, not numbers.")
        blocks = [self._finite(name) for name in names]
        kind = np.result_type(*(block.dtype for block in blocks))
        if np.issubdtype(kind, np.integer):
            kind = np.dtype(np.int64)
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
