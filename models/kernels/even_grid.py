"""Fast DECT kernels for evenly spaced thresholds, forward and backward.

On an even grid one exponential serves all thresholds, for neighbouring ones differ by a constant factor: a sigmoid is
1 / (1 + decay · factor), where `decay` belongs to a height and its anchor, the threshold below it, and `factor` to the
distance of a threshold from the anchor. Factors come from a table, which says 0 and infinity outside the sigmoid's
active window; so every height evaluates the same number of thresholds, without a branch.

Everything heavy is a plain loop over flat arrays that becomes SIMD instructions. Therefore the exponential is a
polynomial (numba calls the C library for `exp`, one number at a time), several nodes and edges are taken at a time,
and indices are unsigned (signed ones are checked for being negative). Heights come in float64, so that features far
from zero do not cancel; what follows is relative to the anchor and done in float32.
"""

from typing import Any

import numpy as np

from leap.models.kernels.any_grid import WINDOW, higher
from leap.models.kernels.compiling import kernel

_LOG2E = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693359375)
_LN2_LOW = np.float32(-2.12194440e-4)
_ONE, _HALF = np.float32(1.0), np.float32(0.5)
_LARGEST = np.float32(40.0)  # exponents are clipped here: the sigmoid is then 0 or 1 to 4e-18
_LARGEST_ROUNDING = 1.0 - 2.0**-30  # less than a whole step, also after it is added to a position
LARGEST_REACH = 16_384
LARGEST_SHARPNESS = 1e30  # beyond, float32 has no digits for the distances from a threshold that matter
LARGEST_SHIFT = 1e-4  # sharpness times a threshold's distance from its even place: a sigmoid is wrong by 2.5e-5 at most
FARTHEST = 1e7  # sharpness times distance from 0 at which float64 still places a height to float32 precision
_LARGEST_EXPONENT = np.float32(100.0)
_CHUNK = 16  # nodes and edges taken at a time
_LANES = 8  # float32 numbers in a register: a whole multiple leaves no remainder


@kernel(error_model="numpy")
def suits(grid: Any, s: float) -> bool:
    """Whether thresholds ascend in equal steps, to float32 precision, neither tiny nor huge beside the sigmoid, near 0.

    The tables of these kernels cover the sigmoid's window in steps: tiny ones would make them huge.
    """
    if len(grid) < 2:
        return False
    step = (grid[-1] - grid[0]) / (len(grid) - 1)
    if not WINDOW / LARGEST_REACH <= s * step <= LARGEST_SHARPNESS:
        return False
    if s * max(abs(grid[0]), abs(grid[-1])) > FARTHEST:
        return False
    even = 0
    for j in range(len(grid) - 1):
        is_even = abs(grid[j + 1] - grid[j] - step) <= 1e-6 * step
        even += is_even and s * abs(grid[j] - (grid[0] + j * step)) <= LARGEST_SHIFT
    return even == len(grid) - 1


