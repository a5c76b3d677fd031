"""The TUDataset collection by name, from raw files or by download."""

from pathlib import Path
from typing import Any

from leap.pipeline.datasets.download import fetch_into, unzip
from leap.pipeline.datasets.fingerprint import fingerprint_files
from leap.pipeline.datasets.raw_files import raw_folder, raw_folders, total_bytes
from leap.pipeline.datasets.source import DatasetInfo, Executor, Family, Lookup, Progress, Source, is_safe_name
from leap.pipeline.datasets.tu_format import OPTIONAL, REQUIRED, has_tu_files, read_tu, tu_files
from leap.pipeline.datasets.tu_names import TU_NAMES
from leap.pipeline.graphs import RawGraphs
from leap.store.errors import MissingRawFilesError

URL = "https://www.chrsmrrs.com/graphkerneldatasets"


class TUSource(Source):
    """A folder of TU-format files.

    Parameters
    ----------
    folder : where the files lie.
    prefix : of the files, PREFIX_A.txt and so on.
    name : as reported; the prefix unless given.
    """

    def __init__(self, folder: Path, prefix: str, name: str | None = None) -> None:
        self.name = name or prefix
        self.folder = folder
        self.prefix = prefix

    def fingerprint(self) -> dict[str, Any]:
        """Reader, version and the content of every file PREFIX_*.txt."""
        files = fingerprint_files(self.folder, tu_files(self.folder, self.prefix))
        return {"reader": "tu", "version": 1, "options": {}, "files": files}

    def read(self, progress: Progress | None = None, executor: Executor | None = None) -> RawGraphs:
        """Read all files; see `read_tu`."""
        return read_tu(self.folder, self.prefix)


class TUFamily(Family):
    """Every dataset of the collection, and any other whose files lie in the data folder under its name."""

    name = "TU"

    def names(self) -> tuple[str, ...]:
        """Names of the collection."""
        return TU_NAMES

    def discover(self, data: Path) -> tuple[str, ...]:
        """Names of folders in TU format that the collection does not know."""
        try:
            folders = sorted(path.name for path in data.iterdir() if path.is_dir())
        except (FileNotFoundError, NotADirectoryError, PermissionError):  # nothing there that we could discover
            return ()
        others = [name for name in folders if name not in TU_NAMES and is_safe_name(name)]
        return tuple(name for name in others if _find(data, name) is not None)

    def source(self, name: str, lookup: Lookup) -> Source:
        """Source of a dataset of the collection; downloads its archive where its files are missing.

        Raises
        ------
        MissingRawFilesError
            No files, and no download wanted or no connection: what to put where.
        DownloadError
            What arrived is not the dataset.
        """
        if (found := _find(lookup.data, name)) is not None:
            return TUSource(found, name)
        folder = raw_folder(lookup.data, name)
        url = f"{URL}/{name}.zip"
        wanted = ", ".join(f"{name}_{part}.txt" for part in REQUIRED)
        wanted += " and, where the dataset has them, " + ", ".join(f"{name}_{part}.txt" for part in OPTIONAL)
        if not lookup.download:
            raise MissingRawFilesError(
                f"no raw files of {name!r}. Put {wanted} into {folder}, or allow the download of {url}."
            )
        fetch_into(
            folder,
            url,
            wanted=wanted,
            unpack=unzip,
            complete=lambda content: has_tu_files(content, name),
            on_progress=lookup.on_progress,
        )
        return TUSource(folder, name)

    def info(self, name: str, data: Path) -> DatasetInfo:
        """Line of `leap datasets`."""
        found = _find(data, name)
        return DatasetInfo(
            name=name,
            family=self.name,
            source=f"{URL}/{name}.zip" if name in TU_NAMES else "raw files",
            licence="no common licence; cite TUDataset and the dataset's own source",
            presence="absent" if found is None else "present",
            bytes=0 if found is None else total_bytes(tu_files(found, name)),
            path=found or raw_folder(data, name),
        )


def _find(data: Path, name: str) -> Path | None:
    return next((folder for folder in raw_folders(data, name) if has_tu_files(folder, name)), None)
