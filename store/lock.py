"""One writer per key: a lock that a dead holder gives up by itself, and that a holder knows to have lost.

On a local file system the operating system releases it with the process, so that it is never lost. On an object store
it is a lease: an object that its holder renews while it lives, and that another takes over once it has not been
renewed for a whole term. Each of these writes names the version of the lease that it replaces, so exactly one of
several that take over succeeds, and a holder given up for dead finds out at its next renewal.
"""

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Protocol

from leap.store.conditional import Version, current, put, require_conditions
from leap.store.errors import LeaseLostError
from leap.store.lazy import lazy_module
from leap.store.location import LocalLocation, Location, RemoteLocation, writing

filelock = lazy_module("filelock")

LEASE_SECONDS = 30.0
RENEWAL_SECONDS = 6.0
LEASE_POLL_SECONDS = 0.5
POLL_SECONDS = 0.1
RELEASED = b""

OnWait = Callable[[], None]
_trusted: set[str] = set()  # addresses of stores whose service was seen to evaluate conditions


class Clock(Protocol):
    """Time as locks know it; only differences of `now` mean anything, and only in this process."""

    def now(self) -> float:
        """Return the time in seconds."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until an event is set, but not longer than some seconds; whether it is set."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for the event."""
        return event.wait(seconds)


SYSTEM_CLOCK = SystemClock()


class Holding(Protocol):
    """A lock that is held, as far as its holder knows."""

    def check(self) -> None:
        """Raise LeaseLostError if the lock is known to be another's by now; asks nobody unless there is doubt."""

    def confirm(self) -> None:
        """Raise LeaseLostError unless the lock is held at this moment."""


def lock_path(location: Location, name: str) -> str:
    """Path of a lock inside its store. What is there stays: on object stores, empty when nobody holds it."""
    return f"locks/{name}.lock" if isinstance(location, LocalLocation) else f"locks/{name}.json"


def may_be_held(location: Location, name: str) -> bool:
    """Whether somebody may hold a lock; false only if certainly nobody does."""
    path = lock_path(location, name)
    if isinstance(location, RemoteLocation):
        lease = current(location, path)
        return lease is not None and lease.size > len(RELEASED)
    return location.exists(path)


@contextlib.contextmanager
def exclusive(
    location: Location, name: str, on_wait: OnWait | None = None, clock: Clock = SYSTEM_CLOCK
) -> Iterator[Holding]:
    """Hold the lock `name` of a store; `on_wait` is called once if somebody else has it."""
    if isinstance(location, LocalLocation):
        with _file_lock(location, name, on_wait, clock) as held:
            yield held
    else:
        assert isinstance(location, RemoteLocation)
        with _lease(location, name, on_wait, clock) as lease:
            yield lease


class _FileLock:
    """Held until the process ends or gives it up."""

    def check(self) -> None:
        """Nothing can take it away."""

    def confirm(self) -> None:
        """Nothing can take it away."""


@contextlib.contextmanager
def _file_lock(location: LocalLocation, name: str, on_wait: OnWait | None, clock: Clock) -> Iterator[Holding]:
    path = location.path(lock_path(location, name))
    with writing(location.url):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path)
        while True:
            try:
                lock.acquire(timeout=0)
                break
            except filelock.Timeout:
                if on_wait is not None:
                    on_wait()
                    on_wait = None
                clock.wait(threading.Event(), POLL_SECONDS)
    try:
        yield _FileLock()
    finally:
        lock.release()


@contextlib.contextmanager
def _lease(location: RemoteLocation, name: str, on_wait: OnWait | None, clock: Clock) -> Iterator[Holding]:
    lease = _Lease(location, name, clock)
    lease.acquire(on_wait)
    stop = threading.Event()
    renewal = threading.Thread(target=lease.keep, args=(stop,), name=f"lease {name}", daemon=True)
    renewal.start()
    try:
        yield lease
    finally:
        stop.set()
        renewal.join()
        lease.release()


class _Lease:
    """The right to a name for a term, prolonged again and again."""

    def __init__(self, location: RemoteLocation, name: str, clock: Clock) -> None:
        self._location, self._name, self._clock = location, name, clock
        self._path = lock_path(location, name)
        self._holder = uuid.uuid4().hex
        self._renewals = 0
        self._version: Version | None = None  # of our own last write; None while the lease is not ours
        self._renewed = 0.0
        self._turn = threading.Lock()  # the thread that renews and the one that works both use the lease

    def acquire(self, on_wait: OnWait | None) -> None:
        """Wait until the lease is free or its holder dead, and take it.

        Only this process's own clock is used: a holder is dead if its lease did not change for a whole term.
        """
        seen: Version | None = None
        since = 0.0
        while True:
            there = current(self._location, self._path)
            if there != seen:
                seen, since = there, self._clock.now()
            is_free = there is None or there.size == len(RELEASED)
            if is_free or self._clock.now() - since > LEASE_SECONDS:
                if self._write(there):
                    break
                continue
            if on_wait is not None:
                on_wait()
                on_wait = None
            self._clock.wait(threading.Event(), LEASE_POLL_SECONDS)
        if self._location.url not in _trusted:
            try:
                require_conditions(self._location, self._path, self._content())
            except BaseException:
                self.release()
                raise
            _trusted.add(self._location.url)

    def keep(self, stop: threading.Event) -> None:
        """Renew the lease until told to stop, or until it is another's."""
        while not self._clock.wait(stop, RENEWAL_SECONDS):
            try:
                self.confirm()
            except LeaseLostError:
                return
            except OSError:
                continue  # the connection may be back before the term is over

    def check(self) -> None:
        """Raise if the lease is another's; ask only if it is older than its term, after a long sleep, say."""
        if self._version is None or self._clock.now() - self._renewed > LEASE_SECONDS:
            self.confirm()

    def confirm(self) -> None:
        """Renew the lease now, or raise."""
        with self._turn:
            if self._version is None or not self._write(self._version):
                self._version = None
                raise LeaseLostError(
                    f"the lease on {self._name[:12]} was not renewed for {LEASE_SECONDS:g} seconds and went to another "
                    "process. Run the command again to use what that one makes."
                )

    def release(self) -> None:
        """Leave the lease to the next; one that is lost or cannot be written runs out by itself."""
        with self._turn, contextlib.suppress(OSError):
            if self._version is not None:
                put(self._location, self._path, RELEASED, self._version)
                self._version = None

    def _write(self, expected: Version | None) -> bool:
        """Put our name on the lease if it is the expected one; whether it is ours now."""
        now = self._clock.now()  # before the request: the term begins when others can see it at the earliest
        self._renewals += 1
        version = put(self._location, self._path, self._content(), expected)
        if version is None and self._is_ours():
            # The answer to an earlier write of ours was lost on its way, or two requests met.
            version = current(self._location, self._path)
        if version is None:
            return False
        self._version, self._renewed = version, now
        return True

    def _content(self) -> bytes:
        return json.dumps({"holder": self._holder, "renewals": self._renewals}).encode()

    def _is_ours(self) -> bool:
        try:
            return bool(json.loads(self._location.read_bytes(self._path))["holder"] == self._holder)
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return False
