"""Electrostatic encodings: statistics of the potentials that unit charges at the nodes of a graph make."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leap.models.kernels.compiling import kernel, read_only
from leap.models.kernels.components import LARGEST_DENSE, one_blas_thread, small_components


def potential_statistics(indptr: ArrayLike, indices: ArrayLike, *, largest: int = LARGEST_DENSE) -> NDArray[np.float64]:
    """Statistics of V(i, j) = G(i, j) - G(j, j), the potential at i of a charge at j, where G is (D - A)^+.

    Only the nodes of one component act on each other, and each is taken as a graph of its own.

    Parameters
    ----------
    indptr, indices : (N + 1,) and (2E,) integer, symmetric CSR adjacency with sorted rows and no loops; any number of
        graphs side by side.
    largest : nodes that a component may have; for tests.

    Returns
    -------
    (N, 7) float64, for node v the minimum, mean and standard deviation of V(i, v) over i; the minimum and standard
    deviation of V(v, j) over j; the sum of V(i, v) / d_i and of V(v, i) / d_v over the neighbours i. Deviations of n
    values divide by n - 1. Zeros for an isolated node. A row depends on the node's component alone, bit by bit.

    Raises
    ------
    InvalidInputError
        For a component with more than `largest` nodes, or an adjacency that is none.
    """
    starts, neighbors, parts = small_components(indptr, indices, largest=largest)
    out = np.zeros((len(starts) - 1, 7))
    rank = read_only(parts.rank, np.int64)
    with one_blas_thread():
        for _, some in parts.stacks(largest):
            members = read_only(some, np.int64)
            # L + J / n has the inverse L^+ + J / n, and V is a difference in which J / n goes away.
            matrices = np.full((*members.shape, members.shape[1]), 1.0 / members.shape[1])
            _add_laplacians(starts, neighbors, members, rank, matrices)
            _summarize(starts, neighbors, members, rank, np.linalg.inv(matrices), out)
    return out


@kernel
def _add_laplacians(indptr: Any, indices: Any, members: Any, rank: Any, out: Any) -> None:
    for c in range(members.shape[0]):
        for i in range(members.shape[1]):
            v = members[c, i]
            for e in range(indptr[v], indptr[v + 1]):
                out[c, i, i] += 1.0
                out[c, i, rank[indices[e]]] -= 1.0


@kernel
def _summarize(indptr: Any, indices: Any, members: Any, rank: Any, inverses: Any, out: Any) -> None:
    count, n = members.shape
    onto, of = np.empty(n), np.empty(n)
    for c in range(count):
        green = inverses[c]
        for k in range(n):
            v = members[c, k]
            for i in range(n):
                onto[i] = green[i, k] - green[k, k]  # the potential of v at the others
                of[i] = green[k, i] - green[i, i]  # that of the others at v
            out[v, 0] = onto.min()
            out[v, 1] = onto.sum() / n
            out[v, 2] = _deviation(onto)
            out[v, 3] = of.min()
            out[v, 4] = _deviation(of)
            for e in range(indptr[v], indptr[v + 1]):
                u = indices[e]
                out[v, 5] += onto[rank[u]] / (indptr[u + 1] - indptr[u])
                out[v, 6] += of[rank[u]] / (indptr[v + 1] - indptr[v])


@kernel
def _deviation(values: Any) -> float:
    mean = values.sum() / len(values)
    total = 0.0
    for k in range(len(values)):
        total += (values[k] - mean) ** 2
    return np.sqrt(total / (len(values) - 1))
