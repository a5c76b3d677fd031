"""Wall times of rivals for the same work, taken in turns: a call each, or pieces of long calls."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

TURN_SECONDS = 0.02
HOPELESS = 1.5
"""A number of threads that made the first turn this many times longer than another is not tried again."""

_END = object()


@dataclass(frozen=True)
class Rival:
    """Something to be timed.

    Attributes
    ----------
    work : called again and again.
    threads : numbers of torch's threads that it may have; it is given the one that serves it best.
    """

    work: Callable[[], object]
    threads: tuple[int, ...] = (1,)


def thread_choices() -> tuple[int, ...]:
    """Return one thread and torch's own choice; while a machine is busy, the latter may be many times slower."""
    import torch

    return tuple(sorted({1, torch.get_num_threads()}))


def contest(rivals: Mapping[str, Rival], repeats: int) -> dict[str, float]:
    """Return the median wall time of one call of each rival.

    They take `repeats` turns one after the other, so that a busy moment of the machine meets all of them. A turn of
    something short is as many calls as fit into TURN_SECONDS. There is a turn before them that does not count:
    imports and compilation happen then.
    """
    import torch

    choices = {name: list(rival.threads) for name, rival in rivals.items()}
    times: dict[tuple[str, int], list[float]] = {}
    before = torch.get_num_threads()
    try:
        for turn in range(repeats + 1):
            for name, rival in rivals.items():
                for threads in choices[name]:
                    torch.set_num_threads(threads)
                    times.setdefault((name, threads), []).extend(_turn(rival.work))
                if turn == 1:
                    medians = {threads: statistics.median(times[name, threads]) for threads in choices[name]}
                    bound = HOPELESS * min(medians.values())
                    choices[name] = [threads for threads, median in medians.items() if median <= bound]
            if turn == 0:
                times.clear()
    finally:
        torch.set_num_threads(before)
    return {name: min(statistics.median(times[name, threads]) for threads in left) for name, left in choices.items()}


def contest_in_pieces(rivals: Mapping[str, Callable[[], Iterator[object]]], repeats: int) -> dict[str, float]:
    """Return the median wall time of going through all pieces of each rival's work, on one thread of torch.

    The pieces of all rivals alternate: something that disturbs the machine for some seconds, less than the work takes,
    meets all of them as well. As in `contest`, the first of `repeats` + 1 rounds does not count.
    """
    import torch

    totals: dict[str, list[float]] = {name: [] for name in rivals}
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(repeats + 1):
            under_way = {name: begin() for name, begin in rivals.items()}
            spent = dict.fromkeys(rivals, 0.0)
            while under_way:
                for name, pieces in list(under_way.items()):
                    start = time.perf_counter()
                    is_over = next(pieces, _END) is _END
                    spent[name] += time.perf_counter() - start
                    if is_over:
                        del under_way[name]
            for name, seconds in spent.items():
                totals[name].append(seconds)
    finally:
        torch.set_num_threads(before)
    return {name: statistics.median(found[1:]) for name, found in totals.items()}


def _turn(work: Callable[[], object]) -> list[float]:
    times: list[float] = []
    while not times or sum(times) < TURN_SECONDS:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times
