"""A published artifact: its manifest, and its arrays and tables read lazily and checked."""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from leap.store.errors import DamagedArtifactError, LeapError
from leap.store.index import drop
from leap.store.location import Location
from leap.store.manifest import MANIFEST, Manifest, Partition
from leap.store.neighborhoods import Neighborhoods

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

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

    Parameters
    ----------
    dim : for a view, how many leading columns of `encoding` (and of `eigenvalues`) it shows.
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
        """What it is: dataset, neighborhoods, rwpe, lape, lect or dect."""
        return self.manifest.kind

    @property
    def params(self) -> dict[str, Any]:
        """Parameters that it was asked for with."""
        return self.manifest.params | ({"dim": self.dim} if self.dim is not None else {})

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

    def read(self, partition: int, names: Iterable[str] | None = None) -> "dict[str, NDArray[Any]]":
        """Return arrays of one partition, all by default.

        Raises
        ------
        DamagedArtifactError
            If a file is missing or any of its bits differ from what was published.
        KeyError
            If the partition has no such array.
        """
        from leap.store.arrays import read_group

        prefix = self.partitions[partition].name
        arrays = read_group(
            self._location,
            f"{folder_of(self.key)}/{prefix}",
            names,
            self.manifest.files,
            self.key,
            prefix,
        )
        if self.dim is not None:
            for name in {"encoding", "eigenvalues"} & arrays.keys():
                arrays[name] = arrays[name][:, : self.dim]
        return arrays

    def array_names(self) -> list[str]:
        """Names of the arrays that each partition holds."""
        from leap.store.arrays import array_names

        return array_names(self.manifest.files, self.partitions[0].name) if self.partitions else []

    def load(self, name: str) -> "NDArray[Any]":
        """Return one array over all partitions, concatenated; for arrays with a row per node or per graph."""
        import numpy as np

        return np.concatenate([self.read(part.index, [name])[name] for part in self.partitions])

    def neighborhoods(self, partition: int | None = None) -> Neighborhoods:
        """Return the neighbourhoods of one partition, or of the whole dataset, with dataset-wide node ids."""
        names = ["node_ptr", "nodes", "edge_ptr", "edges"]
        chosen = self.partitions if partition is None else [self.partitions[partition]]
        known: dict[str, Any] = {"hops": self.params["hops"], "cap": self.params["cap"]}
        parts = [Neighborhoods(**(known | self.read(part.index, names))) for part in chosen]
        return parts[0] if len(parts) == 1 else Neighborhoods.concat(parts, renumber=False)

    def table(self, name: str) -> "pa.Table":
        """Return a Parquet table of the artifact, such as "graphs", "folds" or "partitions"."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        return pq.read_table(pa.BufferReader(self.read_file(f"{name}.parquet")))

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

    def __iter__(self) -> "Iterator[dict[str, NDArray[Any]]]":
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
