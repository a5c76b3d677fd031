"""Loops of attention inside sequences of rows, forward and backward; tensors are given by address."""

from typing import Any

import numpy as np

from leap.models.kernels.compiling import kernel
from leap.models.kernels.counters import is_below
from leap.models.kernels.grouped_loops import rise
from leap.models.kernels.lanes import (
    COUNT,
    SIZE,
    exponential,
    larger,
    load,
    minus,
    over,
    plus,
    spread,
    store,
    times,
)
from leap.models.kernels.tiles import FULL, HALF, multiply, pad, padded, turn


@kernel
def count_pairs(ptr: Any, rows: int, borders: Any) -> int:
    """Return how many pairs of rows share a sequence, in lines padded for tiles; -1 where pointers do not fit.

    Parameters
    ----------
    borders : pointers of networks; no sequence may have rows of two. Empty for none.
    """
    if not rise(ptr, rows) or (len(borders) > 0 and not rise(borders, rows)):
        return -1
    pairs, i = 0, 0
    for g in range(len(ptr) - 1):
        length = ptr[g + 1] - ptr[g]
        pairs += length * padded(length)
        if length > 0 and len(borders) > 0:
            while borders[i + 1] <= ptr[g]:
                i += 1
            if borders[i + 1] < ptr[g + 1]:
                return -1
    return pairs


@kernel(error_model="numpy")
def attention_forward(
    qkv: int, rows: int, head: int, ptr: Any, borders: Any, keys: Any, limit: int, scale: float, weights: int, out: int
) -> None:
    """Fill the weights softmax(q kᵀ/√h) of every sequence and the sums drop(weights) v.

    Weights have a line per key and a column per query, so that all sums of softmax run down columns. `count_pairs` has
    checked the pointers and counted the weights.

    Parameters
    ----------
    qkv : (rows, 3 · head).
    borders, keys : pointers of networks and their keys of dropout, or empty.
    """
    longest = _longest(ptr)
    columns, depth, wide = 3 * head, padded(head), padded(longest)
    turned, zeros = np.zeros(head * wide, np.float32), np.zeros(max(wide, depth), np.float32)
    v_copy = np.zeros(longest * depth if depth != head else 0, np.float32)
    dropped = np.zeros(longest * wide if len(keys) > 0 else 0, np.float32)
    spare, root = np.empty(HALF * FULL, np.float32), spread(np.float32(1.0 / np.sqrt(head)))
    at, i = weights, 0
    for g in range(len(ptr) - 1):
        first, length = ptr[g], ptr[g + 1] - ptr[g]
        if length == 0:
            continue
        width, none, room = padded(length), zeros.ctypes.data, spare.ctypes.data
        q = qkv + SIZE * first * columns
        k, v, v_row = q + SIZE * head, q + SIZE * 2 * head, columns
        turn(q, columns, length, head, turned.ctypes.data, width)
        multiply(k, columns, 1, turned.ctypes.data, width, head, none, at, width, length, width, room)
        line, end = SIZE * width, at + SIZE * length * width
        for c in range(at, at + line, SIZE * COUNT):
            highest, sums = load(c), spread(np.float32(0.0))
            for place in range(c, end, line):
                highest = larger(highest, load(place))
            highest = times(highest, root)
            for place in range(c, end, line):
                value = exponential(minus(times(load(place), root), highest))
                store(place, value)
                sums = plus(sums, value)
            sums = over(spread(np.float32(1.0)), sums)
            for place in range(c, end, line):
                store(place, times(load(place), sums))
        used = at
        if len(keys) > 0:
            while borders[i + 1] <= first:
                i += 1
            mask = dropped[: length * width].reshape(length, width)
            _fill_factors(mask, length, keys[i], first - borders[i], limit, scale)
            used = dropped.ctypes.data
            for place in range(0, SIZE * length * width, SIZE * COUNT):
                store(used + place, times(load(used + place), load(at + place)))
        if depth != head:
            pad(v, columns, length, head, v_copy.ctypes.data, depth)
            v, v_row = v_copy.ctypes.data, depth
        multiply(used, 1, width, v, v_row, length, none, out + SIZE * first * head, head, length, head, room)
        at = end


