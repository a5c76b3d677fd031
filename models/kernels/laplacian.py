"""Laplacian encodings: canonical eigenvectors of the normalized Laplacian of every graph, dense or sparse by size."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leap.models.kernels.border import graphs_arrays
from leap.models.kernels.compiling import kernel
from leap.models.kernels.components import Components, components_of, one_blas_thread
from leap.models.kernels.eigenbasis import canonical_bases, merge_components
from leap.models.kernels.laplacian_sparse import Spectrum, dense_laplacians, lowest_spectrum
from leap.store.errors import InvalidInputError
from leap.store.graphs.ragged import pointers

DENSE_LIMIT = 512  # nodes of a component up to which the whole spectrum is computed
SUSPICIOUS_RESIDUAL = 1e-9


@dataclass(frozen=True)
class Lape:
    """Laplacian encodings of some graphs.

    Attributes
    ----------
    vectors : (N, dim) float64, column j of graph g holds its j-th eigenvector that was not dropped; zeros where the
        graph has no more.
    eigenvalues : (G, dim) float64, NaN where a vector is missing.
    status : JSON values: `components` solved by each method, `max_residual` (2-norm of L x - λ x over all vectors),
        `warnings` (list of str).
    """

    vectors: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    status: dict[str, Any]


def lape(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    node_ptr: NDArray[np.int64],
    dim: int,
    drop: Literal["components", "one"] = "components",
    *,
    dense_limit: int = DENSE_LIMIT,
) -> Lape:
    """Eigenvectors of L = I - D^-1/2 A D^-1/2 with the lowest eigenvalues, trivial ones left out.

    D^-1/2 is 0 for an isolated node, whose eigenvalue is then 1. The basis is canonical (`eigenbasis`): up to
    rounding it depends on the graph alone. Bit by bit, column j does not depend on `dim`, on the other graphs of the
    call, on the number of threads or on the run; BLAS is limited to one thread meanwhile, and threads that call this at
    once take turns.

    Parameters
    ----------
    indptr, indices : (N + 1,) and (2E,) integer, symmetric CSR adjacency with sorted rows and no loops.
    node_ptr : (G + 1,) graph g owns the nodes node_ptr[g] to node_ptr[g + 1]; no edge leaves a graph.
    dim : columns, at least 1.
    drop : "components" leaves out one zero eigenvalue for each component that has an edge; "one" leaves out exactly
        one vector, the first, whatever its eigenvalue (what the published code does).
    dense_limit : components with more nodes than this are solved sparsely; for tests.

    Raises
    ------
    InvalidInputError
        For an impossible `dim` or `drop`, or arrays that are not such an adjacency.
    WorkFailedError
        If the eigenvectors of a large component do not converge or cannot be told apart.
    """
    if dim < 1:
        raise InvalidInputError(f"LaPE needs at least one dimension, got {dim}.")
    if drop not in ("components", "one"):
        raise InvalidInputError(f"drop is 'components' or 'one', got {drop!r}.")
    indptr, indices, node_ptr = graphs_arrays(indptr, indices, node_ptr)
    with one_blas_thread():
        return _lape(indptr, indices, node_ptr, dim, drop == "components", dense_limit)


def _lape(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    node_ptr: NDArray[np.int64],
    dim: int,
    drop_all_trivial: bool,
    dense_limit: int,
) -> Lape:
    parts = components_of(indptr, indices)
    sizes = parts.sizes
    widths = np.minimum(sizes, dim + 1)  # columns to keep of each component, the trivial one included
    column_ptr = pointers(widths)
    entry_ptr = pointers(widths * sizes)
    values, lengths = np.ones(column_ptr[-1]), np.ones(column_ptr[-1])
    pivots = np.zeros(column_ptr[-1], np.int64)
    entries = np.ones(entry_ptr[-1])  # of an isolated node everything stays as it is here: λ = 1, the vector (1)
    methods = {"isolated": int(np.sum(sizes == 1)), "dense": 0, "inverse": 0, "lanczos": 0}
    warnings: list[str] = []

    def keep(which: NDArray[np.int64], spectrum: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
        canonical_bases(
            *spectrum,
            column_ptr[which],
            entry_ptr[which],
            int(widths[which[0]]),
            values,
            entries,
            lengths,
            pivots,
        )

    for some, members in parts.stacks(dense_limit):
        keep(some, dense_spectra(indptr, indices, members, parts.rank))
        methods["dense"] += len(some)
    for c in np.flatnonzero(sizes > max(dense_limit, 1)):
        spectrum = _solve_sparsely(indptr, indices, parts, int(c), dim)
        methods[spectrum.method] += 1
        warnings += spectrum.warnings
        keep(np.array([c]), (spectrum.values[None], spectrum.vectors[None]))

    component = np.repeat(np.arange(len(sizes)), widths)
    pivots = parts.members[parts.member_ptr[component] + pivots]
    graph = np.searchsorted(node_ptr, parts.members[parts.member_ptr[component]], side="right") - 1
    order = np.lexsort((values, graph))
    vectors = np.zeros((len(indptr) - 1, dim))
    eigenvalues = np.full((len(node_ptr) - 1, dim), np.nan)
    merge_components(
        order,
        np.searchsorted(graph[order], np.arange(len(node_ptr))),
        drop_all_trivial,
        component,
        column_ptr,
        entry_ptr,
        values,
        entries,
        lengths,
        pivots,
        parts.member_ptr,
        parts.members,
        vectors,
        eigenvalues,
    )
    residual = float(_residual_norms(indptr, indices, node_ptr, vectors, eigenvalues).max(initial=0.0))
    if residual > SUSPICIOUS_RESIDUAL:
        warnings.append(f"an eigenvector is only accurate to {residual:.1e}")
    return Lape(vectors, eigenvalues, {"components": methods, "max_residual": residual, "warnings": warnings})


def _solve_sparsely(indptr: NDArray[np.int64], indices: NDArray[Any], parts: Components, c: int, dim: int) -> Spectrum:
    members = parts.members[parts.member_ptr[c] : parts.member_ptr[c + 1]]
    degrees = np.diff(indptr)[members]
    local_ptr = pointers(degrees)
    # Rows keep their order under the monotone renumbering.
    where = np.repeat(indptr[members] - local_ptr[:-1], degrees) + np.arange(local_ptr[-1])
    return lowest_spectrum(local_ptr, parts.rank[indices[where]].astype(np.int32), dim)


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


@kernel
def _residual_norms(indptr: Any, indices: Any, node_ptr: Any, vectors: Any, values: Any) -> Any:
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
