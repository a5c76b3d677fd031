"""Operations on rows of several networks, each with its own parameters: what a stack of networks computes.

Rows lie one network's after the other's, `Rows` tells which. On the CPU in float32 each operation is one compiled loop
forward and one backward, and the bits of a network depend on nothing but its own rows and parameters. Other devices
and types, and bfloat16, pad to the longest network and use torch's operations.

Second derivatives of what is compiled are refused.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from leap.models.addresses import (
    Pointers,
    address,
    check_arrays,
    check_rows,
    dense,
    is_compiled,
    new_gradient,
    place,
    pointers,
    refuse_rows,
)
from leap.models.devices import padded_places, segments, send
from leap.models.fused import refuse_second_derivatives
from leap.models.kernels.grouped_loops import (
    add_bias_backward,
    add_bias_forward,
    layer_norm_backward,
    layer_norm_forward,
    linear_backward,
    linear_forward,
    pool_backward,
    pool_forward,
)
from leap.models.kernels.tiles import padded
from leap.models.noise import NO_KEYS, Keys, dropout, dropout_factors
from leap.models.rows import Rows
from leap.store.errors import InvalidInputError
from leap.store.graphs.neighborhoods import check_pointers

Noise = tuple[Keys, int, float]
"""Keys of a dropout, one per network or none, its limit and its scale (`noise.dropout`)."""

NO_NOISE: Noise = (NO_KEYS, 0, 1.0)


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
    limit, scale, keys = dropout(drop, keys, rows)
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
        x, weight = x.contiguous(), dense(weight)
        out = linear_values(x, weight, None if bias is None else dense(bias), rows, relu, (keys, limit, scale))
        ctx.save_for_backward(x, weight, *((out,) if relu else ()))
        ctx.known = (rows, (keys, limit, scale), bias is not None)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, *result = ctx.saved_tensors
        rows, noise, has_bias = ctx.known
        x, weight, upstream = x.contiguous(), dense(weight), gradients[0].contiguous()
        needs = ctx.needs_input_grad
        wanted = (needs[0], needs[1], has_bias and needs[2])
        found: tuple[Tensor | None, ...] = linear_gradients(x, weight, rows, result, upstream, wanted, noise)
        if torch.is_grad_enabled():
            found = refuse_second_derivatives("linear", found, (gradients[0], x, weight))
        return *found, None, None, None, None, None


def linear_values(
    x: Tensor, weight: Tensor, bias: Tensor | None, rows: Rows, relu: bool, noise: Noise = NO_NOISE
) -> Tensor:
    """Return drop(relu(x Wᵀ + b)) of dense operands that were checked, without a graph."""
    networks, outside, inside = weight.shape
    count = x.shape[0]  # cheaper than len
    out, sizes = x.new_empty(count, outside), (count, inside, outside, networks)
    where = (sizes, rows.ptr, rows.slots)
    if not linear_forward(x.data_ptr(), *place(weight), *place(bias), *where, relu, *noise, out.data_ptr()):
        refuse_rows(rows, count, networks)
    return out


def linear_gradients(
    x: Tensor,
    weight: Tensor,
    rows: Rows,
    result: Sequence[Tensor],
    upstream: Tensor,
    wanted: tuple[bool, bool, bool],
    noise: Noise = NO_NOISE,
) -> tuple[Any, Any, Any]:
    """Return the gradients of x, weight and bias; None for one that is not wanted.

    Parameters
    ----------
    result : what `linear_values` returned if ReLU was applied, else nothing.
    """
    networks, outside, inside = weight.shape
    sizes = (x.shape[0], inside, outside, networks)
    on_x = torch.empty_like(x) if wanted[0] else None
    on_weight = new_gradient(upstream, rows, networks, outside, inside) if wanted[1] else None
    on_bias = new_gradient(upstream, rows, networks, outside) if wanted[2] else None
    known = (x.data_ptr(), *place(weight), sizes, rows.ptr, rows.slots, address(*result), *noise, upstream.data_ptr())
    if not linear_backward(*known, address(on_x), address(on_weight), address(on_bias)):
        refuse_rows(rows, sizes[0], networks)
    return on_x, on_weight, on_bias


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
    starts = pointers(ptr)
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


def _padded_linear(x: Tensor, weight: Tensor, bias: Tensor | None, rows: Rows) -> Tensor:
    check_rows(rows, len(x), len(weight))
    if len(rows) == 1:
        slot = int(rows.slots[0])
        return torch.nn.functional.linear(x, weight[slot], None if bias is None else bias[slot])
    slots = send(torch.from_numpy(rows.slots), x.device)
    places, longest = padded_places(rows.ptr, rows.segments(x.device))
    padded = x.new_zeros(len(rows) * longest, x.shape[1]).index_copy(0, places, x).view(len(rows), longest, -1)
    turned = weight.index_select(0, slots).transpose(1, 2)
    if bias is None:
        mapped = torch.bmm(padded, turned)
    else:
        mapped = torch.baddbmm(bias.index_select(0, slots)[:, None], padded, turned)
    return mapped.flatten(0, 1).index_select(0, places)
