"""The pseudo-inverse of a connected graph's Laplacian: one sparse factorization, its cost known beforehand."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
# Entries of the triangular factor: 12 bytes each, kept twice. The first limit costs seconds, the second is the most
# that is tried after Lanczos failed.
CHEAP_FILL = 10_000_000
LARGEST_FILL = 100_000_000


class GroundedLaplacian:
    """D - A of a connected graph with one node grounded, ordered and ready to be factorized.

    Grounding the node of largest degree leaves a nonsingular M-matrix of small integers, so that even eigenvalues
    of 1e-8 come out with full relative accuracy and no shift needs to be chosen.

    Parameters
    ----------
    indptr, indices : CSR adjacency of one connected graph of at least two nodes.
    """

    def __init__(self, indptr: NDArray[np.int64], indices: NDArray[Any]) -> None:
        from scipy.sparse import csc_array, dia_array
        from scipy.sparse.linalg import spilu

        n = len(indptr) - 1
        degrees = np.diff(indptr).astype(np.float64)
        self._kept = np.delete(np.arange(n), int(np.argmax(degrees)))
        adjacency = csc_array((np.ones(len(indices)), indices, indptr), shape=(n, n))
        grounded = adjacency[self._kept][:, self._kept]
        diagonal = dia_array((degrees[self._kept][None], [0]), shape=(n - 1, n - 1))
        self._matrix = csc_array(diagonal - grounded)
        self._roots = np.sqrt(degrees)[:, None]
        # An incomplete factorization that drops everything costs little and reveals SuperLU's ordering.
        order = spilu(csc_array(2 * diagonal - grounded), drop_tol=1.0, fill_factor=1, **self._options()).perm_c
        self.fill = int(
            _fill(grounded.indptr.astype(np.int64), grounded.indices.astype(np.int64), order.astype(np.int64))
        )

    @staticmethod
    def _options() -> dict[str, Any]:
        return {
            "permc_spec": "MMD_AT_PLUS_A",
            "diag_pivot_thresh": 0.0,
            "options": {"SymmetricMode": True},
        }

    def pseudo_inverse(self) -> Callable[[Matrix], Matrix]:
        """Factorize; the result maps (n, b) orthogonal to D^1/2 1 to L^+ times it, L the normalized Laplacian."""
        from scipy.sparse.linalg import splu

        factor = splu(self._matrix, **self._options())
        trivial = self._roots / np.linalg.norm(self._roots)

        def apply(columns: Matrix) -> Matrix:
            scaled = self._roots * (columns - trivial @ (trivial.T @ columns))
            potential: Matrix = np.zeros_like(scaled)
            potential[self._kept] = factor.solve(scaled[self._kept])
            potential *= self._roots
            potential -= trivial @ (trivial.T @ potential)
            return potential

        return apply


@numba.njit(cache=True, nogil=True)
def _fill(indptr: Any, indices: Any, order: Any) -> int:
    """Entries of the triangular factor in the given order (old -> new place), counted up to twice LARGEST_FILL.

    Row i of the factor is what the paths of the elimination tree from i's earlier neighbours up to i visit.
    """
    n = len(order)
    node_at = np.empty(n, np.int64)
    for u in range(n):
        node_at[order[u]] = u
    parent = np.full(n, -1, np.int64)
    seen = np.full(n, -1, np.int64)
    total = n
    for i in range(n):
        u = node_at[i]
        seen[i] = i
        for e in range(indptr[u], indptr[u + 1]):
            j = order[indices[e]]
            if j < i:
                while seen[j] != i:
                    if parent[j] < 0:
                        parent[j] = i
                    seen[j] = i
                    total += 1
                    j = parent[j]
        if total > 2 * LARGEST_FILL:
            break
    return total
