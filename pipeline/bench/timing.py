"""Wall time of our own code: the median of several calls after a warm-up."""

import statistics
import time
from collections.abc import Callable


def median_seconds(work: Callable[[], object], repeats: int, prepare: Callable[[], object] = lambda: None) -> float:
    """Return the median wall time of `repeats` calls.

    Parameters
    ----------
    work : called once more than that, first without being timed: imports and compilation happen then.
    prepare : called before each call of `work`, outside the time; it undoes what the last call left behind.
    """
    times = []
    for _ in range(repeats + 1):
        prepare()
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])
