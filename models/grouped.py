"""Operations on rows of several networks, each with its own parameters: what a stack of networks computes.

Rows lie one network's after the other's, `Rows` tells which. On the CPU in float32 each operation is one compiled loop
forward and one backward, and the bits of a network depend on nothing but its own rows and parameters. Other devices
and types, and bfloat16, pad to the longest network and use torch's operations.

Second derivatives of what is compiled are refused.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from leap.models.devices import segments, send
from leap.models.fused import refuse_second_derivatives
from leap.models.kernels.attention_loops import attention_backward, attention_forward, count_pairs
from leap.models.kernels.grouped_loops import (
    add_bias_backward,
    add_bias_forward,
    fit,
    layer_norm_backward,
    layer_norm_forward,
    linear_backward,
    linear_forward,
    pool_backward,
    pool_forward,
)
from leap.models.kernels.tiles import padded
from leap.models.noise import Keys, attention_factors, dropout_factors, limit_and_scale
from leap.models.rows import Rows
from leap.store.errors import InvalidInputError
from leap.store.graphs.neighborhoods import check_pointers

Pointers = NDArray[np.int64]

_NO_KEYS = np.empty(0, np.uint64)
_NO_BORDERS = np.empty(0, np.int64)


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    rows: Rows,
    *,
    relu: bool = False,
    drop: float = 0.0,
    keys: Keys | None = None,
) -> Tensor:
    """Map each row by its network's weight and bias: drop(relu(x Wᵀ + b)).

    Parameters
    ----------
    x : (N, K).
    weight : (S, C, K); the first stride may be larger than C·K.
    bias : (S, C) or None.
    drop : share of elements that become zero, if there are keys.
    keys : (n,) of the dropout, one per network of the batch; None: nothing is dropped.

    Raises
    ------
    InvalidInputError
        If shapes, rows or slots do not fit.
    """
    _check_linear(x, weight, bias, rows)
    limit, scale, keys = _dropout(drop, keys, rows)
    if is_compiled(x, weight, bias):
        result: Tensor = _Linear.apply(x, weight, bias, rows, relu, keys, limit, scale)
        return result
    out = _padded_linear(x, weight, bias, rows).to(x.dtype)
    out = out.relu() if relu else out
    return out * dropout_factors(out, drop, keys, rows) if len(keys) else out


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        rows: Rows,
        relu: bool,
        keys: Keys,
        limit: int,
        scale: float,
    ) -> Tensor:
        networks, outside, inside = weight.shape
        x, weight = x.contiguous(), dense(weight)
        shift = None if bias is None else dense(bias)
        count = x.shape[0]  # cheaper than len
        out, sizes = x.new_empty(count, outside), (count, inside, outside, networks)
        if not linear_forward(
            x.data_ptr(),
            *place(weight),
            *place(shift),
            sizes,
            rows.ptr,
            rows.slots,
            relu,
            keys,
            limit,
            scale,
            out.data_ptr(),
        ):
            refuse_rows(rows, count, networks)
        ctx.save_for_backward(x, weight, *((out,) if relu else ()))
        ctx.known = (rows, keys, limit, scale, sizes, bias is not None)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, *result = ctx.saved_tensors
        rows, keys, limit, scale, sizes, has_bias = ctx.known
        x, weight, upstream = x.contiguous(), dense(weight), gradients[0].contiguous()
        needs, shape = ctx.needs_input_grad, weight.shape
        on_x = torch.empty_like(x) if needs[0] else None
        on_weight = new_gradient(upstream, rows, *shape) if needs[1] else None
        on_bias = new_gradient(upstream, rows, *shape[:2]) if has_bias and needs[2] else None
        if not linear_backward(
            x.data_ptr(),
            *place(weight),
            sizes,
            rows.ptr,
            rows.slots,
            address(*result),
            keys,
            limit,
            scale,
            upstream.data_ptr(),
            address(on_x),
            address(on_weight),
            address(on_bias),
        ):
            refuse_rows(rows, sizes[0], shape[0])
        found: tuple[Tensor | None, ...] = (on_x, on_weight, on_bias)
        if torch.is_grad_enabled():
            found = refuse_second_derivatives("linear", found, (gradients[0], x, weight))
        return *found, None, None, None, None, None


def add_bias(x: Tensor, bias: Tensor, rows: Rows) -> Tensor:
    """Add each network's bias (S, C) to its rows of x (N, C); errors as in `linear`."""
    _check_columns(x, rows, bias=bias)
    if is_compiled(x, bias):
        result: Tensor = _AddBias.apply(x, bias, rows)
        return result
    check_rows(rows, len(x), len(bias))
    return x + bias.index_select(0, rows.owners(x.device))


