"""A published artifact: its manifest, and its arrays and tables read lazily and checked."""

import contextlib
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from leap import store
from leap.store.errors import DamagedArtifactError, LeapError
from leap.store.index import drop
from leap.store.location import Location
from leap.store.manifest import MANIFEST, Manifest, Partition
from leap.store.request import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

ARTIFACTS, BUILDS = "artifacts", "builds"


def folder_of(key: str) -> str:
    """Path of an artifact inside its store."""
    return f"{ARTIFACTS}/{key}"


def builds_of(key: str) -> str:
    """Path of what builders of an artifact have written and not published, inside its store."""
    return f"{BUILDS}/{key}"


def erase(location: Location, key: str) -> None:
    """Remove an artifact, published or not. The caller holds its lock.

    Its manifest goes first: halfway it is unfinished, never damaged.
    """
    manifest = None
    with contextlib.suppress(FileNotFoundError, LeapError):
        manifest = Manifest.decode(location.read_bytes(f"{folder_of(key)}/{MANIFEST}"), key)
    location.remove(f"{folder_of(key)}/{MANIFEST}")
    location.remove(folder_of(key))
    location.remove(builds_of(key))
    if manifest is not None:
        drop(location, manifest)


class Artifact:
    """Read access to one artifact; immutable, cheap to open, safe to send to another process.

    It holds arrays, tables and files, whatever they mean: that is known to the types of `leap.store.graphs`.

    Parameters
    ----------
    dim : for a view, which smaller `dim` than its own it answers.
    """

    def __init__(self, location: Location, manifest: Manifest, dim: int | None = None) -> None:
        self._location = location
        self.manifest = manifest
        self.dim = dim

    @property
    def key(self) -> str:
        """Key of the artifact; of the parent, for a view."""
        return self.manifest.key

    @property
    def kind(self) -> str:
        """What it is: a dataset, or what was derived from one."""
        return self.manifest.kind

    @property
    def params(self) -> dict[str, Any]:
        """Parameters that it was asked for with."""
        return self.manifest.params | ({COLUMNS: self.dim} if self.dim is not None else {})

    @property
    def partitions(self) -> list[Partition]:
        """Partitions, in the order of their nodes."""
        return self.manifest.partitions

    @property
    def path(self) -> str:
        """Path of the artifact: open it with `zarr.open_group(path)` where it is local."""
        return f"{self._location.url}/{folder_of(self.key)}"

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.params.items())
        return f"Artifact({self.kind} of {self.manifest.dataset}, key={self.key[:12]}, {shown})"

    def view(self, dim: int | None) -> Self:
        """Return the artifact itself, or a view that answers a smaller `dim`."""
        if dim is None or self.params.get(COLUMNS) == dim:
            return self
        return type(self)(self._location, self.manifest, dim)

    def read(self, partition: int, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
        """Return arrays of one partition, all by default.

        Raises
        ------
        DamagedArtifactError
            If a file is missing or any of its bits differ from what was published.
        KeyError
            If the partition has no such array.
        """
        prefix, files = self.partitions[partition].name, self.manifest.files
        found = {}
        for name in _array_names(files, prefix) if names is None else names:
            array = store.chunks.read_array(self.read_file, files, f"{prefix}/{name}")
            if array is None:  # laid out by somebody else
                path = f"{folder_of(self.key)}/{prefix}"
                array = store.arrays.read_array(self._location, path, name, files, self.key, prefix)
            found[name] = array
        return found

    def array_names(self) -> list[str]:
        """Names of the arrays that each partition holds."""
        return _array_names(self.manifest.files, self.partitions[0].name) if self.partitions else []

    def has(self, name: str) -> bool:
        """Whether partitions hold an array of this name."""
        return bool(self.partitions) and f"{self.partitions[0].name}/{name}/zarr.json" in self.manifest.files

    def shape(self, name: str, partition: int = 0) -> tuple[int, ...]:
        """Shape of one array of a partition, from its metadata."""
        layout = json.loads(self.read_file(f"{self.partitions[partition].name}/{name}/zarr.json"))
        return tuple(layout["shape"])

    def dtype(self, name: str, partition: int = 0) -> np.dtype[Any]:
        """Type of one array of a partition, from its metadata."""
        layout = json.loads(self.read_file(f"{self.partitions[partition].name}/{name}/zarr.json"))
        found: np.dtype[Any] = np.dtype(layout["data_type"])
        return found

    def load(self, name: str) -> NDArray[Any]:
        """Return one array over all partitions, concatenated; for arrays with a row per node or per graph."""
        return np.concatenate([self.read(part.index, [name])[name] for part in self.partitions])

    def table(self, name: str, columns: Sequence[str] | None = None) -> "pa.Table":
        """Return a Parquet table of the artifact, such as "partitions", or some of its columns."""
        return store.tables.decode(self.read_file(f"{name}.parquet"), columns)

    def read_file(self, name: str) -> bytes:
        """Return one file of the artifact, checked."""
        record = self.manifest.files.get(name)
        if record is None:
            raise KeyError(name)
        try:
            data = self._location.read_bytes(f"{folder_of(self.key)}/{name}")
        except FileNotFoundError:
            raise DamagedArtifactError(f"artifact {self.key[:12]}: {name} is missing.", self.key) from None
        if hashlib.sha256(data).hexdigest() != record.sha256:
            raise DamagedArtifactError(
                f"artifact {self.key[:12]}: {name} is damaged; its checksum does not match.", self.key
            )
        return data

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        """Iterate over the partitions' arrays."""
        return (self.read(part.index) for part in self.partitions)

    def problems(self, *, thorough: bool) -> list[str]:
        """Name what differs from what was published; an empty list means sound.

        A thorough check reads every byte. The quick one compares names and sizes, and reads only files that
        changed after the manifest was written, which a cache hit can afford.
        """
        folder = folder_of(self.key)
        present = self._location.files(folder)
        published_at = present[MANIFEST].mtime_ns if MANIFEST in present else None
        found = []
        for name, record in self.manifest.files.items():
            info = present.get(name)
            if info is None:
                found.append(f"{name} is missing")
            elif info.size != record.bytes:
                found.append(f"{name} has {info.size:,} bytes instead of {record.bytes:,}")
            elif thorough or (info.mtime_ns is not None and info.mtime_ns > (published_at or 0)):
                data = self._location.read_bytes(f"{folder}/{name}")
                if hashlib.sha256(data).hexdigest() != record.sha256:
                    found.append(f"{name} is damaged: its checksum does not match")
        # The digest in the manifest covers what it says; how it says it matters to nobody but a thorough check.
        if thorough and self._location.read_bytes(f"{folder}/{MANIFEST}") != self.manifest.encode():
            found.append(f"{MANIFEST} was edited")
        stray = sorted(present.keys() - self.manifest.files.keys() - {MANIFEST})
        # Records of finished partitions stay behind a build; anything else was put there by somebody.
        found += [f"{name} does not belong to the artifact" for name in stray if thorough]
        return found


def _array_names(files: Collection[str], group: str) -> list[str]:
    """Names of the arrays of a group, from the names of the artifact's files."""
    start = f"{group}/"
    inner = (name[len(start) :] for name in files if name.startswith(start))
    return sorted(name.split("/")[0] for name in inner if name.count("/") == 1 and name.endswith("/zarr.json"))
