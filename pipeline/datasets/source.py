"""What a dataset looks like to the pipeline: a `Source` has a name, fingerprints its input and reads it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from leap.pipeline.graphs import RawGraphs
from leap.store.errors import InvalidInputError

Progress = Callable[[int, int], None]
"""Called with (done, total); total is 0 while unknown."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


class Executor(Protocol):
    """Anything with `map(function, items)` that yields results in order, such as a process pool."""

    def map(self, fn: Callable[[Any], Any], items: Iterable[Any], /) -> Iterable[Any]:
        """Apply `fn` to every item and yield the results in the order of the items."""
        ...


@dataclass(frozen=True)
class SourceOptions:
    """Choices of the user that change what a reader returns; only own data has any.

    Attributes
    ----------
    node_attributes : node attributes (NetworkX, PyG) or node columns (Parquet) to use as features, in this
        order. None takes the attribute or columns "x" and, where there is none, every numeric one by name (PyG: "pos").
    graph_label : graph attribute or column that holds the label or targets; None takes "y", else "label".
    node_label : node attribute or column that holds node labels when graphs have none; None takes "y".
    """

    node_attributes: tuple[str, ...] | None = None
    graph_label: str | None = None
    node_label: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON form, as it enters a fingerprint."""
        return {
            "node_attributes": None if self.node_attributes is None else list(self.node_attributes),
            "graph_label": self.graph_label,
            "node_label": self.node_label,
        }


@dataclass(frozen=True)
class DatasetInfo:
    """One line of `leap datasets`.

    Attributes
    ----------
    name : what `leap ingest` takes.
    family : "generated", "TU", "MoleculeNet", "heterophilous" …
    source : where the data comes from: a URL, or "generated".
    licence : a note on the terms of use.
    presence : "embedded" (needs no files), "present" or "absent" (files on disk).
    bytes : size of the raw files found, 0 without any.
    path : folder where the raw files are or go; None for embedded datasets.
    """

    name: str
    family: str
    source: str
    licence: str
    presence: Literal["embedded", "present", "absent"]
    bytes: int = 0
    path: Path | None = None


@dataclass(frozen=True)
class Lookup:
    """Where and how a family may look for the raw files of a dataset."""

    data: Path
    options: SourceOptions = SourceOptions()
    download: bool = True
    on_progress: Progress | None = None


class Source(ABC):
    """Raw input of one dataset.

    Attributes
    ----------
    name : as reported everywhere; a stand-in never bears the name of what it stands in for.
    """

    name: str

    @abstractmethod
    def fingerprint(self) -> dict[str, Any]:
        """Everything that determines what `read` returns, as JSON values.

        Holds "reader", "version" (int, raised when the reader's output changes), "options", and either
        "files" (name, bytes and sha256 of each raw file) or "parameters" of the generator.
        """

    @abstractmethod
    def read(self, progress: Progress | None = None, executor: Executor | None = None) -> RawGraphs:
        """Read or generate the graphs; raises `InvalidInputError` where the input cannot be used."""


class Family(ABC):
    """Datasets that share a reader, by name.

    Attributes
    ----------
    name : of the family, as `leap datasets` prints it.
    """

    name: str

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names that are always known."""

    def discover(self, data: Path) -> tuple[str, ...]:
        """Names beyond `names()` whose raw files lie under `data`."""
        return ()

    @abstractmethod
    def source(self, name: str, lookup: Lookup) -> Source:
        """Source of a known or discovered name; downloads what is missing where that is allowed."""

    @abstractmethod
    def info(self, name: str, data: Path) -> DatasetInfo:
        """Line of `leap datasets`."""


def is_safe_name(name: str) -> bool:
    """Whether `name` can be a folder's without leaving the folder it is in."""
    return _NAME.fullmatch(name) is not None


def checked_name(name: str) -> str:
    """Return `name` if it is safe as a folder name, so that no path built from it leaves its folder.

    Raises
    ------
    InvalidInputError
        For an empty name, separators, a leading dot or characters other than letters, digits and ``._+-``.
    """
    if not is_safe_name(name):
        raise InvalidInputError(
            f"{name!r} cannot be a dataset's name: use letters, digits and '._+-', starting with a letter or digit."
        )
    return name
