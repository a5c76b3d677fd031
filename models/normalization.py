"""Normalization of neighbourhoods while features are learned: mean heights and scales, and their gradients."""

from typing import Any

import numba
import numpy as np

CONSTANT = float(np.finfo(np.float32).eps)  # relative to the largest |entry|, a smaller scale is rounding error


@numba.njit(cache=True, nogil=True)
def normalize(x: Any, node_ptr: Any, nodes: Any, heights: Any, offsets: Any, scale: Any, farthest: Any) -> None:
    """Fill mean heights (n, D), largest distance from the mean (n,) and the member at that distance (n,)."""
    dim, count = x.shape[1], heights.shape[1]
    mean = np.empty(dim)
    for v in range(len(node_ptr) - 1):
        begin, end = node_ptr[v], node_ptr[v + 1]
        share = 1.0 / max(end - begin, 1)
        for i in range(count):
            total = 0.0
            for m in range(begin, end):
                total += heights[nodes[m], i]
            offsets[v, i] = total * share
        largest = _mean(x, nodes, begin, end, mean)
        best = 0.0 if begin == end else -1.0
        for m in range(begin, end):
            u = nodes[m]
            square = 0.0
            for k in range(dim):
                difference = x[u, k] - mean[k]
                square += difference * difference
            if square > best or np.isnan(square):
                best = square
                farthest[v] = u
        distance = np.sqrt(best)
        scale[v] = 0.0 if distance <= CONSTANT * largest else distance


@numba.njit(cache=True, nogil=True)
def _mean(x: Any, nodes: Any, begin: int, end: int, mean: Any) -> float:
    """Fill the mean of the members' features; return the largest |entry|."""
    mean[:] = 0.0
    largest = 0.0
    for m in range(begin, end):
        u = nodes[m]
        for k in range(len(mean)):
            mean[k] += x[u, k]
            largest = max(largest, abs(x[u, k]))
    mean /= max(end - begin, 1)
    return largest


@numba.njit(cache=True, nogil=True)
def spread_means(node_ptr: Any, nodes: Any, on_offsets: Any, on_heights: Any) -> None:
    """Hand the gradient of a neighbourhood's mean height on to its members."""
    for v in range(len(node_ptr) - 1):
        share = 1.0 / max(node_ptr[v + 1] - node_ptr[v], 1)
        for m in range(node_ptr[v], node_ptr[v + 1]):
            for i in range(on_offsets.shape[1]):
                on_heights[nodes[m], i] += on_offsets[v, i] * share


@numba.njit(cache=True, nogil=True)
def spread_scales(x: Any, node_ptr: Any, nodes: Any, scale: Any, farthest: Any, on_scale: Any, on_x: Any) -> None:
    """Hand the gradient of a neighbourhood's scale on to its farthest member and, through the mean, to all."""
    dim = x.shape[1]
    mean = np.empty(dim)
    for v in range(len(node_ptr) - 1):
        if scale[v] == 0.0 or on_scale[v] == 0.0:
            continue
        begin, end = node_ptr[v], node_ptr[v + 1]
        _mean(x, nodes, begin, end, mean)
        for k in range(dim):
            pull = on_scale[v] * (x[farthest[v], k] - mean[k]) / scale[v]
            on_x[farthest[v], k] += pull
            for m in range(begin, end):
                on_x[nodes[m], k] -= pull / (end - begin)
