"""Operations on rows of several networks, each with its own parameters: what a stack of networks computes.

Rows lie one network's after the other's, `Rows` tells which. On the CPU in float32 each operation is one compiled loop
forward and one backward, and the bits of a network depend on nothing but its own rows and parameters. Other devices
and types pad to the longest network and use torch's operations.

Second derivatives of what is compiled are refused.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leap.models.fused import refuse_second_derivatives
from leap.models.kernels.grouped_loops import linear_backward, linear_forward
from leap.models.noise import Keys, dropout_factors, limit_and_scale
from leap.models.rows import Rows
from leap.store.errors import InvalidInputError
from leap.store.graphs.neighborhoods import check_pointers
from leap.store.graphs.ragged import spread

_NO_KEYS = np.empty(0, np.uint64)


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
    if _is_compiled(x, weight, bias):
        result: Tensor = _Linear.apply(x, weight, bias, rows, relu, keys, limit, scale)
        return result
    out = _padded_linear(x, weight, bias, rows)
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
        x, weight = x.contiguous(), _dense(weight)
        bias_at, bias_step = (0, 0) if bias is None else _place(_dense(bias))
        out = torch.empty(len(x), outside)
        sizes = (len(x), inside, outside, networks)
        if not linear_forward(
            x.data_ptr(),
            *_place(weight),
            bias_at,
            bias_step,
            sizes,
            rows.ptr,
            rows.slots,
            relu,
            keys,
            limit,
            scale,
            out.data_ptr(),
        ):
            _refuse_rows(rows, len(x), networks)
        ctx.save_for_backward(x, weight, *((out,) if relu else ()))
        ctx.known = (rows, keys, limit, scale, sizes, bias is not None)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, *result = ctx.saved_tensors
        rows, keys, limit, scale, sizes, has_bias = ctx.known
        _, inside, outside, networks = sizes
        upstream = gradients[0].contiguous()
        new = torch.empty if len(rows) == networks else torch.zeros
        needs = ctx.needs_input_grad
        on_x = torch.empty_like(x) if needs[0] else None
        on_weight = new(networks, outside, inside) if needs[1] else None
        on_bias = new(networks, outside) if has_bias and needs[2] else None
        if not linear_backward(
            x.data_ptr(),
            *_place(weight),
            sizes,
            rows.ptr,
            rows.slots,
            _address(*result),
            keys,
            limit,
            scale,
            upstream.data_ptr(),
            _address(on_x),
            _address(on_weight),
            _address(on_bias),
        ):
            _refuse_rows(rows, len(x), networks)
        found: tuple[Tensor | None, ...] = (on_x, on_weight, on_bias)
        if torch.is_grad_enabled():
            found = refuse_second_derivatives("linear", found, (gradients[0], x, weight))
        return *found, None, None, None, None, None


def _check_linear(x: Tensor, weight: Tensor, bias: Tensor | None, rows: Rows) -> None:
    if weight.ndim != 3:
        raise InvalidInputError(f"weight must have shape (S, C, K), got {tuple(weight.shape)}.")
    networks, outside, inside = weight.shape
    if x.ndim != 2 or x.shape[1] != inside:
        raise InvalidInputError(f"x must have shape (N, {inside}), got {tuple(x.shape)}.")
    if bias is not None and bias.shape != (networks, outside):
        raise InvalidInputError(f"bias must have shape ({networks}, {outside}), got {tuple(bias.shape)}.")
    _check_arrays(rows)


def _check_arrays(rows: Rows) -> None:
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


def _is_compiled(*tensors: Tensor | None) -> bool:
    return all(tensor is None or (tensor.dtype == torch.float32 and tensor.device.type == "cpu") for tensor in tensors)


def _dense(parameter: Tensor) -> Tensor:
    """Return the parameters of a stack such that each network's are contiguous."""
    is_dense = parameter.stride()[1:] == ((parameter.shape[2], 1) if parameter.ndim == 3 else (1,))
    return parameter if is_dense else parameter.contiguous()


def _place(parameter: Tensor) -> tuple[int, int]:
    """Return the address of a stack's parameters and the step from one network to the next."""
    return parameter.data_ptr(), parameter.stride(0)


def _address(tensor: Tensor | None = None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _refuse_rows(rows: Rows, count: int, networks: int) -> None:
    """Say why `fit` found that rows do not fit."""
    if len(rows.ptr) != len(rows.slots) + 1:
        raise InvalidInputError(f"{len(rows.slots)} networks need as many pointers and one more, not {len(rows.ptr)}.")
    check_pointers("rows.ptr", rows.ptr, count)
    raise InvalidInputError(f"rows.slots must be different numbers in 0…{networks - 1}, got {rows.slots.tolist()}.")


def _padded_linear(x: Tensor, weight: Tensor, bias: Tensor | None, rows: Rows) -> Tensor:
    _check_rows(rows, len(x), len(weight))
    if len(rows) == 1:
        slot = int(rows.slots[0])
        return torch.nn.functional.linear(x, weight[slot], None if bias is None else bias[slot])
    slots = torch.from_numpy(rows.slots).to(x.device)
    places, longest = _places(rows.ptr, x.device)
    padded = x.new_zeros(len(rows) * longest, x.shape[1]).index_copy(0, places, x).view(len(rows), longest, -1)
    turned = weight.index_select(0, slots).transpose(1, 2)
    if bias is None:
        mapped = torch.bmm(padded, turned)
    else:
        mapped = torch.baddbmm(bias.index_select(0, slots)[:, None], padded, turned)
    return mapped.flatten(0, 1).index_select(0, places)


def _check_rows(rows: Rows, count: int, networks: int) -> None:
    slots = rows.slots
    are_slots = bool(np.all((slots >= 0) & (slots < networks))) and len(np.unique(slots)) == len(slots)
    if len(rows.ptr) != len(slots) + 1 or not are_slots:
        _refuse_rows(rows, count, networks)
    check_pointers("rows.ptr", rows.ptr, count)


def _places(ptr: NDArray[np.int64], device: torch.device) -> tuple[Tensor, int]:
    """Return where rows stand once every group is padded to the longest, and how long that is."""
    counts = np.diff(ptr)
    longest = int(counts.max(initial=0))
    return torch.from_numpy(spread(np.arange(len(counts)) * longest, counts)).to(device), longest
