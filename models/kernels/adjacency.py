"""Build the undirected simple adjacency of any edge list in linear time."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leap.models.kernels.border import Ids, edge_list
from leap.models.kernels.compiling import kernel
from leap.store.errors import InvalidInputError

INT32_NODES = 2**31
"""From this many nodes on, ids no longer fit 32 bits."""


class Csr(NamedTuple):
    """An undirected simple graph as compressed sparse rows, and what was dropped on the way.

    Attributes
    ----------
    indptr : (N + 1,) int64, row v is indices[indptr[v]:indptr[v + 1]].
    indices : (2E,) int32 (int64 from 2**31 nodes on), neighbours, strictly ascending in each row; symmetric.
    self_loops : listed entries (i, i), all dropped.
    duplicates : listed entries, loops apart, beyond the first of each ordered pair (i, j). A graph that lists
        each edge once, in either or in both directions, has none.
    """

    indptr: NDArray[np.int64]
    indices: Ids
    self_loops: int
    duplicates: int


def build_csr(edges: ArrayLike, num_nodes: int) -> Csr:
    """Build the undirected simple graph that an edge list describes.

    Parameters
    ----------
    edges : (2, E) integers in 0…num_nodes-1; one or both directions, repeats and self-loops are all welcome.
    num_nodes : number of nodes, isolated ones included.

    Raises
    ------
    InvalidInputError
        Wrong shape or type, or an id outside 0…num_nodes-1.

    Examples
    --------
    >>> csr = build_csr([[0, 1, 1, 2, 0], [1, 0, 2, 2, 1]], num_nodes=4)
    >>> csr.indptr.tolist(), csr.indices.tolist(), csr.self_loops, csr.duplicates
    ([0, 1, 3, 4, 4], [1, 0, 2, 1], 1, 1)
    """
    source, target = edge_list(edges, num_nodes)
    index_type = np.dtype(np.int32 if num_nodes < INT32_NODES else np.int64)
    try:
        start = np.zeros(num_nodes + 1, dtype=np.int64)
    except (MemoryError, OverflowError, ValueError):
        raise InvalidInputError(
            f"There is no memory for a graph of {num_nodes:,} nodes. Number the nodes from 0 on without gaps."
        ) from None
    self_loops, wrong = _count(source, target, start)
    if wrong >= 0:
        i, j = int(source[wrong]), int(target[wrong])
        value = j if 0 <= i < num_nodes else i
        raise InvalidInputError(
            f"Edge {wrong} joins nodes {i} and {j}, but node {value} does not exist: ids must lie in "
            f"0…{num_nodes - 1} for {num_nodes} nodes. Correct the edge list or the number of nodes."
        )
    indptr = np.empty(num_nodes + 1, dtype=np.int64)
    keys = np.empty(start[-1], dtype=index_type.str.replace("i", "u"))
    kept, distinct = _fill(source, target, start, start.copy(), keys, np.empty_like(keys), indptr)
    indices = keys[:kept].view(index_type)
    if kept < len(keys):
        indices = indices.copy()  # let go of the room that the repeats took
    return Csr(indptr, indices, int(self_loops), len(source) - int(self_loops) - int(distinct))


@kernel
def _count(source: Any, target: Any, start: Any) -> tuple[int, int]:
    """Turn `start` (zeros) into row pointers; return (self-loops, position of the first bad entry or -1)."""
    n = len(start) - 1
    loops = 0
    for e in range(len(source)):
        i = source[e]
        j = target[e]
        if i < 0 or i >= n or j < 0 or j >= n:
            return 0, e
        if i == j:
            loops += 1
        else:
            start[i + 1] += 1
            start[j + 1] += 1
    for v in range(n):
        start[v + 1] += start[v]
    return loops, -1


@kernel
def _fill(source: Any, target: Any, start: Any, position: Any, keys: Any, spare: Any, indptr: Any) -> tuple[int, int]:
    """Write the deduplicated rows to the front of `keys`; return (entries kept, distinct ordered pairs).

    A key 2 c + b in row r stands for a listed pair: (r, c) if b = 0, (c, r) if b = 1. Transposing the
    unsorted rows, in order, leaves each row sorted: two counting sorts, no comparison. `position` comes in as
    a copy of `start`.
    """
    n = len(start) - 1
    for e in range(len(source)):
        i = source[e]
        j = target[e]
        if i != j:
            spare[position[i]] = 2 * j
            position[i] += 1
            spare[position[j]] = 2 * i + 1
            position[j] += 1
    for row in range(n):
        position[row] = start[row]
    for row in range(n):
        for t in range(start[row], start[row + 1]):
            key = np.int64(spare[t])
            column = key >> 1
            keys[position[column]] = 2 * row + 1 - (key & 1)
            position[column] += 1

    kept = 0
    distinct = 0
    indptr[0] = 0
    for row in range(n):
        column = np.int64(-1)
        forward = False
        for t in range(start[row], start[row + 1]):  # kept never overtakes t
            key = np.int64(keys[t])
            if key >> 1 != column:
                column = key >> 1
                keys[kept] = column
                kept += 1
                forward = False
            if key & 1 == 0 and not forward:
                forward = True
                distinct += 1
        indptr[row + 1] = kept
    return kept, distinct
