"""Refuse second derivatives of what compiled kernels differentiate once.

Torch's `once_differentiable` does so only where the incoming gradient itself is differentiated; after `out.sum()` it is
a constant, and the second derivative would be taken for zero.
"""

from typing import Any

import torch
from torch import Tensor

from leap.store.errors import InvalidInputError


def refuse_second_derivatives(
    name: str, gradients: tuple[Tensor | None, ...], depends_on: tuple[Tensor, ...]
) -> tuple[Tensor | None, ...]:
    """Return the gradients, made by the operation `name`, such that differentiating them raises InvalidInputError.

    Parameters
    ----------
    depends_on : the incoming gradient and the inputs, tensors that a second derivative could be asked of.
    """
    found: tuple[Tensor | None, ...] = _Refuse.apply(name, len(gradients), *gradients, *depends_on)
    return found


class _Refuse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: str, count: int, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.name = name
        return tuple(None if tensor is None else tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise InvalidInputError(
            f"{ctx.name} in float32 on the CPU has no second derivative. Use double precision, which has: "
            "`.double()` on features and modules."
        )