@kernel
def _longest(ptr: Any) -> int:
    longest = 0
    for g in range(len(ptr) - 1):
        longest = max(longest, ptr[g + 1] - ptr[g])
    return longest


@kernel
def _fill_factors(mask: Any, length: int, key: Any, first: int, limit: int, scale: float) -> None:
    """Fill 0 or the scale for each key (line) and query (column); `first` is the first row inside its network."""
    bound, kept = np.uint64(limit), np.float32(scale)
    for j in range(length):
        for r in range(mask.shape[1]):
            index = (np.uint64(first + r) << np.uint64(24)) + np.uint64(j)
            mask[j, r] = np.float32(0.0) if is_below(key, index, bound) else kept


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
    longest = _longest(ptr)
    columns, depth, wide = 3 * head, padded(head), padded(longest)
    turned, zeros = np.zeros(head * wide, np.float32), np.zeros(max(wide, depth), np.float32)
    size = longest * depth if depth != head else 0
    q_copy, k_copy, given_copy = np.zeros(size, np.float32), np.zeros(size, np.float32), np.zeros(size, np.float32)
    change = np.zeros(longest * wide, np.float32)
    dropped = np.zeros(longest * wide if len(keys) > 0 else 0, np.float32)
    spare, root = np.empty(HALF * FULL, np.float32), spread(np.float32(1.0 / np.sqrt(head)))
    at, i = weights, 0
    for g in range(len(ptr) - 1):
        first, length = ptr[g], ptr[g + 1] - ptr[g]
        if length == 0:
            continue
        width, none, room = padded(length), zeros.ctypes.data, spare.ctypes.data
        q, given = qkv + SIZE * first * columns, upstream + SIZE * first * head
        k, v, step, given_step = q + SIZE * head, q + SIZE * 2 * head, columns, head
        on_q = on_qkv + SIZE * first * columns
        on_k, on_v = on_q + SIZE * head, on_q + SIZE * 2 * head
        change_at, used = change.ctypes.data, at
        turn(given, head, length, head, turned.ctypes.data, width)
        multiply(v, columns, 1, turned.ctypes.data, width, head, none, change_at, width, length, width, room)
        if len(keys) > 0:
            while borders[i + 1] <= first:
                i += 1
            mask = dropped[: length * width].reshape(length, width)
            _fill_factors(mask, length, keys[i], first - borders[i], limit, scale)
            used = dropped.ctypes.data
            for place in range(0, SIZE * length * width, SIZE * COUNT):
                factor = load(used + place)
                store(used + place, times(factor, load(at + place)))
                store(change_at + place, times(factor, load(change_at + place)))
        if depth != head:
            pad(q, columns, length, head, q_copy.ctypes.data, depth)
            pad(k, columns, length, head, k_copy.ctypes.data, depth)
            pad(given, head, length, head, given_copy.ctypes.data, depth)
            q, k, given = q_copy.ctypes.data, k_copy.ctypes.data, given_copy.ctypes.data
            step, given_step = depth, depth
        multiply(used, width, 1, given, given_step, length, none, on_v, columns, length, head, room)
        line = SIZE * width
        for c in range(0, line, SIZE * COUNT):
            sums = spread(np.float32(0.0))
            for place in range(c, length * line, line):
                sums = plus(sums, times(load(at + place), load(change_at + place)))
            for place in range(c, length * line, line):
                moved = times(load(at + place), minus(load(change_at + place), sums))
                store(change_at + place, times(moved, root))
        multiply(change_at, 1, width, k, step, length, none, on_q, columns, length, head, room)
        multiply(change_at, width, 1, q, step, length, none, on_k, columns, length, head, room)
        at += length * line
