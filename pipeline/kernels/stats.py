"""Compute the statistics that normalize each neighbourhood: its mean and its largest norm after centring."""

from functools import cache
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from leap.models.indices import ragged_arrays
from leap.pipeline.kernels.blocks import available_threads, run_in_blocks
from leap.pipeline.kernels.compile import array_of, compile_kernel
from leap.store.errors import InvalidInputError

SERIAL_WORK = 1_000_000
"""Below this many feature values, starting a second thread costs more than it saves."""

EPSILON = float(np.finfo(np.float32).eps)


def mean_and_scale(
    x: NDArray[np.float32] | NDArray[np.float64],
    node_ptr: NDArray[np.int64],
    nodes: NDArray[np.int32] | NDArray[np.int64],
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
    scale : (n,) float32, the largest Euclidean norm of a member after the mean is subtracted. Below float32's
        epsilon (1.2e-7) times the largest |entry| of the members, differences are rounding errors: such a
        neighbourhood counts as constant and its scale is exactly 0, like that of a single node.

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
    if x.ndim != 2 or x.dtype not in (np.float32, np.float64):
        raise InvalidInputError(
            f"Features must be float32 or float64 of shape (N, d), but are {x.dtype} of shape {x.shape}."
        )
    node_ptr, nodes = ragged_arrays(node_ptr, nodes, len(x), ("node_ptr", "nodes"))
    count, width = len(node_ptr) - 1, x.shape[1]
    peak = float(max(-x.min(), x.max())) if x.size else 0.0
    doubtful = EPSILON * peak if peak < np.inf else np.inf  # also if the largest entry is not a number
    inputs = (np.ascontiguousarray(x), node_ptr, nodes, EPSILON, doubtful)
    mean = np.empty((count, width), dtype=np.float32)
    scale = np.empty(count, dtype=np.float32)
    kernel = _kernel(x.dtype, nodes.dtype)

    def new_worker() -> Any:
        total = np.empty(width, dtype=np.float64)
        return lambda low, high: kernel(*inputs, low, high, total, mean, scale)

    small = len(nodes) * width < SERIAL_WORK
    run_in_blocks(new_worker, count, 1 if small else threads or available_threads())
    return mean, scale


@cache
def _kernel(feature_type: np.dtype[Any], index_type: np.dtype[Any]) -> Any:
    return compile_kernel(
        _mean_and_scale,
        array_of(feature_type, 2),
        array_of(np.int64),
        array_of(index_type),
        *(types.float64, types.float64, types.int64, types.int64),
        array_of(np.float64, readonly=False),
        array_of(np.float32, 2, readonly=False),
        array_of(np.float32, readonly=False),
    )


def _mean_and_scale(  # type: ignore[no-untyped-def]
    x, node_ptr, nodes, epsilon, doubtful, low, high, total, mean, scale
):
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
            if largest < epsilon * peak:
                largest = 0.0
        scale[v] = largest
