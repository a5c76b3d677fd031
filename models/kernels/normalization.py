"""Normalization of neighbourhoods: their means and scales, and the gradients through both (step 2 of the method).

Stored statistics (`mean_and_scale`), the fused kernels and the torch path of `dect` and the global classifiers follow
the same rule for constant neighbourhoods, which is written here.
"""

from typing import Any

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from leap.models.kernels.border import Ids, feature_array, ragged_arrays
from leap.models.kernels.compiling import kernel
from leap.models.kernels.threads import available_threads, share_among

SERIAL_WORK = 1_000_000
"""Below this many feature values, starting a second thread costs more than it saves."""

ROUNDING = float(np.finfo(np.float32).eps)
MARGIN = 1e-6
"""Added to the scale of a neighbourhood before features are divided by it."""


@register_jitable
def is_constant(scale: Any, largest: Any) -> Any:
    """Whether a neighbourhood counts as constant: its features differ by no more than rounding errors.

    Parameters
    ----------
    scale : the largest distance of a member from the mean; a number, an array or a tensor.
    largest : the largest |entry| among the features of the members.

    Such a neighbourhood has the scale 0 and all of its heights are 0. What is not a number is not constant.
    """
    return (scale < ROUNDING * largest) | (scale == 0.0)


def inverse_scale(scale: Any) -> Any:
    """Return what centred features are multiplied by, for an array or a tensor.

    0 for constant neighbourhoods, whose scale is 0, and not a number for what is no number.
    """
    return (scale > 0.0) / (abs(scale) + MARGIN)


def mean_and_scale(
    x: NDArray[np.float32] | NDArray[np.float64],
    node_ptr: NDArray[np.int64],
    nodes: Ids,
    *,
    threads: int | None = None,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Compute mean and scale of the features in each neighbourhood (step 2 of the method).

    Parameters
    ----------
    x : (N, d) float32 or float64, features of the nodes. One that is not finite makes the statistics of its
        neighbourhoods, and of no others, not a number.
    node_ptr : (n + 1,) int64, neighbourhood v has the members nodes[node_ptr[v]:node_ptr[v + 1]].
    nodes : (M,) rows of x.
    threads : default `available_threads()`. The result does not depend on it, not even in its last bit.

    Returns
    -------
    mean : (n, d) float32.
    scale : (n,) float32, the largest Euclidean norm of a member after the mean is subtracted; exactly 0 if the
        neighbourhood counts as constant (`is_constant`), as that of a single node does.

    Both are accumulated in float64, member by member in the order of `nodes`.

    Raises
    ------
    InvalidInputError
        Features that are no floating-point matrix, members that are no rows of it, or pointers that do not rise.

    Examples
    --------
    >>> x = np.array([[0.0, 0.0], [6.0, 8.0], [1.0, 1.0]], dtype=np.float32)
    >>> mean, scale = mean_and_scale(x, np.array([0, 2, 3]), np.array([0, 1, 2]))
    >>> mean.tolist(), scale.tolist()
    ([[3.0, 4.0], [1.0, 1.0]], [5.0, 0.0])
    """
    x = feature_array(x)
    node_ptr, nodes = ragged_arrays(node_ptr, nodes, len(x), ("node_ptr", "nodes"))
    count, width = len(node_ptr) - 1, x.shape[1]
    peak = float(max(-x.min(), x.max())) if x.size else 0.0
    doubtful = ROUNDING * peak if peak < np.inf else np.inf  # also if the largest entry is not a number
    mean = np.empty((count, width), dtype=np.float32)
    scale = np.empty(count, dtype=np.float32)

    def new_worker() -> Any:
        total = np.empty(width, dtype=np.float64)
        return lambda low, high: _mean_and_scale(x, node_ptr, nodes, doubtful, low, high, total, mean, scale)

    small = len(nodes) * width < SERIAL_WORK
    share_among(new_worker, count, 1 if small else threads or available_threads())
    return mean, scale


@kernel
def _mean_and_scale(
    x: Any, node_ptr: Any, nodes: Any, doubtful: float, low: int, high: int, total: Any, mean: Any, scale: Any
) -> None:
    """Fill mean and scale of the block. Only a scale below `doubtful` can be a constant neighbourhood's."""
    width = x.shape[1]
    even = width - width % 8
    for v in range(low, high):
        begin = node_ptr[v]
        end = node_ptr[v + 1]
        for j in range(width):
            total[j] = 0.0
        for p in range(begin, end):
            u = nodes[p]
            for j in range(width):
                total[j] += x[u, j]
        for j in range(width):
            total[j] /= max(end - begin, 1)
            mean[v, j] = total[j]

        largest = 0.0
        for p in range(begin, end):
            u = nodes[p]
            # Eight sums in a fixed order: the compiler may use vector registers of any width without changing
            # the result, which it could not if it were allowed to regroup one sum.
            s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
            for j in range(0, even, 8):
                s0 += (x[u, j] - total[j]) ** 2
                s1 += (x[u, j + 1] - total[j + 1]) ** 2
                s2 += (x[u, j + 2] - total[j + 2]) ** 2
                s3 += (x[u, j + 3] - total[j + 3]) ** 2
                s4 += (x[u, j + 4] - total[j + 4]) ** 2
                s5 += (x[u, j + 5] - total[j + 5]) ** 2
                s6 += (x[u, j + 6] - total[j + 6]) ** 2
                s7 += (x[u, j + 7] - total[j + 7]) ** 2
            for j in range(even, width):
                s0 += (x[u, j] - total[j]) ** 2
            norm = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
            if norm > largest or np.isnan(norm):
                largest = norm
        largest = np.sqrt(largest)

        if largest < doubtful:
            peak = 0.0
            for p in range(begin, end):
                for j in range(width):
                    peak = max(peak, abs(np.float64(x[nodes[p], j])))
            if is_constant(largest, peak):
                largest = 0.0
        scale[v] = largest


@kernel
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
        scale[v] = 0.0 if is_constant(distance, largest) else distance


@kernel
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


@kernel
def spread_means(node_ptr: Any, nodes: Any, on_offsets: Any, on_heights: Any) -> None:
    """Hand the gradient of a neighbourhood's mean height on to its members."""
    for v in range(len(node_ptr) - 1):
        share = 1.0 / max(node_ptr[v + 1] - node_ptr[v], 1)
        for m in range(node_ptr[v], node_ptr[v + 1]):
            for i in range(on_offsets.shape[1]):
                on_heights[nodes[m], i] += on_offsets[v, i] * share


@kernel
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
