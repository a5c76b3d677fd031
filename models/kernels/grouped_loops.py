"""Loops over rows that belong to several networks, each with its own parameters, forward and backward.

Tensors are given by address, which costs a tenth of converting them; `leap.models.grouped` has checked their shapes.
Networks come one after the other, and rows of a network in order, so nothing depends on the other networks.
"""

from typing import Any

import numpy as np

from leap.models.kernels.compiling import kernel
from leap.models.kernels.counters import is_below
from leap.models.kernels.tiles import FULL, HALF, SIZE, array_at, multiply, padded


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
        matrix = array_at(weight + SIZE * slots[i] * weight_step, (outside, inside))
        for c in range(outside):
            for k in range(inside):
                turned[k, c] = matrix[c, k]
        if bias != 0:
            start[:outside] = array_at(bias + SIZE * slots[i] * bias_step, (outside,))
        source, target = x + SIZE * first * inside, out + SIZE * first * outside
        multiply(
            source,
            inside,
            1,
            turned.ctypes.data,
            width,
            inside,
            start.ctypes.data,
            target,
            outside,
            count,
            outside,
            spare.ctypes.data,
        )
        values = array_at(target, (count * outside,))
        if relu:
            for e in range(len(values)):
                values[e] = np.float32(0.0) if values[e] <= np.float32(0.0) else values[e]
        if len(keys) > 0:
            drop(values, keys[i], limit, scale)
    return True


@kernel
def drop(values: Any, key: Any, limit: int, scale: float) -> None:
    """Multiply each value by 0 or the scale, in place; not a number stays so, as in torch."""
    bound, kept = np.uint64(limit), np.float32(scale)
    for e in range(len(values)):
        values[e] *= np.float32(0.0) if is_below(key, np.uint64(e), bound) else kept


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
    is_masked = out != 0 or len(keys) > 0
    is_copied = is_masked or width != outside
    masked = np.zeros((longest if is_copied else 0, width), np.float32)
    matrix = np.zeros((outside if depth != inside else 0, depth), np.float32)
    turned = np.empty((inside, width), np.float32)
    zeros, one = np.zeros(max(width, depth), np.float32), np.ones(1, np.float32)
    spare = np.empty(HALF * FULL, np.float32)
    for i in range(len(slots)):
        first, count, slot = ptr[i], ptr[i + 1] - ptr[i], slots[i]
        source, given = x + SIZE * first * inside, upstream + SIZE * first * outside
        if is_copied:
            incoming = array_at(given, (count, outside))
            for r in range(count):
                for c in range(outside):
                    masked[r, c] = incoming[r, c]
            if len(keys) > 0:
                bound, kept = np.uint64(limit), np.float32(scale)
                for r in range(count):
                    for c in range(outside):
                        is_dropped = is_below(keys[i], np.uint64(r * outside + c), bound)
                        masked[r, c] *= np.float32(0.0) if is_dropped else kept
            if out != 0:
                result = array_at(out + SIZE * first * outside, (count, outside))
                for r in range(count):
                    for c in range(outside):
                        masked[r, c] = np.float32(0.0) if result[r, c] <= np.float32(0.0) else masked[r, c]
            given = masked.ctypes.data
        if on_x != 0:
            right = weight + SIZE * slot * weight_step
            if depth != inside:
                matrix[:, :inside] = array_at(right, (outside, inside))
                right = matrix.ctypes.data
            target = on_x + SIZE * first * inside
            multiply(
                given,
                width,
                1,
                right,
                depth,
                outside,
                zeros.ctypes.data,
                target,
                inside,
                count,
                inside,
                spare.ctypes.data,
            )
        if on_weight != 0:
            target = on_weight + SIZE * slot * outside * inside
            if depth == inside:
                multiply(
                    given,
                    1,
                    width,
                    source,
                    inside,
                    count,
                    zeros.ctypes.data,
                    target,
                    inside,
                    outside,
                    inside,
                    spare.ctypes.data,
                )
            else:
                multiply(
                    source,
                    1,
                    inside,
                    given,
                    width,
                    count,
                    zeros.ctypes.data,
                    turned.ctypes.data,
                    width,
                    inside,
                    outside,
                    spare.ctypes.data,
                )
                found = array_at(target, (outside, inside))
                for c in range(outside):
                    for k in range(inside):
                        found[c, k] = turned[k, c]
        if on_bias != 0:
            target = on_bias + SIZE * slot * outside
            multiply(
                one.ctypes.data,
                0,
                0,
                given,
                width,
                count,
                zeros.ctypes.data,
                target,
                outside,
                1,
                outside,
                spare.ctypes.data,
            )
    return True
