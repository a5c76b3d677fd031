"""`mix_channels`: a convolution of width 1 over series, for one network or a stack."""

from typing import Any

import torch
from torch import Tensor

from leap.models import grouped
from leap.models.addresses import address, check_arrays, dense, is_compiled, new_gradient, place, refuse_rows
from leap.models.fused import refuse_second_derivatives
from leap.models.kernels.channel_loops import mix_backward, mix_forward
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
        x, weight, bias = x.contiguous(), dense(weight), dense(bias)
        (count, channels, steps), (networks, width, _) = x.shape, weight.shape
        sizes, out = (count, channels, width, steps, networks), x.new_empty(count, width, steps)
        places = (*place(weight), *place(bias))
        if not mix_forward(x.data_ptr(), *places, sizes, rows.ptr, rows.slots, relu, out.data_ptr()):
            refuse_rows(rows, count, networks)
        ctx.save_for_backward(x, weight, *((out,) if relu else ()))
        ctx.known = (rows, sizes)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, *result = ctx.saved_tensors
        rows, sizes = ctx.known
        x, weight, upstream = x.contiguous(), dense(weight), gradients[0].contiguous()
        on_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        on_weight, on_bias = (new_gradient(upstream, rows, *shape) for shape in (weight.shape, weight.shape[:2]))
        if not mix_backward(
            x.data_ptr(),
            *place(weight),
            sizes,
            rows.ptr,
            rows.slots,
            address(*result),
            upstream.data_ptr(),
            address(on_x),
            on_weight.data_ptr(),
            on_bias.data_ptr(),
        ):
            refuse_rows(rows, sizes[0], len(weight))
        found: tuple[Tensor | None, ...] = (on_x, on_weight, on_bias)
        if torch.is_grad_enabled():
            found = refuse_second_derivatives("mix_channels", found, (gradients[0], x, weight))
        return *found, None, None
