"""Write a file so that a reader, even after a power cut, finds the old content or the new one, never a part."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a path to write to; what was written there takes the place of `path`, once it is on the disk."""
    partial = path.with_name(path.name + ".partial")
    try:
        yield partial
        _sync(partial)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # some file systems cannot do this for folders
        _sync(path.parent)


def write(path: Path, text: str) -> None:
    """Write a text file in one piece."""
    with replacing(path) as partial:
        partial.write_text(text)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
