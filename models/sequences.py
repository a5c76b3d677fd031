"""`encode_sequences`: a transformer encoder layer of a stack as one operation.

On small graphs torch takes longer for a node of its graph than a part of the layer takes itself.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leap.models.fused import refuse_second_derivatives
from leap.models.grouped import check_sequences, dense, new_gradient, place, refuse_rows
from leap.models.kernels.encoder_loops import encoder_backward, encoder_forward, room_of_encoder
from leap.models.noise import limit_and_scale
from leap.models.rows import Rows
from leap.store.errors import InvalidInputError


def encode_sequences(
    x: Tensor,
    ptr: NDArray[np.int64],
    rows: Rows,
    parameters: Sequence[Tensor],
    eps: float,
    drop: float,
    keys: NDArray[np.uint64],
) -> Tensor:
    """Apply a transformer encoder layer with one head, normalized after each part, to sequences of rows.

    Parameters
    ----------
    x : (N, h) float32 on the CPU, as all other numbers.
    ptr : (G + 1,), sequence g is the rows ptr[g] to ptr[g + 1]; none has rows of two networks.
    parameters : weight (S, …) and bias of the map to queries, keys and values, of the map after the attention, of both
        maps of the feed-forward part, and of both norms.
    eps : of both norms.
    drop, keys : share of what is dropped, and keys (4, n) of that in each network; (4, 0) for nothing.

    Raises
    ------
    InvalidInputError
        If shapes, rows, slots or pointers do not fit.
    """
    count, head = x.shape
    networks, feed = parameters[4].shape[:2]
    shapes = [(3 * head, head), (3 * head,), (head, head), (head,), (feed, head), (feed,), (head, feed), (head,)]
    for parameter, shape in zip(parameters, [*shapes, *[(head,)] * 4], strict=True):
        if parameter.shape != (networks, *shape):
            raise InvalidInputError(
                f"a parameter of the layer must have shape {(networks, *shape)}. Got {tuple(parameter.shape)}."
            )
    if keys.shape not in ((4, 0), (4, len(rows))):
        raise InvalidInputError(f"keys must have shape (4, {len(rows)}) or (4, 0). Got {keys.shape}.")
    limit, scale = limit_and_scale(drop)
    pairs = check_sequences(ptr, count, rows, networks)
    noise = (keys, limit, scale)
    result: Tensor = _Encoder.apply(x, ptr.copy(), rows, eps, noise, pairs, *parameters)
    return result


class _Encoder(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        ptr: NDArray[np.int64],
        rows: Rows,
        eps: float,
        noise: tuple[NDArray[np.uint64], int, float],
        pairs: int,
        *parameters: Tensor,
    ) -> Tensor:
        x, parameters = x.contiguous(), tuple(map(dense, parameters))
        (count, head), (networks, feed) = x.shape, parameters[4].shape[:2]
        kept, out = x.new_empty(room_of_encoder(count, head, feed, pairs)), torch.empty_like(x)
        sizes, places = (count, head, feed, networks, pairs), np.array([place(each) for each in parameters])
        where = (ptr, rows.ptr, rows.slots, *noise, kept.data_ptr())
        if not encoder_forward(x.data_ptr(), places, sizes, eps, *where, out.data_ptr()):
            refuse_rows(rows, count, networks)
        ctx.save_for_backward(x, *parameters)
        ctx.known = (ptr, rows, noise, sizes, kept)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, *parameters = ctx.saved_tensors
        ptr, rows, noise, sizes, kept = ctx.known
        x, parameters, upstream = x.contiguous(), list(map(dense, parameters)), gradients[0].contiguous()
        count, head, feed, networks, _ = sizes
        on_x, room = torch.empty_like(x), x.new_empty(count * (4 * head + feed))
        on = [new_gradient(upstream, rows, *parameter.shape) for parameter in parameters]
        places = np.array([place(parameter) for parameter in parameters])
        where = (ptr, rows.ptr, rows.slots, *noise, kept.data_ptr())
        targets = (room.data_ptr(), on_x.data_ptr(), np.array([part.data_ptr() for part in on]))
        if not encoder_backward(x.data_ptr(), places, sizes, *where, upstream.data_ptr(), *targets):
            refuse_rows(rows, count, networks)
        found: tuple[Tensor | None, ...] = (on_x, *on)
        if torch.is_grad_enabled():
            found = refuse_second_derivatives("encode_sequences", found, (gradients[0], x, *parameters))
        return found[0], None, None, None, None, None, *found[1:]
