"""Loops over rows that belong to several networks, each with its own parameters, forward and backward.

Tensors are given by address, which costs a tenth of converting them; `leap.models.grouped` has checked their shapes.
Networks come one after the other, and rows of a network in order, so nothing depends on the other networks.
"""

from typing import Any

import numpy as np

from leap.models.kernels.compiling import kernel
from leap.models.kernels.counters import is_below
from leap.models.kernels.lanes import COUNT, SIZE, array_at, load, minus, plus, spread, store, times, total
from leap.models.kernels.tiles import FULL, HALF, multiply, pad, padded, turn


@kernel
def fit(ptr: Any, slots: Any, rows: int, networks: int) -> bool:
    """Whether the pointers rise from 0 to the number of rows, and the slots are different networks of the stack."""
    if len(ptr) != len(slots) + 1 or ptr[0] != 0 or ptr[-1] != rows:
        return False
    is_taken = np.zeros(networks, np.bool_)
    for i in range(len(slots)):
        if ptr[i + 1] < ptr[i] or slots[i] < 0 or slots[i] >= networks or is_taken[slots[i]]:
            return False
        is_taken[slots[i]] = True
    return True


@kernel
def linear_forward(
    x: int,
    weight: int,
    weight_step: int,
    bias: int,
    bias_step: int,
    sizes: Any,
    ptr: Any,
    slots: Any,
    relu: bool,
    keys: Any,
    limit: int,
    scale: float,
    out: int,
) -> bool:
    """Fill drop(relu(x Wᵀ + b)) of every network's rows; False where rows or slots do not fit.

    Parameters
    ----------
    weight_step, bias_step : from one network of the stack to the next.
    bias : 0 if there is none.
    sizes : rows, columns of x, columns of out, networks of the stack.
    keys : of dropout, one per network, or empty for none.
    limit : an element is dropped if its upper 32 bits are below.
    scale : of those that stay.
    """
    rows, inside, outside, networks = sizes
    if not fit(ptr, slots, rows, networks):
        return False
    width = padded(outside)
    turned, start = np.zeros((inside, width), np.float32), np.zeros(width, np.float32)
    spare = np.empty(HALF * FULL, np.float32)
    for i in range(len(slots)):
        first, count = ptr[i], ptr[i + 1] - ptr[i]
        # An array lives to its last use, so the address of one that is made before the loop is taken inside.
        turned_at, start_at, room = turned.ctypes.data, start.ctypes.data, spare.ctypes.data
        turn(weight + SIZE * slots[i] * weight_step, inside, outside, inside, turned_at, width)
        if bias != 0:
            start[:outside] = array_at(bias + SIZE * slots[i] * bias_step, (outside,))
        source, target = x + SIZE * first * inside, out + SIZE * first * outside
        multiply(source, inside, 1, turned_at, width, inside, start_at, target, outside, count, outside, room)
        values = array_at(target, (count * outside,))
        if relu:
            for e in range(len(values)):  # what is not a number stays so, as in torch
                values[e] = np.float32(0.0) if values[e] <= np.float32(0.0) else values[e]
        if len(keys) > 0:
            _drop(values, keys[i], 0, limit, scale)
    return True


@kernel
def _drop(values: Any, key: Any, first: int, limit: int, scale: float) -> None:
    """Multiply each value by 0 or the scale, in place, counting from `first`."""
    bound, kept = np.uint64(limit), np.float32(scale)
    for e in range(len(values)):
        values[e] *= np.float32(0.0) if is_below(key, np.uint64(first + e), bound) else kept


