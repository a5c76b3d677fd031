"""Fast DECT kernels for evenly spaced thresholds, forward and backward.

On an even grid the active window of a sigmoid is found by arithmetic, and one exponential serves all its thresholds:
neighbouring ones differ by a constant factor. That exponential is a polynomial here, because numba calls the C library
for `exp`, one number at a time, while this loop over directions becomes SIMD instructions. Heights come in float64, so
that features far from zero do not cancel; what follows is relative to the nearest threshold and done in float32.
"""

from typing import Any

import numba
import numpy as np

from leap.models.any_grid import WINDOW

_LOG2E = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)
_ONE, _HALF, _LARGEST = np.float32(1.0), np.float32(0.5), np.float32(80.0)
SMALLEST_STEP = 1e-4
NARROW = 4  # thresholds in a window below which all of them are evaluated for all directions at once
_SATURATED = np.float32(2.0 * WINDOW + 1.0)


@numba.njit(cache=True, nogil=True)
def is_even(grid: Any) -> bool:
    """Whether thresholds ascend in equal steps, to float32 precision, that are not tiny.

    The tables of these kernels cover the sigmoid's window in steps: tiny ones would make them huge.
    """
    if len(grid) < 2:
        return False
    step = (grid[-1] - grid[0]) / (len(grid) - 1)
    if not step >= SMALLEST_STEP:
        return False
    worst = 0.0
    for j in range(len(grid) - 1):
        worst = max(worst, abs(grid[j + 1] - grid[j] - step))
    return worst <= 1e-6 * step


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _window(grid: Any, s: float) -> tuple[float, float, int, Any]:
    """Return the step, the rounding, the thresholds before the anchor, and exp(-s (t - anchor)) over the window.

    The anchor is the threshold below a height or, on a grid so coarse that only one threshold can be active, the
    nearest one (rounding 0.5): either way no exponential overflows.
    """
    size = len(grid)
    step = (grid[size - 1] - grid[0]) / (size - 1)
    if s * step > 2.0 * WINDOW:
        return step, 0.5, 0, np.ones(1, np.float32)
    # Normalized heights lie in [-1, 1]: no window needs to reach farther than from there across the grid.
    farthest = np.ceil((1.0 + max(abs(grid[0]), abs(grid[size - 1]))) / step) + 1.0
    reach = int(min(np.ceil(WINDOW / (s * step)), farthest))
    return step, 0.0, reach - 1, np.exp(-s * step * np.arange(1 - reach, reach + 1)).astype(np.float32)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _locate(
    heights: Any,
    a: int,
    b: int,
    offsets: Any,
    v: int,
    low: int,
    inverse: float,
    origin: float,
    step: float,
    rounding: float,
    bound: float,
    sharpness: Any,
    anchor: Any,
    decay: Any,
    bits: Any,
    power: Any,
) -> None:
    """For each direction from `low` on: the index of its anchor, maybe beyond the grid, and exp(-s (anchor - h)).

    The height is that of the higher of the nodes a and b (twice the same for one) in the neighbourhood v. `power` is
    `bits` seen as float32. Rows are not handed over as views: each would count references to an array that all threads
    share, and they would wait for each other.
    """
    per_step = 1.0 / step
    for i in range(len(anchor)):
        top = max(heights[a, low + i], heights[b, low + i])
        position = ((top - offsets[v, low + i]) * inverse - origin) * per_step
        position = min(max(position, -bound), bound)
        below = np.floor(position + rounding)
        anchor[i] = np.int32(below)
        argument = np.float32(position - below) * sharpness
        argument = min(max(argument, -_LARGEST), _LARGEST)
        whole = np.floor(argument * _LOG2E + _HALF)
        rest = argument - whole * _LN2_HIGH - whole * _LN2_LOW
        series = np.float32(1.9875691500e-4)
        series = series * rest + np.float32(1.3981999507e-3)
        series = series * rest + np.float32(8.3334519073e-3)
        series = series * rest + np.float32(4.1665795894e-2)
        series = series * rest + np.float32(1.6666665459e-1)
        series = series * rest + np.float32(5.0000001201e-1)
        # Past this the sigmoid is zero, and exactly so.
        decay[i] = series * rest * rest + rest + _ONE if argument < _SATURATED else np.float32(np.inf)
        bits[i] = (np.int32(whole) + np.int32(127)) << np.int32(23)
    for i in range(len(anchor)):
        decay[i] *= power[i]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _values(decay: Any, factors: Any, values: Any) -> None:
    """Fill the sigmoids (width, D) of all thresholds in the window, directions side by side for SIMD."""
    for k in range(len(factors)):
        factor = factors[k]
        for i in range(len(decay)):
            values[k, i] = _ONE / (_ONE + decay[i] * factor)


