"""`Ragged`: rows that belong to items, such as the nodes of graphs or the members of neighbourhoods.

All arithmetic with pointers is here. Nothing runs once per item.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Ids = NDArray[np.int64]


def pointers(lengths: Sequence[int] | Array) -> Ids:
    """Return where items of these lengths begin, and where the last one ends.

    >>> pointers([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    ptr = np.zeros(len(lengths) + 1, np.int64)
    np.add.accumulate(lengths, out=ptr[1:])
    return ptr


def spread(starts: Ids, lengths: Ids) -> Ids:
    """Return start, start + 1, …, start + length - 1 of each pair, one after the other.

    >>> spread(np.array([7, 0]), np.array([2, 3])).tolist()
    [7, 8, 0, 1, 2]
    """
    shifts: Ids = starts + lengths
    shifts -= lengths.cumsum()
    rows = shifts.repeat(lengths)
    rows += np.arange(len(rows))
    return rows


def overlap(ptr: Ids, low: int, high: int) -> Iterator[tuple[int, int, int]]:
    """Yield each item that owns some of the rows low…high-1, and from where to where, counted from its first row.

    For no rows, yield any one item and an empty range of it, if there is an item: it tells dtypes and shapes.

    >>> list(overlap(pointers([3, 0, 2]), 1, 4))
    [(0, 1, 3), (2, 0, 1)]
    """
    if high <= low:
        yield from [(0, 0, 0)] if len(ptr) > 1 else []
        return
    first = int(np.searchsorted(ptr[1:], low, side="right"))
    last = int(np.searchsorted(ptr[:-1], high, side="left"))
    for item in range(first, last):
        start, end = int(ptr[item]), int(ptr[item + 1])
        if end > start:
            yield item, max(low - start, 0), min(high, end) - start


class Ragged:
    """Columns whose rows belong to items, one item's after the other's; immutable.

    Attributes
    ----------
    ptr : (n + 1,) int64, item i owns the rows ptr[i] to ptr[i + 1].
    columns : arrays by name.
    axis : the axis of all columns that counts rows: 0, or -1 for edges of shape (2, rows).
    lengths : (n,) rows of each item.

    Examples
    --------
    >>> words = Ragged(pointers([3, 1, 2]), {"letters": np.array(list("onatwo"))})
    >>> words.take(np.array([2, 0]))["letters"].tolist()
    ['w', 'o', 'o', 'n', 'a']
    """

    __slots__ = ("axis", "columns", "lengths", "ptr")

    def __init__(self, ptr: Ids, columns: Mapping[Any, Array], axis: int = 0, lengths: Ids | None = None) -> None:
        self.ptr, self.columns, self.axis = ptr, columns, axis
        self.lengths = ptr[1:] - ptr[:-1] if lengths is None else lengths

    @property
    def rows(self) -> int:
        """Rows of all items together."""
        return int(self.ptr[-1])

    @property
    def nbytes(self) -> int:
        """Bytes of pointers, lengths and columns."""
        return 2 * self.ptr.nbytes + sum(column.nbytes for column in self.columns.values())

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def __getitem__(self, name: Any) -> Array:
        return self.columns[name]

    def take(self, items: Ids) -> "Ragged":
        """Return some items, in any order and as often as they are named."""
        lengths = self.lengths.take(items)
        ptr = np.zeros(len(lengths) + 1, np.int64)
        lengths.cumsum(out=ptr[1:])
        shifts = self.ptr.take(items)
        shifts -= ptr[:-1]
        rows = shifts.repeat(lengths)
        rows += np.arange(len(rows))
        axis = self.axis
        columns = {name: column.take(rows, axis) for name, column in self.columns.items()}
        return Ragged(ptr, columns, axis, lengths)

    def cut(self, low: int, high: int) -> "Ragged":
        """Return the items low…high-1, sharing memory; columns may be tensors."""
        start, end = int(self.ptr[low]), int(self.ptr[high])
        columns = {n: c[start:end] if self.axis == 0 else c[..., start:end] for n, c in self.columns.items()}
        return Ragged(self.ptr[low : high + 1] - start, columns, self.axis)

    def where(self, keep: NDArray[np.bool_]) -> "Ragged":
        """Return all items with those of their rows that a mask over the rows keeps."""
        before = pointers(keep)
        columns = {name: column.compress(keep, axis=self.axis) for name, column in self.columns.items()}
        return Ragged(before[self.ptr], columns, self.axis)

    def shift(self, amounts: Array) -> "Ragged":
        """Return a copy with amounts[i] added to all columns of item i; dtypes are promoted as NumPy does."""
        by = amounts.repeat(self.lengths)
        moved = {}
        for name, column in self.columns.items():
            is_wide = self.axis == 0 and column.ndim > 1
            moved[name] = column + (by.reshape(-1, *(1,) * (column.ndim - 1)) if is_wide else by)
        return Ragged(self.ptr, moved, self.axis, self.lengths)

    def regroup(self, ptr: Ids) -> "Ragged":
        """Return the same rows as rows of larger items, which own the items ptr[j] to ptr[j + 1]."""
        return Ragged(self.ptr[ptr], self.columns, self.axis)

    @staticmethod
    def concatenate(parts: "Sequence[Ragged]") -> "Ragged":
        """Return the items of at least one part, one part's after the other's."""
        first = parts[0]
        if len(parts) == 1:
            return first
        lengths = np.concatenate([part.lengths for part in parts])
        columns = {name: np.concatenate([part[name] for part in parts], first.axis) for name in first.columns}
        return Ragged(pointers(lengths), columns, first.axis, lengths)


class Filling:
    """Ragged arrays put together as they come, so that none is needed twice at a time.

    Parameters
    ----------
    rows : at least as many rows as all parts have together. Memory for more is never touched, so takes none.
    """

    def __init__(self, rows: int) -> None:
        self._room, self._at, self._axis = rows, 0, 0
        self._lengths: list[Ids] = []
        self._columns: dict[Any, Array] = {}

    def append(self, part: Ragged) -> None:
        """Copy a part behind those that came before."""
        if not self._lengths:
            self._axis = part.axis
            self._columns = {name: self._space(column) for name, column in part.columns.items()}
        end = self._at + part.rows
        for name, column in part.columns.items():
            whole = self._columns[name]
            place = whole[self._at : end] if self._axis == 0 else whole[..., self._at : end]
            place[...] = column
        self._at = end
        self._lengths.append(part.lengths)

    def finished(self) -> Ragged:
        """Return all parts as one; at least one must have come."""
        columns = {n: c[: self._at] if self._axis == 0 else _narrow(c, self._at) for n, c in self._columns.items()}
        return Ragged(pointers(np.concatenate(self._lengths)), columns, self._axis)

    def _space(self, column: Array) -> Array:
        shape = (self._room, *column.shape[1:]) if self._axis == 0 else (*column.shape[:-1], self._room)
        return np.empty(shape, column.dtype)


def _narrow(array: Array, end: int) -> Array:
    """Return array[..., :end] of one or two dimensions as contiguous rows, moved together in place."""
    size = array.shape[-1]
    if array.ndim == 1 or end == size:
        return array[..., :end]
    flat = array.reshape(-1)
    for row in range(1, len(array)):
        flat[row * end : (row + 1) * end] = flat[row * size : row * size + end]
    return flat[: len(array) * end].reshape(len(array), end)
