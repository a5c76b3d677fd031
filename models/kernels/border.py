"""The border of the kernels: arrays are checked here and brought into the one form that kernels take.

Inside, a kernel follows indices blindly. The check of indices is compiled too and reads each once, far less than any
kernel does with it. It is therefore made at every call, and holds even if somebody changed the arrays after an earlier
one.
"""

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leap.models.kernels.compiling import kernel, read_only
from leap.store.errors import InvalidInputError
from leap.store.graphs.neighborhoods import check_ids, check_pointers

Ids = NDArray[np.int32] | NDArray[np.int64]
Sources = tuple[int, int] | NDArray[Any] | None


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


def adjacency_arrays(indptr: ArrayLike, indices: ArrayLike) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the sparse rows of a graph; errors as in `index_arrays`. That they are symmetric is the caller's word."""
    return ragged_arrays(indptr, indices, max(np.size(indptr) - 1, 0), ("indptr", "indices"))


def graphs_arrays(
    indptr: ArrayLike, indices: ArrayLike, node_ptr: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64]]:
    """Return the sparse rows of graphs side by side, and where each begins.

    Raises
    ------
    InvalidInputError
        As in `index_arrays`; also if the rows are not symmetric and ascending, or an edge joins two graphs.
    """
    starts, neighbors = adjacency_arrays(indptr, indices)
    first_nodes = _integers("node_ptr", node_ptr, None)
    check_pointers("node_ptr", first_nodes, len(starts) - 1)
    if not _is_symmetric(starts, neighbors):
        raise InvalidInputError("the adjacency must be symmetric, with ascending rows; build_csr makes it so.")
    owner = np.repeat(np.arange(len(first_nodes) - 1), np.diff(first_nodes))
    rows = np.repeat(owner, np.diff(starts))
    if np.any(rows != owner[neighbors]):
        at = int(np.argmax(rows != owner[neighbors]))
        raise InvalidInputError(
            f"an edge joins graph {rows[at]} and graph {owner[neighbors[at]]}: edges stay in a graph."
        )
    return starts, neighbors, first_nodes


def whole_number(name: str, value: Any) -> int:
    """Return an integer of any type as Python's.

    Raises
    ------
    InvalidInputError
        If it is none, as 1.5, "1" and True.
    """
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        return operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidInputError(f"{name} must be a whole number. Got {value!r}.") from None


def edge_list(edges: ArrayLike, num_nodes: int) -> tuple[Ids, Ids]:
    """Return sources and targets of a (2, E) list of integers; whether they are nodes, `build_csr` finds out."""
    pairs = np.asarray(edges)
    if num_nodes < 0:
        raise InvalidInputError(f"The number of nodes must not be negative, but is {num_nodes}.")
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise InvalidInputError(f"An edge list must have shape (2, E), but has shape {pairs.shape}.")
    if pairs.size and not np.issubdtype(pairs.dtype, np.integer):
        raise InvalidInputError(f"An edge list must hold integer node ids, but holds {pairs.dtype}.")
    wanted = pairs.dtype if pairs.dtype in (np.int32, np.int64) else np.int64
    return read_only(pairs[0], wanted), read_only(pairs[1], wanted)


def source_ids(sources: Sources, num_nodes: int) -> NDArray[np.int64]:
    """Return the nodes meant by None (all), a range (first, after the last) or an array of ids."""
    if sources is None:
        return read_only(np.arange(num_nodes), np.int64)
    if isinstance(sources, tuple):
        first, last = sources
        if not 0 <= first <= last <= num_nodes:
            raise InvalidInputError(f"The range of sources {first}…{last} does not lie in 0…{num_nodes}.")
        return read_only(np.arange(first, last), np.int64)
    ids = read_only(sources, np.int64)
    if ids.ndim != 1:
        raise InvalidInputError(f"Sources must have shape (S,), but have shape {ids.shape}.")
    if len(ids) and (ids.min() < 0 or ids.max() >= num_nodes):
        wrong = ids[(ids < 0) | (ids >= num_nodes)][0]
        raise InvalidInputError(f"Source {wrong} does not exist: ids must lie in 0…{num_nodes - 1}.")
    return ids


def feature_array(x: NDArray[Any]) -> NDArray[Any]:
    """Return features as they are, if they are a matrix of float32 or float64."""
    if x.ndim != 2 or x.dtype not in (np.float32, np.float64):
        raise InvalidInputError(
            f"Features must be float32 or float64 of shape (N, d), but are {x.dtype} of shape {x.shape}."
        )
    return read_only(x, x.dtype)


def threshold_array(thresholds: NDArray[Any]) -> NDArray[np.float64]:
    """Return ascending finite thresholds in float64."""
    if thresholds.ndim != 1:
        raise InvalidInputError(f"thresholds must have shape {(thresholds.size,)}, got {thresholds.shape}.")
    is_ascending = np.all(np.diff(thresholds) > 0) and np.isfinite(thresholds).all()
    if len(thresholds) == 0 or not is_ascending:
        raise InvalidInputError(f"thresholds must ascend, be finite and at least one, got {thresholds}.")
    return read_only(thresholds, np.float64)


def check_transform(
    x: NDArray[Any], count: int, mean: NDArray[Any], scale: NDArray[Any], directions: NDArray[Any]
) -> None:
    """Refuse operands of a transform of `count` neighbourhoods whose shapes do not fit each other."""
    if x.ndim != 2:
        raise InvalidInputError(f"x must have shape (N, d), got {x.shape}.")
    d = x.shape[1]
    expected = {
        "mean": (mean.shape, (count, d)),
        "scale": (scale.shape, (count,)),
        "directions": (directions.shape, (d, *(directions.shape[1:2] or (1,)))),
    }
    for name, (met, wanted) in expected.items():
        if met != wanted:
            raise InvalidInputError(f"{name} must have shape {wanted}, got {met}.")


def _integers(name: str, array: ArrayLike, rows: int | None) -> NDArray[Any]:
    """Return pointers (rows: None) as int64, ids as int32 where that holds all rows."""
    values = np.asarray(array)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} must hold integers in one dimension, not {values.dtype} of {values.shape}.")
    wanted = np.dtype(np.int64 if rows is None or rows >= 2**31 else np.int32)
    if rows is not None and values.dtype != wanted:
        check_ids(name, values, rows)  # what does not fit would come out as another id
    return read_only(values, wanted)


@kernel
def lie_inside(ids: Any, rows: int) -> bool:
    """Whether all ids are rows."""
    low, high = 0, -1
    for k in range(len(ids)):
        low = min(low, ids[k])
        high = max(high, ids[k])
    return low >= 0 and high < rows


@kernel
def _is_sound(pointers: Any, ids: Any, rows: int) -> bool:
    if len(pointers) == 0 or pointers[0] != 0 or pointers[-1] != len(ids):
        return False
    for v in range(len(pointers) - 1):
        if pointers[v + 1] < pointers[v]:
            return False
    return lie_inside(ids, rows)


@kernel
def _are_sound(node_ptr: Any, nodes: Any, edge_ptr: Any, tails: Any, heads: Any, rows: int) -> bool:
    return _is_sound(node_ptr, nodes, rows) and _is_sound(edge_ptr, tails, rows) and lie_inside(heads, rows)


@kernel
def _is_symmetric(indptr: Any, indices: Any) -> bool:
    """Whether each row ascends and lists exactly the rows that list it."""
    unread = indptr[:-1].copy()
    for u in range(len(unread)):
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            if unread[v] == indptr[v + 1] or indices[unread[v]] != u:
                return False
            unread[v] += 1
    return True
