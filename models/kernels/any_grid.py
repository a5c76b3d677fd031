"""DECT kernels for any ascending thresholds, forward and backward; `even_grid` is the fast case.

Only thresholds inside the sigmoid's active window are evaluated; the rest is counting. Everything is accumulated in
float64. The backward pass can be shared out among threads by directions: each owns whole columns of the gradients, so
that none needs atomics and the result does not depend on the number of threads.
"""

from typing import Any

import numpy as np

from leap.models.kernels.compiling import kernel

WINDOW = 18.0  # in units of s·|t - h|; beyond, a sigmoid is 0 or 1 to float32 precision (1.5e-8)


@kernel
def first_at_least(grid: Any, value: float) -> int:
    """Index of the first threshold >= value; one guess suffices on an even grid, any ascending finite grid is handled.

    No threshold is as large as what is not a number: the index then is their number.
    """
    last = len(grid) - 1
    if value <= grid[0]:
        return 0
    if not value <= grid[last]:
        return last + 1
    guess = last * ((value - grid[0]) / (grid[last] - grid[0]))
    j = int(guess) if 0.0 <= guess <= last else 0
    while j > 0 and grid[j - 1] >= value:
        j -= 1
    while grid[j] < value:
        j += 1
    return j


@kernel
def higher(one: float, other: float) -> float:
    """Return the larger of two, or what is not a number if one of them is none, as torch.maximum does."""
    return one if one > other or np.isnan(one) else other


@kernel(fastmath={"reassoc"})
def nothing_of(gradients: Any) -> float:
    """Return zero times all gradients: not a number if one of them is not finite.

    That is what the thresholds outside a sigmoid's window add to a sum, where they are not looked at.
    """
    total = 0.0
    for j in range(len(gradients)):
        total += 0.0 * gradients[j]
    return total


@kernel
def _add_sigmoid(height: float, weight: float, grid: Any, ratios: Any, s: float, curve: Any, jumps: Any) -> None:
    """Add weight · σ(s (t - height)): inside the window to `curve`, from its end on as one jump."""
    if np.isnan(height):
        jumps[0] += height
        return
    j = first_at_least(grid, height - WINDOW / s)
    if j < len(grid) and grid[j] <= height + WINDOW / s:
        decay = np.exp(-s * (grid[j] - height))  # one exp; the next thresholds multiply by known ratios
        while True:
            curve[j] += weight / (1.0 + decay)
            j += 1
            if j == len(grid) or grid[j] > height + WINDOW / s:
                break
            decay *= ratios[j - 1]
    if j < len(grid):
        jumps[j] += weight


@kernel
def forward(
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
    s: float,
    edge_weights: Any,
    joins: bool,
    out: Any,
) -> None:
    """Fill `out` (n, D, T) float32 for the neighbourhoods begin … end; `joins` matters on even grids only.

    `edge_weights` is (K,) float64, of the edges of all neighbourhoods, or (1,) for all of them.
    """
    count, steps = heights.shape[1], len(grid)
    ratios = np.exp(-s * np.diff(grid))
    curve = np.empty((count, steps))
    jumps = np.empty((count, steps))
    for v in range(begin, end):
        curve[:] = 0.0
        jumps[:] = 0.0
        for m in range(node_ptr[v], node_ptr[v + 1]):
            u = nodes[m]
            for i in range(count):
                h = (heights[u, i] - offsets[v, i]) * inverse[v]
                _add_sigmoid(h, 1.0, grid, ratios, s, curve[i], jumps[i])
        for m in range(edge_ptr[v], edge_ptr[v + 1]):
            a, b, weight = tails[m], heads[m], edge_weights[m if len(edge_weights) > 1 else 0]
            for i in range(count):
                h = (higher(heights[a, i], heights[b, i]) - offsets[v, i]) * inverse[v]
                _add_sigmoid(h, -weight, grid, ratios, s, curve[i], jumps[i])
        for i in range(count):
            level = 0.0
            for j in range(steps):
                level += jumps[i, j]
                out[v, i, j] = level + curve[i, j]


@kernel
def _slope(height: float, grid: Any, ratios: Any, s: float, upstream: Any, weight: float, on_grid: Any) -> float:
    """Return Σ_j upstream[j] · dσ(s (t_j - h))/dt_j · weight, adding the terms to the thresholds' gradient."""
    if np.isnan(height):
        for k in range(len(on_grid)):
            on_grid[k] += height
        return height
    j = first_at_least(grid, height - WINDOW / s)
    if j == len(grid) or grid[j] > height + WINDOW / s:
        return 0.0
    decay = np.exp(-s * (grid[j] - height))
    total = 0.0
    while True:
        value = 1.0 / (1.0 + decay)
        term = weight * s * upstream[j] * value * (1.0 - value)
        if len(on_grid):
            on_grid[j] += term
        total += term
        j += 1
        if j == len(grid) or grid[j] > height + WINDOW / s:
            return total
        decay *= ratios[j - 1]


@kernel
def backward(
    first: int,
    last: int,
    node_ptr: Any,
    nodes: Any,
    edge_ptr: Any,
    tails: Any,
    heads: Any,
    heights: Any,
    offsets: Any,
    inverse: Any,
    grid: Any,
    s: float,
    edge_weights: Any,
    joins: bool,
    upstream: Any,
    on_heights: Any,
    on_offsets: Any,
    on_inverse: Any,
    on_grid: Any,
) -> None:
    """Add the gradients that the directions first … last contribute.

    `upstream` is (n, D, T). `on_heights` (N, last - first), `on_offsets` (n, last - first), `on_inverse` (n,) and
    `on_grid` (T,), or (0,) where it is not wanted, belong to the calling thread: columns of a shared array would share
    its cache lines.
    """
    ratios = np.exp(-s * np.diff(grid))
    unseen = np.empty(last - first)
    for v in range(len(node_ptr) - 1):
        scale = inverse[v]
        is_empty = node_ptr[v] == node_ptr[v + 1] and edge_ptr[v] == edge_ptr[v + 1]
        for i in range(first, last):
            unseen[i - first] = nothing_of(upstream[v, i])
            for j in range(0 if is_empty else len(on_grid)):
                on_grid[j] += 0.0 * upstream[v, i, j]
        for m in range(node_ptr[v], node_ptr[v + 1]):
            u = nodes[m]
            for i in range(first, last):
                raw = heights[u, i] - offsets[v, i]
                slope = _slope(raw * scale, grid, ratios, s, upstream[v, i], 1.0, on_grid) + unseen[i - first]
                on_heights[u, i - first] -= slope * scale
                on_offsets[v, i - first] += slope * scale
                on_inverse[v] -= slope * raw
        for m in range(edge_ptr[v], edge_ptr[v + 1]):
            a, b, weight = tails[m], heads[m], edge_weights[m if len(edge_weights) > 1 else 0]
            for i in range(first, last):
                one, other = heights[a, i], heights[b, i]
                raw = higher(one, other) - offsets[v, i]
                slope = _slope(raw * scale, grid, ratios, s, upstream[v, i], -weight, on_grid) + unseen[i - first]
                if slope == 0.0:
                    continue
                # Ends of equal height share the gradient, as torch.maximum has it.
                part = (0.5 * slope if one == other else slope) * scale
                on_heights[a, i - first] -= 0.0 if one < other else part
                on_heights[b, i - first] -= 0.0 if one > other else part
                on_offsets[v, i - first] += slope * scale
                on_inverse[v] -= slope * raw
