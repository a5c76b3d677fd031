"""One writer per folder: a lock file in it, which the operating system releases with the process that holds it."""

from pathlib import Path
from types import TracebackType

from leap.store.disk import is_full
from leap.store.errors import InvalidInputError, LeapError, NoSpaceError

LOCK = ".lock"
POLL_SECONDS = 0.1
NO_SPACE = (
    "Finished folds and checkpoints are kept: free some space, then go on with 'leap train … --resume' or the same "
    "'leap sweep'."
)


class FolderLock:
    """The right to write into a folder, which is made where it is missing. Readers need none.

    As a context manager it waits for its turn.
    """

    def __init__(self, folder: Path) -> None:
        from filelock import FileLock

        self._folder = folder
        # Whoever has the object may release it, not only the thread that took it.
        self._lock = FileLock(folder / LOCK, thread_local=False)

    def take(self, *, wait: bool = False) -> bool:
        """Take the lock; false if another has it and nobody wants to wait.

        Raises
        ------
        InvalidInputError, NoSpaceError
            If nothing can be written there.
        """
        from filelock import Timeout

        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=-1 if wait else 0, poll_interval=POLL_SECONDS)
        except Timeout:
            return False
        except OSError as error:
            raise cannot_write(self._folder, error) from error
        return True

    def release(self) -> None:
        """Give it up; nothing happens if it is not held."""
        self._lock.release()

    def is_held_elsewhere(self) -> bool:
        """Whether another has it at this moment."""
        if not self._folder.is_dir():
            return False
        if not self.take():
            return True
        self.release()
        return False

    def __enter__(self) -> "FolderLock":
        self.take(wait=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def cannot_write(folder: Path, error: OSError) -> LeapError:
    """Return the error of a run folder that cannot be written."""
    if is_full(error):
        return NoSpaceError(f"no space left on the disk of {folder}. {NO_SPACE}")
    return InvalidInputError(
        f"cannot write the run folder {str(folder)!r}: {error.strerror}. Give another one to 'leap train' with --run, "
        "or another folder of all runs to 'leap sweep' with --runs."
    )
