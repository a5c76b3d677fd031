"""One writer per key: a lock that a dead holder gives up by itself.

On a local file system the operating system releases it with the process. On an object store it is a lease: an
object created only if absent, renewed while the holder lives, and taken over once it has not been renewed.
"""

import contextlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator

from leap.store.location import LocalLocation, Location, RemoteLocation, writing

LEASE_SECONDS = 30.0
POLL_SECONDS = 0.1
LEASE_POLL_SECONDS = 0.5


def lock_path(location: Location, name: str) -> str:
    """Path of a lock inside its store; absent if nobody ever took it (local) or nobody holds it (remote)."""
    return f"locks/{name}.lock" if isinstance(location, LocalLocation) else f"locks/{name}.json"


@contextlib.contextmanager
def exclusive(location: Location, name: str, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock `name` of a store; `on_wait` is called once if somebody else has it."""
    if isinstance(location, LocalLocation):
        with _file_lock(location, name, on_wait):
            yield
    else:
        assert isinstance(location, RemoteLocation)
        with _lease(location, name, on_wait):
            yield


@contextlib.contextmanager
def _file_lock(location: LocalLocation, name: str, on_wait: Callable[[], None] | None) -> Iterator[None]:
    from filelock import FileLock, Timeout

    path = location.path(lock_path(location, name))
    with writing(location.url):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if on_wait is not None:
                on_wait()
            lock.acquire(poll_interval=POLL_SECONDS)
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _lease(location: RemoteLocation, name: str, on_wait: Callable[[], None] | None) -> Iterator[None]:
    path = lock_path(location, name)
    token = uuid.uuid4().hex
    _acquire(location, path, token, on_wait)
    stop = threading.Event()
    renewal = threading.Thread(target=_renew, args=(location, path, token, stop), daemon=True)
    renewal.start()
    try:
        yield
    finally:
        stop.set()
        renewal.join()
        if _holder(_read(location, path)) == token:
            location.remove(path)


def _acquire(location: RemoteLocation, path: str, token: str, on_wait: Callable[[], None] | None) -> None:
    """Create the lease, waiting for another's to be released or to die.

    An object store cannot swap one object for another, so of two that take over a dead lease in the same instant
    both may believe to hold it. They look again after a moment and the later one wins. Should even that fail, work is
    done twice and nothing else: results do not depend on who computes them, and a manifest is always written last.
    """
    seen: tuple[bytes, float] | None = None
    took_over = waited = False
    while True:
        if _try_create(location, path, _lease_bytes(token)):
            if not took_over:
                return
            time.sleep(2 * LEASE_POLL_SECONDS)
            if _holder(_read(location, path)) == token:
                return
        if not waited and on_wait is not None:
            on_wait()
        waited = True
        current = _read(location, path)
        if current is None:
            continue
        # Only this process's own clock is used: the lease is dead if its bytes did not change for a whole term.
        if seen is None or seen[0] != current:
            seen, took_over = (current, time.monotonic()), False
        elif time.monotonic() - seen[1] > LEASE_SECONDS:
            location.remove(path)
            seen, took_over = None, True
            continue
        time.sleep(LEASE_POLL_SECONDS)


def _lease_bytes(token: str) -> bytes:
    return json.dumps({"holder": token, "renewed": time.time()}).encode()


def _read(location: RemoteLocation, path: str) -> bytes | None:
    try:
        return location.read_bytes(path)
    except FileNotFoundError:
        return None


def _holder(lease: bytes | None) -> str | None:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(lease or b"")["holder"])
    return None


def _try_create(location: RemoteLocation, path: str, data: bytes) -> bool:
    try:
        with writing(location.url):
            location.fs.pipe_file(location._full(path), data, mode="create")
    except FileExistsError:
        return False
    return True


def _renew(location: RemoteLocation, path: str, token: str, stop: threading.Event) -> None:
    while not stop.wait(LEASE_SECONDS / 5):
        with contextlib.suppress(OSError):
            if _holder(_read(location, path)) != token:
                return  # given up for dead, after a long sleep of this machine, say: it is another's now
            location.write_bytes(path, _lease_bytes(token))
