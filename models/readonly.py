"""Present arrays to lazily compiled kernels in one type, whether or not they may be written to."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def read_only(array: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """A C-contiguous read-only view (or copy) of `array` with the given element type.

    Arrays that crossed a process border or were mapped from a file are often read-only, and numba compiles a
    kernel anew for them; inputs that always are cost one compilation only.
    """
    view = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view
