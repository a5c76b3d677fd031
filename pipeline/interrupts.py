"""Ctrl-C and SIGTERM: the main process ends its work in order, and its workers hear nothing of Ctrl-C."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """Start threads that Ctrl-C does not reach, nor the processes that they start, from their first moment on.

    A terminal sends it to all processes; a worker would print a traceback instead of leaving it to the main process.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited by what is started
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Stop:
    """Whether and by which signal this process was asked to stop."""

    number: int | None = None

    @property
    def exit_code(self) -> int | None:
        """What a shell expects: 130 after Ctrl-C, 143 after SIGTERM; None if nothing stopped the command."""
        return None if self.number is None else 128 + self.number


_stop = Stop()  # signals belong to a process, and so does this


def heed_stop() -> None:
    """Raise KeyboardInterrupt if a stop was asked for and work goes on all the same.

    The first one may be lost: Python forgets what is raised in a destructor, and libraries have bare `except`.
    """
    if _stop.number is not None:
        raise KeyboardInterrupt


@contextlib.contextmanager
def stoppable() -> Iterator[Stop]:
    """Let the first Ctrl-C or SIGTERM raise KeyboardInterrupt, so that work ends in order, and the second end at once.

    The operating system does the latter, whatever the process is busy with; workers end with their main process.
    """
    _stop.number = None
    before = {number: signal.getsignal(number) for number in STOPS}

    def heed(number: int, frame: FrameType | None) -> None:
        _stop.number = number
        for each in STOPS:
            signal.signal(each, signal.SIG_DFL)
        raise KeyboardInterrupt

    for number in STOPS:
        signal.signal(number, heed)
    try:
        yield _stop
    finally:
        _stop.number = None
        for number, handler in before.items():
            signal.signal(number, handler)
