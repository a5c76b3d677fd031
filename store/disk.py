"""What a refusal of the operating system means: a disk that is full, or one that is not for us to write."""

import contextlib
import errno
import os
from collections.abc import Iterator

from leap.store.errors import LeapError, NoSpaceError


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