@kernel
def linear_backward(
    x: int,
    weight: int,
    weight_step: int,
    sizes: Any,
    ptr: Any,
    slots: Any,
    out: int,
    keys: Any,
    limit: int,
    scale: float,
    upstream: int,
    on_x: int,
    on_weight: int,
    on_bias: int,
) -> bool:
    """Fill the gradients of x, weight and bias whose address is not 0, for networks of the batch only.

    Parameters
    ----------
    out : the result if ReLU was applied, else 0.
    on_weight, on_bias : contiguous.
    """
    rows, inside, outside, networks = sizes
    if not fit(ptr, slots, rows, networks):
        return False
    longest = 0
    for i in range(len(slots)):
        longest = max(longest, ptr[i + 1] - ptr[i])
    width, depth = padded(outside), padded(inside)
    is_copied = out != 0 or len(keys) > 0 or width != outside
    masked = np.zeros(longest * width if is_copied else 0, np.float32)
    matrix = np.zeros((outside if depth != inside else 0, depth), np.float32)
    turned = np.empty((inside, width), np.float32)
    zeros, one = np.zeros(max(width, depth), np.float32), np.ones(1, np.float32)
    spare = np.empty(HALF * FULL, np.float32)
    for i in range(len(slots)):
        first, count, slot = ptr[i], ptr[i + 1] - ptr[i], slots[i]
        none, room = zeros.ctypes.data, spare.ctypes.data
        source, given = x + SIZE * first * inside, upstream + SIZE * first * outside
        if is_copied:
            # Without padding all rows are one long one, which is faster.
            lines, length = (1, count * outside) if width == outside else (count, outside)
            for r in range(lines):
                start = SIZE * (first * outside + r * length)
                own, incoming = masked[r * width : r * width + length], array_at(upstream + start, (length,))
                own[:] = incoming
                if len(keys) > 0:
                    _drop(own, keys[i], r * length, limit, scale)
                if out != 0:
                    result = array_at(out + start, (length,))
                    for e in range(length):
                        own[e] = np.float32(0.0) if result[e] <= np.float32(0.0) else own[e]
            given = masked.ctypes.data
        if on_x != 0:
            right = weight + SIZE * slot * weight_step
            if depth != inside:
                pad(right, inside, outside, inside, matrix.ctypes.data, depth)
                right = matrix.ctypes.data
            target = on_x + SIZE * first * inside
            multiply(given, width, 1, right, depth, outside, none, target, inside, count, inside, room)
        if on_weight != 0:
            target = on_weight + SIZE * slot * outside * inside
            if depth == inside:
                multiply(given, 1, width, source, inside, count, none, target, inside, outside, inside, room)
            else:
                turned_at = turned.ctypes.data
                multiply(source, 1, inside, given, width, count, none, turned_at, width, inside, outside, room)
                turn(turned_at, width, inside, outside, target, inside)
        if on_bias != 0:
            target = on_bias + SIZE * slot * outside
            multiply(one.ctypes.data, 0, 0, given, width, count, none, target, outside, 1, outside, room)
    return True


@kernel
def add_bias_forward(x: int, bias: int, bias_step: int, sizes: Any, ptr: Any, slots: Any, out: int) -> bool:
    """Fill x + b of every network's rows; False where rows or slots do not fit.

    Parameters
    ----------
    sizes : rows, columns, networks of the stack.
    """
    rows, columns, networks = sizes
    if not fit(ptr, slots, rows, networks):
        return False
    source, target = array_at(x, (rows, columns)), array_at(out, (rows, columns))
    for i in range(len(slots)):
        own = array_at(bias + SIZE * slots[i] * bias_step, (columns,))
        for r in range(ptr[i], ptr[i + 1]):
            for c in range(columns):
                target[r, c] = source[r, c] + own[c]
    return True


@kernel
def add_bias_backward(sizes: Any, ptr: Any, slots: Any, upstream: int, on_bias: int) -> bool:
    """Fill the gradient of the bias (contiguous), for networks of the batch only."""
    rows, columns, networks = sizes
    if not fit(ptr, slots, rows, networks):
        return False
    given, found = array_at(upstream, (rows, columns)), array_at(on_bias, (networks, columns))
    for i in range(len(slots)):
        own = found[slots[i]]
        own[:] = np.float32(0.0)
        for r in range(ptr[i], ptr[i + 1]):
            for c in range(columns):
                own[c] += given[r, c]
    return True


@kernel(error_model="numpy")
def layer_norm_forward(
    x: int,
    residual: int,
    weight: int,
    weight_step: int,
    bias: int,
    bias_step: int,
    sizes: Any,
    ptr: Any,
    slots: Any,
    eps: float,
    normal: int,
    inverse: int,
    out: int,
) -> bool:
    """Fill normalized rows of x + residual, one over their deviations, and w · normal + b; False as above.

    Parameters
    ----------
    residual : 0 if there is none.
    sizes : rows, columns, networks of the stack.
    normal : rows are padded to full lanes.
    """
    rows, columns, networks = sizes
    if not fit(ptr, slots, rows, networks):
        return False
    width = padded(columns)
    is_padded = width != columns
    scratch = np.zeros((5, width), np.float32)
    scales, share, least = array_at(inverse, (rows,)), np.float32(1.0 / columns), np.float32(eps)
    zero = spread(np.float32(0.0))
    for i in range(len(slots)):
        w_at, b_at, x_at, other_at, out_at = _lines(scratch.ctypes.data, width)
        _copy(weight + SIZE * slots[i] * weight_step, w_at, columns)
        _copy(bias + SIZE * slots[i] * bias_step, b_at, columns)
        for r in range(ptr[i], ptr[i + 1]):
            line, n = SIZE * r * columns, normal + SIZE * r * width
            a, b, o = x + line, residual + line, out + line
            if is_padded:
                _copy(a, x_at, columns)
                a, o = x_at, out_at
                if residual != 0:
                    _copy(b, other_at, columns)
                    b = other_at
            values = zero
            for c in range(0, SIZE * width, SIZE * COUNT):
                value = plus(load(a + c), load(b + c)) if residual != 0 else load(a + c)
                store(n + c, value)
                values = plus(values, value)
            mean = spread(total(values) * share)
            for c in range(0, SIZE * width, SIZE * COUNT):
                store(n + c, minus(load(n + c), mean))
            if is_padded:
                array_at(n, (width,))[columns:] = np.float32(0.0)
            values = zero
            for c in range(0, SIZE * width, SIZE * COUNT):
                values = plus(values, times(load(n + c), load(n + c)))
            variance = total(values) * share + least
            # Squares too large for float32 say nothing about the deviation.
            scales[r] = np.float32(np.nan) if np.isinf(variance) else np.float32(1.0) / np.sqrt(variance)
            factor = spread(scales[r])
            for c in range(0, SIZE * width, SIZE * COUNT):
                value = times(load(n + c), factor)
                store(n + c, value)
                store(o + c, plus(times(value, load(w_at + c)), load(b_at + c)))
            if is_padded:
                _copy(out_at, out + line, columns)
    return True


