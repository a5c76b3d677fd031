"""Randomness as a pure function of counters: dropout and signs of each network of a stack.

Number `index` under a key is splitmix64: the state key + GOLDEN · (index + 1), mixed by two multiplications. A key is
made from seed, epoch and step in the same way, one after the other, and from it one key for every random site of a
forward pass. Loops on the CPU and torch operations on other devices give the same bits, and no network's bits depend on
the others.
"""

import math

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from leap.models.devices import segments, send
from leap.models.kernels.counters import FACTORS, GOLDEN, SHIFTS, fill_bits, fill_signs
from leap.models.rows import Rows
from leap.store.errors import InvalidInputError
from leap.store.graphs.neighborhoods import check_pointers

Keys = NDArray[np.uint64]

NO_KEYS: Keys = np.empty(0, np.uint64)

ATTENTION_STEP = 2**24
"""By how much the index of an attention weight grows from one row of a network to the next."""


def keys(seed: ArrayLike, epoch: ArrayLike, step: ArrayLike) -> Keys:
    """Return the key of each network in a step, (n,); what is given once holds for all."""
    parts = [np.asarray(part) for part in (seed, epoch, step)]
    count = np.broadcast(*parts).size
    found, indices = np.zeros(count, np.uint64), np.empty(count, np.uint64)
    for part in parts:
        indices[:] = part
        fill_bits(found, indices, found)
    return found


def site(keys: Keys | None, number: int) -> Keys | None:
    """Return the keys of a forward pass's random site; None stays None, for no randomness."""
    return None if keys is None else random_bits(keys, np.full(len(keys), number, np.uint64))


def sites(keys: Keys | None, first: int, count: int) -> Keys:
    """Return the keys of several sites, (count, n); without randomness (count, 0)."""
    if keys is None:
        return np.empty((count, 0), np.uint64)
    numbers = np.arange(first, first + count, dtype=np.uint64)
    return random_bits(np.concatenate([keys] * count), numbers.repeat(len(keys))).reshape(count, -1)


def random_bits(keys: Keys, indices: NDArray[np.uint64]) -> Keys:
    """Return 64 bits of each pair of a key and an index."""
    found = np.empty(len(keys), np.uint64)
    fill_bits(np.ascontiguousarray(keys), np.ascontiguousarray(indices), found)
    return found


def limit_and_scale(drop: float) -> tuple[int, float]:
    """Return below what upper 32 bits an element is dropped, and by what the others are multiplied."""
    if not 0.0 <= drop < 1.0:
        raise InvalidInputError(f"The share of dropped elements must be at least 0 and below 1, but is {drop}.")
    return math.ceil(drop * 2**32), 1.0 / (1.0 - drop)


def dropout(drop: float, keys: Keys | None, rows: Rows) -> tuple[int, float, Keys]:
    """Return limit, scale and keys of a dropout, without keys if nothing is dropped."""
    if drop == 0.0 or keys is None:
        return 0, 1.0, NO_KEYS
    if keys.dtype != np.uint64 or keys.shape != rows.slots.shape:
        raise InvalidInputError(f"keys must be uint64 of shape {rows.slots.shape}, not {keys.dtype} of {keys.shape}.")
    return *limit_and_scale(drop), keys


def torch_bits(keys: Tensor, indices: Tensor) -> Tensor:
    """Return the same as `random_bits` by torch operations: int64 tensors that hold the bits, broadcast."""
    state = keys + _signed(GOLDEN) * (indices + 1)
    for shift, factor in zip(SHIFTS, FACTORS, strict=False):
        state = (state ^ _shifted(state, shift)) * _signed(factor)
    return state ^ _shifted(state, SHIFTS[-1])


def dropout_factors(like: Tensor, drop: float, keys: Keys, rows: Rows) -> Tensor:
    """Return by what dropout multiplies each element of (N, C), by torch operations on the device of `like`."""
    return _factors(like, drop, _row_bits(keys, rows.segments(like.device), like.shape[1], like.shape[1]))


def attention_factors(like: Tensor, drop: float, keys: Keys, ptr: NDArray[np.int64]) -> Tensor:
    """As `dropout_factors` for weights (N, longest sequence), counted as if a sequence had ATTENTION_STEP rows."""
    return _factors(like, drop, _row_bits(keys, segments(ptr, like.device), like.shape[1], ATTENTION_STEP))


def signs(keys: Keys, ptr: NDArray[np.int64], columns: int, like: Tensor) -> Tensor:
    """Return random signs -1 and 1, (N, columns), with the type and on the device of `like`.

    Parameters
    ----------
    ptr : (n + 1,), network i owns the rows ptr[i] to ptr[i + 1] of the signs.
    """
    if like.is_cpu:
        check_pointers("ptr", ptr, int(ptr[-1]))
        if len(ptr) != len(keys) + 1:
            raise InvalidInputError(f"{len(keys)} networks need as many pointers and one more, not {len(ptr)}.")
        found = np.empty((int(ptr[-1]), columns), np.float32)
        fill_signs(keys, ptr, found)
        return torch.from_numpy(found).to(like.dtype)
    return torch.where(_row_bits(keys, segments(ptr, like.device), columns, columns) < 0, -1.0, 1.0).to(like.dtype)


def _factors(like: Tensor, drop: float, found: Tensor) -> Tensor:
    limit, scale = limit_and_scale(drop)
    return torch.where(_shifted(found, 32) < limit, 0.0, scale).to(like.dtype)


def _row_bits(keys: Keys, rows: tuple[Tensor, Tensor], columns: int, step: int) -> Tensor:
    """Return bits (N, columns); the index is that of the row inside its network times the step, plus the column."""
    number, place = rows
    own = send(torch.from_numpy(keys.view(np.int64)), number.device)[number]
    return torch_bits(own[:, None], place[:, None] * step + torch.arange(columns, device=number.device))


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _shifted(state: Tensor, shift: int) -> Tensor:
    """Shift right and fill with zeros, which torch's shift of negative numbers does not."""
    return (state >> shift) & (2 ** (64 - shift) - 1)
