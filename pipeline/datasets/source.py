"""What a dataset looks like to the pipeline: a `Source` has a name, fingerprints its input and reads it."""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from leap.pipeline import datasets
from leap.pipeline.graphs import RawGraphs, Task
from leap.store.errors import InvalidInputError, LeapError, MissingRawFilesError

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
    """Choices of the user that change what a reader returns; only your own graphs have any.

    Attributes
    ----------
    node_attributes : node attributes (NetworkX, PyG) or node columns (Parquet) to use as features, in this
        order. None takes the attribute or columns "x" and, where there is none, every numeric one by name (PyG: "pos").
    graph_label : graph attribute or column that holds the label or targets; None takes "y", else "label".
    node_label : node attribute or column that holds node labels when graphs have none; None takes "y".
    task : what the labels are; None: their kind says.
    edge_attributes : edge attributes (NetworkX, PyG) or columns of the table of edges (Parquet) to keep as attributes
        of edges, in this order. None takes none; of PyG graphs "edge_attr", where there is one.
    """

    node_attributes: tuple[str, ...] | None = None
    graph_label: str | None = None
    node_label: str | None = None
    task: Task | None = None
    edge_attributes: tuple[str, ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON form, as it enters a fingerprint."""
        return {
            "node_attributes": None if self.node_attributes is None else list(self.node_attributes),
            "graph_label": self.graph_label,
            "node_label": self.node_label,
            **({} if self.task is None else {"task": self.task}),  # older versions had no such choice
            # What older versions did not know enters where it was chosen.
            **({} if self.edge_attributes is None else {"edge_attributes": list(self.edge_attributes)}),
        }


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


class MemorySource(Source):
    """Raw graphs in memory under a name; later changes of the objects they were made from do not reach it."""

    def __init__(self, name: str, reader: str, raw: RawGraphs) -> None:
        # As with files, nothing of one's own bears the name of a known dataset.
        self.name = f"own-{name}" if checked_name(name) in datasets.known_names() else name
        self._reader = reader
        self._raw = raw

    def fingerprint(self) -> dict[str, Any]:
        """Reader, version, task and a hash of every array."""
        raw = self._raw
        arrays = {"node_counts": raw.node_counts, "edges": raw.edges, "x": raw.x, "y": raw.y}
        for part, mask in (raw.masks or {}).items():
            arrays[f"{part}_mask"] = mask
        # What older versions did not keep enters where there is any.
        arrays |= {name: kept for name, kept in (("edge_attr", raw.edge_attr), ("pos", raw.pos)) if kept is not None}
        shapes = {"shapes": raw.notes["shapes"]} if "shapes" in raw.notes else {}
        return {
            "reader": self._reader,
            "version": 1,
            "options": {"task": raw.task, **shapes},
            "arrays": fingerprint_arrays(arrays),
        }

    def read(self, progress: Progress | None = None, executor: Executor | None = None) -> RawGraphs:
        """Return the graphs."""
        return self._raw


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


def fingerprint_files(root: Path, files: Iterable[Path]) -> list[dict[str, Any]]:
    """Name relative to `root`, size and sha256 of each file, sorted by name.

    Raises
    ------
    MissingRawFilesError
        Where a file has gone.
    InvalidInputError
        Where one is there and cannot be read.
    """
    entries = []
    for path in sorted(files):
        try:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
                size = stream.tell()
        except OSError as error:
            raise cannot_read(path, error) from error
        entries.append({"name": path.relative_to(root).as_posix(), "bytes": size, "sha256": digest})
    return entries


def fingerprint_arrays(arrays: Mapping[str, NDArray[Any] | None]) -> dict[str, Any]:
    """Shape, dtype and sha256 of each array by name; an absent array is None."""
    return {name: None if array is None else _fingerprint_array(array) for name, array in sorted(arrays.items())}


def _fingerprint_array(array: NDArray[Any]) -> dict[str, Any]:
    if array.dtype.hasobject:  # labels of mixed types: their text decides, the type included
        content: Any = "\0".join(f"{type(value).__name__}:{value!r}" for value in array.ravel()).encode()
        dtype = "object"
    else:
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        content = little.reshape(-1).view(np.uint8).data if little.size else b""
        dtype = little.dtype.str
    return {"shape": list(array.shape), "dtype": dtype, "sha256": hashlib.sha256(content).hexdigest()}


def cannot_read(path: Path | str, error: OSError) -> LeapError:
    """Return the error of a raw file that does not open; one that is there but refused is not a missing one."""
    kind = MissingRawFilesError if isinstance(error, FileNotFoundError) else InvalidInputError
    return kind(f"cannot read {path}: {error.strerror or error}.")
