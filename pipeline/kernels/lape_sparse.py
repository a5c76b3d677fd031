"""Lowest part of the spectrum of one large connected graph, in stages that do not depend on how much is asked for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.kernels.krylov import TopPairs, top_eigenpairs
from leap.pipeline.kernels.lape_canonical import cluster_end, same_eigenvalue
from leap.pipeline.kernels.lape_factor import CHEAP_FILL, LARGEST_FILL, GroundedLaplacian
from leap.store.errors import WorkFailedError

Matrix = NDArray[np.float64]
STAGE = 16  # eigenpairs a stage adds at least
BASIS = 48
COPIES = 4  # copies of one eigenvalue looked for at once; doubled up to MAX_COPIES as long as all turn up
MAX_COPIES = 16
SPARE = 8 * MAX_COPIES  # dimensions that a Krylov space needs beside what was found before
MAX_CLUSTER = 512  # eigenpairs a stage may add to complete a cluster of equal eigenvalues
# A graph with so few independent cycles has a core of few branching nodes: ordering it is quick whatever its shape.
FEW_CYCLES = 20_000
# Entries read by matrix products and orthogonalization before Lanczos gives way to a factorization: a minute or so.
LANCZOS_WORK = 2e10
Method = Literal["inverse", "lanczos"]


@dataclass
class Spectrum:
    """Eigenpairs of one connected graph, complete from the lowest on; the first is the trivial one.

    Attributes
    ----------
    values : (m,) float64 ascending. Each cluster of equal eigenvalues is whole unless a warning says otherwise.
    vectors : (n, m) float64 orthonormal eigenvectors of I - D^-1/2 A D^-1/2.
    method : the solver that gave them.
    """

    values: NDArray[np.float64]
    vectors: Matrix
    method: Method
    warnings: list[str] = field(default_factory=list)


class NotConvergedError(WorkFailedError):
    """Internal: a solver gave up, another may be tried."""


def lowest_spectrum(indptr: NDArray[np.int64], indices: NDArray[Any], count: int) -> Spectrum:
    """The trivial and at least `count` further lowest eigenpairs of a connected graph.

    Pairs are found in stages of `STAGE`, each orthogonal to the ones before and extended until its last cluster of
    equal eigenvalues is whole: what a larger `count` returns begins with the very bits of a smaller one.

    Parameters
    ----------
    indptr, indices : CSR adjacency of a connected graph of n nodes.
    count : pairs needed; `smallest_sparse_size(count)` is the least n.

    Raises
    ------
    WorkFailedError
        If neither solver converges.
    """
    grounded = None
    if (budget := _fill_budget(indptr, indices)) > 0:
        grounded = GroundedLaplacian(indptr, indices)
        if grounded.fill <= budget:
            return _inverse_spectrum(grounded, indptr, indices, count)
    products = int(np.clip(LANCZOS_WORK / (len(indices) + BASIS * len(indptr)), 500, 10_000))
    try:
        return _lanczos_spectrum(indptr, indices, count, products)
    except NotConvergedError:
        grounded = grounded or GroundedLaplacian(indptr, indices)
        if grounded.fill <= LARGEST_FILL:
            return _inverse_spectrum(grounded, indptr, indices, count)
        return _lanczos_spectrum(indptr, indices, count, 20 * products)


def smallest_sparse_size(count: int) -> int:
    """Nodes that a graph needs for stages to fit into its spectrum; smaller ones are solved densely."""
    return 2 * (count + STAGE) + SPARE


def _fill_budget(indptr: NDArray[np.int64], indices: NDArray[Any]) -> int:
    """Entries that a factor may have for the pseudo-inverse to be preferred; 0 where ordering is not worth trying.

    Long graphs have narrow separators, hence small factors, and low eigenvalues that Lanczos would take ages for.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    n = len(indptr) - 1
    hub = int(np.argmax(np.diff(indptr)))
    graph = csr_array((np.ones(len(indices), np.int8), indices, indptr), shape=(n, n))
    order, before = breadth_first_order(graph, hub, directed=True)
    depth = 0
    node = int(order[-1])
    while node != hub:
        node = int(before[node])
        depth += 1
    if depth > 4 * np.log2(n):
        return LARGEST_FILL // 2
    return CHEAP_FILL if len(indices) // 2 - n + 1 <= FEW_CYCLES else 0


def _inverse_spectrum(
    grounded: GroundedLaplacian, indptr: NDArray[np.int64], indices: NDArray[Any], count: int
) -> Spectrum:
    def to_operator(eigenvalue: float) -> float:
        return 1.0 / eigenvalue

    apply = grounded.pseudo_inverse()
    return _stages(apply, to_operator, indptr, indices, count, "inverse", max_products=20_000)


