"""Torch's global generator, from which layers draw: lent to one thread at a time, and given back as it was."""

import contextlib
import functools
import math
import threading
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from leap.models.kernels.mersenne import WORDS, fill_factors

LEAST = 2**13
"""Elements from which on a dropout is worth a look at torch's generator."""

_LENT = threading.RLock()  # a network that is made with the generator may have parts that borrow it again


@contextlib.contextmanager
def borrowed_generator(seed: int | None = None) -> Iterator[None]:
    """Seed torch's generator, or leave it as it is, and put it back at the end of the block.

    The generator is one for the whole process, so threads take turns: two that drew from it at once would get numbers
    that depend on the moment.
    """
    with _LENT, torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.manual_seed(seed)
        yield


def dropout(x: Tensor, share: float) -> Tensor:
    """Drop entries as torch's function of this name does, to the last bit, from the same draws.

    On the CPU torch draws numbers one by one, which takes longer than all else that a layer does to ten thousand nodes.
    Where it draws as we know it, a compiled loop does so in a tenth of the time.
    """
    is_plain = x.is_cpu and x.dtype == torch.float32 and x.is_contiguous() and 0.0 < share < 1.0
    if not is_plain or x.numel() < LEAST or torch.compiler.is_compiling() or not _draws_are_known():
        return functional.dropout(x, share)
    return x * _factors(tuple(x.shape), share)


def _factors(shape: tuple[int, ...], share: float) -> Tensor:
    """Return by what a dropout multiplies entries; torch's generator goes on from there."""
    generator = torch.default_generator
    state = generator.get_state()
    known = _Twister.of(state.numpy())
    words, limit = known.words.astype(np.uint32), math.ceil((1.0 - share) * 2**53)
    factors = np.empty(shape, np.float32)
    factor = np.float32(1.0) / np.float32(1.0 - share)
    position = fill_factors(words, WORDS + 1 - int(known.left[0]), limit, factor, factors.reshape(-1))
    known.words[:], known.next[:], known.left[:] = words, position, WORDS + 1 - position
    generator.set_state(state)
    return torch.from_numpy(factors)


class _Twister(NamedTuple):
    """What a state of torch's generator has of the Mersenne Twister: 624 words, which is next, how many are left."""

    words: NDArray[np.uint64]
    next: NDArray[np.uint64]
    left: NDArray[np.int32]

    @classmethod
    def of(cls, state: NDArray[np.uint8]) -> "_Twister":
        words = state[24 : 24 + 8 * WORDS].view(np.uint64)
        return cls(words, state[16:24].view(np.uint64), state[8:12].view(np.int32))


@functools.cache
def _draws_are_known() -> bool:
    """Whether torch's draws are the ones that `_factors` knows: some builds use a library of the processor's maker."""
    generator = torch.default_generator
    if generator.get_state().numel() < 24 + 8 * WORDS:
        return False
    found = []
    with borrowed_generator():
        for draw in (lambda size: functional.dropout(torch.ones(size), 0.3), lambda size: _factors((size,), 0.3)):
            torch.manual_seed(1)
            torch.randint(2, (1,))  # so that one word of those is left, later on
            drawn = [draw(size) for size in (1, 2 * WORDS, WORDS + 1)]
            found.append((*drawn, generator.get_state()))
    return all(torch.equal(one, other) for one, other in zip(*found, strict=True))
