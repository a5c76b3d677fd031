"""Torch's global generator, from which layers draw: lent to one thread at a time, and given back as it was."""

import contextlib
import threading
from collections.abc import Iterator

import torch

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
