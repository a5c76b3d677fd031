"""Files on a disk: replaced in one piece, and what the operating system means by refusing to write one."""

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from leap.store.errors import InvalidInputError, LeapError, NoSpaceError

STAGING_SUFFIX = ".partial"


@contextlib.contextmanager
def replacing(path: Path, *, durable: bool = True, shared: bool = False) -> Iterator[Path]:
    """Give a path to write to; what was written there takes the place of `path`, which others see whole or not at all.

    Parameters
    ----------
    durable : even after a power cut, the old content or the new one is found.
    shared : others may write the same file at the same time, so the path given is nobody else's.

    Raises
    ------
    InvalidInputError
        If there is a folder where the file belongs.
    """
    refuse_folder(path)
    staged = path.with_name(f"{path.name}.{uuid.uuid4().hex}{STAGING_SUFFIX}" if shared else path.name + STAGING_SUFFIX)
    try:
        yield staged
        if durable:
            _sync(staged)
        os.replace(staged, path)
    except BaseException:
        with contextlib.suppress(OSError):
            staged.unlink(missing_ok=True)
        raise
    if durable:
        with contextlib.suppress(OSError):  # some file systems cannot do this for folders
            _sync(path.parent)


def write(path: Path, text: str) -> None:
    """Write a text file in one piece, for good."""
    with replacing(path) as staged:
        staged.write_text(text)


def refuse_folder(path: Path) -> None:
    """Raise InvalidInputError if there is a folder where a file belongs; for whoever wants to know before the work."""
    if path.is_dir():
        raise InvalidInputError(f"{path} is a folder, and a file belongs there. Move it away, or choose another place.")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_full(error: OSError) -> bool:
    """Whether there was no room: on the disk, in the quota, or under a limit on the size of a file."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_read_only(error: OSError) -> bool:
    """Whether writing is not allowed."""
    return isinstance(error, PermissionError) or error.errno == errno.EROFS


@contextlib.contextmanager
def needing_space(place: str | os.PathLike[str], way_out: str) -> Iterator[None]:
    """Turn a full disk into an error that names the place and the way out; everything else passes."""
    try:
        yield
    except LeapError:
        raise
    except OSError as error:
        if is_full(error):
            raise NoSpaceError(f"no space left on the disk of {os.fspath(place)}. {way_out}") from error
        raise
