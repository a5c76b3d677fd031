"""Draws of the Mersenne Twister (MT19937) as torch's generator on the CPU makes them, some ten times as fast."""

from typing import Any

import numpy as np

from leap.models.kernels.compiling import kernel

WORDS = 624
_SHIFT = 397
_UPPER, _LOWER, _MATRIX = np.uint32(0x80000000), np.uint32(0x7FFFFFFF), np.uint32(0x9908B0DF)
_FIRST, _SECOND = np.uint32(0x9D2C5680), np.uint32(0xEFC60000)
_ONE, _A, _B, _C, _D = np.uint32(1), np.uint32(11), np.uint32(7), np.uint32(15), np.uint32(18)
_HIGH = np.uint32(2**21 - 1)


@kernel
def fill_factors(state: Any, position: int, limit: int, factor: float, out: Any) -> int:
    """Fill `factor` where a draw is below the limit, else 0; return the new position.

    A draw is the lower 53 bits of two words, the upper one first.

    Parameters
    ----------
    state : (624,) uint32, replaced as words are used up.
    position : of the next word, 0 to 624.
    out : (n,) float32.
    """
    kept, nothing = np.float32(factor), np.float32(0.0)
    upper, lower = np.uint32(limit >> 32), np.uint32(limit & 0xFFFFFFFF)
    position = min(max(position, 0), WORDS)
    words, count = np.empty(WORDS + 1, np.uint32), WORDS - position  # one word may be left of those before
    _temper(state, position, words, 0)
    done = 0
    while done < len(out):
        if count < 2:
            _renew(state)
            _temper(state, 0, words, count)
            count += WORDS
        pairs = min(count // 2, len(out) - done)
        for i in range(pairs):
            place = np.uint64(2 * i)  # signed ones would be checked for being negative
            high, low = words[place] & _HIGH, words[place + np.uint64(1)]
            out[np.uint64(done + i)] = kept if (high < upper) | ((high == upper) & (low < lower)) else nothing
        done += pairs
        count -= 2 * pairs
        words[0] = words[2 * pairs]  # the one that may be left
    return WORDS - count


@kernel
def _renew(state: Any) -> None:
    """Replace all words."""
    for i in range(WORDS - _SHIFT):
        state[i] = _twisted(state[i], state[i + 1]) ^ state[i + _SHIFT]
    for i in range(WORDS - _SHIFT, WORDS - 1):
        state[i] = _twisted(state[i], state[i + 1]) ^ state[i + _SHIFT - WORDS]
    state[WORDS - 1] = _twisted(state[WORDS - 1], state[0]) ^ state[_SHIFT - 1]


@kernel
def _twisted(one: Any, other: Any) -> Any:
    mixed = (one & _UPPER) | (other & _LOWER)
    return (mixed >> _ONE) ^ ((other & _ONE) * _MATRIX)


@kernel
def _temper(state: Any, begin: int, words: Any, first: int) -> None:
    """Write the draws that the words from `begin` on stand for, from `first` on."""
    for i in range(begin, WORDS):
        word = state[i]
        word ^= word >> _A
        word ^= (word << _B) & _FIRST
        word ^= (word << _C) & _SECOND
        words[first + i - begin] = word ^ (word >> _D)