def _lanczos_spectrum(indptr: NDArray[np.int64], indices: NDArray[Any], count: int, max_products: int) -> Spectrum:
    from scipy.sparse import csr_array

    n = len(indptr) - 1
    degrees = np.diff(indptr)
    rows = np.repeat(degrees, degrees)
    weights = 1.0 / np.sqrt(rows * degrees[indices].astype(np.float64))
    walk = csr_array((weights, indices, indptr), shape=(n, n))

    def apply(columns: Matrix) -> Matrix:
        image: Matrix = walk @ np.ascontiguousarray(columns)
        return image

    def to_operator(eigenvalue: float) -> float:
        return 1.0 - eigenvalue

    return _stages(apply, to_operator, indptr, indices, count, "lanczos", max_products=max_products)


def _stages(
    apply: Callable[[Matrix], Matrix],
    to_operator: Callable[[float], float],
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    count: int,
    method: Method,
    max_products: int,
) -> Spectrum:
    """Run stages until `count` pairs are there; `to_operator` maps an eigenvalue of L to one of `apply`."""
    n = len(indptr) - 1
    roots = np.sqrt(np.diff(indptr).astype(np.float64))
    vectors = (roots / np.linalg.norm(roots))[:, None]  # the trivial one first
    values = np.zeros(1)
    norm = None if method == "inverse" else 1.0
    warnings: list[str] = []
    done = 1  # values known to be complete: nothing but these is left at or below the last of them
    while done - 1 < count and done + STAGE + SPARE <= n:
        if len(values) < done + STAGE:
            stage = top_eigenpairs(apply, vectors, STAGE, norm=norm, basis=BASIS, max_products=max_products)
            _require_convergence(stage, n, method)
            norm = norm or float(stage.values[0])
            values, vectors = _append(values, vectors, stage.vectors, indptr, indices)
        room = min(done + STAGE + MAX_CLUSTER, n - SPARE)
        copies = COPIES
        while True:
            # Anything left up to the end of the stage's last cluster is a copy that was missed or cut off.
            end = cluster_end(values, min(done + STAGE, len(values)) - 1)
            limit = to_operator(float(values[end - 1]) + same_eigenvalue(float(values[end - 1])))
            missed = top_eigenpairs(
                apply,
                vectors,
                copies,
                norm=norm,
                above=limit,
                block=copies,
                basis=max(BASIS, 6 * copies),
                max_products=max_products,
            )
            _require_convergence(missed, n, method)
            if len(missed.values) == 0:
                break
            if len(values) + len(missed.values) > room:
                warnings.append(
                    f"the eigenvalue {values[end - 1]:.6g} of a component of {n} nodes has too many copies (more than "
                    f"{len(values)} found so far); its basis is taken from these, so it depends on the solver"
                )
                return Spectrum(values[:end], np.ascontiguousarray(vectors[:, :end]), method, warnings)
            values, vectors = _append(values, vectors, missed.vectors, indptr, indices)
            if len(missed.values) >= copies:
                copies = min(2 * copies, MAX_COPIES)
        done = end
    return Spectrum(values[:done], np.ascontiguousarray(vectors[:, :done]), method, warnings)


def _append(
    values: NDArray[np.float64],
    vectors: Matrix,
    more: Matrix,
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
) -> tuple[NDArray[np.float64], Matrix]:
    """Add eigenvectors with their Rayleigh quotients, ascending."""
    values = np.concatenate([values, rayleigh_quotients(indptr, indices, more)])
    order = np.argsort(values, kind="stable")
    return values[order], np.concatenate([vectors, more], axis=1)[:, order]


def rayleigh_quotients(indptr: NDArray[np.int64], indices: NDArray[Any], vectors: Matrix) -> NDArray[np.float64]:
    """Quotients x'Lx / x'x as sums of squares over edges, accurate relative to the smallest eigenvalue."""
    degrees = np.diff(indptr)
    rows = np.repeat(np.arange(len(degrees)), degrees)
    scaled = vectors / np.sqrt(degrees.astype(np.float64))[:, None]
    quotients = np.empty(vectors.shape[1])
    for j in range(vectors.shape[1]):
        column = np.ascontiguousarray(scaled[:, j])
        difference = column[rows] - column[indices]
        quotients[j] = 0.5 * np.dot(difference, difference) / np.dot(vectors[:, j], vectors[:, j])
    return quotients


def _require_convergence(pairs: TopPairs, n: int, method: Method) -> None:
    if not pairs.converged:
        raise NotConvergedError(
            f"the eigenvectors of a component of {n} nodes did not converge ({method}). "
            "Use another encoding for this graph, such as rwpe."
        )
