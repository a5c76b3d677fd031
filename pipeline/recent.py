"""Values that were lately made or read, kept within a memory budget and shared safely by threads."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")


class RecentValues(Generic[V]):
    """A cache that forgets what was asked for longest ago; the newest value is kept whatever its size.

    Several threads may ask at once. Whoever asks for a value that another thread is making waits for it instead of
    making it again; making one value holds up nobody who asks for others.

    Parameters
    ----------
    budget : bytes that all values together may take.
    size : bytes of a value.
    """

    def __init__(self, budget: int, size: Callable[[V], int]) -> None:
        self._budget = budget
        self._size = size
        self._lock = Lock()  # held for the dictionaries alone, never while something is made
        self._values: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._making: dict[Hashable, Lock] = {}
        self._bytes = 0

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the value of a key, made by `make` if it is not there; errors of `make` are the caller's."""
        with self._lock:
            if (known := self._known(key)) is not None:
                return known[0]
            making = self._making.setdefault(key, Lock())
        with making:
            with self._lock:
                if (known := self._known(key)) is not None:
                    return known[0]
            try:
                value = make()
                size = self._size(value)
                with self._lock:
                    self._keep(key, value, size)
            finally:
                with self._lock:
                    self._making.pop(key, None)
            return value

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self._bytes = 0

    def _known(self, key: Hashable) -> tuple[V, int] | None:
        known = self._values.get(key)
        if known is not None:
            self._values.move_to_end(key)
        return known

    def _keep(self, key: Hashable, value: V, size: int) -> None:
        self._bytes += size - self._values.pop(key, (None, 0))[1]
        self._values[key] = (value, size)
        while self._bytes > self._budget and len(self._values) > 1:
            self._bytes -= self._values.popitem(last=False)[1][1]
