"""How kernels that release the GIL are run over blocks of rows, on several Python threads."""

from collections.abc import Callable

import numba

from leap.models.threads import share_among

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
    share_among(new_worker, rows, threads, blocks_a_thread=BLOCKS_PER_THREAD)
