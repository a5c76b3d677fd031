"""Run a kernel that releases the GIL over blocks of rows, on several Python threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numba

BLOCKS_PER_THREAD = 8
"""More blocks than threads, because blocks of equally many rows need not take equally long."""


def available_threads() -> int:
    """Return how many threads kernels may use: `NUMBA_NUM_THREADS`, by default one per core."""
    return int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


def run_in_blocks(new_worker: Callable[[], Callable[[int, int], object]], rows: int, threads: int) -> None:
    """Call workers on consecutive blocks that together cover `rows` rows.

    Parameters
    ----------
    new_worker : makes a function of (first row, row after the last); one is made for each thread, so that its
        scratch arrays belong to that thread alone. Rows must be independent: blocks run in any order.
    threads : with one thread (or one row) everything runs in the calling thread, as a single block.
    """
    if threads <= 1 or rows <= 1:
        new_worker()(0, rows)
        return
    count = min(rows, threads * BLOCKS_PER_THREAD)
    bounds = [rows * i // count for i in range(count + 1)]
    blocks = list(pairwise(bounds))

    def drain() -> None:
        worker = new_worker()
        while True:
            try:
                block = blocks.pop(0)  # atomic under the GIL
            except IndexError:
                return
            worker(*block)

    # A pool of its own for each call: it costs some 0.1 ms and, unlike a shared one, survives a fork.
    with ThreadPoolExecutor(threads - 1) as pool:
        others = [pool.submit(drain) for _ in range(threads - 1)]
        drain()
        for other in others:
            other.result()
