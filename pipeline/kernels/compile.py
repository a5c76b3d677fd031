"""Compile array kernels once per element type, for read-only and writable arrays alike."""

from collections.abc import Callable
from typing import Any

import numba
from numba import types


def array_of(dtype: Any, ndim: int = 1, *, readonly: bool = True) -> Any:
    """Return the numba type of a C-contiguous array.

    A read-only array type also accepts writable arrays. Inputs are declared read-only because arrays that
    crossed a process border often are, and numba would otherwise compile a second kernel for them.
    """
    return types.Array(numba.from_dtype(dtype), ndim, "C", readonly=readonly)


def compile_kernel(function: Callable[..., Any], *argument_types: Any) -> Any:
    """Compile `function` for these argument types, or load it from numba's on-disk cache.

    Kernels are compiled when first needed rather than on import, release the GIL, and never use numba's own
    threads: its thread pool aborts the process when two Python threads enter it at once, as Dask's do.
    """
    return numba.njit(argument_types, cache=True, nogil=True)(function)
