"""The folder of a run: its configuration, what each fold leaves, and the results in the end.

config.yaml           options, dataset and keys of the artifacts
metrics.json          results; a run that has it is finished
curves.parquet        losses and metrics of every epoch of every fold
predictions.parquet   predictions of the test parts
fold-0/ …             best.pt, last.pt, epochs.jsonl, result.json, predictions.parquet
traceback-….txt       what an unexpected error left
.lock, fold-0/.lock   held by the process that does the run, and by the one that trains the fold

A run has one writer, from its opening to its end. As workers outlive a main process that is killed, so has each fold.
Readers need no lock.
"""

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from filelock import FileLock, Timeout

from leap.pipeline.failures import TRACEBACKS
from leap.store.disk import is_full, needing_space, refuse_folder, replacing, write
from leap.store.errors import InvalidInputError, LeapError, NoSpaceError, WorkFailedError

CONFIG, METRICS, CURVES, PREDICTIONS = "config.yaml", "metrics.json", "curves.parquet", "predictions.parquet"
RESULT, EPOCHS, BEST, LAST = "result.json", "epochs.jsonl", "best.pt", "last.pt"
LOCK = ".lock"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster where PyYAML has it: every fold reads a file
POLL_SECONDS = 0.1
NO_SPACE = (
    "Finished folds and checkpoints are kept: free some space, then go on with 'leap train … --resume' or the same "
    "'leap sweep'."
)


@dataclass(frozen=True)
class RunFolder:
    """Paths inside a run's folder, and its small files."""

    path: Path

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.path.name

    def fold(self, number: int) -> Path:
        """Folder of one fold."""
        return self.path / f"fold-{number}"

    def config(self) -> dict[str, Any] | None:
        """Return the configuration, or None where there is no run.

        Raises
        ------
        InvalidInputError
            If it is there and cannot be read.
        """
        path, reason = self.path / CONFIG, "it has no fingerprint"
        try:
            content = yaml.load(path.read_text(), LOADER)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, yaml.YAMLError) as error:
            content, reason = None, type(error).__name__
        if not isinstance(content, dict) or "fingerprint" not in content:
            raise InvalidInputError(
                f"the configuration of a run, {path}, cannot be read ({reason}). Put a copy in its place, or remove "
                "the folder to train that run again."
            )
        return content

    def metrics(self) -> dict[str, Any] | None:
        """Return the results, or None while there are none."""
        return read_json(self.path / METRICS)

    def finished(self, fingerprint: str) -> dict[str, Any] | None:
        """Return the results of a run; None while there are none, or if they are another's."""
        metrics = self.metrics()
        return metrics if metrics is not None and is_result(metrics) and metrics["fingerprint"] == fingerprint else None

    def results(self, fingerprint: str) -> dict[int, dict[str, Any]]:
        """Return what the folds of a run have left, by number; what another run left here is passed over."""
        found = {number: done_fold(path, number, fingerprint) for number, path in self._folds().items()}
        return {number: result for number, result in found.items() if result is not None}

    def holds_another(self, fingerprint: str) -> bool:
        """Whether results of another run are here."""
        contents = [self.metrics(), *(read_json(path / RESULT) for path in self._folds().values())]
        return any(content.get("fingerprint") != fingerprint for content in contents if content is not None)

    def _folds(self) -> dict[int, Path]:
        folders = {int(path.name[5:]): path for path in self.path.glob("fold-*") if path.name[5:].isdigit()}
        return dict(sorted(folders.items()))

    def start(self, config: dict[str, Any]) -> None:
        """Make the folder, or continue it, with this configuration."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write(self.path / CONFIG, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def refuse_folders(self, numbers: Sequence[int]) -> None:
        """Raise InvalidInputError if there is a folder where the run, or one of these folds, will write a file."""
        for name in (CONFIG, METRICS, CURVES, PREDICTIONS):
            refuse_folder(self.path / name)
        for number in numbers:
            for name in (BEST, LAST, EPOCHS, RESULT, PREDICTIONS):
                refuse_folder(self.fold(number) / name)

    def clear(self, on_wait: Callable[[int], None]) -> None:
        """Remove everything that a run left here, and nothing else.

        A fold that a worker of a dead process still trains is waited for; `on_wait` is told its number. Without the
        configuration no other is begun.
        """
        for name in (METRICS, CONFIG, CURVES, PREDICTIONS):
            (self.path / name).unlink(missing_ok=True)
        for path in self.path.glob(TRACEBACKS):
            path.unlink()
        for number, folder in self._folds().items():
            if FolderLock(folder).is_held_elsewhere():
                on_wait(number)
            with FolderLock(folder):
                for path in folder.iterdir():
                    if path.name != LOCK:  # whoever waits for it must not be left with a file that has no name
                        shutil.rmtree(path) if path.is_dir() else path.unlink()

    def finish(self, metrics: dict[str, Any]) -> None:
        """Gather what the folds of a run left and write its results; the last thing that a run does."""
        numbers = [entry["fold"] for entry in metrics["folds"]]
        with needing_space(self.path, NO_SPACE), not_removed(self.path):
            self._gather_predictions(numbers)
            self._gather_curves(numbers)
            write(self.path / METRICS, json.dumps(metrics, indent=1) + "\n")

    def _gather_predictions(self, numbers: list[int]) -> None:
        tables = [pq.read_table(self.fold(number) / PREDICTIONS) for number in numbers]
        with replacing(self.path / PREDICTIONS) as partial:
            pq.write_table(pa.concat_tables(tables), partial)

    def _gather_curves(self, numbers: list[int]) -> None:
        rows = [{"fold": number, **entry} for number in numbers for entry in read_epochs(self.fold(number) / EPOCHS)]
        with replacing(self.path / CURVES) as partial:
            pq.write_table(pa.Table.from_pylist(rows), partial)


@contextlib.contextmanager
def not_removed(folder: Path) -> Iterator[None]:
    """Turn what follows from the removal of a folder or its files under a training into an error that says so."""
    try:
        yield
    except LeapError:
        raise
    except FileNotFoundError as error:
        if folder.is_dir() and str(folder) not in str(error):
            raise
        raise WorkFailedError(
            f"{error.filename or folder} was removed while its run was being trained. Run the same command again."
        ) from error


@contextlib.contextmanager
def writing(fold: Path) -> Iterator[None]:
    """Say what is wrong with the folder of a fold where it cannot be written: the disk is full, or it was removed."""
    with needing_space(fold.parent, NO_SPACE), not_removed(fold):
        yield


def finished_runs(root: Path) -> Iterator[tuple[RunFolder, dict[str, Any]]]:
    """Yield every finished run among all runs, with its results, by name."""
    for path in sorted(root.glob(f"*/{METRICS}")):
        metrics = read_json(path)
        if metrics is not None:
            yield RunFolder(path.parent), metrics


def done_fold(folder: Path, number: int, fingerprint: str) -> dict[str, Any] | None:
    """Return the result of a fold; None unless it is this fold's of this run, with its predictions and all epochs."""
    result = read_json(folder / RESULT)
    if result is None or (result.get("fingerprint"), result.get("fold")) != (fingerprint, number):
        return None
    is_judged = isinstance(result.get("test"), dict) and isinstance(result.get("val"), dict)
    is_whole = len(read_epochs(folder / EPOCHS)) == result.get("epochs") and _has_predictions(folder / PREDICTIONS)
    return result if is_judged and is_whole else None


