"""A transformer encoder layer with one head in one call, normalized after each part, for the networks of a stack.

Parameters are given as (12, 2): address and step from one network to the next of weight and bias of the map to queries,
keys and values, of the map after the attention, of the two maps of the feed-forward part and of the two norms.
"""

from typing import Any

from leap.models.kernels.attention_loops import attention_backward, attention_forward
from leap.models.kernels.compiling import kernel
from leap.models.kernels.grouped_loops import layer_norm_backward, layer_norm_forward, linear_backward, linear_forward
from leap.models.kernels.lanes import SIZE, array_at
from leap.models.kernels.tiles import padded


@kernel
def room_of_encoder(rows: int, head: int, feed: int, pairs: int) -> int:
    """Return how many numbers `encoder_forward` keeps."""
    return pairs + rows * (6 * head + feed + 2 * padded(head) + 2)


@kernel
def _regions(kept: int, rows: int, head: int, feed: int, pairs: int) -> Any:
    """Return the addresses of what is kept: q, k and v, weights, two norms with their scales, and states in between."""
    line = SIZE * rows
    qkv, weights = kept, kept + 3 * head * line
    first = weights + SIZE * pairs
    first_scale = first + padded(head) * line
    second = first_scale + line
    second_scale = second + padded(head) * line
    seen = second_scale + line
    states, wide = seen + head * line, seen + 2 * head * line
    return qkv, weights, first, first_scale, second, second_scale, seen, states, wide, wide + feed * line


@kernel
def encoder_forward(
    x: int,
    parameters: Any,
    sizes: Any,
    eps: float,
    sequences: Any,
    ptr: Any,
    slots: Any,
    keys: Any,
    limit: int,
    scale: float,
    kept: int,
    out: int,
) -> bool:
    """Fill `out` and what is kept for the way back; False where rows or slots do not fit.

    Parameters
    ----------
    sizes : rows, columns, those of the feed-forward part, networks of the stack, weights of the attention.
    keys : (4, networks of the batch) of dropout, or (4, 0) for none.
    """
    rows, head, feed, networks, pairs = sizes
    qkv, weights, first, first_scale, second, second_scale, seen, states, wide, change = _regions(
        kept, rows, head, feed, pairs
    )
    none, p, norm = keys[0, :0], parameters, (rows, head, networks)
    borders = ptr if keys.shape[1] > 0 else ptr[:0]
    size = (rows, head, 3 * head, networks)
    if not linear_forward(
        x, p[0, 0], p[0, 1], p[1, 0], p[1, 1], size, ptr, slots, False, none, 0, 1.0, qkv
    ):  # the others have the same rows
        return False
    attention_forward(qkv, rows, head, sequences, borders, keys[0], limit, scale, weights, seen)
    size = (rows, head, head, networks)
    linear_forward(
        seen, p[2, 0], p[2, 1], p[3, 0], p[3, 1], size, ptr, slots, False, keys[1], limit, scale, change
    )  # fmt: skip
    layer_norm_forward(
        x, change, p[8, 0], p[8, 1], p[9, 0], p[9, 1], norm, ptr, slots, eps, first, first_scale, states
    )  # fmt: skip
    size = (rows, head, feed, networks)
    linear_forward(
        states, p[4, 0], p[4, 1], p[5, 0], p[5, 1], size, ptr, slots, True, keys[2], limit, scale, wide
    )  # fmt: skip
    size = (rows, feed, head, networks)
    linear_forward(
        wide, p[6, 0], p[6, 1], p[7, 0], p[7, 1], size, ptr, slots, False, keys[3], limit, scale, change
    )  # fmt: skip
    layer_norm_forward(
        states, change, p[10, 0], p[10, 1], p[11, 0], p[11, 1], norm, ptr, slots, eps, second, second_scale, out
    )  # fmt: skip
    return True


@kernel
def encoder_backward(
    x: int,
    parameters: Any,
    sizes: Any,
    sequences: Any,
    ptr: Any,
    slots: Any,
    keys: Any,
    limit: int,
    scale: float,
    kept: int,
    upstream: int,
    room: int,
    on_x: int,
    on: Any,
) -> bool:
    """Fill the gradients of x and of the parameters, contiguous and given by the addresses `on`, (12,).

    Parameters
    ----------
    room : for rows · (4 · columns + those of the feed-forward part) numbers.
    """
    rows, head, feed, networks, pairs = sizes
    qkv, weights, first, first_scale, second, second_scale, seen, states, wide, _ = _regions(
        kept, rows, head, feed, pairs
    )
    none, p, norm = keys[0, :0], parameters, (rows, head, networks)
    borders = ptr if keys.shape[1] > 0 else ptr[:0]
    change, on_qkv = room, room + SIZE * rows * head
    on_wide = on_qkv + SIZE * rows * 3 * head
    if not layer_norm_backward(
        p[10, 0], p[10, 1], norm, ptr, slots, second, second_scale, upstream, change, on[10], on[11]
    ):
        return False
    linear_backward(
        wide, p[6, 0], p[6, 1], (rows, feed, head, networks), ptr, slots, 0, keys[3], limit, scale, change, on_wide,
        on[6], on[7],
    )  # fmt: skip
    linear_backward(
        states, p[4, 0], p[4, 1], (rows, head, feed, networks), ptr, slots, wide, keys[2], limit, scale, on_wide, on_x,
        on[4], on[5],
    )  # fmt: skip
    _add(on_x, change, rows * head)
    layer_norm_backward(p[8, 0], p[8, 1], norm, ptr, slots, first, first_scale, change, on_x, on[8], on[9])
    linear_backward(
        seen, p[2, 0], p[2, 1], (rows, head, head, networks), ptr, slots, 0, keys[1], limit, scale, on_x, change,
        on[2], on[3],
    )  # fmt: skip
    attention_backward(qkv, rows, head, sequences, borders, keys[0], limit, scale, weights, change, on_qkv)
    linear_backward(
        x, p[0, 0], p[0, 1], (rows, head, 3 * head, networks), ptr, slots, 0, none, 0, 1.0, on_qkv, change,
        on[0], on[1],
    )  # fmt: skip
    _add(change, on_x, rows * head)
    return True


@kernel
def _add(given: int, target: int, count: int) -> None:
    added, own = array_at(given, (count,)), array_at(target, (count,))
    for e in range(count):
        own[e] += added[e]
