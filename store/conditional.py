"""Writes that happen only if an object is absent, or still the one that was seen: what leases and manifests stand on.

S3 evaluates the condition together with the write (`If-None-Match`, `If-Match`), so of several writers exactly one
succeeds. Other clients of fsspec offer no such thing: there the object is read, compared and then written, which is
exact between the threads of one process (all that `memory://` has) and nearly so between processes.
"""

import hashlib
import threading
from dataclasses import dataclass
from typing import Any

from leap.store.errors import InvalidInputError
from leap.store.location import Location, RemoteLocation, writing

_REFUSALS = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})
_UNSUPPORTED = frozenset({"NotImplemented", "501"})
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Version:
    """The bytes that an object holds at one moment: a tag that no other bytes share, and their number."""

    tag: str
    size: int


def create_file(location: Location, path: str, data: bytes) -> bool:
    """Write a file for good unless there is one already; whether it was written.

    On a disk nothing but the caller's lock excludes others.
    """
    if isinstance(location, RemoteLocation):
        return put(location, path, data, None) is not None
    if location.exists(path):
        return False
    location.write_bytes(path, data, durable=True)
    return True


def current(location: RemoteLocation, path: str) -> Version | None:
    """Return the present version of an object, or None if there is none."""
    try:
        if _is_s3(location):
            info = location.fs.info(location.full(path), refresh=True)
            return Version(str(info["ETag"]), int(info["size"])) if info["type"] == "file" else None
        return _version(location.read_bytes(path))
    except FileNotFoundError:
        return None


def put(location: RemoteLocation, path: str, data: bytes, expected: Version | None) -> Version | None:
    """Write an object if its version is `expected` (None: if it is absent).

    Returns
    -------
    The new version, or None if another was there, in which case nothing has changed.
    """
    with writing(location.url):
        if _is_s3(location):
            return _put_s3(location, path, data, expected)
        with _one_at_a_time:
            return _put_compared(location, path, data, expected)


def require_conditions(location: RemoteLocation, path: str, data: bytes) -> None:
    """Raise if the service writes an object although the condition does not hold.

    Parameters
    ----------
    data : what the object holds anyway, so that a service that ignores the condition changes nothing.
    """
    if put(location, path, data, Version('"00000000000000000000000000000000"', 0)) is not None:
        raise _unsupported(location)


def _is_s3(location: RemoteLocation) -> bool:
    return hasattr(location.fs, "call_s3")


def _put_s3(location: RemoteLocation, path: str, data: bytes, expected: Version | None) -> Version | None:
    bucket, name, _ = location.fs.split_path(location.full(path))
    condition = {"IfNoneMatch": "*"} if expected is None else {"IfMatch": expected.tag}
    try:
        answer = location.fs.call_s3("put_object", Bucket=bucket, Key=name, Body=data, **condition)
    except (FileExistsError, FileNotFoundError):
        return None
    except OSError as error:
        code = _code(error)
        if code in _REFUSALS:
            return None
        if code in _UNSUPPORTED:
            raise _unsupported(location) from error
        raise
    return Version(str(answer["ETag"]), len(data))


def _code(error: OSError) -> str:
    """What the service said; s3fs turns several answers into one kind of error and keeps its own as the cause."""
    answer: dict[str, Any] = getattr(error.__cause__, "response", None) or {}
    return str(answer.get("Error", {}).get("Code", ""))


def _put_compared(location: RemoteLocation, path: str, data: bytes, expected: Version | None) -> Version | None:
    if current(location, path) != expected:
        return None
    try:
        location.fs.makedirs(location.full(path).rsplit("/", 1)[0], exist_ok=True)
        location.fs.pipe_file(location.full(path), data, mode="overwrite" if expected else "create")
    except FileExistsError:
        return None
    return _version(data)


def _version(data: bytes) -> Version:
    return Version(hashlib.sha256(data).hexdigest(), len(data))


def _unsupported(location: RemoteLocation) -> InvalidInputError:
    return InvalidInputError(
        f"the object store at {location.url} does not evaluate conditional writes (If-Match), without which two "
        "processes could make the same artifact at once. Update the service, s3fs and aiobotocore, or choose another "
        "place with --store; what is already stored can still be read."
    )
