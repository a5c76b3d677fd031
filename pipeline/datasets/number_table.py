"""Read comma-separated numbers fast, and name file, line and value where something else is met."""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray
from pyarrow import csv

from leap.pipeline.datasets.source import cannot_read
from leap.store.errors import InvalidInputError, LeapError

Kind = Literal["int", "float"]
_WORD = {"int": "a whole number", "float": "a number"}
_GAPS = ("", "nan", "NaN", '""')  # how pandas and others write that there is no value

_BLOCK = 1 << 24  # bytes of text that are parsed at a time
_ROWS = 1 << 16  # lines, where they are read with care
_LINES_PER_BYTE = 600  # of a compressed file: deflate shrinks to a thousandth at best, and a line has two bytes


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


def read_gzipped(
    path: Path,
    dtype: DTypeLike,
    rows: int | None = None,
    columns: int | None = None,
    *,
    gaps: bool = False,
    order: Literal["C", "F"] = "C",
) -> NDArray[Any]:
    """Read a gzipped text file of numbers a stretch at a time, so that its text is never in memory as a whole.

    Parameters
    ----------
    dtype : int64 for whole numbers, float64 or float32 for finite ones.
    rows, columns : what must be there; None accepts what there is.
    gaps : whether fields may be empty or NaN, which gives NaN.
    order : of the result in memory, by rows or by columns.

    Returns
    -------
    (rows, columns) array, row i being line i + 1; (0, columns or 1) for an empty file.

    Raises
    ------
    InvalidInputError
        As `read_numbers`; fewer or more lines than `rows`; no gzip file, or one that is cut off or damaged.
    MissingRawFilesError
        There is no such file.
    """
    kind: Kind = "int" if np.dtype(dtype).kind == "i" else "float"
    try:
        size = path.stat().st_size
        if rows is not None and rows > size * _LINES_PER_BYTE:  # said before room is made for them
            raise InvalidInputError(f"{path} has {size:,} bytes, too few for the {rows:,} lines that it should have.")
        with gzip.open(path, "rb") as stream:
            first = stream.readline()
        found = first.count(b",") + 1 if first else columns or 1
        if columns is not None and found != columns:
            raise InvalidInputError(f"{path}, line 1: {_count(found)}, expected {columns}.")
        blocks = _blocks(path, np.dtype(dtype), kind, found, gaps) if first else iter(())
        if rows is None:
            return np.concatenate([np.empty((0, found), dtype), *blocks])
        out = np.empty((rows, found), dtype, order)
        filled = 0
        for block in blocks:
            if filled + len(block) > rows:
                raise InvalidInputError(f"{path} has more than the {rows:,} lines that it should have.")
            out[filled : filled + len(block)] = block
            filled += len(block)
        if filled < rows:
            raise InvalidInputError(f"{path} has {filled:,} lines and should have {rows:,}.")
        return out
    except LeapError:
        raise
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInputError(f"{path} is no gzip file, or not a whole one ({error}). Download it again.") from error
    except OSError as error:
        raise cannot_read(path, error) from error


def _blocks(path: Path, dtype: np.dtype[Any], kind: Kind, columns: int, gaps: bool) -> Iterator[NDArray[Any]]:
    """Rows of a gzipped file, a stretch at a time; where Arrow objects, the careful reader goes on."""
    done = 0
    try:
        with pa.input_stream(path, compression="gzip") as stream:
            for batch in csv.open_csv(stream, **_arrow_options(kind, columns, _GAPS if gaps else ())):
                block = np.empty((batch.num_rows, columns), dtype)
                for i, column in enumerate(batch.columns):
                    with np.errstate(over="ignore"):
                        block[:, i] = column.to_numpy(zero_copy_only=False)
                if _is_unfit(block, gaps) or (kind == "int" and any(column.null_count for column in batch.columns)):
                    raise pa.ArrowInvalid
                done += len(block)
                yield block
        return
    except (pa.ArrowInvalid, OSError):  # which do not name the line
        pass
    rows: list[list[int | float]] = []
    blank = None
    with gzip.open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            if number <= done:
                continue
            if blank is not None and line.strip():
                _refuse(path, blank, "the line is empty")
            if not line.strip():
                blank = blank or number
                continue
            rows.append(_row(path, number, line, kind, columns, gaps))
            with np.errstate(over="ignore"):
                is_unfit = _is_unfit(np.array(rows[-1], dtype), gaps)
            if is_unfit:
                _refuse(path, number, f"{max(rows[-1], key=abs)} is too large for {dtype}")
            if len(rows) == _ROWS:
                yield np.array(rows, dtype)
                rows = []
    if rows:
        yield np.array(rows, dtype)


def _is_unfit(values: NDArray[Any], gaps: bool) -> bool:
    return bool(np.isinf(values).any() if gaps else not np.isfinite(values).all())


def _row(path: Path, number: int, line: bytes, kind: Kind, columns: int, gaps: bool = False) -> list[int | float]:
    cells = [cell.strip() for cell in line.decode("utf-8", errors="replace").split(",")]
    if cells == [""]:
        _refuse(path, number, "the line is empty")
    if len(cells) != columns:
        _refuse(path, number, f"{_count(len(cells))}, but line 1 has {columns}")
    return [np.nan if gaps and cell in _GAPS else _number(path, number, cell, kind) for cell in cells]


def _arrow_options(kind: Kind, columns: int, gaps: Sequence[str] = ()) -> dict[str, Any]:
    names = [str(i) for i in range(columns)]
    return {
        "read_options": csv.ReadOptions(column_names=names, block_size=_BLOCK),
        "parse_options": csv.ParseOptions(delimiter=",", quote_char=False, ignore_empty_lines=False),
        "convert_options": csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.int64() if kind == "int" else pa.float64()), null_values=list(gaps)
        ),
    }


def _parse(content: bytes, kind: Kind, columns: int) -> NDArray[Any] | None:
    """Parse with Arrow's parallel reader; None where it or a check objects."""
    try:
        table = csv.read_csv(pa.BufferReader(content), **_arrow_options(kind, columns))
    except pa.ArrowInvalid:
        return None
    out = np.empty((table.num_rows, columns), dtype=np.int64 if kind == "int" else np.float64)
    for i in range(columns):
        if table.column(i).null_count:
            return None
        out[:, i] = table.column(i).to_numpy()
    return out if kind == "int" or np.isfinite(out).all() else None


def _parse_carefully(path: Path, content: bytes, kind: Kind, columns: int) -> NDArray[Any]:
    rows = [_row(path, number, line, kind, columns) for number, line in enumerate(content.split(b"\n"), start=1)]
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