class _AddBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, rows: Rows) -> Tensor:
        x, bias = x.contiguous(), dense(bias)
        out, sizes = torch.empty_like(x), (*x.shape, bias.shape[0])
        if not add_bias_forward(x.data_ptr(), *place(bias), sizes, rows.ptr, rows.slots, out.data_ptr()):
            refuse_rows(rows, len(x), len(bias))
        ctx.known = (rows, sizes)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, sizes = ctx.known
        upstream, on_bias = gradients[0].contiguous(), None
        if ctx.needs_input_grad[1]:
            on_bias = new_gradient(upstream, rows, sizes[2], sizes[1])
            if not add_bias_backward(sizes, rows.ptr, rows.slots, upstream.data_ptr(), on_bias.data_ptr()):
                refuse_rows(rows, sizes[0], sizes[2])
        return upstream, on_bias, None


def layer_norm(
    x: Tensor, weight: Tensor, bias: Tensor, rows: Rows, eps: float, residual: Tensor | None = None
) -> Tensor:
    """Normalize each row of x + residual, both (N, C), and apply its network's weight and bias, both (S, C).

    Errors are those of `linear`.
    """
    _check_columns(x, rows, weight=weight, bias=bias)
    if residual is not None and residual.shape != x.shape:
        raise InvalidInputError(f"residual must have shape {tuple(x.shape)}, got {tuple(residual.shape)}.")
    if is_compiled(x, weight, bias, residual):
        result: Tensor = _LayerNorm.apply(x, weight, bias, rows, eps, residual)
        return result
    check_rows(rows, len(x), len(weight))
    owners = rows.owners(x.device)
    normal = torch.nn.functional.layer_norm(x if residual is None else x + residual, x.shape[1:], eps=eps)
    return normal * weight.index_select(0, owners) + bias.index_select(0, owners)


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, rows: Rows, eps: float, residual: Tensor | None
    ) -> Tensor:
        x, weight, bias = x.contiguous(), dense(weight), dense(bias)
        added = None if residual is None else residual.contiguous()
        count, columns = x.shape
        normal, inverse, out = x.new_empty(count, padded(columns)), x.new_empty(count), torch.empty_like(x)
        sizes = (count, columns, weight.shape[0])
        if not layer_norm_forward(
            x.data_ptr(),
            address(added),
            *place(weight),
            *place(bias),
            sizes,
            rows.ptr,
            rows.slots,
            eps,
            normal.data_ptr(),
            inverse.data_ptr(),
            out.data_ptr(),
        ):
            refuse_rows(rows, len(x), len(weight))
        ctx.save_for_backward(x, weight, residual)
        ctx.known = (rows, sizes, normal, inverse)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, residual = ctx.saved_tensors
        rows, sizes, normal, inverse = ctx.known
        weight, upstream = dense(weight), gradients[0].contiguous()
        on_x = torch.empty_like(upstream)
        on_weight, on_bias = (new_gradient(upstream, rows, *weight.shape) for _ in range(2))
        if not layer_norm_backward(
            *place(weight),
            sizes,
            rows.ptr,
            rows.slots,
            normal.data_ptr(),
            inverse.data_ptr(),
            upstream.data_ptr(),
            on_x.data_ptr(),
            on_weight.data_ptr(),
            on_bias.data_ptr(),
        ):
            refuse_rows(rows, sizes[0], sizes[2])
        found: tuple[Tensor | None, ...] = (on_x, on_weight, on_bias)
        if torch.is_grad_enabled():
            others = () if residual is None else (residual,)
            found = refuse_second_derivatives("layer_norm", found, (gradients[0], x, weight, *others))
        return *found, None, None, None if residual is None else found[0]


