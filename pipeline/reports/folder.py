"""The folder of a report: whether it can be written, one writer at a time, files whole or not at all."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from leap.pipeline.events import Reporter
from leap.store.disk import refuse_folder, replacing
from leap.store.errors import InvalidInputError

INDEX, TABLES, FIGURES = "index.html", "tables", "figures"
LOCK = ".lock"


@contextlib.contextmanager
def writing_to(out: Path, option: str) -> Iterator[None]:
    """Turn a folder that cannot be written into an error that names it and its option."""
    try:
        yield
    except OSError as error:
        raise InvalidInputError(
            f"cannot write the report to {str(out)!r}: {error.strerror}. Give another folder with {option}."
        ) from error


@contextlib.contextmanager
def one_writer(out: Path, reporter: Reporter) -> Iterator[None]:
    """Keep others from writing the page of a folder, which is made where it is missing; waits for its turn."""
    out.mkdir(parents=True, exist_ok=True)
    lock = FileLock(out / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        reporter.note(f"another command is writing the report in {out}; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def refuse_unwritable(out: Path, option: str) -> None:
    """Raise InvalidInputError if a page cannot be written there, for whoever wants to know before the work.

    Nothing is left behind, not even the folder.
    """
    refuse_folder(out / INDEX)
    with writing_to(out, option):
        for folder in (out, out / TABLES, out / FIGURES):
            there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
            with tempfile.TemporaryFile(dir=there):  # permissions alone do not tell
                pass


def write(path: Path, data: bytes) -> Path:
    """Write a file whole, or not at all, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, durable=False) as partial:
        partial.write_bytes(data)
    return path
