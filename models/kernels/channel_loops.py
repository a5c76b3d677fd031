"""Maps of the channels of series, such as curves along directions: a convolution of width 1, grouped by network.

Loops run along the series, which lie contiguous in memory. Every sum runs over the rows of one network in their order.
"""

from typing import Any

import numpy as np

from leap.models.kernels.compiling import kernel


@kernel(error_model="numpy")
def _mix_row(factors: Any, series: Any, out: Any) -> None:
    """Fill out[h] = Σ_d factors[d, h] · series[d], four at a time."""
    channels, steps = series.shape
    whole = channels - channels % 4
    for h in range(len(out)):
        row = out[h]
        for t in range(steps):
            row[t] = 0.0
        for d in range(0, whole, 4):
            a, b, c, e = factors[d, h], factors[d + 1, h], factors[d + 2, h], factors[d + 3, h]
            first, second, third, fourth = series[d], series[d + 1], series[d + 2], series[d + 3]
            for t in range(steps):
                row[t] += (a * first[t] + b * second[t]) + (c * third[t] + e * fourth[t])
        for d in range(whole, channels):
            a, first = factors[d, h], series[d]
            for t in range(steps):
                row[t] += a * first[t]


@kernel(error_model="numpy")
def mix_forward(ptr: Any, slots: Any, x: Any, weight: Any, bias: Any, relu: bool, out: Any) -> None:
    """Fill out[v] = weight · x[v] + bias for all rows v (channels × series), with the parameters of their network."""
    width, steps = weight.shape[1], x.shape[2]
    for i in range(len(slots)):
        own, shift = weight[slots[i]].T.copy(), bias[slots[i]]
        for v in range(ptr[i], ptr[i + 1]):
            made = out[v]
            _mix_row(own, x[v], made)
            for h in range(width):
                row = made[h]
                for t in range(steps):
                    row[t] += shift[h]
                if relu:
                    for t in range(steps):
                        row[t] = np.float32(0.0) if row[t] <= 0.0 else row[t]  # not a number stays


@kernel(error_model="numpy")
def mix_backward(
    ptr: Any,
    slots: Any,
    x: Any,
    weight: Any,
    out: Any,
    relu: bool,
    upstream: Any,
    on_x: Any,
    on_weight: Any,
    on_bias: Any,
) -> None:
    """Fill the gradients of x (where it has room for them), weight and bias; those of absent networks stay."""
    width, channels, steps = weight.shape[1], weight.shape[2], x.shape[2]
    needs_x = len(on_x) == len(x)
    # One sum for each step of the series, so that loops along the series have nothing to add up. Two rows at a time:
    # half as many loads and stores.
    gradient, zeros = np.empty((2, width, steps), np.float32), np.zeros((channels, steps), np.float32)
    sums, shifts = np.empty((width, channels, steps), np.float32), np.empty((width, steps), np.float32)
    for i in range(len(slots)):
        own = weight[slots[i]].copy()
        sums[:], shifts[:] = 0.0, 0.0
        for v in range(ptr[i], ptr[i + 1], 2):
            both = v + 1 < ptr[i + 1]
            gradient[1] = 0.0
            for k in range(1 + both):
                for h in range(width):
                    above, made, kept = upstream[v + k, h], out[v + k, h], gradient[k, h]
                    for t in range(steps):
                        kept[t] = np.float32(0.0) if relu and made[t] <= 0.0 else above[t]
                if needs_x:
                    _mix_row(own, gradient[k], on_x[v + k])
            series, other = x[v], x[v + 1] if both else zeros
            for h in range(width):
                first, second, total = gradient[0, h], gradient[1, h], shifts[h]
                for t in range(steps):
                    total[t] += first[t] + second[t]
                for d in range(channels):
                    one, two, added = series[d], other[d], sums[h, d]
                    for t in range(steps):
                        added[t] += first[t] * one[t] + second[t] * two[t]
        for h in range(width):
            for d in range(channels):
                for t in range(steps):
                    on_weight[slots[i], h, d] += sums[h, d, t]
            for t in range(steps):
                on_bias[slots[i], h] += shifts[h, t]


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
