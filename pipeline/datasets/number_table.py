"""Read comma-separated numbers fast, and name file, line and value where something else is met."""

from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from leap.pipeline.datasets.source import cannot_read
from leap.store.errors import InvalidInputError

Kind = Literal["int", "float"]
_WORD = {"int": "a whole number", "float": "a number"}


def read_numbers(path: Path, kind: Kind, columns: int | None = None) -> NDArray[Any]:
    """Read a text file of numbers, one row per line, separated by commas; spaces around numbers do not matter.

    Parameters
    ----------
    kind : "int" gives int64 (1.0 counts as whole), "float" finite float64.
    columns : the number of columns expected; None accepts what the first line has.

    Returns
    -------
    (lines, columns) array, row i being line i + 1; (0, columns or 1) for an empty file.

    Raises
    ------
    InvalidInputError
        Text where a number belongs, NaN or infinity, an empty line before the end, lines of different length, or a
        file that cannot be read.
    MissingRawFilesError
        There is no such file.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from error
    content = content.removeprefix(b"\xef\xbb\xbf").rstrip()
    if not content:
        return np.empty((0, columns or 1), dtype=np.int64 if kind == "int" else np.float64)
    found = content.split(b"\n", 1)[0].count(b",") + 1
    if columns is not None and found != columns:
        raise InvalidInputError(f"{path}, line 1: {_count(found)}, expected {columns}.")
    table = _parse(content, kind, found)
    if table is None:  # whatever is wrong, the careful reader finds it or copes with it
        table = _parse_carefully(path, content, kind, found)
    return table


def _parse(content: bytes, kind: Kind, columns: int) -> NDArray[Any] | None:
    """Parse with Arrow's parallel reader; None where it or a check objects."""
    names = [str(i) for i in range(columns)]
    try:
        table = csv.read_csv(
            pa.BufferReader(content),
            read_options=csv.ReadOptions(column_names=names, block_size=1 << 24),
            parse_options=csv.ParseOptions(delimiter=",", quote_char=False, ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.int64() if kind == "int" else pa.float64()),
                null_values=[],
            ),
        )
    except pa.ArrowInvalid:
        return None
    out = np.empty((table.num_rows, columns), dtype=np.int64 if kind == "int" else np.float64)
    for i in range(columns):
        if table.column(i).null_count:
            return None
        out[:, i] = table.column(i).to_numpy()
    return out if kind == "int" or np.isfinite(out).all() else None


def _parse_carefully(path: Path, content: bytes, kind: Kind, columns: int) -> NDArray[Any]:
    rows = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        cells = line.decode("utf-8", errors="replace").strip().split(",")
        if cells == [""]:
            _refuse(path, number, "the line is empty")
        if len(cells) != columns:
            _refuse(path, number, f"{_count(len(cells))}, but line 1 has {columns}")
        rows.append([_number(path, number, cell.strip(), kind) for cell in cells])
    return np.array(rows, dtype=np.int64 if kind == "int" else np.float64)


def _number(path: Path, line: int, cell: str, kind: Kind) -> int | float:
    try:
        if "_" in cell:  # Python would read 1_000 as 1000
            raise ValueError
        value = float(cell)
    except ValueError:
        _refuse(path, line, f"{cell!r} is not {_WORD[kind]}")
    if not np.isfinite(value):
        _refuse(path, line, f"{cell!r} is not finite")
    if kind == "float":
        return value
    if not value.is_integer() or abs(value) >= 2.0**53:
        try:
            value = int(cell)
        except ValueError:
            _refuse(path, line, f"{cell!r} is not {_WORD[kind]}")
        if abs(value) >= 2**63:
            _refuse(path, line, f"{cell!r} does not fit 64 bits")
    return int(value)


def _count(values: int) -> str:
    return "1 value" if values == 1 else f"{values} values"


def _refuse(path: Path, line: int, problem: str) -> NoReturn:
    raise InvalidInputError(f"{path}, line {line}: {problem}. Repair the file.")