@kernel
def _lines(address: int, width: int) -> Any:
    """Return the addresses of five rows."""
    step = SIZE * width
    return address, address + step, address + 2 * step, address + 3 * step, address + 4 * step


@kernel
def _copy(source: int, target: int, count: int) -> None:
    given, own = array_at(source, (count,)), array_at(target, (count,))
    for c in range(count):
        own[c] = given[c]


@kernel(error_model="numpy")
def layer_norm_backward(
    weight: int,
    weight_step: int,
    sizes: Any,
    ptr: Any,
    slots: Any,
    normal: int,
    inverse: int,
    upstream: int,
    on_x: int,
    on_weight: int,
    on_bias: int,
) -> bool:
    """Fill the gradients of x (and of the residual, the same), weight and bias, the last two contiguous."""
    rows, columns, networks = sizes
    if not fit(ptr, slots, rows, networks):
        return False
    width = padded(columns)
    is_padded = width != columns
    scratch = np.zeros((5, width), np.float32)
    scales, share = array_at(inverse, (rows,)), np.float32(1.0 / columns)
    zero = spread(np.float32(0.0))
    for i in range(len(slots)):
        w_at, given_at, found_at, on_w, on_b = _lines(scratch.ctypes.data, width)
        _copy(weight + SIZE * slots[i] * weight_step, w_at, columns)
        scratch[3:] = np.float32(0.0)
        for r in range(ptr[i], ptr[i + 1]):
            g, n, found = upstream + SIZE * r * columns, normal + SIZE * r * width, on_x + SIZE * r * columns
            if is_padded:
                _copy(g, given_at, columns)
                g, found = given_at, found_at
            values, along = zero, zero
            for c in range(0, SIZE * width, SIZE * COUNT):
                given, own = load(g + c), load(n + c)
                store(on_w + c, plus(load(on_w + c), times(given, own)))
                store(on_b + c, plus(load(on_b + c), given))
                scaled = times(given, load(w_at + c))
                values, along = plus(values, scaled), plus(along, times(scaled, own))
            mean, slope, factor = spread(total(values) * share), spread(total(along) * share), spread(scales[r])
            for c in range(0, SIZE * width, SIZE * COUNT):
                change = minus(times(load(g + c), load(w_at + c)), mean)
                store(found + c, times(minus(change, times(load(n + c), slope)), factor))
            if is_padded:
                _copy(found_at, on_x + SIZE * r * columns, columns)
        _copy(on_w, on_weight + SIZE * slots[i] * columns, columns)
        _copy(on_b, on_bias + SIZE * slots[i] * columns, columns)
    return True


@kernel
def rise(ptr: Any, rows: int) -> bool:
    """Whether pointers rise from 0 to the number of rows."""
    if len(ptr) == 0 or ptr[0] != 0 or ptr[-1] != rows:
        return False
    falls = 0
    for g in range(len(ptr) - 1):  # compared: a difference may overflow, and then look like a rise
        falls += ptr[g + 1] < ptr[g]
    return falls == 0


@kernel
def pool_forward(x: int, rows: int, columns: int, ptr: Any, out: int) -> bool:
    """Fill the sum of the rows ptr[g] to ptr[g + 1]; False where the pointers do not fit."""
    if not rise(ptr, rows):
        return False
    source, target = array_at(x, (rows, columns)), array_at(out, (len(ptr) - 1, columns))
    for g in range(len(ptr) - 1):
        for c in range(columns):
            target[g, c] = np.float32(0.0)
        for r in range(ptr[g], ptr[g + 1]):
            for c in range(columns):
                target[g, c] += source[r, c]
    return True


@kernel
def pool_backward(upstream: int, rows: int, columns: int, ptr: Any, on_x: int) -> bool:
    """Give every row the gradient of its sum."""
    if not rise(ptr, rows):
        return False
    given, found = array_at(upstream, (len(ptr) - 1, columns)), array_at(on_x, (rows, columns))
    for g in range(len(ptr) - 1):
        for r in range(ptr[g], ptr[g + 1]):
            for c in range(columns):
                found[r, c] = given[g, c]
    return True
