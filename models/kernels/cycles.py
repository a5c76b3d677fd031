"""Exact numbers of simple cycles through every node, by length."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leap.models.kernels.border import graphs_arrays, source_ids
from leap.models.kernels.compiling import kernel
from leap.store.errors import InvalidInputError

SHORTEST, LONGEST = 3, 8
BUDGET = 2 * 10**11  # steps of the search, a quarter of an hour


def count_cycles(
    indptr: ArrayLike, indices: ArrayLike, longest: int = LONGEST, *, budget: int = BUDGET
) -> NDArray[np.int64]:
    """Count the simple cycles through each node, of each length from 3 to `longest`.

    Parameters
    ----------
    indptr, indices : (N + 1,) and (2E,) integer, symmetric CSR adjacency with sorted rows and no loops; any number of
        graphs side by side.
    longest : from 3 to 8.
    budget : steps of the search after which it gives up.

    Returns
    -------
    (N, longest - 2) int64; zeros for a node on no cycle. A row depends on the nodes within longest / 2 hops alone.

    Raises
    ------
    InvalidInputError
        If the budget does not suffice, for another `longest`, or for an adjacency that is none.
    """
    nodes = max(np.size(indptr) - 1, 0)
    counts = _no_cycles(nodes, longest)
    steps = _search_all(indptr, indices, longest, None, budget, counts)
    if steps > budget:
        raise InvalidInputError(
            f"the search for cycles of up to {longest} nodes in a graph of {nodes:,} nodes was given up after {steps:,}"
            " steps. Count shorter cycles only."
        )
    return counts


def search_steps(indptr: ArrayLike, indices: ArrayLike, longest: int, roots: NDArray[np.int64], budget: int) -> int:
    """Return the steps that the search takes from some nodes, whose cycles lead through no lower node.

    The search ends soon after the budget is exceeded.
    """
    nodes = max(np.size(indptr) - 1, 0)
    return _search_all(indptr, indices, longest, roots, budget, _no_cycles(nodes, longest))


def _no_cycles(nodes: int, longest: int) -> NDArray[np.int64]:
    if not SHORTEST <= longest <= LONGEST:
        raise InvalidInputError(f"cycles are counted up to a length of {SHORTEST} to {LONGEST}, got {longest}.")
    return np.zeros((nodes, longest - SHORTEST + 1), np.int64)


def _search_all(
    indptr: ArrayLike, indices: ArrayLike, longest: int, roots: Any, budget: int, counts: NDArray[np.int64]
) -> int:
    starts, neighbors, _ = graphs_arrays(indptr, indices, np.array([0, len(counts)]))
    return int(_search(starts, neighbors, longest, source_ids(roots, len(counts)), min(budget, 2**62), counts))


@kernel
def _search(indptr: Any, indices: Any, longest: int, roots: Any, budget: int, counts: Any) -> int:
    """Walk from each root over higher nodes, only where the way back is short enough; returns the arcs looked at."""
    nodes = len(indptr) - 1
    back = np.full(nodes, -1, np.int64)  # hops to the root over higher nodes, -1 beyond longest / 2
    queue = np.empty(nodes, np.int64)
    is_on_path = np.zeros(nodes, np.bool_)
    path = np.empty(longest, np.int64)
    arc = np.empty(longest, np.int64)
    steps = 0
    for r in range(len(roots)):
        root = roots[r]
        back[root] = 0
        queue[0] = root
        size = 1
        begin = 0
        while begin < size:
            v = queue[begin]
            begin += 1
            if back[v] < longest // 2:
                for e in range(indptr[v], indptr[v + 1]):
                    u = indices[e]
                    if u > root and back[u] < 0:
                        back[u] = back[v] + 1
                        queue[size] = u
                        size += 1
                steps += indptr[v + 1] - indptr[v]
        depth = 0  # arcs between the root and the end of the path
        path[0] = root
        arc[0] = indptr[root]
        is_on_path[root] = True
        while depth >= 0 and steps <= budget:
            v = path[depth]
            if arc[depth] == indptr[v + 1]:
                is_on_path[v] = False
                depth -= 1
                continue
            u = indices[arc[depth]]
            arc[depth] += 1
            steps += 1
            if u == root and depth >= 2 and path[1] < v:  # each cycle once, of the two ways around
                for k in range(depth + 1):
                    counts[path[k], depth - 2] += 1
            elif u > root and not is_on_path[u] and back[u] >= 0 and depth + 1 + back[u] <= longest:
                depth += 1
                path[depth] = u
                arc[depth] = indptr[u]
                is_on_path[u] = True
        for k in range(depth + 1):
            is_on_path[path[k]] = False
        for k in range(size):
            back[queue[k]] = -1
        if steps > budget:
            break
    return steps
