"""How long work tells how far it is: a protocol that the command line fills with progress bars."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol


class Reporter(Protocol):
    """Receives what a person waiting would like to know."""

    def task(self, description: str, total: float | None) -> AbstractContextManager[Callable[[float], None]]:
        """Open a progress bar; the function inside advances it by an amount."""

    def note(self, message: str) -> None:
        """Say something in passing."""


class Silence:
    """A reporter that says nothing; the default of the library functions."""

    @contextlib.contextmanager
    def task(self, description: str, total: float | None) -> Iterator[Callable[[float], None]]:
        """Ignore progress."""
        yield lambda amount: None

    def note(self, message: str) -> None:
        """Ignore the message."""
