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
    """
    rows, columns, networks = sizes
    if not fit(ptr, slots, rows, networks):
        return False
    source, target = array_at(x, (rows, columns)), array_at(out, (rows, columns))
    other = array_at(residual, (rows if residual != 0 else 0, columns))
    centred, scales = array_at(normal, (rows, columns)), array_at(inverse, (rows,))
    share, least = np.float32(1.0 / columns), np.float32(eps)
    for i in range(len(slots)):
        w = array_at(weight + SIZE * slots[i] * weight_step, (columns,))
        b = array_at(bias + SIZE * slots[i] * bias_step, (columns,))
        for r in range(ptr[i], ptr[i + 1]):
            if residual != 0:
                for c in range(columns):
                    centred[r, c] = source[r, c] + other[r, c]
            else:
                for c in range(columns):
                    centred[r, c] = source[r, c]
            total = np.float32(0.0)
            for c in range(columns):
                total += centred[r, c]
            mean, squares = total * share, np.float32(0.0)
            for c in range(columns):
                centred[r, c] -= mean
            for c in range(columns):
                squares += centred[r, c] * centred[r, c]
            scales[r] = np.float32(1.0) / np.sqrt(squares * share + least)
            for c in range(columns):
                centred[r, c] *= scales[r]
                target[r, c] = centred[r, c] * w[c] + b[c]
    return True


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
    given, found = array_at(upstream, (rows, columns)), array_at(on_x, (rows, columns))
    centred, scales = array_at(normal, (rows, columns)), array_at(inverse, (rows,))
    on_weights, on_biases = array_at(on_weight, (networks, columns)), array_at(on_bias, (networks, columns))
    share = np.float32(1.0 / columns)
    for i in range(len(slots)):
        w = array_at(weight + SIZE * slots[i] * weight_step, (columns,))
        on_w, on_b = on_weights[slots[i]], on_biases[slots[i]]
        on_w[:] = np.float32(0.0)
        on_b[:] = np.float32(0.0)
        for r in range(ptr[i], ptr[i + 1]):
            for c in range(columns):
                on_w[c] += given[r, c] * centred[r, c]
                on_b[c] += given[r, c]
                found[r, c] = given[r, c] * w[c]
            total, along = np.float32(0.0), np.float32(0.0)
            for c in range(columns):
                total += found[r, c]
                along += found[r, c] * centred[r, c]
            total, along = total * share, along * share
            for c in range(columns):
                found[r, c] = (found[r, c] - total - centred[r, c] * along) * scales[r]
    return True


@kernel
def rise(ptr: Any, rows: int) -> bool:
    """Whether pointers rise from 0 to the number of rows."""
    if len(ptr) == 0 or ptr[0] != 0 or ptr[-1] != rows:
        return False
    lowest = 0
    for g in range(len(ptr) - 1):
        lowest = min(lowest, ptr[g + 1] - ptr[g])
    return lowest == 0


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


@kernel
def count_pairs(ptr: Any, rows: int, borders: Any) -> int:
    """Return how many pairs of rows share a sequence, in rows padded for tiles; -1 where pointers do not fit.

    Parameters
    ----------
    borders : pointers of networks, between which no sequence may lie; empty for none.
    """
    if not rise(ptr, rows) or (len(borders) > 0 and not rise(borders, rows)):
        return -1
    total, i = 0, 0
    for g in range(len(ptr) - 1):
        length = ptr[g + 1] - ptr[g]
        total += length * padded(length)
        if length > 0 and len(borders) > 0:
            while borders[i + 1] <= ptr[g]:
                i += 1
            if borders[i + 1] < ptr[g + 1]:
                return -1
    return total


@kernel
def exponential(x: Any) -> Any:
    """Return exp(x) for float32 x ≤ 0 within two units in the last place, 0 below -87; compiles to vectors."""
    low = np.float32(-87.0)
    inside = x if x > low else low
    power = np.floor(inside * np.float32(1.44269504) + np.float32(0.5))
    rest = (inside - power * np.float32(0.693359375)) - power * np.float32(-2.12194440e-4)
    value = np.float32(1.9875691500e-4)
    value = value * rest + np.float32(1.3981999507e-3)
    value = value * rest + np.float32(8.3334519073e-3)
    value = value * rest + np.float32(4.1665795894e-2)
    value = value * rest + np.float32(1.6666665459e-1)
    value = value * rest + np.float32(5.0000001201e-1)
    value = value * (rest * rest) + rest + np.float32(1.0)
    value *= np.int32((np.int32(power) + np.int32(127)) << np.int32(23)).view(np.float32)
    return value if x >= low else (np.float32(0.0) if x < low else x)


@kernel(error_model="numpy")
def attention_forward(
    qkv: int, rows: int, head: int, ptr: Any, borders: Any, keys: Any, limit: int, scale: float, weights: int, out: int
) -> None:
    """Fill the weights softmax(q kᵀ/√h) of every sequence and the sums drop(weights) v.

    `count_pairs` has checked the pointers; each sequence's weights have rows of padded length.

    Parameters
    ----------
    qkv : (rows, 3 · head).
    borders, keys : pointers of networks and their keys of dropout, or empty.
    """
    longest = 0
    for g in range(len(ptr) - 1):
        longest = max(longest, ptr[g + 1] - ptr[g])
    columns, depth, longest_padded = 3 * head, padded(head), padded(longest)
    values = array_at(qkv, (rows, columns))
    turned, zeros = np.zeros(head * longest_padded, np.float32), np.zeros(max(longest_padded, depth), np.float32)
    copied, dropped = np.zeros(longest * depth, np.float32), np.zeros(longest * longest_padded, np.float32)
    spare, root = np.empty(HALF * FULL, np.float32), np.float32(1.0 / np.sqrt(head))
    at, i = weights, 0
    for g in range(len(ptr) - 1):
        first, length = ptr[g], ptr[g + 1] - ptr[g]
        if length == 0:
            continue
        width = padded(length)
        for j in range(length):
            for c in range(head):
                turned[c * width + j] = values[first + j, head + c]
                copied[j * depth + c] = values[first + j, 2 * head + c]
        source, keys_at = qkv + SIZE * first * columns, turned.ctypes.data
        zeros_at, spare_at = zeros.ctypes.data, spare.ctypes.data
        multiply(source, columns, 1, keys_at, width, head, zeros_at, at, width, length, width, spare_at)
        shares = array_at(at, (length, width))
        for r in range(length):
            highest, total = np.float32(-np.inf), np.float32(0.0)
            for j in range(length):
                shares[r, j] *= root
                highest = shares[r, j] if shares[r, j] > highest else highest
            for j in range(length):
                shares[r, j] = exponential(shares[r, j] - highest)
            for j in range(length):
                total += shares[r, j]
            total = np.float32(1.0) / total
            for j in range(length):
                shares[r, j] *= total
        used = at
        if len(keys) > 0:
            while borders[i + 1] <= first:
                i += 1
            mixed = dropped[: length * width].reshape(length, width)
            _drop_pairs(shares, mixed, keys[i], first - borders[i], limit, scale)
            used = dropped.ctypes.data
        target = out + SIZE * first * head
        multiply(used, width, 1, copied.ctypes.data, depth, length, zeros_at, target, head, length, head, spare_at)
        at += SIZE * length * width


@kernel
def _drop_pairs(shares: Any, out: Any, key: Any, first: int, limit: int, scale: float) -> None:
    """Fill shares times 0 or the scale; `first` is the row of the sequence inside its network."""
    bound, kept = np.uint64(limit), np.float32(scale)
    for r in range(len(shares)):
        place = np.uint64(first + r) << np.uint64(24)
        for j in range(len(shares)):
            is_dropped = is_below(key, place + np.uint64(j), bound)
            out[r, j] = shares[r, j] * (np.float32(0.0) if is_dropped else kept)


@kernel(error_model="numpy")
def attention_backward(
    qkv: int,
    rows: int,
    head: int,
    ptr: Any,
    borders: Any,
    keys: Any,
    limit: int,
    scale: float,
    weights: int,
    upstream: int,
    on_qkv: int,
) -> None:
    """Fill the gradient of q, k and v, given the weights of `attention_forward`."""
    longest = 0
    for g in range(len(ptr) - 1):
        longest = max(longest, ptr[g + 1] - ptr[g])
    columns, depth, longest_padded = 3 * head, padded(head), padded(longest)
    values, given = array_at(qkv, (rows, columns)), array_at(upstream, (rows, head))
    turned, zeros = np.zeros(head * longest_padded, np.float32), np.zeros(max(longest_padded, depth), np.float32)
    left, right = np.zeros(longest * depth, np.float32), np.zeros(longest * depth, np.float32)
    incoming = np.zeros(longest * depth, np.float32)
    change, dropped = np.zeros(longest * longest_padded, np.float32), np.zeros(longest * longest_padded, np.float32)
    spare, root = np.empty(HALF * FULL, np.float32), np.float32(1.0 / np.sqrt(head))
    at, i = weights, 0
    for g in range(len(ptr) - 1):
        first, length = ptr[g], ptr[g + 1] - ptr[g]
        if length == 0:
            continue
        width = padded(length)
        for j in range(length):
            for c in range(head):
                left[j * depth + c] = values[first + j, c]
                right[j * depth + c] = values[first + j, head + c]
                turned[c * width + j] = values[first + j, 2 * head + c]
                incoming[j * depth + c] = given[first + j, c]
        shares = array_at(at, (length, width))
        wanted = change[: length * width].reshape(length, width)
        zeros_at, spare_at, change_at = zeros.ctypes.data, spare.ctypes.data, change.ctypes.data
        incoming_at, turned_at = incoming.ctypes.data, turned.ctypes.data
        multiply(incoming_at, depth, 1, turned_at, width, head, zeros_at, change_at, width, length, width, spare_at)
        used = at
        if len(keys) > 0:
            while borders[i + 1] <= first:
                i += 1
            mixed = dropped[: length * width].reshape(length, width)
            _drop_pairs(shares, mixed, keys[i], first - borders[i], limit, scale)
            _drop_pairs(wanted, wanted, keys[i], first - borders[i], limit, scale)
            used = dropped.ctypes.data
        target = on_qkv + SIZE * first * columns
        on_value, on_key = target + SIZE * 2 * head, target + SIZE * head
        multiply(used, 1, width, incoming_at, depth, length, zeros_at, on_value, columns, length, head, spare_at)
        for r in range(length):
            along = np.float32(0.0)
            for j in range(length):
                along += shares[r, j] * wanted[r, j]
            for j in range(length):
                wanted[r, j] = shares[r, j] * (wanted[r, j] - along) * root
        left_at, right_at = left.ctypes.data, right.ctypes.data
        multiply(change_at, width, 1, right_at, depth, length, zeros_at, target, columns, length, head, spare_at)
        multiply(change_at, 1, width, left_at, depth, length, zeros_at, on_key, columns, length, head, spare_at)
        at += SIZE * length * width
