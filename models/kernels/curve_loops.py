"""A projection of curves in one call: three maps of their channels, then two linear maps, for the networks of a stack.

Parameters are given as (10, 2): address and step from one network to the next of weight and bias of each map, where the
third one's are means over its channels. A ReLU follows the first, the second and the fourth map.
"""

from typing import Any

import numpy as np

from leap.models.kernels.channel_loops import mix_backward, mix_forward
from leap.models.kernels.compiling import kernel
from leap.models.kernels.grouped_loops import linear_backward, linear_forward
from leap.models.kernels.lanes import SIZE


@kernel
def room_of_curves(sizes: Any) -> int:
    """Return how many numbers there are between the maps, which `curves_forward` keeps."""
    rows, _, low, high, steps, state, _, _ = sizes
    return rows * ((low + high + 1) * steps + state)


@kernel
def _regions(start: int, sizes: Any) -> Any:
    """Return the addresses of what is between the maps."""
    rows, _, low, high, steps, _, _, _ = sizes
    second = start + SIZE * rows * low * steps
    third = second + SIZE * rows * high * steps
    return start, second, third, third + SIZE * rows * steps


@kernel
def curves_forward(x: int, parameters: Any, sizes: Any, ptr: Any, slots: Any, kept: int, out: int) -> bool:
    """Fill `out` and what is kept for the way back; False where rows or slots do not fit.

    Parameters
    ----------
    sizes : rows, channels, those after the first and the second map, length of series, columns after the fourth and the
        fifth, networks of the stack.
    """
    rows, channels, low, high, steps, state, last, networks = sizes
    first, second, third, fourth = _regions(kept, sizes)
    p, none = parameters, np.empty(0, np.uint64)
    size = (rows, channels, low, steps, networks)
    if not mix_forward(x, p[0, 0], p[0, 1], p[1, 0], p[1, 1], size, ptr, slots, True, first):
        return False  # the others have the same rows
    size = (rows, low, high, steps, networks)
    mix_forward(first, p[2, 0], p[2, 1], p[3, 0], p[3, 1], size, ptr, slots, True, second)
    size = (rows, high, 1, steps, networks)
    mix_forward(second, p[4, 0], p[4, 1], p[5, 0], p[5, 1], size, ptr, slots, False, third)
    flat = (rows, steps, state, networks)
    linear_forward(third, p[6, 0], p[6, 1], p[7, 0], p[7, 1], flat, ptr, slots, True, none, 0, 1.0, fourth)
    flat = (rows, state, last, networks)
    linear_forward(fourth, p[8, 0], p[8, 1], p[9, 0], p[9, 1], flat, ptr, slots, False, none, 0, 1.0, out)
    return True


@kernel
def curves_backward(
    x: int,
    parameters: Any,
    sizes: Any,
    ptr: Any,
    slots: Any,
    kept: int,
    upstream: int,
    room: int,
    on_x: int,
    on: Any,
) -> bool:
    """Fill the gradients of x (unless its address is 0) and of the parameters, contiguous and given by addresses.

    Parameters
    ----------
    room : for as many numbers as are kept.
    on : (10,) addresses.
    """
    rows, channels, low, high, steps, state, last, networks = sizes
    first, second, third, fourth = _regions(kept, sizes)
    on_first, on_second, on_third, on_fourth = _regions(room, sizes)
    p, none = parameters, np.empty(0, np.uint64)
    flat = (rows, state, last, networks)
    if not linear_backward(
        fourth, p[8, 0], p[8, 1], flat, ptr, slots, 0, none, 0, 1.0, upstream, on_fourth, on[8], on[9]
    ):
        return False
    flat = (rows, steps, state, networks)
    linear_backward(
        third, p[6, 0], p[6, 1], flat, ptr, slots, fourth, none, 0, 1.0, on_fourth, on_third, on[6], on[7]
    )  # fmt: skip
    size = (rows, high, 1, steps, networks)
    mix_backward(second, p[4, 0], p[4, 1], size, ptr, slots, 0, on_third, on_second, on[4], on[5])
    size = (rows, low, high, steps, networks)
    mix_backward(first, p[2, 0], p[2, 1], size, ptr, slots, second, on_second, on_first, on[2], on[3])
    size = (rows, channels, low, steps, networks)
    mix_backward(x, p[0, 0], p[0, 1], size, ptr, slots, first, on_first, on_x, on[0], on[1])
    return True