def is_result(metrics: dict[str, Any]) -> bool:
    """Whether an object is what a finished run leaves as its results."""
    kinds = {"fingerprint": str, "dataset": str, "options": dict, "folds": list}
    return all(isinstance(metrics.get(name), kind) for name, kind in kinds.items())


def _has_predictions(path: Path) -> bool:
    """Whether a table of predictions can be read to its end."""
    try:
        return "fold" in pq.read_table(path).column_names
    except (OSError, pa.ArrowException):
        return False


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a JSON object from a file; None if it is missing, half-written or not for us to read."""
    try:
        content = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def read_curves(folder: Path) -> pa.Table:
    """Return the losses and metrics of every epoch of every fold of a finished run.

    Raises
    ------
    InvalidInputError
        If the table is missing or damaged.
    """
    path = folder / CURVES
    try:
        refuse_folder(path)
        return pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = "it is missing" if isinstance(error, FileNotFoundError) else type(error).__name__
        raise InvalidInputError(
            f"the curves of a run, {path}, cannot be read ({reason}). Put a copy in their place, or remove the folder "
            "to train that run again."
        ) from error


def read_epochs(path: Path) -> list[dict[str, Any]]:
    """Return the epochs that a fold has noted; a line under way, or damaged, is left out."""
    try:
        lines = path.read_text().splitlines(keepends=True)
    except (OSError, ValueError):
        return []
    entries = []
    for line in lines:
        with contextlib.suppress(ValueError):
            entries.append(json.loads(line) if line.endswith("\n") else None)
    return [entry for entry in entries if isinstance(entry, dict)]


class FolderLock:
    """The right to write into a folder, which is made where it is missing. Readers need none.

    As a context manager it waits for its turn.
    """

    def __init__(self, folder: Path) -> None:
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
