"""`mix_channels`: a convolution of width 1 over series, for one network or a stack."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from leap.models import grouped
from leap.models.kernels.channel_loops import mix_backward, mix_forward
from leap.models.rows import Rows


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
    if rows is not None and grouped.is_compiled(x, weight, bias):
        grouped.check_rows(rows, len(x), len(weight))
        mixed: Tensor = _Mix.apply(x, weight, bias, rows, relu)
        return mixed
    series = x.transpose(1, 2)
    flat = series.reshape(-1, x.shape[1])
    if rows is None:
        out = torch.nn.functional.linear(flat, weight, bias)
        out = out.relu() if relu else out
    else:
        out = grouped.linear(flat, weight, bias, rows.times(x.shape[2]), relu=relu)
    return out.view(len(x), x.shape[2], weight.shape[-2]).transpose(1, 2)


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, rows: Rows, relu: bool) -> Tensor:
        series = x.detach().contiguous().numpy()
        out = np.empty((len(series), weight.shape[1], series.shape[2]), np.float32)
        mix_forward(rows.ptr, rows.slots, series, weight.detach().numpy(), bias.detach().numpy(), relu, out)
        result = torch.from_numpy(out)
        ctx.save_for_backward(x, weight, result)
        ctx.known = (rows, relu)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, out = ctx.saved_tensors
        rows, relu = ctx.known
        series, upstream = x.detach().contiguous().numpy(), gradients[0].contiguous().numpy()
        needs_x = ctx.needs_input_grad[0]
        on_x = np.empty(series.shape if needs_x else (0, *series.shape[1:]), np.float32)
        on_weight, on_bias = np.zeros(weight.shape, np.float32), np.zeros(weight.shape[:2], np.float32)
        mix_backward(
            rows.ptr,
            rows.slots,
            series,
            weight.detach().numpy(),
            out.detach().numpy(),
            relu,
            upstream,
            on_x,
            on_weight,
            on_bias,
        )
        return (
            torch.from_numpy(on_x) if needs_x else None,
            torch.from_numpy(on_weight),
            torch.from_numpy(on_bias),
            None,
            None,
        )
