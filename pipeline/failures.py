"""An unexpected error keeps its traceback, a worker's too, in a file that its message names."""

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

from leap.store.errors import LeapError
from leap.store.keys import digest

TRACEBACKS = "traceback-*.txt"
_NOTE = "The traceback is in "


@contextlib.contextmanager
def keeping_traceback(folder: Path) -> Iterator[None]:
    """Write the traceback of an unexpected error into a folder and go on raising it."""
    try:
        yield
    except LeapError:
        raise
    except Exception as error:
        keep_traceback(error, folder)
        raise


def keep_traceback(error: Exception, folder: Path) -> None:
    """Write the traceback of an error into a folder, once; a note on the error names the file."""
    if any(note.startswith(_NOTE) for note in _notes(error)):
        return
    text = traceback_text(error)
    path = folder / TRACEBACKS.replace("*", digest(text)[:8])
    # A disk that is full or read-only may be the very cause of the error, which is what the caller must hear about.
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        error.add_note(f"{_NOTE}{path}.")


def traceback_text(error: Exception) -> str:
    """Return the traceback of an error and of its causes."""
    return "".join(traceback.format_exception(error))


def sentence(error: Exception) -> str:
    """Return an error in one paragraph: its own words, or what it is and where its traceback is."""
    if isinstance(error, LeapError):
        return str(error)
    notes = _notes(error)
    if not any(note.startswith(_NOTE) for note in notes):
        notes.append("Run again with --debug for the traceback.")
    return f"unexpected {type(error).__name__}: {error}. {' '.join(notes)}"


def _notes(error: Exception) -> list[str]:
    return list(getattr(error, "__notes__", ()))
