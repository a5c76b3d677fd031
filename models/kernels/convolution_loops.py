"""All layers of a message-passing backbone in one call: sums over neighbours, then the map of each row's network."""

from typing import Any

import numpy as np

from leap.models.kernels.compiling import kernel
from leap.models.kernels.grouped_loops import linear_backward, linear_forward
from leap.models.kernels.message_loops import sum_along_edges

WRONG_EDGES, WRONG_ROWS = 1, 2


@kernel
def layers_forward(
    x: int, layers: Any, rows: int, networks: int, edge_index: Any, edges: int, own: int, ptr: Any, slots: Any
) -> int:
    """Fill the sums and the results of all layers; 0, or what does not fit.

    Parameters
    ----------
    layers : (L, 8) of each layer columns in and out, the addresses of its sums and its result, address and step of
        weight and bias.
    """
    source, target, keys = edge_index[0], edge_index[1], np.empty(0, np.uint64)
    for number in range(len(layers)):
        inside, outside, sums, out, weight, weight_step, bias, bias_step = layers[number]
        if not sum_along_edges(source, target, edges, own, x, rows, inside, sums):
            return WRONG_EDGES
        sizes, relu = (rows, inside, outside, networks), number + 1 < len(layers)
        given = (sums, weight, weight_step, bias, bias_step)
        if not linear_forward(*given, sizes, ptr, slots, relu, keys, 0, 1.0, out):
            return WRONG_ROWS
        x = out
    return 0


@kernel
def layers_backward(
    layers: Any,
    rows: int,
    networks: int,
    edge_index: Any,
    edges: int,
    own: int,
    ptr: Any,
    slots: Any,
    upstream: int,
    on_x: int,
    on_parameters: Any,
) -> int:
    """Fill the gradients of x (unless its address is 0) and of all weights and biases, as `layers_forward` has them.

    Parameters
    ----------
    on_parameters : (L, 2) addresses of the gradients of weight and bias.
    """
    source, target, keys = edge_index[0], edge_index[1], np.empty(0, np.uint64)
    widest = 0
    for number in range(len(layers)):
        widest = max(widest, layers[number, 0])
    on_sums, states = np.empty(rows * widest, np.float32), np.empty((2, rows * widest), np.float32)
    for number in range(len(layers) - 1, -1, -1):
        inside, outside, sums, out, weight, weight_step, _, _ = layers[number]
        result = out if number + 1 < len(layers) else 0
        is_needed = number > 0 or on_x != 0
        on_given = on_sums.ctypes.data if is_needed else 0
        sizes, on_weight, on_bias = (
            (rows, inside, outside, networks),
            on_parameters[number, 0],
            on_parameters[number, 1],
        )
        known = (sums, weight, weight_step, sizes, ptr, slots, result, keys, 0, 1.0)
        if not linear_backward(*known, upstream, on_given, on_weight, on_bias):
            return WRONG_ROWS
        if is_needed:
            found = states[number % 2].ctypes.data if number > 0 else on_x
            if not sum_along_edges(target, source, edges, own, on_given, rows, inside, found):
                return WRONG_EDGES
            upstream = found
    return 0