def pool(x: Tensor, ptr: Pointers | Tensor) -> Tensor:
    """Sum the rows ptr[g] to ptr[g + 1] of x for each g, in order; an empty sum is zero.

    Parameters
    ----------
    x : (N, C), or (N,) numbers.
    ptr : (G + 1,) int64 on the host, rising from 0 to N.

    Raises
    ------
    InvalidInputError
        If ptr does not fit.
    """
    starts = _pointers(ptr)
    if x.ndim not in (1, 2):
        raise InvalidInputError(f"x must have shape (N, C) or (N,), got {tuple(x.shape)}.")
    if is_compiled(x):
        result: Tensor = _Pool.apply(x, starts)
        return result
    check_pointers("ptr", starts, len(x))
    groups, _ = segments(starts, x.device)
    return x.new_zeros(len(starts) - 1, *x.shape[1:]).index_add(0, groups, x)


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Pointers) -> Tensor:
        x, out = x.contiguous(), x.new_empty(max(len(ptr) - 1, 0), *x.shape[1:])
        sizes = (*x.shape, 1)[:2]
        if not pool_forward(x.data_ptr(), *sizes, ptr, out.data_ptr()):
            check_pointers("ptr", ptr, len(x))
        ctx.known = (ptr, x.shape, sizes)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        ptr, shape, sizes = ctx.known
        upstream, on_x = gradients[0].contiguous(), gradients[0].new_empty(shape)
        if not pool_backward(upstream.data_ptr(), *sizes, ptr, on_x.data_ptr()):
            check_pointers("ptr", ptr, shape[0])
        return on_x, None


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
    starts = _pointers(ptr)
    if qkv.ndim != 2 or qkv.shape[1] == 0 or qkv.shape[1] % 3:
        raise InvalidInputError(f"qkv must have shape (N, 3 h), got {tuple(qkv.shape)}.")
    borders, limit, scale, own = _NO_BORDERS, 0, 1.0, _NO_KEYS
    if drop != 0.0 and keys is not None:
        rows = Rows.of([len(qkv)]) if rows is None else rows
        check_arrays(rows)
        limit, scale, own = _dropout(drop, keys, rows)
        borders = rows.ptr
        if len(borders) != len(own) + 1:
            refuse_rows(rows, len(qkv), len(own))
    pairs = count_pairs(starts, len(qkv), borders)
    if pairs < 0:
        _refuse_sequences(starts, len(qkv), borders)
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


def _check_linear(x: Tensor, weight: Tensor, bias: Tensor | None, rows: Rows) -> None:
    if weight.ndim != 3:
        raise InvalidInputError(f"weight must have shape (S, C, K), got {tuple(weight.shape)}.")
    networks, outside, inside = weight.shape
    if x.ndim != 2 or x.shape[1] != inside:
        raise InvalidInputError(f"x must have shape (N, {inside}), got {tuple(x.shape)}.")
    if bias is not None and bias.shape != (networks, outside):
        raise InvalidInputError(f"bias must have shape ({networks}, {outside}), got {tuple(bias.shape)}.")
    check_arrays(rows)


def _check_columns(x: Tensor, rows: Rows, **parameters: Tensor) -> None:
    if x.ndim != 2:
        raise InvalidInputError(f"x must have shape (N, C), got {tuple(x.shape)}.")
    shapes = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    networks = len(next(iter(parameters.values())))
    for name, shape in shapes.items():
        if shape != (networks, x.shape[1]):
            raise InvalidInputError(f"{name} must have shape (S, {x.shape[1]}), got {shape}.")
    check_arrays(rows)


def _pointers(ptr: Pointers | Tensor) -> Pointers:
    array: Pointers = ptr.numpy() if isinstance(ptr, Tensor) else ptr
    if array.dtype != np.int64 or array.ndim != 1:
        raise InvalidInputError(f"ptr must hold int64 in one dimension, not {array.dtype} of {array.shape}.")
    return array


def check_arrays(rows: Rows) -> None:
    """Refuse pointers and slots that loops could not take."""
    for name, array in (("ptr", rows.ptr), ("slots", rows.slots)):
        if array.dtype != np.int64 or array.ndim != 1:
            raise InvalidInputError(f"rows.{name} must hold int64 in one dimension, not {array.dtype} {array.shape}.")


def _dropout(drop: float, keys: Keys | None, rows: Rows) -> tuple[int, float, Keys]:
    """Return limit, scale and keys of a dropout, without keys if nothing is dropped."""
    if drop == 0.0 or keys is None:
        return 0, 1.0, _NO_KEYS
    if keys.dtype != np.uint64 or keys.shape != rows.slots.shape:
        raise InvalidInputError(f"keys must be uint64 of shape {rows.slots.shape}, not {keys.dtype} of {keys.shape}.")
    return *limit_and_scale(drop), keys


