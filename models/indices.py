"""Index arrays in the form that compiled kernels take, checked at their border: inside, a kernel follows them blindly.

The check is compiled too and reads each index once, far less than any kernel does with it. It is therefore made at
every call, and holds even if somebody changed the arrays after an earlier one.
"""

from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from leap.models.readonly import read_only
from leap.store.errors import InvalidInputError
from leap.store.neighborhoods import check_ids, check_pointers


def index_arrays(
    node_ptr: ArrayLike, nodes: ArrayLike, edge_ptr: ArrayLike, edges: ArrayLike, rows: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return node_ptr, nodes, edge_ptr, tails and heads of neighbourhoods whose ids are rows of an array.

    Raises
    ------
    InvalidInputError
        For pointers that do not rise from 0 to the number of entries, ids that are no rows, and shapes or types that
        do not fit.
    """
    ends = np.asarray(edges)
    if ends.ndim != 2 or len(ends) != 2:
        raise InvalidInputError(f"edges must have shape (2, K), not {ends.shape}.")
    starts, members = _integers("node_ptr", node_ptr, None), _integers("nodes", nodes, rows)
    edge_starts = _integers("edge_ptr", edge_ptr, None)
    tails, heads = _integers("edges", ends[0], rows), _integers("edges", ends[1], rows)
    if len(starts) != len(edge_starts):
        raise InvalidInputError(f"Both pointers must have length N + 1, but have {len(starts)} and {len(edge_starts)}.")
    if not _are_sound(starts, members, edge_starts, tails, heads, rows):
        check_pointers("node_ptr", starts, len(members))
        check_pointers("edge_ptr", edge_starts, len(tails))
        check_ids("nodes", members, rows)
        check_ids("edges", ends, rows)
    return starts, members, edge_starts, tails, heads


def ragged_arrays(
    pointers: ArrayLike, ids: ArrayLike, rows: int, names: tuple[str, str]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the pointers and ids of sparse rows, or of members alone; errors as in `index_arrays`."""
    starts, members = _integers(names[0], pointers, None), _integers(names[1], ids, rows)
    if not _is_sound(starts, members, rows):
        check_pointers(names[0], starts, len(members))
        check_ids(names[1], members, rows)
    return starts, members


def check_edge_list(edge_index: Any) -> None:
    """Refuse a tensor that is no (2, E) list of integers; whether they are rows, `lie_inside` tells a kernel."""
    if edge_index.ndim != 2 or len(edge_index) != 2 or edge_index.is_floating_point():
        raise InvalidInputError(
            f"edge_index must hold integers of shape (2, E). Got {edge_index.dtype} of shape {tuple(edge_index.shape)}."
        )


def _integers(name: str, array: ArrayLike, rows: int | None) -> NDArray[Any]:
    """Return pointers (rows: None) as int64, ids as int32 where that holds all rows."""
    values = np.asarray(array)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} must hold integers in one dimension, not {values.dtype} of {values.shape}.")
    wanted = np.dtype(np.int64 if rows is None or rows >= 2**31 else np.int32)
    if rows is not None and values.dtype != wanted:
        check_ids(name, values, rows)  # what does not fit would come out as another id
    return read_only(values, wanted)


@numba.njit(cache=True, nogil=True)
def lie_inside(ids: Any, rows: int) -> bool:
    """Whether all ids are rows."""
    low, high = 0, -1
    for k in range(len(ids)):
        low = min(low, ids[k])
        high = max(high, ids[k])
    return low >= 0 and high < rows


@numba.njit(cache=True, nogil=True)
def _is_sound(pointers: Any, ids: Any, rows: int) -> bool:
    if len(pointers) == 0 or pointers[0] != 0 or pointers[-1] != len(ids):
        return False
    for v in range(len(pointers) - 1):
        if pointers[v + 1] < pointers[v]:
            return False
    return lie_inside(ids, rows)


@numba.njit(cache=True, nogil=True)
def _are_sound(node_ptr: Any, nodes: Any, edge_ptr: Any, tails: Any, heads: Any, rows: int) -> bool:
    return _is_sound(node_ptr, nodes, rows) and _is_sound(edge_ptr, tails, rows) and lie_inside(heads, rows)
