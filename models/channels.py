"""Convolutions of width 1 over series, for one network or a stack; a stack can have a whole projection at once."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leap.models import grouped
from leap.models.addresses import (
    address,
    check_arrays,
    check_compiled,
    dense,
    is_compiled,
    new_gradient,
    place,
    refuse_rows,
)
from leap.models.fused import refuse_second_derivatives
from leap.models.kernels.channel_loops import mix_backward, mix_forward
from leap.models.kernels.curve_loops import curves_backward, curves_forward, room_of_curves
from leap.models.rows import Rows
from leap.store.errors import InvalidInputError


def mix_channels(x: Tensor, weight: Tensor, bias: Tensor, rows: Rows | None, *, relu: bool = False) -> Tensor:
    """Map the channels of every row's series by one matrix, that of its network.

    Parameters
    ----------
    x : (N, D, T), D channels of T numbers.
    weight, bias : (H, D) and (H,), or (S, H, D) and (S, H) for a stack, whose networks own the rows as `rows` says.

    Returns
    -------
    (N, H, T).
    """
    if rows is not None and is_compiled(x, weight, bias):
        check_arrays(rows)
        networks, width, channels = weight.shape
        if x.ndim != 3 or x.shape[1] != channels or bias.shape != (networks, width):
            raise InvalidInputError(
                f"x must have shape (N, {channels}, T) and bias ({networks}, {width}) for a weight of shape "
                f"{tuple(weight.shape)}, got {tuple(x.shape)} and {tuple(bias.shape)}."
            )
        mixed: Tensor = _Mix.apply(x, weight, bias, rows, relu)
        return mixed
    series = x.transpose(1, 2)
    flat = series.reshape(-1, x.shape[1])
    if rows is None:
        out = torch.nn.functional.linear(flat, weight, bias).to(x.dtype)
        out = out.relu() if relu else out
    else:
        out = grouped.linear(flat, weight, bias, rows.times(x.shape[2]), relu=relu)
    return out.view(len(x), x.shape[2], weight.shape[-2]).transpose(1, 2)


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, rows: Rows, relu: bool) -> Tensor:
        x, weight = x.contiguous(), dense(weight)
        out = _values(x, weight, dense(bias), rows, relu)
        ctx.save_for_backward(x, weight, *((out,) if relu else ()))
        ctx.rows = rows
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, *result = ctx.saved_tensors
        x, weight, upstream = x.contiguous(), dense(weight), gradients[0].contiguous()
        found: tuple[Tensor | None, ...] = _gradients(x, weight, ctx.rows, result, upstream, ctx.needs_input_grad[0])
        if torch.is_grad_enabled():
            found = refuse_second_derivatives("mix_channels", found, (gradients[0], x, weight))
        return *found, None, None


def project_curves(x: Tensor, convolutions: Sequence[Tensor], maps: Sequence[Tensor], rows: Rows) -> Tensor:
    """Mix the channels of every row's series by three maps, average the last one's channels and apply two linear maps.

    A ReLU follows the first, the second and the fourth. For a stack this is one operation: on small graphs torch takes
    longer for a node of its graph than such a map takes itself.

    Parameters
    ----------
    x : (N, D, T) float32 on the CPU, as all other numbers.
    convolutions : weight (S, H, D, 1) and bias (S, H) of the three convolutions, one after the other.
    maps : weight (S, C, T) and bias (S, C) of the linear maps.

    Returns
    -------
    (N, C) of the last map.
    """
    check_arrays(rows)
    check_compiled(x, *convolutions, *maps)
    if x.ndim != 3 or (len(convolutions), len(maps)) != (6, 4):
        raise InvalidInputError(
            f"x must have shape (N, D, T), with three convolutions and two maps. Got {tuple(x.shape)}, "
            f"{len(convolutions)} and {len(maps)} parameters."
        )
    widths, networks = [x.shape[1], *(weight.shape[1] for weight in convolutions[::2])], len(convolutions[0])
    expected: list[tuple[int, ...]] = [
        shape for a, b in pairwise(widths) for shape in ((networks, b, a, 1), (networks, b))
    ]
    widths = [x.shape[2], *(weight.shape[1] for weight in maps[::2])]
    expected += [shape for a, b in pairwise(widths) for shape in ((networks, b, a), (networks, b))]
    for parameter, shape in zip((*convolutions, *maps), expected, strict=True):
        if tuple(parameter.shape) != shape:
            raise InvalidInputError(f"a parameter must have shape {shape}. Got {tuple(parameter.shape)}.")
    result: Tensor = _Curves.apply(x, rows, *convolutions, *maps)
    return result


class _Curves(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Rows, *parameters: Tensor) -> Tensor:
        x, own = x.contiguous(), [dense(each.squeeze(-1) if each.ndim == 4 else each) for each in parameters]
        own[4:6] = (each.mean(1, keepdim=True) for each in own[4:6])  # instead of the mean over channels
        (count, channels, steps), (networks, last, state) = x.shape, own[8].shape
        sizes = (count, channels, own[0].shape[1], own[2].shape[1], steps, state, last, networks)
        places = np.array([place(each) for each in own])
        kept, out = x.new_empty(room_of_curves(sizes)), x.new_empty(count, last)
        if not curves_forward(x.data_ptr(), places, sizes, rows.ptr, rows.slots, kept.data_ptr(), out.data_ptr()):
            refuse_rows(rows, count, networks)
        ctx.save_for_backward(x, *parameters)  # torch raises if one was changed in place
        ctx.known = (rows, sizes, kept, own, places)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, *parameters = ctx.saved_tensors
        rows, sizes, kept, own, places = ctx.known
        upstream, room = gradients[0].contiguous(), torch.empty_like(kept)
        on_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        on = [new_gradient(upstream, rows, *each.shape) for each in own]
        known = (x.data_ptr(), places, sizes, rows.ptr, rows.slots, kept.data_ptr(), upstream.data_ptr())
        if not curves_backward(*known, room.data_ptr(), address(on_x), np.array([each.data_ptr() for each in on])):
            refuse_rows(rows, sizes[0], sizes[-1])
        channels = parameters[4].shape[1]
        on[4:6] = ((each / channels).expand(-1, channels, *each.shape[2:]) for each in on[4:6])
        parts = [each[..., None] if whole.ndim == 4 else each for each, whole in zip(on, parameters, strict=True)]
        found: tuple[Tensor | None, ...] = (on_x, *parts)
        if torch.is_grad_enabled():
            found = refuse_second_derivatives("project_curves", found, (gradients[0], x, *parameters))
        return found[0], None, *found[1:]


def _values(x: Tensor, weight: Tensor, bias: Tensor, rows: Rows, relu: bool) -> Tensor:
    """Return the mixed channels of dense operands that were checked, without a graph."""
    (count, channels, steps), (networks, width, _) = x.shape, weight.shape
    sizes, out = (count, channels, width, steps, networks), x.new_empty(count, width, steps)
    where = (sizes, rows.ptr, rows.slots)
    if not mix_forward(x.data_ptr(), *place(weight), *place(bias), *where, relu, out.data_ptr()):
        refuse_rows(rows, count, networks)
    return out


def _gradients(
    x: Tensor, weight: Tensor, rows: Rows, result: Sequence[Tensor], upstream: Tensor, needs_x: bool
) -> tuple[Any, Tensor, Tensor]:
    """Return the gradients of x, if needed, weight and bias.

    Parameters
    ----------
    result : what `_values` returned if ReLU was applied, else nothing.
    """
    (count, channels, steps), (networks, width, _) = x.shape, weight.shape
    on_x = torch.empty_like(x) if needs_x else None
    on_weight, on_bias = (new_gradient(upstream, rows, *shape) for shape in (weight.shape, weight.shape[:2]))
    sizes, found = (count, channels, width, steps, networks), (address(on_x), on_weight.data_ptr(), on_bias.data_ptr())
    known = (x.data_ptr(), *place(weight), sizes, rows.ptr, rows.slots, address(*result), upstream.data_ptr())
    if not mix_backward(*known, *found):
        refuse_rows(rows, count, networks)
    return on_x, on_weight, on_bias
