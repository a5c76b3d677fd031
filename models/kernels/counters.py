"""Random bits as a function of a key and a counter, for loops (splitmix64)."""

from typing import Any

import numpy as np

from leap.models.kernels.compiling import kernel

GOLDEN = 0x9E3779B97F4A7C15
FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)

_GOLDEN, _FIRST, _SECOND = np.uint64(GOLDEN), np.uint64(FACTORS[0]), np.uint64(FACTORS[1])
_A, _B, _C = np.uint64(SHIFTS[0]), np.uint64(SHIFTS[1]), np.uint64(SHIFTS[2])
_HALF, _LAST, _ONE = np.uint64(32), np.uint64(63), np.uint64(1)


@kernel
def bits(key: Any, index: Any) -> Any:
    """Return the 64 bits of number `index` under a key (uint64 both)."""
    state = key + _GOLDEN * (index + _ONE)
    state = (state ^ (state >> _A)) * _FIRST
    state = (state ^ (state >> _B)) * _SECOND
    return state ^ (state >> _C)


@kernel
def is_below(key: Any, index: Any, limit: Any) -> Any:
    """Whether the upper 32 bits are below a limit (all uint64)."""
    return bits(key, index) >> _HALF < limit


@kernel
def fill_bits(keys: Any, indices: Any, out: Any) -> None:
    """Fill the bits of each pair of a key and an index."""
    for i in range(len(keys)):
        out[i] = bits(keys[i], indices[i])


@kernel
def fill_signs(keys: Any, ptr: Any, out: Any) -> None:
    """Fill -1 where the highest bit is set, else 1; network i owns the rows ptr[i] to ptr[i + 1], all of `out`."""
    columns = out.shape[1]
    for i in range(len(keys)):
        for r in range(ptr[i], ptr[i + 1]):
            for c in range(columns):
                index = np.uint64((r - ptr[i]) * columns + c)
                out[r, c] = np.float32(-1.0) if bits(keys[i], index) >> _LAST else np.float32(1.0)
