"""Ctrl-C reaches every process of a terminal; workers leave it to their main process, which ends them."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

STOPS = (signal.SIGINT, signal.SIGTERM)


def dask_setup(worker: Any) -> None:
    """Ignore interrupts; Dask calls this in each worker process when it starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Stop:
    """Whether and by which signal a command was stopped."""

    number: int | None = None

    @property
    def exit_code(self) -> int | None:
        """What a shell expects: 130 after Ctrl-C, 143 after SIGTERM; None if nothing stopped the command."""
        return None if self.number is None else 128 + self.number


@contextlib.contextmanager
def stoppable() -> Iterator[Stop]:
    """Let the first Ctrl-C or SIGTERM raise KeyboardInterrupt, so that work ends in order, and the second end at once.

    The operating system does the latter, whatever the process is busy with; workers end with their main process.
    """
    stop, before = Stop(), {number: signal.getsignal(number) for number in STOPS}

    def heed(number: int, frame: FrameType | None) -> None:
        stop.number = number
        for each in STOPS:
            signal.signal(each, signal.SIG_DFL)
        raise KeyboardInterrupt

    for number in STOPS:
        signal.signal(number, heed)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
