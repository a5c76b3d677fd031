"""How tensors and rows are handed to compiled loops: by address, and checked before.

Loops are given numbers that nothing protects, so everything that could lead them out of their arrays is refused here.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leap.models.kernels.attention_loops import count_pairs
from leap.models.kernels.grouped_loops import fit
from leap.models.rows import Rows
from leap.store.errors import InvalidInputError
from leap.store.graphs.neighborhoods import check_pointers

Pointers = NDArray[np.int64]


def is_compiled(*tensors: Tensor | None) -> bool:
    """Whether all tensors are such that compiled loops take them, and nothing is to be multiplied in bfloat16."""
    if torch.is_autocast_enabled("cpu"):
        return False
    return all([tensor is None or (tensor.dtype == torch.float32 and tensor.is_cpu) for tensor in tensors])


def check_compiled(*tensors: Tensor) -> None:
    """Refuse tensors whose numbers compiled loops would read wrongly or not at all."""
    for tensor in tensors:
        if tensor.dtype != torch.float32 or not tensor.is_cpu:
            raise InvalidInputError(
                f"compiled loops take float32 on the CPU. Got {str(tensor.dtype).removeprefix('torch.')} on "
                f"{tensor.device}; use the operations one by one."
            )


def dense(parameter: Tensor) -> Tensor:
    """Return the parameters of a stack such that each network's are contiguous."""
    isdense = parameter.stride()[1:] == ((parameter.shape[2], 1) if parameter.ndim == 3 else (1,))
    return parameter if isdense else parameter.contiguous()


def place(parameter: Tensor | None) -> tuple[int, int]:
    """Return the address of a stack's parameters and the step from one network to the next; zeros for None.

    The caller must hold the tensor as long as the address is used.
    """
    return (0, 0) if parameter is None else (parameter.data_ptr(), parameter.stride(0))


def address(tensor: Tensor | None = None) -> int:
    """Return where a tensor's numbers are, 0 for None."""
    return 0 if tensor is None else tensor.data_ptr()


def new_gradient(like: Tensor, rows: Rows, *shape: int) -> Tensor:
    """Return room for the gradient of a stack's parameters: absent networks' is zero, the others' will be filled."""
    return like.new_empty(shape) if len(rows) == shape[0] else like.new_zeros(shape)


def pointers(ptr: Pointers | Tensor) -> Pointers:
    """Return pointers as loops take them."""
    array: Pointers = ptr.numpy() if isinstance(ptr, Tensor) else ptr
    if array.dtype != np.int64 or array.ndim != 1:
        raise InvalidInputError(f"ptr must hold int64 in one dimension, not {array.dtype} of {array.shape}.")
    return array


def check_arrays(rows: Rows) -> None:
    """Refuse pointers and slots that loops could not take."""
    for name, array in (("ptr", rows.ptr), ("slots", rows.slots)):
        if array.dtype != np.int64 or array.ndim != 1:
            raise InvalidInputError(f"rows.{name} must hold int64 in one dimension, not {array.dtype} {array.shape}.")


def check_rows(rows: Rows, count: int, networks: int) -> None:
    """Refuse rows that are not `count`, or networks that are not different ones of the stack."""
    check_arrays(rows)
    if not fit(rows.ptr, rows.slots, count, networks):
        refuse_rows(rows, count, networks)


def refuse_rows(rows: Rows, count: int, networks: int) -> None:
    """Say why `fit` found that rows do not fit."""
    if len(rows.ptr) != len(rows.slots) + 1:
        raise InvalidInputError(f"{len(rows.slots)} networks need as many pointers and one more, not {len(rows.ptr)}.")
    check_pointers("rows.ptr", rows.ptr, count)
    raise InvalidInputError(f"rows.slots must be different numbers in 0…{networks - 1}, got {rows.slots.tolist()}.")


def check_sequences(ptr: Pointers, count: int, rows: Rows, networks: int) -> int:
    """Return how many weights attention has inside sequences of rows; refuse those of two networks."""
    starts = pointers(ptr)
    check_arrays(rows)
    if len(rows.ptr) != len(rows.slots) + 1:
        refuse_rows(rows, count, networks)
    pairs: int = count_pairs(starts, count, rows.ptr)
    if pairs < 0:
        refuse_sequences(starts, count, rows.ptr)
    return pairs


def refuse_sequences(ptr: Pointers, count: int, borders: Pointers) -> None:
    """Say why `count_pairs` found that pointers do not fit."""
    check_pointers("ptr", ptr, count)
    check_pointers("rows.ptr", borders, count)
    raise InvalidInputError(f"No sequence may have rows of two networks, but {borders.tolist()} cut {ptr.tolist()}.")
