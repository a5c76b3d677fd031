"""How every kernel is compiled, and the form in which it gets its arrays."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numpy.typing import DTypeLike, NDArray


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorate a loop over arrays: compiled at its first call, kept in numba's cache on disk.

    Kernels release the GIL and never use numba's own threads: its thread pool aborts the process when two Python
    threads enter it at once, as Dask's do. `threads.share` runs them on several.

    Parameters
    ----------
    options : further ones of `numba.njit`, such as `fastmath`.
    """
    compile_lazily: Any = numba.njit(cache=True, nogil=True, **options)
    return compile_lazily if function is None else compile_lazily(function)


def read_only(array: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """Return a C-contiguous read-only view (or copy) of `array` with the given element type.

    Arrays that crossed a process border or were mapped from a file are often read-only, and numba compiles a
    kernel anew for them; inputs that always are cost one compilation only.
    """
    view = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view
