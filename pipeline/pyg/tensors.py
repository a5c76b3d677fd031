"""Tensors of PyG objects as plain arrays, or a sentence about those that have no plain values."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from leap.store.errors import InvalidInputError

NARROW_REALS = {torch.bfloat16, *(kind for name, kind in vars(torch).items() if name.startswith("float8_"))}
"""Types that NumPy lacks; float32 holds all their values."""


def plain_array(value: Any, name: str, number: int) -> NDArray[Any]:
    """Return an attribute of a graph as an array of truth values, whole numbers, reals or text.

    Raises
    ------
    InvalidInputError
        Sparse, quantized, complex and meta tensors, whole numbers beyond 64 bits with a sign, anything else.
    """
    what = f"{name!r} of graph {number}"
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            raise InvalidInputError(f"{what} is a sparse tensor: give {name}.to_dense().")
        if value.is_quantized:
            raise InvalidInputError(f"{what} is a quantized tensor: give {name}.dequantize().")
        if value.is_meta:
            raise InvalidInputError(f"{what} is a meta tensor, which has a shape and no values: load the values first.")
        if value.is_complex():
            raise InvalidInputError(
                f"{what} is complex ({value.dtype}): give its parts as columns, such as torch.view_as_real({name})."
            )
        value = value.detach().cpu()
        array = np.asarray(value.float() if value.dtype in NARROW_REALS else value)
    else:
        try:
            array = np.asarray(value)
        except ValueError:  # lists of unequal length
            array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biufUS":
        raise InvalidInputError(f"{what} is a {type(value).__name__} ({array.dtype}): a tensor of numbers is needed.")
    if array.dtype == np.uint64:
        if array.size and array.max() > np.iinfo(np.int64).max:
            raise InvalidInputError(f"{what} holds {array.max()}: whole numbers must fit 64 bits with a sign.")
        return array.astype(np.int64)
    return array
