"""Lowest part of the spectrum of one large connected graph, in stages that do not depend on how much is asked for.

Top pairs are taken of the Laplacian's pseudo-inverse, from one sparse factorization whose cost is known beforehand, or
of the walk matrix.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, dia_array
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import spilu, splu

from leap.models.kernels.compiling import kernel
from leap.models.kernels.eigenbasis import cluster_end, same_eigenvalue
from leap.models.kernels.krylov import TopPairs, top_eigenpairs
from leap.store.errors import WorkFailedError

Matrix = NDArray[np.float64]
STAGE = 16  # eigenpairs that a stage adds at least
BASIS = 48
COPIES = 4  # copies of one eigenvalue looked for at once; doubled up to MAX_COPIES as long as all turn up
MAX_COPIES = 16
SPARE = 8 * MAX_COPIES  # dimensions that a Krylov space needs beside what was found before
MAX_CLUSTER = 512  # eigenpairs a stage may add to complete a cluster of equal eigenvalues
# A graph with so few independent cycles has a core of few branching nodes: ordering it is quick whatever its shape.
FEW_CYCLES = 20_000
# Entries read by matrix products and orthogonalization before Lanczos gives way to a factorization: a minute or so.
LANCZOS_WORK = 2e10
# Up to so many nodes a dense solution takes seconds: the way out for huge eigenspaces, such as those of stars, and for
# all pairs beyond the first few dozen.
DENSE_FINISH_LIMIT = 2048
SPARSE_PAIRS = 64
ABOVE_ALL = 3.0
# Entries of the triangular factor: 12 bytes each, kept twice. The first limit costs seconds, the second is the most
# that is tried after Lanczos failed.
CHEAP_FILL = 10_000_000
LARGEST_FILL = 100_000_000
Method = Literal["dense", "inverse", "lanczos"]


@dataclass
class Spectrum:
    """Eigenpairs of one connected graph, complete from the lowest on; the first is the trivial one.

    Attributes
    ----------
    values : (m,) float64 ascending. Each cluster of equal eigenvalues is whole unless a warning says otherwise.
    vectors : (n, m) float64 orthonormal eigenvectors of I - D^-1/2 A D^-1/2.
    method : the solver that gave the last of them.
    """

    values: NDArray[np.float64]
    vectors: Matrix
    method: Method
    warnings: list[str] = field(default_factory=list)


class NotConvergedError(WorkFailedError):
    """Internal: a solver gave up, another may be tried."""


def lowest_spectrum(indptr: NDArray[np.int64], indices: NDArray[Any], count: int) -> Spectrum:
    """The trivial and at least `count` further lowest eigenpairs of a connected graph; all of them if there are fewer.

    Pairs are found in stages, each orthogonal to the ones before and extended until its last cluster of equal
    eigenvalues is whole. The graph alone decides how a stage is solved: with the pseudo-inverse or the walk matrix,
    with what takes over where that does not converge, or densely together with all that is left. What a larger
    `count` returns therefore begins with the very bits of a smaller one.

    Parameters
    ----------
    indptr, indices : CSR adjacency of a connected graph of n > 1 nodes.
    count : pairs needed.

    Raises
    ------
    WorkFailedError
        If no solver converges, or fewer pairs can be told apart than were asked for: an eigenvalue of a large graph
        with too many copies.
    """
    n = len(indptr) - 1
    roots = np.sqrt(np.diff(indptr).astype(np.float64))
    found = _Found(np.zeros(1), (roots / np.linalg.norm(roots))[:, None], 1)
    operators = _operators(indptr, indices)
    operator = next(operators)
    while found.done - 1 < min(count, n - 1):
        if found.done + STAGE + SPARE > n or (n <= DENSE_FINISH_LIMIT and found.done > SPARSE_PAIRS):
            return _finish_densely(found, indptr, indices)
        try:
            found = _next_stage(operator, found, indptr, indices)
        except NotConvergedError:
            following = next(operators, None)
            if following is None:
                raise
            operator = following
        except _TooManyCopiesError as error:
            if n <= DENSE_FINISH_LIMIT:
                return _finish_densely(found, indptr, indices)
            return _incomplete(error, operator.method, n, count)
    return Spectrum(found.values[: found.done], np.ascontiguousarray(found.vectors[:, : found.done]), operator.method)


@dataclass(frozen=True)
class _Found:
    """Pairs so far: `done` of the ascending values are complete, nothing else is left at or below the last of them."""

    values: NDArray[np.float64]
    vectors: Matrix
    done: int


@dataclass
class _Operator:
    """A matrix with the eigenvectors of L whose top pairs are the lowest of L.

    Attributes
    ----------
    to_operator : maps an eigenvalue of L to one of the operator.
    norm : size of the operator's largest eigenvalue; None until the first stage has found it.
    """

    apply: Callable[[Matrix], Matrix]
    to_operator: Callable[[float], float]
    method: Method
    max_products: int
    norm: float | None


class _TooManyCopiesError(Exception):
    """The last cluster of a stage does not come to an end; `found` is all of it that turned up."""

    def __init__(self, found: _Found) -> None:
        super().__init__()
        self.found = found


def _fill_budget(indptr: NDArray[np.int64], indices: NDArray[Any]) -> int:
    """Entries that a factor may have for the pseudo-inverse to be preferred; 0 where ordering is not worth trying.

    Long graphs have narrow separators, hence small factors, and low eigenvalues that Lanczos would take ages for.
    """
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


class _GroundedLaplacian:
    """D - A of a connected graph with one node grounded, ordered and ready to be factorized.

    Grounding the node of largest degree leaves a nonsingular M-matrix of small integers, so that even eigenvalues
    of 1e-8 come out with full relative accuracy and no shift needs to be chosen.

    Parameters
    ----------
    indptr, indices : CSR adjacency of one connected graph of at least two nodes.
    """

    def __init__(self, indptr: NDArray[np.int64], indices: NDArray[Any]) -> None:
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


def _operators(indptr: NDArray[np.int64], indices: NDArray[Any]) -> Iterator[_Operator]:
    """Operators in the order in which they are tried; the next one takes over where one does not converge."""
    grounded = None
    if (budget := _fill_budget(indptr, indices)) > 0:
        grounded = _GroundedLaplacian(indptr, indices)
        if grounded.fill <= budget:
            yield _inverse(grounded)
            return
    products = int(np.clip(LANCZOS_WORK / (len(indices) + BASIS * len(indptr)), 500, 10_000))
    yield _walk(indptr, indices, products)
    grounded = grounded or _GroundedLaplacian(indptr, indices)
    yield _inverse(grounded) if grounded.fill <= LARGEST_FILL else _walk(indptr, indices, 20 * products)


def _inverse(grounded: _GroundedLaplacian) -> _Operator:
    def to_operator(eigenvalue: float) -> float:
        return 1.0 / eigenvalue

    return _Operator(grounded.pseudo_inverse(), to_operator, "inverse", 20_000, None)


def _walk(indptr: NDArray[np.int64], indices: NDArray[Any], max_products: int) -> _Operator:
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

    return _Operator(apply, to_operator, "lanczos", max_products, 1.0)


def _next_stage(operator: _Operator, found: _Found, indptr: NDArray[np.int64], indices: NDArray[Any]) -> _Found:
    """Add at least `STAGE` pairs and complete the last cluster of equal eigenvalues."""
    n = len(indptr) - 1
    values, vectors, done = found.values, found.vectors, found.done
    if len(values) < done + STAGE:
        stage = top_eigenpairs(
            operator.apply, vectors, STAGE, norm=operator.norm, basis=BASIS, max_products=operator.max_products
        )
        _require_convergence(stage, n, operator.method)
        operator.norm = operator.norm or float(stage.values[0])
        values, vectors = _append(values, vectors, stage.vectors, indptr, indices)
    room = min(done + STAGE + MAX_CLUSTER, n - SPARE)
    copies = COPIES
    while True:
        # Anything left up to the end of the stage's last cluster is a copy that was missed or cut off.
        end = cluster_end(values, min(done + STAGE, len(values)) - 1)
        missed = top_eigenpairs(
            operator.apply,
            vectors,
            copies,
            norm=operator.norm,
            above=operator.to_operator(float(values[end - 1]) + same_eigenvalue(float(values[end - 1]))),
            block=copies,
            basis=max(BASIS, 6 * copies),
            max_products=operator.max_products,
        )
        _require_convergence(missed, n, operator.method)
        if len(missed.values) == 0:
            return _Found(values, vectors, end)
        if len(values) + len(missed.values) > room:
            raise _TooManyCopiesError(_Found(values, vectors, end))
        values, vectors = _append(values, vectors, missed.vectors, indptr, indices)
        if len(missed.values) >= copies:
            copies = min(2 * copies, MAX_COPIES)


def _finish_densely(found: _Found, indptr: NDArray[np.int64], indices: NDArray[Any]) -> Spectrum:
    """Add all pairs that are left: those of L with the known ones moved above its spectrum, which ends at 2."""
    n, done = len(indptr) - 1, found.done
    known = found.vectors[:, :done]
    whole = np.arange(n)
    laplacian = dense_laplacians(indptr, indices, whole[None], whole)[0]
    _, vectors = np.linalg.eigh(laplacian + (known * (ABOVE_ALL - found.values[:done])) @ known.T)
    values, vectors = _append(found.values[:done], known, vectors[:, : n - done], indptr, indices)
    return Spectrum(values, np.ascontiguousarray(vectors), "dense")


def _incomplete(error: _TooManyCopiesError, method: Method, n: int, count: int) -> Spectrum:
    found = error.found
    value = found.values[found.done - 1]
    if found.done <= count:
        raise WorkFailedError(
            f"the eigenvalue {value:.6g} of a component of {n} nodes has too many copies to tell {count} eigenvectors "
            f"apart. Ask for at most {found.done - 1} dimensions, or use another encoding for this graph, such as rwpe."
        )
    warning = (
        f"the eigenvalue {value:.6g} of a component of {n} nodes has too many copies (more than {len(found.values)} "
        "found so far); its basis is taken from these, so it depends on the solver"
    )
    return Spectrum(found.values[: found.done], np.ascontiguousarray(found.vectors[:, : found.done]), method, [warning])


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


@kernel
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


def dense_laplacians(
    indptr: NDArray[np.int64], indices: NDArray[Any], members: NDArray[np.int64], rank: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return I - D^-1/2 A D^-1/2 of b components of n nodes each, (b, n, n).

    Parameters
    ----------
    indptr, indices : CSR adjacency of the dataset.
    members : (b, n) nodes of each component, ascending.
    rank : (N,) place of every node in its component.
    """
    laplacians = np.zeros((*members.shape, members.shape[1]))
    _fill_laplacians(indptr, indices, members, rank, laplacians)
    return laplacians


@kernel
def _fill_laplacians(indptr: Any, indices: Any, members: Any, rank: Any, out: Any) -> None:
    for g in range(members.shape[0]):
        for i in range(members.shape[1]):
            v = members[g, i]
            out[g, i, i] = 1.0
            for e in range(indptr[v], indptr[v + 1]):
                u = indices[e]
                product = (indptr[v + 1] - indptr[v]) * (indptr[u + 1] - indptr[u])
                out[g, i, rank[u]] = -1.0 / np.sqrt(float(product))
