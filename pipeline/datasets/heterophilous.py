"""The heterophilous node-classification graphs of Platonov et al.: roman-empire, minesweeper and their family."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.datasets.download import Download, keep_as
from leap.pipeline.datasets.family import DatasetCard, FileFamily, raw_folders
from leap.pipeline.datasets.source import Executor, Progress, Source, fingerprint_files
from leap.pipeline.graphs import RawGraphs
from leap.store.errors import InvalidInputError

URL = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data"
NODES = {
    "roman-empire": 22_662,
    "amazon-ratings": 24_492,
    "minesweeper": 10_000,
    "tolokers": 11_758,
    "questions": 48_921,
}
EDGES = {
    "roman-empire": 32_927,
    "amazon-ratings": 93_050,
    "minesweeper": 39_402,
    "tolokers": 519_000,
    "questions": 153_540,
}
# What its authors judge a graph by, and choose the tested epoch by; two classes of very different size need AUROC.
METRICS: dict[str, Literal["auroc", "accuracy"]] = {
    "minesweeper": "auroc",
    "tolokers": "auroc",
    "questions": "auroc",
    "amazon-ratings": "accuracy",
}

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


class HeterophilousFamily(FileFamily):
    """The five graphs by name; NAME/raw/NAME.npz, with '-' or '_' in the names, as PyG stores them too."""

    def names(self) -> tuple[str, ...]:
        """Names of the five graphs."""
        return tuple(NODES)

    def card(self, name: str) -> DatasetCard:
        """Return what is known about one graph."""
        return DatasetCard(
            name,
            "heterophilous",
            f"{URL}/{_file(name)}",
            "MIT (Yandex Research)",
            metric=METRICS.get(name),
            select=METRICS.get(name, "loss"),  # for roman-empire as the paper does
            size=(1, NODES[name]),
            edges=EDGES[name],
        )

    def find(self, data: Path, name: str) -> Sequence[Path]:
        """Return the archive."""
        spellings = dict.fromkeys((name, name.replace("-", "_")))
        candidates = (
            folder / f"{file}.npz" for outer in spellings for folder in raw_folders(data, outer) for file in spellings
        )
        return [path for path in candidates if path.is_file()][:1]

    def open(self, name: str, files: Sequence[Path]) -> Source:
        """Source of the archive."""
        return HeterophilousSource(name, files[0])

    def download(self, name: str) -> Download:
        """One archive for each graph."""
        file = _file(name)
        return Download(f"{URL}/{file}", file, keep_as(file), lambda folder: _is_archive(folder / file))


FAMILY = HeterophilousFamily()


def _file(name: str) -> str:
    return f"{name.replace('-', '_')}.npz"


def _is_archive(path: Path) -> bool:
    try:
        return bool(_load(path))
    except InvalidInputError:
        return False
