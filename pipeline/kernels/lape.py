"""Laplacian encodings: canonical eigenvectors of the normalized Laplacian of every graph, dense or sparse by size."""

from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leap.models.readonly import read_only
from leap.pipeline.kernels.lape_canonical import canonical_bases, merge_components
from leap.pipeline.kernels.lape_dense import dense_spectra, residual_norms
from leap.pipeline.kernels.lape_sparse import Spectrum, lowest_spectrum
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

    D^-1/2 is 0 for an isolated node, whose eigenvalue is then 1. The basis is canonical (`lape_canonical`): up to
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
    import scipy.sparse.linalg  # noqa: F401  its BLAS must be loaded before it can be limited
    from threadpoolctl import threadpool_limits

    indptr, node_ptr = read_only(indptr, np.int64), read_only(node_ptr, np.int64)
    indices = read_only(indices, np.int32 if len(indptr) <= 2**31 else np.int64)
    _check_adjacency(indptr, indices, node_ptr)
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
    residual = float(residual_norms(indptr, indices, node_ptr, vectors, eigenvalues).max(initial=0.0))
    if residual > SUSPICIOUS_RESIDUAL:
        warnings.append(f"an eigenvector is only accurate to {residual:.1e}")
    return Lape(vectors, eigenvalues, {"components": methods, "max_residual": residual, "warnings": warnings})


def _pointer(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _check_adjacency(indptr: NDArray[np.int64], indices: NDArray[Any], node_ptr: NDArray[np.int64]) -> None:
    """Settle once what the kernels rely on: pointers that ascend, ids in range, edges inside a graph, symmetry."""
    n = len(indptr) - 1
    for name, pointer, last in (("indptr", indptr, len(indices)), ("node_ptr", node_ptr, n)):
        if (
            pointer.ndim != 1
            or not len(pointer)
            or pointer[0] != 0
            or pointer[-1] != last
            or np.any(np.diff(pointer) < 0)
        ):
            raise InvalidInputError(f"{name} must ascend from 0 to {last}. Got {pointer.tolist()[:5]}….")
    if len(indices) and (indices.min() < 0 or indices.max() >= n):
        met = indices.min() if indices.min() < 0 else indices.max()
        raise InvalidInputError(f"the adjacency of {n} nodes names node {met}.")
    from scipy.sparse import csr_array

    transposed = csr_array((np.ones(len(indices), np.int8), indices, indptr), shape=(n, n)).tocsc()
    if not (np.array_equal(transposed.indptr, indptr) and np.array_equal(transposed.indices, indices)):
        raise InvalidInputError("the adjacency must be symmetric, with ascending rows; build_csr makes it so.")
    owner = np.repeat(np.arange(len(node_ptr) - 1), np.diff(node_ptr))
    rows = np.repeat(owner, np.diff(indptr))
    if np.any(rows != owner[indices]):
        at = int(np.argmax(rows != owner[indices]))
        raise InvalidInputError(
            f"an edge joins graph {rows[at]} and graph {owner[indices[at]]}: edges stay in a graph."
        )


def _components(indptr: NDArray[np.int64], indices: NDArray[Any]) -> _Components:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

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
