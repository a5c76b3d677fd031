"""Datasets by name: a `Family` knows where their files come from, and a `DatasetCard` what is known before reading."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from leap.pipeline.datasets.download import Download, fetch_into
from leap.pipeline.datasets.source import Progress, Source, SourceOptions, checked_name
from leap.store.errors import MissingRawFilesError
from leap.store.graphs.tasks import is_regression


@dataclass(frozen=True)
class DatasetCard:
    """What is known about a dataset before it is read. The defaults are those of your own graphs.

    Attributes
    ----------
    name : what `leap ingest` takes.
    family : "generated", "TU", "MoleculeNet", "heterophilous" …
    source : where the data comes from: a URL, or "generated".
    licence : a note on the terms of use.
    title : what the paper calls it; its name unless given.
    metric : what it is judged by ("accuracy", "auroc", "r2"); None leaves that to its task.
    select : what chooses the tested epoch, the validation "loss", "auroc", "average_precision" or "accuracy".
    stand_in_for : the real dataset that a generated one resembles in size and shape.
    size : graphs and nodes, to have an idea before anything is downloaded.
    edges : how many there are, each counted once.
    is_categorical : whether features are codes of categories, not measurements.
    published_as : whether the paper prints numbers ("table", see `leap.pipeline.published`) or shows "boxes" only.
    published_settings : options that the paper set differently for this dataset.
    """

    name: str
    family: str = "own"
    source: str = "raw files"
    licence: str = "your own"
    title: str = ""
    metric: str | None = None
    select: Literal["loss", "auroc", "average_precision", "accuracy"] = "loss"
    stand_in_for: str | None = None
    size: tuple[int, int] | None = None
    edges: int | None = None
    is_categorical: bool = False
    published_as: Literal["table", "boxes"] = "table"
    published_settings: dict[str, Any] = field(default_factory=dict)

    @property
    def task(self) -> str | None:
        """Task of a dataset that is one graph; None where reading it must tell."""
        return "node-classification" if self.size is not None and self.size[0] == 1 else None

    @property
    def label(self) -> str:
        """Printed name; a stand-in always says what it stands in for."""
        shown = self.title or self.name
        return shown if self.stand_in_for is None else f"{shown} (stand-in for {self.stand_in_for})"

    def judged_by(self, task: str) -> str:
        """Return the name of the test score that sums a run up in one number."""
        usual = "r2" if is_regression(task) else "auroc" if task == "graph-multilabel" else "accuracy"
        return self.metric or usual


@dataclass(frozen=True)
class DatasetInfo:
    """One line of `leap datasets`.

    Attributes
    ----------
    presence : "embedded" (needs no files), "present" or "absent" (files on disk).
    bytes : size of the raw files found, 0 without any.
    path : folder where the raw files are or go; None for embedded datasets.
    """

    card: DatasetCard
    presence: Literal["embedded", "present", "absent"]
    bytes: int = 0
    path: Path | None = None

    @property
    def name(self) -> str:
        """What `leap ingest` takes."""
        return self.card.name


@dataclass(frozen=True)
class Lookup:
    """Where and how a family may look for the raw files of a dataset."""

    data: Path
    options: SourceOptions = field(default_factory=SourceOptions)
    download: bool = True
    on_progress: Progress | None = None


class Family(ABC):
    """Datasets that share a reader."""

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names that are always known."""

    def discover(self, data: Path) -> tuple[str, ...]:
        """Names beyond `names()` whose raw files lie under `data`."""
        return ()

    @abstractmethod
    def card(self, name: str) -> DatasetCard:
        """Return what is known about a known or discovered name."""

    @abstractmethod
    def source(self, name: str, lookup: Lookup) -> Source:
        """Source of a known or discovered name; downloads what is missing where that is allowed."""

    @abstractmethod
    def info(self, name: str, data: Path) -> DatasetInfo:
        """Line of `leap datasets`."""


class FileFamily(Family):
    """Datasets whose raw files lie in DATA/NAME/raw or DATA/NAME, and are downloaded where they are missing."""

    @abstractmethod
    def find(self, data: Path, name: str) -> Sequence[Path]:
        """Raw files of a dataset under `data`; none unless all that it needs are there."""

    @abstractmethod
    def open(self, name: str, files: Sequence[Path]) -> Source:
        """Source of the files that `find` found."""

    @abstractmethod
    def download(self, name: str) -> Download:
        """Where the files come from and how to tell that they arrived."""

    def folder(self, data: Path, name: str) -> Path:
        """Folder where the files are put, by a download or by hand."""
        return raw_folder(data, name)

    def source(self, name: str, lookup: Lookup) -> Source:
        """Source of a dataset; downloads its files where they are missing.

        Raises
        ------
        MissingRawFilesError
            No files, and no download wanted or no connection: what to put where.
        DownloadError
            What arrived is something else.
        """
        if not (files := self.find(lookup.data, name)):
            wanted, folder = self.download(name), self.folder(lookup.data, name)
            if not lookup.download:
                raise MissingRawFilesError(
                    f"no raw files of {name!r}. Put {wanted.files} into {folder}, or allow the download of "
                    f"{wanted.url}."
                )
            fetch_into(folder, wanted, lookup.on_progress)
            files = self.find(lookup.data, name)
        return self.open(name, files)

    def info(self, name: str, data: Path) -> DatasetInfo:
        """Line of `leap datasets`."""
        if not (files := self.find(data, name)):
            return DatasetInfo(self.card(name), "absent", path=self.folder(data, name))
        return DatasetInfo(self.card(name), "present", sum(path.stat().st_size for path in files), files[0].parent)


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
