"""Share a kernel, which releases the GIL, out among Python threads."""

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numba

BLOCKS_PER_THREAD = 8
"""More blocks than threads, because blocks of equally many rows need not take equally long."""


def available_threads() -> int:
    """Return how many threads kernels may use: `NUMBA_NUM_THREADS`, by default one per core."""
    return int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


def cut(count: int, blocks: int) -> list[tuple[int, int]]:
    """Cut 0 … count into as many consecutive ranges of about the same length, or fewer if count is less."""
    blocks = max(1, min(blocks, count))
    return list(pairwise(count * i // blocks for i in range(blocks + 1)))


def share(run: Callable[[int, int], None], count: int, threads: int, *, blocks_per_thread: int = 1) -> None:
    """Call `run` on consecutive ranges that cover 0 … count.

    Parameters
    ----------
    run : takes a range's begin and end. Ranges run at the same time, so each writes only what is its own.
    blocks_per_thread : more than one evens out ranges that take longer than others.
    """
    share_among(lambda: run, count, threads, blocks_per_thread=blocks_per_thread)


def share_among(
    new_worker: Callable[[], Callable[[int, int], object]],
    count: int,
    threads: int,
    *,
    blocks_per_thread: int = BLOCKS_PER_THREAD,
) -> None:
    """As `share`, with a function of its own for each thread, so that scratch arrays belong to that thread alone.

    With one thread, or one range, everything runs in the calling thread as a single range.
    """
    waiting = cut(count, threads * blocks_per_thread)
    if threads <= 1 or len(waiting) <= 1:
        new_worker()(0, count)
        return

    def drain() -> None:
        worker = new_worker()
        while True:
            try:
                block = waiting.pop(0)  # atomic under the GIL
            except IndexError:
                return
            worker(*block)

    others = [_pool().submit(drain) for _ in range(min(threads, len(waiting)) - 1)]
    drain()
    for other in others:
        if not other.cancel():  # one that never started left nothing undone
            other.result()


@functools.cache
def _pool() -> ThreadPoolExecutor:
    """Threads that stay: starting them anew costs 0.3 ms, as much as a small batch."""
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1), "leap-kernel")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
