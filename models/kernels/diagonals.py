"""Diagonals of functions of the normalized Laplacian: heat kernels and personalized PageRank, exactly."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leap.models.kernels.compiling import kernel, read_only
from leap.models.kernels.components import LARGEST_DENSE, one_blas_thread, small_components
from leap.models.kernels.laplacian import dense_spectra
from leap.store.errors import InvalidInputError


def heat_diagonals(
    indptr: ArrayLike, indices: ArrayLike, times: ArrayLike, *, largest: int = LARGEST_DENSE
) -> NDArray[np.float64]:
    """Heat that is still at each node after some times, diag(exp(-t L)).

    L = I - D^-1/2 A D^-1/2 as for `lape`: D^-1/2 is 0 for an isolated node, which therefore has exp(-t).

    Parameters
    ----------
    indptr, indices : (N + 1,) and (2E,) integer, symmetric CSR adjacency with sorted rows and no loops; any number of
        graphs side by side.
    times : (T,) positive and finite.
    largest : nodes that a component may have; for tests.

    Returns
    -------
    (N, T) float64. A row depends on the node's component alone, bit by bit, and a column on its time alone.

    Raises
    ------
    InvalidInputError
        For a component with more than `largest` nodes, other times, or an adjacency that is none.
    """
    return _diagonals(indptr, indices, _rates("times", times, np.inf), True, largest)


def pagerank_diagonals(
    indptr: ArrayLike, indices: ArrayLike, alphas: ArrayLike, *, largest: int = LARGEST_DENSE
) -> NDArray[np.float64]:
    """Personalized PageRank of each node for itself, diag(alpha (I - (1 - alpha) D^-1 A)^-1).

    A walk that ends before each step with probability alpha ends where it began with this probability. D^-1 is 0 for
    an isolated node, which therefore has alpha: its walk ends at once or is lost.

    Parameters
    ----------
    indptr, indices, largest : as for `heat_diagonals`.
    alphas : (T,) above 0 and below 1.

    Returns
    -------
    (N, T) float64. A row depends on the node's component alone, bit by bit, and a column on its alpha alone.

    Raises
    ------
    InvalidInputError
        As for `heat_diagonals`.
    """
    return _diagonals(indptr, indices, _rates("alphas", alphas, 1.0), False, largest)


def _rates(name: str, values: ArrayLike, below: float) -> NDArray[np.float64]:
    rates = np.asarray(values)
    if rates.ndim != 1 or rates.dtype.kind not in "fiu":
        raise InvalidInputError(f"{name} must be numbers of shape (T,), got {rates.dtype} of shape {rates.shape}.")
    wrong = rates[~((rates > 0) & (rates < below))]
    if len(wrong):
        bounds = "above 0 and finite" if np.isinf(below) else f"above 0 and below {below:g}"
        raise InvalidInputError(f"{name} must be {bounds}, got {wrong[0]}.")
    return read_only(rates, np.float64)


def _diagonals(
    indptr: ArrayLike, indices: ArrayLike, rates: NDArray[np.float64], is_heat: bool, largest: int
) -> NDArray[np.float64]:
    starts, neighbors, parts = small_components(indptr, indices, largest=largest)
    out = np.zeros((len(starts) - 1, len(rates)))
    alone = read_only(parts.members[parts.member_ptr[:-1][parts.sizes == 1]][:, None], np.int64)
    _add_up(alone, np.ones((len(alone), 1)), np.ones((len(alone), 1, 1)), rates, is_heat, out)
    with one_blas_thread():
        for _, members in parts.stacks(largest):
            values, vectors = dense_spectra(starts, neighbors, members, parts.rank)
            _add_up(read_only(members, np.int64), values, vectors, rates, is_heat, out)
    return out


@kernel
def _add_up(members: Any, values: Any, vectors: Any, rates: Any, is_heat: bool, out: Any) -> None:
    """Add Σ_k f(λ_k) x_k(v)² to the rows of the members of b components, in the order of k whatever the columns are."""
    count, n = members.shape
    columns = len(rates)
    weights = np.empty((n, columns))
    for c in range(count):
        for k in range(n):
            for j in range(columns):
                if is_heat:
                    weights[k, j] = np.exp(-values[c, k] * rates[j])
                else:  # of D^-1 A the eigenvalue is 1 - λ; with λ = 0 this is exactly 1
                    weights[k, j] = rates[j] / (rates[j] + (1.0 - rates[j]) * values[c, k])
        for i in range(n):
            row = out[members[c, i]]
            for k in range(n):
                square = vectors[c, i, k] * vectors[c, i, k]
                for j in range(columns):
                    row[j] += square * weights[k, j]