def is_compiled(*tensors: Tensor | None) -> bool:
    """Whether all tensors are such that compiled loops take them, and nothing is to be multiplied in bfloat16."""
    if torch.is_autocast_enabled("cpu"):
        return False
    return all([tensor is None or (tensor.dtype == torch.float32 and tensor.is_cpu) for tensor in tensors])


def dense(parameter: Tensor) -> Tensor:
    """Return the parameters of a stack such that each network's are contiguous."""
    isdense = parameter.stride()[1:] == ((parameter.shape[2], 1) if parameter.ndim == 3 else (1,))
    return parameter if isdense else parameter.contiguous()


def place(parameter: Tensor | None) -> tuple[int, int]:
    """Return the address of a stack's parameters and the step from one network to the next; zeros for None.

    The caller must hold the tensor as long as the address is used.
    """
    return (0, 0) if parameter is None else (parameter.data_ptr(), parameter.stride(0))


def new_gradient(like: Tensor, rows: Rows, *shape: int) -> Tensor:
    """Return room for the gradient of a stack's parameters: absent networks' is zero, the others' will be filled."""
    return like.new_empty(shape) if len(rows) == shape[0] else like.new_zeros(shape)


def address(tensor: Tensor | None = None) -> int:
    """Return where a tensor's numbers are, 0 for None."""
    return 0 if tensor is None else tensor.data_ptr()


def refuse_rows(rows: Rows, count: int, networks: int) -> None:
    """Say why `fit` found that rows do not fit."""
    if len(rows.ptr) != len(rows.slots) + 1:
        raise InvalidInputError(f"{len(rows.slots)} networks need as many pointers and one more, not {len(rows.ptr)}.")
    check_pointers("rows.ptr", rows.ptr, count)
    raise InvalidInputError(f"rows.slots must be different numbers in 0…{networks - 1}, got {rows.slots.tolist()}.")


def _padded_linear(x: Tensor, weight: Tensor, bias: Tensor | None, rows: Rows) -> Tensor:
    check_rows(rows, len(x), len(weight))
    if len(rows) == 1:
        slot = int(rows.slots[0])
        return torch.nn.functional.linear(x, weight[slot], None if bias is None else bias[slot])
    slots = send(torch.from_numpy(rows.slots), x.device)
    places, longest = _places(rows.ptr, rows.segments(x.device))
    padded = x.new_zeros(len(rows) * longest, x.shape[1]).index_copy(0, places, x).view(len(rows), longest, -1)
    turned = weight.index_select(0, slots).transpose(1, 2)
    if bias is None:
        mapped = torch.bmm(padded, turned)
    else:
        mapped = torch.baddbmm(bias.index_select(0, slots)[:, None], padded, turned)
    return mapped.flatten(0, 1).index_select(0, places)


def check_rows(rows: Rows, count: int, networks: int) -> None:
    """Refuse rows that are not `count`, or networks that are not different ones of the stack."""
    check_arrays(rows)
    if not fit(rows.ptr, rows.slots, count, networks):
        refuse_rows(rows, count, networks)


def check_sequences(ptr: Pointers, count: int, rows: Rows, networks: int) -> int:
    """Return how many weights attention has inside sequences of rows; refuse those of two networks."""
    starts = _pointers(ptr)
    check_arrays(rows)
    if len(rows.ptr) != len(rows.slots) + 1:
        refuse_rows(rows, count, networks)
    pairs: int = count_pairs(starts, count, rows.ptr)
    if pairs < 0:
        _refuse_sequences(starts, count, rows.ptr)
    return pairs


def _refuse_sequences(ptr: Pointers, count: int, borders: Pointers) -> None:
    """Say why `count_pairs` found that pointers do not fit."""
    check_pointers("ptr", ptr, count)
    check_pointers("rows.ptr", borders, count)
    raise InvalidInputError(f"No sequence may have rows of two networks, but {borders.tolist()} cut {ptr.tolist()}.")


def _padded_attention(qkv: Tensor, ptr: Pointers, borders: Pointers, keys: Keys, drop: float) -> Tensor:
    places, longest = _places(ptr, segments(ptr, qkv.device))
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


def _places(ptr: Pointers, rows: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    """Return where rows stand once every group is padded to the longest, and how long that is."""
    longest = int(np.diff(ptr).max(initial=0))
    return rows[0] * longest + rows[1], longest