@kernel(error_model="numpy")
def _window(grid: Any, s: float) -> tuple[float, float, int, int, Any]:
    """Return the step, the rounding, the window's reach in steps, the thresholds to evaluate, and the factors.

    The anchor is the threshold below a height or, on a grid so coarse that only one threshold can be active, that one:
    either way no exponential overflows. The factor of a threshold k steps above the anchor is at k + reach + size.
    """
    size = len(grid)
    step = (grid[size - 1] - grid[0]) / (size - 1)
    is_coarse = s * step > 2.0 * WINDOW
    reach = 1 if is_coarse else int(np.ceil(WINDOW / (s * step)))
    factors = np.empty(2 * (size + reach + 1), np.float32)
    for place in range(len(factors)):
        k = place - reach - size
        if k == 0:
            factors[place] = 1.0
        elif k <= -reach:
            factors[place] = np.inf
        elif k > reach or is_coarse:
            factors[place] = 0.0
        else:
            factors[place] = np.exp(-s * step * k)
    span = -(-2 * reach // _LANES) * _LANES
    if size <= 2 * _LANES or span > size:
        span = size
    # On a coarse grid, a height past the window of the threshold below it belongs to the one above.
    rounding = min(max(0.5, 1.0 - 2.0 * WINDOW / (s * step)), _LARGEST_ROUNDING) if is_coarse else 0.0
    return step, rounding, reach, span, factors


@kernel
def _scratch(count: int) -> tuple[Any, Any, Any, Any, Any]:
    """Return room for anchor, rest, decay and bits of a chunk, and the bits seen as float32."""
    size = _CHUNK * count
    bits = np.empty(size, np.int32)
    return np.empty(size, np.int32), np.empty(size, np.float32), np.empty(size, np.float32), bits, bits.view(np.float32)


@kernel(error_model="numpy")
def _locate(
    v: int,
    done: int,
    taken: int,
    node_ptr: Any,
    nodes: Any,
    edge_ptr: Any,
    tails: Any,
    heads: Any,
    heights: Any,
    offsets: Any,
    low: int,
    count: int,
    per_step: float,
    origin: float,
    rounding: float,
    beyond: int,
    size: int,
    anchor: Any,
    rest: Any,
) -> None:
    """For nodes and edges `done` … of the neighbourhood v: each height's anchor, and its distance from it in steps.

    An edge is as high as the higher of its ends. Anchors farther than `beyond` from the grid are moved there, out of
    every threshold's window. A height that is not a number has the lowest anchor, and a distance that is no number
    either: nothing else leads to an index. Rows are not handed over as views: each would count references to an array
    that all threads share, and they would wait for each other.
    """
    lowest, highest = -float(beyond), float(size - 1 + beyond)
    members = node_ptr[v + 1] - node_ptr[v]
    for m in range(taken):
        if done + m < members:
            a = b = nodes[node_ptr[v] + done + m]
        else:
            k = edge_ptr[v] + done + m - members
            a, b = tails[k], heads[k]
        for number in range(count):
            i, place = np.uint64(low + number), np.uint64(m * count + number)
            position = (higher(heights[a, i], heights[b, i]) - offsets[v, i]) * per_step - origin
            kept = position if position > lowest else lowest  # a comparison with what is no number is false
            kept = kept if kept < highest else highest
            below = np.floor(kept + rounding)
            anchor[place] = np.int32(below)
            rest[place] = np.float32(position - below)


@kernel
def _has_many(v: int, node_ptr: Any, edge_ptr: Any) -> bool:
    """Whether a neighbourhood has more than twice as many edges as nodes."""
    return edge_ptr[v + 1] - edge_ptr[v] > 2 * (node_ptr[v + 1] - node_ptr[v])


@kernel
def _room(begin: int, end: int, node_ptr: Any, edge_ptr: Any, rows: int, count: int, joins: bool) -> tuple[Any, Any]:
    """Return room for `_shares`: of all nodes and of the largest neighbourhood with many edges."""
    largest = 0
    if joins:
        for v in range(begin, end):
            if _has_many(v, node_ptr, edge_ptr):
                largest = max(largest, node_ptr[v + 1] - node_ptr[v])
    return np.empty(rows if largest else 0, np.int32), np.empty(largest * count)


@kernel(error_model="numpy")
def _shares(
    v: int,
    node_ptr: Any,
    nodes: Any,
    edge_ptr: Any,
    tails: Any,
    heads: Any,
    edge_weights: Any,
    heights: Any,
    low: int,
    count: int,
    local: Any,
    shares: Any,
) -> bool:
    """Fill what the edges weigh that are as high as each member, in each direction; False where that cannot be said.

    An edge is as high as one of its ends, and so is its sigmoid; ends of equal height have half its weight each. This
    cannot be said where a height is not finite, or where edges have other ends than members.
    """
    members, doubt = node_ptr[v + 1] - node_ptr[v], 0.0
    for m in range(members):
        u = nodes[node_ptr[v] + m]
        local[np.uint64(u)] = m
        for number in range(count):
            shares[np.uint64(m * count + number)] = 0.0
            doubt += 0.0 * heights[np.uint64(u), np.uint64(low + number)]
    if doubt != 0.0:
        return False
    for k in range(edge_ptr[v], edge_ptr[v + 1]):
        a, b = np.uint64(tails[k]), np.uint64(heads[k])
        first, second = local[a], local[b]
        is_inside = 0 <= first < members and 0 <= second < members
        if not is_inside or nodes[node_ptr[v] + first] != tails[k] or nodes[node_ptr[v] + second] != heads[k]:
            return False
        weight = edge_weights[k if len(edge_weights) > 1 else 0]
        for number in range(count):
            i = np.uint64(low + number)
            one, other = heights[a, i], heights[b, i]
            share = weight if one > other else (0.5 * weight if one == other else 0.0)
            shares[np.uint64(first * count + number)] += share
            shares[np.uint64(second * count + number)] += weight - share
    return True


@kernel(error_model="numpy", fastmath={"contract"})
def _exponentials(count: int, sharpness: Any, rest: Any, decay: Any, bits: Any, power: Any) -> None:
    """Fill `decay` with exp(sharpness · rest), not a number where `rest` is none; `power` is `bits` seen as float32."""
    for number in range(count):
        i = np.uint64(number)
        argument = rest[i] * sharpness
        argument = -_LARGEST if argument < -_LARGEST else argument
        argument = _LARGEST if argument > _LARGEST else argument
        whole = np.floor(argument * _LOG2E + _HALF)
        r = argument - whole * _LN2_HIGH - whole * _LN2_LOW
        series = np.float32(1.9875691500e-4)
        series = series * r + np.float32(1.3981999507e-3)
        series = series * r + np.float32(8.3334519073e-3)
        series = series * r + np.float32(4.1665795894e-2)
        series = series * r + np.float32(1.6666665459e-1)
        series = series * r + np.float32(5.0000001201e-1)
        decay[i] = series * r * r + r + _ONE
        exponent = whole if whole > -_LARGEST_EXPONENT else -_LARGEST_EXPONENT  # also where there is no number
        bits[i] = (np.int32(exponent) + np.int32(127)) << np.int32(23)
    for number in range(count):
        i = np.uint64(number)
        decay[i] *= power[i]


@kernel(error_model="numpy", fastmath={"contract"})
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
    """Fill `out` (n, D, T) float32 for the neighbourhoods begin … end; weights as for `any_grid.forward`.

    Parameters
    ----------
    joins : whether in neighbourhoods with many edges each of these counts with its higher end, see `_shares`.
    """
    count, size = heights.shape[1], len(grid)
    step, rounding, reach, span, factors = _window(grid, s)
    sharpness, origin = np.float32(s * step), grid[0] / step
    anchor, rest, decay, bits, power = _scratch(count)
    curve, jumps = np.empty(count * size), np.empty((count, size + 1))
    local, shares = _room(begin, end, node_ptr, edge_ptr, len(heights), count, joins)
    has_own_weights = len(edge_weights) > 1
    for v in range(begin, end):
        curve[:] = 0.0
        jumps[:] = 0.0
        members = node_ptr[v + 1] - node_ptr[v]
        total = members + edge_ptr[v + 1] - edge_ptr[v]
        is_joined = joins and _has_many(v, node_ptr, edge_ptr)
        if is_joined:
            is_joined = _shares(
                v, node_ptr, nodes, edge_ptr, tails, heads, edge_weights, heights, 0, count, local, shares
            )
        total = members if is_joined else total
        for done in range(0, total, _CHUNK):
            taken = min(_CHUNK, total - done)
            _locate(
                v, done, taken, node_ptr, nodes, edge_ptr, tails, heads, heights, offsets, 0, count,
                inverse[v] / step, origin, rounding, reach + 1, size, anchor, rest,
            )  # fmt: skip
            _exponentials(taken * count, sharpness, rest, decay, bits, power)
            for m in range(taken):
                weight = _ONE
                if done + m >= members:
                    weight = np.float32(-edge_weights[edge_ptr[v] + done + m - members if has_own_weights else 0])
                for i in range(count):
                    place = np.uint64(m * count + i)
                    if is_joined:
                        weight = np.float32(1.0 - shares[np.uint64((done + m) * count + i)])
                    start = min(max(anchor[place] - reach + 1, 0), size - span)
                    first, row = np.uint64(start - anchor[place] + reach + size), np.uint64(i * size + start)
                    own = decay[place]
                    for j in range(span):
                        k = np.uint64(j)
                        curve[row + k] += weight / (_ONE + own * factors[first + k])
                    if span < size:
                        jumps[i, start + span] += weight
        if span == size:
            for i in range(count):
                for j in range(size):
                    out[v, i, j] = curve[i * size + j]
        else:
            for i in range(count):
                level = 0.0 * curve[i * size]  # what is no number comes first, and is none at every threshold
                for j in range(size):
                    level += jumps[i, j]
                    out[v, i, j] = level + curve[i * size + j]


@kernel(error_model="numpy", fastmath={"reassoc", "nsz", "contract"})
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
    edge_weights: Any,
    joins: bool,
    upstream: Any,
    on_heights: Any,
    on_offsets: Any,
    on_inverse: Any,
    on_grid: Any,
) -> None:
    """Add the gradients that the directions low … high contribute; see `any_grid.backward`."""
    count, size, needs_grid = high - low, len(grid), len(on_grid) > 0
    step, rounding, reach, span, factors = _window(grid, s)
    sharpness, origin = np.float32(s * step), grid[0] / step
    anchor, rest, decay, bits, power = _scratch(count)
    slope, moved = np.empty(count), np.empty(count)
    local, shares = _room(0, len(node_ptr) - 1, node_ptr, edge_ptr, len(heights), count, joins)
    has_own_weights = len(edge_weights) > 1
    # What thresholds outside the window add: zero, or not a number, by gradients or by heights that are none.
    unseen, lost = np.zeros(count, np.float32), np.float32(0.0)
    for v in range(len(node_ptr) - 1):
        scale, pull = inverse[v], 0.0
        moved[:] = 0.0
        members = node_ptr[v + 1] - node_ptr[v]
        total = members + edge_ptr[v + 1] - edge_ptr[v]
        is_joined = joins and _has_many(v, node_ptr, edge_ptr)
        if is_joined:
            is_joined = _shares(
                v, node_ptr, nodes, edge_ptr, tails, heads, edge_weights, heights, low, count, local, shares
            )
        total = members if is_joined else total
        if span < size and total > 0:
            for i in range(count):
                total_rise = np.float32(0.0)
                for j in range(size):  # as in `any_grid.nothing_of`, without a view
                    total_rise += np.float32(0.0) * upstream[v, np.uint64(low + i), np.uint64(j)]
                unseen[i] = total_rise
                for j in range(len(on_grid)):
                    on_grid[j] += np.float32(0.0) * upstream[v, np.uint64(low + i), np.uint64(j)]
        for done in range(0, total, _CHUNK):
            taken = min(_CHUNK, total - done)
            _locate(
                v, done, taken, node_ptr, nodes, edge_ptr, tails, heads, heights, offsets, low, count,
                inverse[v] / step, origin, rounding, reach + 1, size, anchor, rest,
            )  # fmt: skip
            _exponentials(taken * count, sharpness, rest, decay, bits, power)
            for m in range(taken):
                weight = np.float32(s)
                if done + m >= members:
                    weight = np.float32(-edge_weights[edge_ptr[v] + done + m - members if has_own_weights else 0] * s)
                for i in range(count):
                    place = np.uint64(m * count + i)
                    if is_joined:
                        weight = np.float32(s * (1.0 - shares[np.uint64((done + m) * count + i)]))
                    start = min(max(anchor[place] - reach + 1, 0), size - span)
                    first, row = np.uint64(start - anchor[place] + reach + size), np.uint64(start)
                    own, total_rise = decay[place], unseen[i]
                    if needs_grid:
                        for j in range(span):
                            k = np.uint64(j)
                            value = _ONE / (_ONE + own * factors[first + k])
                            term = upstream[v, np.uint64(low + i), row + k] * (value * (_ONE - value))
                            total_rise += term
                            on_grid[row + k] += weight * term
                        lost += np.float32(0.0) * own
                    else:
                        for j in range(span):
                            k = np.uint64(j)
                            value = _ONE / (_ONE + own * factors[first + k])
                            total_rise += upstream[v, np.uint64(low + i), row + k] * (value * (_ONE - value))
                    slope[i] = weight * total_rise
                if done + m < members:
                    a = nodes[node_ptr[v] + done + m]
                    for number in range(count):
                        mine, column = np.uint64(number), np.uint64(low + number)
                        pull += slope[mine] * (heights[a, column] - offsets[v, column])
                        on_heights[a, mine] -= slope[mine] * scale
                        moved[mine] += slope[mine]
                else:
                    edge = edge_ptr[v] + done + m - members
                    a, b = tails[edge], heads[edge]
                    for number in range(count):
                        mine, column = np.uint64(number), np.uint64(low + number)
                        one, other = heights[a, column], heights[b, column]
                        # Ends of equal height share the gradient, as torch.maximum has it.
                        part = 0.5 * slope[mine] if one == other else slope[mine]
                        pull += slope[mine] * (max(one, other) - offsets[v, column])
                        on_heights[a, mine] -= (0.0 if one < other else part) * scale
                        on_heights[b, mine] -= (0.0 if one > other else part) * scale
                        moved[mine] += slope[mine]
        on_inverse[v] -= pull
        for i in range(count):
            on_offsets[v, i] += moved[i] * scale
    for j in range(len(on_grid)):
        on_grid[j] += lost
