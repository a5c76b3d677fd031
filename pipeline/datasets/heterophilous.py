"""The heterophilous node-classification graphs of Platonov et al.: roman-empire, minesweeper and their family."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.datasets.download import fetch_into, keep_as
from leap.pipeline.datasets.fingerprint import fingerprint_files
from leap.pipeline.datasets.raw_files import raw_folder, raw_folders, total_bytes
from leap.pipeline.datasets.source import DatasetInfo, Executor, Family, Lookup, Progress, Source
from leap.pipeline.graphs import RawGraphs
from leap.store.errors import InvalidInputError, MissingRawFilesError

URL = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data"
NAMES = ("roman-empire", "amazon-ratings", "minesweeper", "tolokers", "questions")

_ARRAYS = ("node_features", "node_labels", "edges", "train_masks", "val_masks", "test_masks")


class HeterophilousSource(Source):
    """One NumPy archive with node_features, node_labels, edges and the masks of ten splits."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path

    def fingerprint(self) -> dict[str, Any]:
        """Reader, version and the archive's content."""
        files = fingerprint_files(self.path.parent, [self.path])
        return {"reader": "heterophilous", "version": 1, "options": {}, "files": files}

    def read(self, progress: Progress | None = None, executor: Executor | None = None) -> RawGraphs:
        """Read the archive; nothing in it is ever unpickled.

        Raises
        ------
        InvalidInputError
            Not such an archive, or arrays that do not fit each other.
        """
        arrays = _load(self.path)
        x, y, edges = arrays["node_features"], arrays["node_labels"], arrays["edges"]
        if x.ndim != 2 or edges.ndim != 2 or edges.shape[1] != 2:
            raise InvalidInputError(
                f"{self.path}: node_features must be (N, d) and edges (E, 2). Got {x.shape} and {edges.shape}."
            )
        masks = {part: arrays[f"{part}_masks"].T.astype(np.bool_) for part in ("train", "val", "test")}
        return RawGraphs(
            node_counts=np.array([len(x)], dtype=np.int64),
            edges=np.ascontiguousarray(edges.T),
            x=np.asarray(x, dtype=np.float32),  # some files hold 0/1 measurements as integers
            y=y,
            task="node-classification",
            masks=masks,
            feature_source="given",
        )


def _load(path: Path) -> dict[str, NDArray[Any]]:
    import zipfile

    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("a single array")
            missing = [name for name in _ARRAYS if name not in archive.files]
            if missing:
                raise InvalidInputError(f"{path} lacks the arrays {', '.join(missing)}. Download it again.")
            return {name: archive[name] for name in _ARRAYS}
    except InvalidInputError:
        raise
    except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise InvalidInputError(f"{path} is not a NumPy archive that can be read ({error}).") from error


class HeterophilousFamily(Family):
    """The five graphs by name; NAME/raw/NAME.npz, with '-' or '_' in the names, as PyG stores them too."""

    name = "heterophilous"

    def names(self) -> tuple[str, ...]:
        """Names of the five graphs."""
        return NAMES

    def source(self, name: str, lookup: Lookup) -> Source:
        """Source of one graph; downloads its archive where it is missing.

        Raises
        ------
        MissingRawFilesError
            No archive, and no download wanted or no connection: what to put where.
        DownloadError
            What arrived is something else.
        """
        if (found := _find(lookup.data, name)) is not None:
            return HeterophilousSource(name, found)
        folder, file = raw_folder(lookup.data, name), _file(name)
        if not lookup.download:
            raise MissingRawFilesError(
                f"no raw files of {name!r}. Put {file} into {folder}, or allow the download of {URL}/{file}."
            )
        fetch_into(
            folder,
            f"{URL}/{file}",
            wanted=file,
            unpack=keep_as(file),
            complete=lambda content: _is_archive(content / file),
            on_progress=lookup.on_progress,
        )
        return HeterophilousSource(name, folder / file)

    def info(self, name: str, data: Path) -> DatasetInfo:
        """Line of `leap datasets`."""
        found = _find(data, name)
        return DatasetInfo(
            name=name,
            family=self.name,
            source=f"{URL}/{_file(name)}",
            licence="MIT (Yandex Research)",
            presence="absent" if found is None else "present",
            bytes=0 if found is None else total_bytes([found]),
            path=raw_folder(data, name) if found is None else found.parent,
        )


def _file(name: str) -> str:
    return f"{name.replace('-', '_')}.npz"


def _find(data: Path, name: str) -> Path | None:
    spellings = dict.fromkeys((name, name.replace("-", "_")))
    candidates = (
        folder / f"{file}.npz" for outer in spellings for folder in raw_folders(data, outer) for file in spellings
    )
    return next((path for path in candidates if path.is_file()), None)


def _is_archive(path: Path) -> bool:
    try:
        return bool(_load(path))
    except InvalidInputError:
        return False
