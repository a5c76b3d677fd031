"""Maps of the channels of series, such as curves along directions: a convolution of width 1, grouped by network.

Loops run along the series, which lie contiguous in memory. Every sum runs over the rows of one network in their order.
Tensors of the convolution are given by address.
"""

from typing import Any

import numpy as np

from leap.models.kernels.compiling import kernel
from leap.models.kernels.grouped_loops import fit
from leap.models.kernels.lanes import COUNT, SIZE, array_at, larger, load, plus, spread, store
from leap.models.kernels.tiles import FULL, HALF, multiply, multiply_series, pad, padded


@kernel
def mix_forward(
    x: int,
    weight: int,
    weight_step: int,
    bias: int,
    bias_step: int,
    sizes: Any,
    ptr: Any,
    slots: Any,
    relu: bool,
    out: int,
) -> bool:
    """Fill out[v] = weight · x[v] + bias for all rows v, with their network's parameters; False if rows do not fit.

    Parameters
    ----------
    weight_step, bias_step : from one network of the stack to the next.
    sizes : rows, channels, channels of the result, length of series, networks of the stack.
    """
    rows, channels, width, steps, networks = sizes
    if not fit(ptr, slots, rows, networks):
        return False
    length = padded(steps)
    zeros, spare = np.zeros(length, np.float32), np.empty(HALF * FULL, np.float32)
    copied = np.zeros(channels * length if length != steps else 0, np.float32)
    for i in range(len(slots)):
        own, shift = weight + SIZE * slots[i] * weight_step, array_at(bias + SIZE * slots[i] * bias_step, (width,))
        for v in range(ptr[i], ptr[i + 1]):
            series, made = x + SIZE * v * channels * steps, out + SIZE * v * width * steps
            if length != steps:
                pad(series, steps, channels, steps, copied.ctypes.data, length)
                series = copied.ctypes.data
            none, room = zeros.ctypes.data, spare.ctypes.data
            multiply(own, channels, 1, series, length, channels, none, made, steps, width, steps, room)
            for h in range(width):
                _shift(made + SIZE * h * steps, shift[h], steps, relu)
    return True


@kernel
def _shift(row: int, by: Any, steps: int, relu: bool) -> None:
    """Add a number to a series and apply ReLU, where not a number stays so."""
    whole, added, zero = steps // COUNT * COUNT, spread(by), spread(np.float32(0.0))
    for t in range(row, row + SIZE * whole, SIZE * COUNT):
        value = plus(load(t), added)
        store(t, larger(value, zero) if relu else value)
    rest = array_at(row, (steps,))
    for t in range(whole, steps):
        rest[t] += by
        if relu and rest[t] < np.float32(0.0):
            rest[t] = np.float32(0.0)


@kernel
def mix_backward(
    x: int,
    weight: int,
    weight_step: int,
    sizes: Any,
    ptr: Any,
    slots: Any,
    out: int,
    upstream: int,
    on_x: int,
    on_weight: int,
    on_bias: int,
) -> bool:
    """Fill the gradients of x (unless its address is 0), weight and bias, for networks of the batch only.

    Parameters
    ----------
    out : the result if ReLU was applied, else 0.
    """
    rows, channels, width, steps, networks = sizes
    if not fit(ptr, slots, rows, networks):
        return False
    longest = 0
    for i in range(len(slots)):
        longest = max(longest, ptr[i + 1] - ptr[i])
    length = padded(steps)
    is_padded = length != steps
    masked = np.zeros(longest * width * length if is_padded or out != 0 else 0, np.float32)
    copied = np.zeros(longest * channels * length if is_padded else 0, np.float32)
    zeros, ones, spare = np.zeros(length, np.float32), np.ones(length, np.float32), np.empty(HALF * FULL, np.float32)
    for i in range(len(slots)):
        first, count, slot = ptr[i], ptr[i + 1] - ptr[i], slots[i]
        series, given = x + SIZE * first * channels * steps, upstream + SIZE * first * width * steps
        if is_padded:
            pad(series, steps, count * channels, steps, copied.ctypes.data, length)
            series = copied.ctypes.data
        if is_padded or out != 0:
            pad(given, steps, count * width, steps, masked.ctypes.data, length)
            given = masked.ctypes.data
        if out != 0:
            lines = masked[: count * width * length].reshape(count * width, length)
            result = array_at(out + SIZE * first * width * steps, (count * width, steps))
            for r in range(len(lines)):
                for t in range(steps):
                    lines[r, t] = np.float32(0.0) if result[r, t] <= np.float32(0.0) else lines[r, t]
        none, room, matrix = zeros.ctypes.data, spare.ctypes.data, width * length
        if on_x != 0:
            own, found = weight + SIZE * slot * weight_step, on_x + SIZE * first * channels * steps
            for v in range(count):
                right, target = given + SIZE * v * matrix, found + SIZE * v * channels * steps
                multiply(own, 1, channels, right, length, width, none, target, steps, channels, steps, room)
        target, step = on_weight + SIZE * slot * width * channels, channels * length
        multiply_series(given, matrix, length, series, step, length, count, length, target, channels, width, channels)
        target, every = on_bias + SIZE * slot * width, ones.ctypes.data
        multiply_series(given, matrix, length, every, 0, 0, count, length, target, 1, width, 1)
    return True


@kernel
def add_products(ptr: Any, slots: Any, points: Any, basis: Any, out: Any) -> None:
    """Add points[v] · basis[slot] to out[v], for the rows v of each network."""
    for i in range(len(slots)):
        own = basis[slots[i]].copy()
        for v in range(ptr[i], ptr[i + 1]):
            point, row = points[v], out[v]
            for k in range(len(own)):
                entry, along = point[k], own[k]
                for j in range(own.shape[1]):
                    row[j] += entry * along[j]


@kernel
def add_outer_products(ptr: Any, slots: Any, points: Any, heights: Any, out: Any) -> None:
    """Add points[v]ᵀ · heights[v] to out[slot], row after row of each network."""
    for i in range(len(slots)):
        own = out[slots[i]]
        for v in range(ptr[i], ptr[i + 1]):
            point, row = points[v], heights[v]
            for k in range(len(own)):
                entry, total = point[k], own[k]
                for j in range(own.shape[1]):
                    total[j] += entry * row[j]
