"""Where raw files of named datasets lie: DATA/NAME/raw, or DATA/NAME itself."""

import os
from collections.abc import Iterable
from pathlib import Path

from leap.pipeline.datasets.source import checked_name
from leap.store.errors import InvalidInputError, LeapError, MissingRawFilesError


def default_data_dir() -> Path:
    """Folder of raw files when none is given: LEAP_DATA, else `leap/data` in the user's cache folder."""
    if given := os.environ.get("LEAP_DATA"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "leap" / "data"


def raw_folder(data: Path, name: str) -> Path:
    """Folder where raw files of `name` are put, by a download or by hand."""
    return data / checked_name(name) / "raw"


def raw_folders(data: Path, name: str) -> tuple[Path, Path]:
    """Folders where raw files of `name` are looked for, first to last."""
    return raw_folder(data, name), data / checked_name(name)


def total_bytes(files: Iterable[Path]) -> int:
    """Size of files together."""
    return sum(path.stat().st_size for path in files)


def cannot_read(path: Path | str, error: OSError) -> LeapError:
    """Return the error of a raw file that does not open; one that is there but refused is not a missing one."""
    kind = MissingRawFilesError if isinstance(error, FileNotFoundError) else InvalidInputError
    return kind(f"cannot read {path}: {error.strerror or error}.")