@numba.njit(cache=True, nogil=True, error_model="numpy")
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
    edge_weight: float,
    out: Any,
) -> None:
    """Fill `out` (n, D, T) float32 for the neighbourhoods begin … end."""
    count, size = heights.shape[1], len(grid)
    step, rounding, before, factors = _window(grid, s)
    sharpness, bound, width = np.float32(s * step), float(size + len(factors)), len(factors)
    anchor, decay = np.empty(count, np.int32), np.empty(count, np.float32)
    bits = np.empty(count, np.int32)
    power = bits.view(np.float32)
    values = np.empty((width, count), np.float32)
    # Room for a whole window on either side of the grid spares the narrow case its comparisons.
    curve, jumps = np.empty((count, size + 2 * width)), np.empty((count, size + width + 1))
    for v in range(begin, end):
        curve[:] = 0.0
        jumps[:] = 0.0
        members = node_ptr[v + 1] - node_ptr[v]
        for m in range(members + edge_ptr[v + 1] - edge_ptr[v]):
            if m < members:
                a = b = nodes[node_ptr[v] + m]
                weight = _ONE
            else:
                k = edge_ptr[v] + m - members
                a, b = tails[k], heads[k]
                weight = np.float32(-edge_weight)
            _locate(
                heights, a, b, offsets, v, 0, inverse[v], grid[0], step, rounding, bound, sharpness,
                anchor, decay, bits, power,
            )  # fmt: skip
            if width <= NARROW:
                _values(decay, factors, values)
                for i in range(count):
                    column = np.uint64(min(max(anchor[i] - before, -width), size) + width)
                    for j in range(width):
                        k = np.uint64(j)
                        curve[i, column + k] += weight * values[k, i]
                    jumps[i, column] += weight
                continue
            for i in range(count):
                first = anchor[i] - before
                last = min(first + width, size)
                lowest = max(first, 0)
                # Unsigned indices spare numba its check for negative ones, and the loop becomes SIMD instructions.
                start, column, skipped = decay[i], np.uint64(lowest + width), np.uint64(lowest - first)
                for j in range(last - lowest):
                    k = np.uint64(j)
                    curve[i, column + k] += weight / (_ONE + start * factors[skipped + k])
                jumps[i, max(last, 0)] += weight
        for i in range(count):
            level = 0.0
            for j in range(size):
                level += jumps[i, j]
                out[v, i, j] = level + curve[i, j + width]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "nsz"})
def backward(
    low: int,
    high: int,
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
    edge_weight: float,
    upstream: Any,
    on_heights: Any,
    on_offsets: Any,
    on_inverse: Any,
    on_grid: Any,
) -> None:
    """Add the gradients that the directions low … high contribute; see `any_grid.backward`."""
    count, size, needs_grid = high - low, len(grid), len(on_grid) > 0
    step, rounding, before, factors = _window(grid, s)
    sharpness, bound, width = np.float32(s * step), float(size + len(factors)), len(factors)
    anchor, decay = np.empty(count, np.int32), np.empty(count, np.float32)
    bits = np.empty(count, np.int32)
    power = bits.view(np.float32)
    values = np.empty((width, count), np.float32)
    slope = np.empty(count, np.float64)
    for v in range(len(node_ptr) - 1):
        scale, pull = inverse[v], 0.0
        members = node_ptr[v + 1] - node_ptr[v]
        for m in range(members + edge_ptr[v + 1] - edge_ptr[v]):
            if m < members:
                a = b = nodes[node_ptr[v] + m]
                weight = np.float32(s)
            else:
                k = edge_ptr[v] + m - members
                a, b = tails[k], heads[k]
                weight = np.float32(-edge_weight * s)
            _locate(
                heights, a, b, offsets, v, low, scale, grid[0], step, rounding, bound, sharpness,
                anchor, decay, bits, power,
            )  # fmt: skip
            is_narrow = width <= NARROW
            if is_narrow:
                _values(decay, factors, values)
                for k in range(width):
                    for i in range(count):
                        values[k, i] *= _ONE - values[k, i]
            for i in range(count):
                first = anchor[i] - before
                lowest = max(first, 0)
                start, column, skipped = decay[i], np.uint64(lowest), np.uint64(lowest - first)
                total = np.float32(0.0)
                for j in range(min(first + width, size) - lowest):
                    k = np.uint64(j)
                    if is_narrow:
                        rise = values[skipped + k, i]
                    else:
                        value = _ONE / (_ONE + start * factors[skipped + k])
                        rise = value * (_ONE - value)
                    term = upstream[v, low + i, column + k] * rise
                    total += term
                    if needs_grid:
                        on_grid[column + k] += weight * term
                slope[i] = weight * total
            if m < members:
                for i in range(count):
                    pull += slope[i] * (heights[a, low + i] - offsets[v, low + i])
                    on_heights[a, i] -= slope[i] * scale
                    on_offsets[v, i] += slope[i] * scale
            else:
                for i in range(count):
                    one, other = heights[a, low + i], heights[b, low + i]
                    # Ends of equal height share the gradient, as torch.maximum has it.
                    share = 1.0 if one > other else 0.5 if one == other else 0.0
                    moved = slope[i] * scale
                    pull += slope[i] * (max(one, other) - offsets[v, low + i])
                    on_heights[a, i] -= share * moved
                    on_heights[b, i] -= (1.0 - share) * moved
                    on_offsets[v, i] += moved
        on_inverse[v] -= pull
