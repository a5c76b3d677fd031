"""Euler characteristic transforms of neighbourhoods without gradients: the kernels behind cached encodings.

Heights of a normalized neighbourhood are an affine function of the heights of the raw features,
⟨θ, (x(u) - μ_v) / c_v⟩ = (⟨θ, x(u)⟩ - ⟨θ, μ_v⟩) / c_v: all nodes are projected once, in float64 so that features far
from zero do not cancel, and neighbourhood features are never materialized.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leap.models.kernels import any_grid, even_grid
from leap.models.kernels.any_grid import first_at_least, higher
from leap.models.kernels.border import check_transform, index_arrays, threshold_array
from leap.models.kernels.compiling import kernel, read_only
from leap.models.kernels.normalization import inverse_scale
from leap.models.kernels.threads import share
from leap.store.errors import InvalidInputError

_PROJECTED_ROWS = 65_536


def dect_forward(
    x: NDArray[Any],
    node_ptr: NDArray[np.int64],
    nodes: NDArray[Any],
    edge_ptr: NDArray[np.int64],
    edges: NDArray[Any],
    mean: NDArray[Any],
    scale: NDArray[Any],
    directions: NDArray[Any],
    thresholds: NDArray[Any],
    scale_factor: float,
    edge_weight: float = 1.0,
    *,
    threads: int = 1,
) -> NDArray[np.float32]:
    """Differentiable Euler characteristic transform of every neighbourhood, forward only (paper, section 3).

    Σ_nodes σ(s (t_j - h_u)) - edge_weight · Σ_edges σ(s (t_j - max(h_a, h_b))), with h_u = ⟨θ_i, f(u)⟩ and
    f(u) = (x(u) - mean) / (scale + 1e-6).

    Parameters
    ----------
    x : (N, d) features.
    node_ptr, nodes : (n + 1,) and (M,) members of each neighbourhood as rows of `x`.
    edge_ptr, edges : (n + 1,) and (2, K) edges of each neighbourhood as rows of `x`, each undirected edge once.
    mean, scale : (n, d) and (n,) normalization of each neighbourhood; scale 0 marks a constant one, all of whose
        heights are 0. Give the mean in float64 where features lie far from zero.
    directions : (d, D).
    thresholds : (T,) ascending.
    scale_factor : s, positive.
    threads : neighbourhoods are shared out among so many threads; the result does not depend on it.

    Returns
    -------
    (n, D, T) float32.

    Raises
    ------
    InvalidInputError
        For shapes that do not fit, indices outside their arrays, thresholds that do not ascend, or a scale that is
        not positive.
    """
    if not 0.0 < scale_factor < np.inf:
        raise InvalidInputError(f"the sigmoid's scale must be positive, got {scale_factor}.")
    if not abs(edge_weight) <= np.finfo(np.float32).max:
        raise InvalidInputError(f"the edge weight must be a finite float32, got {edge_weight}.")
    pointers = index_arrays(node_ptr, nodes, edge_ptr, edges, len(x))
    grid = threshold_array(thresholds)
    heights, offsets, inverse = _prepare(x, len(node_ptr) - 1, mean, scale, directions)
    out = np.empty((len(node_ptr) - 1, heights.shape[1], len(grid)), np.float32)
    kernels, weights = kernels_for(grid, scale_factor), read_only(np.array([edge_weight]), np.float64)

    def run(begin: int, end: int) -> None:
        kernels.forward(begin, end, *pointers, heights, offsets, inverse, grid, scale_factor, weights, False, out)

    share(run, len(out), threads, blocks_per_thread=4)
    return out


def ect_forward(
    x: NDArray[Any],
    node_ptr: NDArray[np.int64],
    nodes: NDArray[Any],
    edge_ptr: NDArray[np.int64],
    edges: NDArray[Any],
    mean: NDArray[Any],
    scale: NDArray[Any],
    directions: NDArray[Any],
    thresholds: NDArray[Any],
    complex: Literal["points", "edges"] = "edges",
    *,
    threads: int = 1,
) -> NDArray[np.int32]:
    """Exact Euler characteristic transform of every neighbourhood: the static ℓ-ECT.

    The number of nodes with h_u <= t_j, less (for "edges") the number of edges with max(h_a, h_b) <= t_j; a height
    that is not a number is never counted. Parameters and errors are those of `dect_forward`.

    Returns
    -------
    (n, D, T) int32.
    """
    if complex not in ("points", "edges"):
        raise InvalidInputError(f"the complex is 'points' or 'edges', got {complex!r}.")
    pointers = index_arrays(node_ptr, nodes, edge_ptr, edges, len(x))
    grid = threshold_array(thresholds)
    heights, offsets, inverse = _prepare(x, len(node_ptr) - 1, mean, scale, directions)
    out = np.empty((len(node_ptr) - 1, heights.shape[1], len(grid)), np.int32)

    def run(begin: int, end: int) -> None:
        _ect(begin, end, *pointers, heights, offsets, inverse, grid, complex == "edges", out)

    share(run, len(out), threads, blocks_per_thread=4)
    return out


def _prepare(
    x: NDArray[Any], n: int, mean: NDArray[Any], scale: NDArray[Any], directions: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return heights of all nodes (N, D) and of all means (n, D), and 1 / (scale + margin) or 0 (n,)."""
    check_transform(x, n, mean, scale, directions)
    basis = read_only(directions, np.float64)
    return _project(x, basis), _project(mean, basis), inverse_scale(scale.astype(np.float64))


def _project(x: NDArray[Any], directions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Multiply by the directions in float64, with a summation order that does not depend on the rows around."""
    out = np.zeros((len(x), directions.shape[1]))
    for begin in range(0, len(x), _PROJECTED_ROWS):
        rows = read_only(x[begin : begin + _PROJECTED_ROWS], np.float64)
        _add_products(rows, directions, out[begin : begin + _PROJECTED_ROWS])
    return out


def kernels_for(grid: NDArray[np.float64], s: float) -> Any:
    """Return the module with the `forward` and `backward` kernels fit for these thresholds and steepness."""
    return even_grid if even_grid.suits(grid, s) else any_grid


@kernel
def _add_products(rows: Any, directions: Any, out: Any) -> None:
    for i in range(len(rows)):
        for k in range(rows.shape[1]):
            entry = rows[i, k]
            for j in range(directions.shape[1]):
                out[i, j] += entry * directions[k, j]


@kernel
def _ect(
    begin: int,
    end: int,
    node_ptr: Any,
    nodes: Any,
    edge_ptr: Any,
    tails: Any,
    heads: Any,
    heights: Any,
    offsets: Any,
    inverse: Any,
    grid: Any,
    with_edges: bool,
    out: Any,
) -> None:
    count, steps = heights.shape[1], len(grid)
    jumps = np.empty((count, steps + 1), np.int32)
    for v in range(begin, end):
        jumps[:] = 0
        for m in range(node_ptr[v], node_ptr[v + 1]):
            u = nodes[m]
            for i in range(count):
                jumps[i, first_at_least(grid, (heights[u, i] - offsets[v, i]) * inverse[v])] += 1
        if with_edges:
            for m in range(edge_ptr[v], edge_ptr[v + 1]):
                a, b = tails[m], heads[m]
                for i in range(count):
                    h = (higher(heights[a, i], heights[b, i]) - offsets[v, i]) * inverse[v]
                    jumps[i, first_at_least(grid, h)] -= 1
        for i in range(count):
            level = 0
            for j in range(steps):
                level += jumps[i, j]
                out[v, i, j] = level
