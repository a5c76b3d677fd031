"""Whole spectra of small connected graphs, many of one size at a time, and the residuals of any eigenvectors."""

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray


def dense_spectra(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    members: NDArray[np.int64],
    rank: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenpairs of I - D^-1/2 A D^-1/2 for b connected components of n > 1 nodes each.

    Parameters
    ----------
    indptr, indices : CSR adjacency of the dataset.
    members : (b, n) nodes of each component, ascending.
    rank : (N,) place of every node in its component.

    Returns
    -------
    (b, n) eigenvalues, ascending, the first exactly 0; (b, n, n) eigenvectors as columns, the first exactly
    D^1/2 1 normalized. Each component is solved by a call of its own: no result depends on the others.
    """
    values, vectors = np.linalg.eigh(dense_laplacians(indptr, indices, members, rank))
    roots = np.sqrt((indptr[members + 1] - indptr[members]).astype(np.float64))
    values[:, 0] = 0.0
    vectors[:, :, 0] = roots / np.sqrt(np.sum(roots * roots, axis=1, keepdims=True))
    return values, vectors


def dense_laplacians(
    indptr: NDArray[np.int64], indices: NDArray[Any], members: NDArray[np.int64], rank: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the (b, n, n) matrices that `dense_spectra` solves."""
    laplacians = np.zeros((*members.shape, members.shape[1]))
    _fill_laplacians(indptr, indices, members, rank, laplacians)
    return laplacians


@numba.njit(cache=True, nogil=True)
def _fill_laplacians(indptr: Any, indices: Any, members: Any, rank: Any, out: Any) -> None:
    for g in range(members.shape[0]):
        for i in range(members.shape[1]):
            v = members[g, i]
            out[g, i, i] = 1.0
            for e in range(indptr[v], indptr[v + 1]):
                u = indices[e]
                product = (indptr[v + 1] - indptr[v]) * (indptr[u + 1] - indptr[u])
                out[g, i, rank[u]] = -1.0 / np.sqrt(float(product))


@numba.njit(cache=True, nogil=True)
def residual_norms(indptr: Any, indices: Any, node_ptr: Any, vectors: Any, values: Any) -> Any:
    """2-norms of L x - λ x, (G, dim) float64; 0 where a value is NaN (no vector there)."""
    graphs, dim = values.shape
    norms = np.zeros((graphs, dim))
    row = np.empty(dim)
    for g in range(graphs):
        for v in range(node_ptr[g], node_ptr[g + 1]):
            degree = indptr[v + 1] - indptr[v]
            for j in range(dim):
                row[j] = (1.0 - values[g, j]) * vectors[v, j]
            for e in range(indptr[v], indptr[v + 1]):
                u = indices[e]
                weight = 1.0 / np.sqrt(float(degree * (indptr[u + 1] - indptr[u])))
                for j in range(dim):
                    row[j] -= weight * vectors[u, j]
            for j in range(dim):
                if not np.isnan(values[g, j]):
                    norms[g, j] += row[j] ** 2
    return np.sqrt(norms)
