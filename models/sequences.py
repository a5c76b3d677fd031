"""Operations on sequences of rows: attention, and a transformer encoder layer of a stack as one operation.

On small graphs torch takes longer for a node of its graph than a part of the layer takes itself.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leap.models.addresses import (
    Pointers,
    check_arrays,
    check_compiled,
    check_sequences,
    dense,
    is_compiled,
    new_gradient,
    place,
    pointers,
    refuse_rows,
    refuse_sequences,
)
from leap.models.devices import padded_places, segments, send
from leap.models.fused import refuse_second_derivatives
from leap.models.kernels.attention_loops import attention_backward, attention_forward, count_pairs
from leap.models.kernels.encoder_loops import encoder_backward, encoder_forward, room_of_encoder
from leap.models.noise import NO_KEYS, Keys, attention_factors, dropout, limit_and_scale
from leap.models.rows import Rows
from leap.store.errors import InvalidInputError


def self_attention(
    qkv: Tensor, ptr: Pointers | Tensor, *, drop: float = 0.0, keys: Keys | None = None, rows: Rows | None = None
) -> Tensor:
    """Return drop(softmax(q kᵀ/√h)) v inside each sequence of rows, with one head.

    Parameters
    ----------
    qkv : (N, 3 h), queries, keys and values side by side.
    ptr : (G + 1,) int64 on the host; sequence g is the rows ptr[g] to ptr[g + 1], and may be empty.
    drop : share of weights that become zero, if there are keys.
    keys, rows : one key per network and which rows are whose, for dropout only; without rows there is one network.

    Raises
    ------
    InvalidInputError
        If shapes or pointers do not fit, or rows of two networks share a sequence.
    """
    starts = pointers(ptr)
    if qkv.ndim != 2 or qkv.shape[1] == 0 or qkv.shape[1] % 3:
        raise InvalidInputError(f"qkv must have shape (N, 3 h), got {tuple(qkv.shape)}.")
    borders, limit, scale, own = np.empty(0, np.int64), 0, 1.0, NO_KEYS
    if drop != 0.0 and keys is not None:
        rows = Rows.of([len(qkv)]) if rows is None else rows
        check_arrays(rows)
        limit, scale, own = dropout(drop, keys, rows)
        borders = rows.ptr
        if len(borders) != len(own) + 1:
            refuse_rows(rows, len(qkv), len(own))
    pairs = count_pairs(starts, len(qkv), borders)
    if pairs < 0:
        refuse_sequences(starts, len(qkv), borders)
    if is_compiled(qkv):
        result: Tensor = _SelfAttention.apply(qkv, starts, borders, own, limit, scale, pairs)
        return result
    return _padded_attention(qkv, starts, borders, own, drop)


class _SelfAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, ptr: Pointers, borders: Pointers, keys: Keys, limit: int, scale: float, pairs: int
    ) -> Tensor:
        qkv = qkv.contiguous()
        rows, head = len(qkv), qkv.shape[1] // 3
        weights, out = qkv.new_empty(pairs), qkv.new_empty(rows, head)
        ptr, borders = ptr.copy(), borders.copy()  # checked, and nobody else's any more
        known = (rows, head, ptr, borders, keys, limit, scale)
        attention_forward(qkv.data_ptr(), *known, weights.data_ptr(), out.data_ptr())
        ctx.save_for_backward(qkv)
        ctx.known, ctx.weights = known, weights
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        qkv = ctx.saved_tensors[0].contiguous()
        upstream, on_qkv = gradients[0].contiguous(), torch.empty_like(qkv)
        attention_backward(qkv.data_ptr(), *ctx.known, ctx.weights.data_ptr(), upstream.data_ptr(), on_qkv.data_ptr())
        found: tuple[Tensor | None, ...] = (on_qkv,)
        if torch.is_grad_enabled():
            found = refuse_second_derivatives("self_attention", found, (gradients[0], qkv))
        return *found, None, None, None, None, None, None


def _padded_attention(qkv: Tensor, ptr: Pointers, borders: Pointers, keys: Keys, drop: float) -> Tensor:
    places, longest = padded_places(ptr, segments(ptr, qkv.device))
    groups, columns = len(ptr) - 1, qkv.shape[1]
    padded = qkv.new_zeros(groups * longest, columns).index_copy(0, places, qkv).view(groups, longest, columns)
    query, key, value = padded.split(columns // 3, dim=2)
    is_key = torch.arange(longest, device=qkv.device) < send(torch.from_numpy(np.diff(ptr)), qkv.device)[:, None]
    scores = torch.bmm(query, key.transpose(1, 2)).to(qkv.dtype) / math.sqrt(columns // 3)
    weights = scores.masked_fill(~is_key[:, None], -math.inf).softmax(2).flatten(0, 1).index_select(0, places)
    if len(keys):
        weights = weights * attention_factors(weights, drop, keys, borders)
    spread_weights = weights.new_zeros(groups * longest, longest).index_copy(0, places, weights)
    mixed = torch.bmm(spread_weights.view(groups, longest, longest), value).to(qkv.dtype)
    return mixed.flatten(0, 1).index_select(0, places)


def encode_sequences(
    x: Tensor,
    ptr: Pointers,
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
    check_compiled(x, *parameters)
    count, head = x.shape
    networks, feed = parameters[4].shape[:2]
    shapes = [(3 * head, head), (3 * head,), (head, head), (head,), (feed, head), (feed,), (head, feed), (head,)]
    for parameter, shape in zip(parameters, [*shapes, *[(head,)] * 4], strict=True):
        if parameter.shape != (networks, *shape):
            raise InvalidInputError(
                f"a parameter of the layer must have shape {(networks, *shape)}. Got {tuple(parameter.shape)}."
            )
    if keys.shape not in ((4, 0), (4, len(rows))) or keys.dtype != np.uint64:
        raise InvalidInputError(
            f"keys must be uint64 of shape (4, {len(rows)}) or (4, 0). Got {keys.dtype} of shape {keys.shape}."
        )
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
        ptr: Pointers,
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
