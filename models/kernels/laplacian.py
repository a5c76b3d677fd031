"""Laplacian encodings: canonical eigenvectors of the normalized Laplacian of every graph, dense or sparse by size."""

from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal

import numpy as np
import scipy.sparse.linalg  # noqa: F401  its BLAS must be loaded before it can be limited
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from threadpoolctl import threadpool_limits

from leap.models.kernels.border import graphs_arrays
from leap.models.kernels.compiling import kernel
from leap.models.kernels.eigenbasis import canonical_bases, merge_components
from leap.models.kernels.laplacian_sparse import Spectrum, dense_laplacians, lowest_spectrum
from leap.store.errors import InvalidInputError

DENSE_LIMIT = 512  # nodes of a component up to which the whole spectrum is computed
STACK_BYTES = 16 * 2**20
SUSPICIOUS_RESIDUAL = 1e-9
# The number of BLAS threads is the process's, and the first thread that leaves would lift the limit for the others:
# threads of one process take turns. Processes are what solves in parallel.
_LIMITING_BLAS = Lock()


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


@dataclass(frozen=True)
class _Components:
    """Connected components of all graphs, ordered by their lowest node."""

    member_ptr: NDArray[np.int64]  # (C + 1,)
    members: NDArray[np.int64]  # (N,) nodes, ascending inside a component
    rank: NDArray[np.int64]  # (N,) place of a node in its component

    @property
    def sizes(self) -> NDArray[np.int64]:
        return np.diff(self.member_ptr)


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
    with _LIMITING_BLAS, threadpool_limits(limits=1, user_api="blas"):
        return _lape(indptr, indices, node_ptr, dim, drop == "components", dense_limit)


def _lape(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    node_ptr: NDArray[np.int64],
    dim: int,
    drop_all_trivial: bool,
    dense_limit: int,
) -> Lape:
    parts = _components(indptr, indices)
    sizes = parts.sizes
    widths = np.minimum(sizes, dim + 1)  # columns to keep of each component, the trivial one included
    column_ptr = _pointer(widths)
    entry_ptr = _pointer(widths * sizes)
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

    for size in np.unique(sizes[(sizes > 1) & (sizes <= dense_limit)]):
        which = np.flatnonzero(sizes == size)
        stack = max(1, STACK_BYTES // (8 * int(size) ** 2))
        for begin in range(0, len(which), stack):
            some = which[begin : begin + stack]
            members = parts.members[parts.member_ptr[some][:, None] + np.arange(size)]
            keep(some, _dense_spectra(indptr, indices, members, parts.rank))
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


def _pointer(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _components(indptr: NDArray[np.int64], indices: NDArray[Any]) -> _Components:
    n = len(indptr) - 1
    graph = csr_array((np.ones(len(indices), np.int8), indices, indptr), shape=(n, n))
    _, label = connected_components(graph, directed=False)
    _, first, label = np.unique(label, return_index=True, return_inverse=True)
    by_first = np.empty(len(first), np.int64)
    by_first[np.argsort(first)] = np.arange(len(first))
    label = by_first[label]
    members = np.argsort(label, kind="stable")
    member_ptr = _pointer(np.bincount(label, minlength=len(first)))
    rank = np.empty(n, np.int64)
    rank[members] = np.arange(n) - member_ptr[label[members]]
    return _Components(member_ptr, members, rank)


def _solve_sparsely(indptr: NDArray[np.int64], indices: NDArray[Any], parts: _Components, c: int, dim: int) -> Spectrum:
    members = parts.members[parts.member_ptr[c] : parts.member_ptr[c + 1]]
    degrees = np.diff(indptr)[members]
    local_ptr = _pointer(degrees)
    # Rows keep their order under the monotone renumbering.
    where = np.repeat(indptr[members] - local_ptr[:-1], degrees) + np.arange(local_ptr[-1])
    return lowest_spectrum(local_ptr, parts.rank[indices[where]].astype(np.int32), dim)


def _dense_spectra(
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
