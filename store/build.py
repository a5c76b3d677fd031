"""An artifact under construction: partitions written one by one, kept across interruptions, published at once.

Partitions are written straight into the artifact's folder. One counts as done when its `partition.json`, written
last, is there and every file it names is whole. The artifact itself becomes visible with its manifest, also
written last. Readers never look at a folder without a manifest.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from leap.store import index
from leap.store.artifact import Artifact, erase, folder_of
from leap.store.errors import DamagedArtifactError
from leap.store.keys import canonical_json
from leap.store.location import Location, locate
from leap.store.manifest import MANIFEST, FileRecord, Manifest, Partition, content_of

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

RECORD = "partition.json"


@dataclass(frozen=True)
class PartitionRecord:
    """What a finished partition says of itself."""

    files: dict[str, FileRecord]
    statistics: dict[str, Any]


@dataclass(frozen=True)
class PartitionWriter:
    """Writes partitions of one artifact from any process; it is sent to workers, so it holds names only."""

    url: str
    key: str

    def write(self, partition: Partition, arrays: "Mapping[str, NDArray[Any]]", statistics: Mapping[str, Any]) -> None:
        """Write all arrays of a partition, then its record. The caller is the partition's only writer."""
        from leap.store.arrays import write_group

        location = locate(self.url)
        path = f"{folder_of(self.key)}/{partition.name}"
        location.remove(path)
        files = write_group(location, path, arrays, partition.model_dump())
        record = {
            "files": {name: asdict(entry) for name, entry in sorted(files.items())},
            "partition": partition.model_dump(),
            "statistics": dict(statistics),
        }
        location.write_bytes(f"{path}/{RECORD}", canonical_json(record))


@dataclass
class Build:
    """The right to make one artifact; its lock is held by whoever opened it (`Store.building`)."""

    location: Location
    key: str
    published: Artifact | None = None
    _records: dict[int, PartitionRecord] = field(default_factory=dict)

    @property
    def writer(self) -> PartitionWriter:
        """What a worker needs to write partitions."""
        return PartitionWriter(self.location.url, self.key)

    def finished(self, plan: Iterable[Partition]) -> set[int]:
        """Indices of partitions that an earlier, interrupted build has left whole."""
        return {part.index for part in plan if self._record(part) is not None}

    def _record(self, partition: Partition) -> PartitionRecord | None:
        if partition.index not in self._records:
            record = _read_record(self.location, f"{folder_of(self.key)}/{partition.name}", partition)
            if record is None:
                return None
            self._records[partition.index] = record
        return self._records[partition.index]

    def statistics(self, plan: Iterable[Partition]) -> list[dict[str, Any]]:
        """Return what each finished partition noted about itself, in order."""
        return [self._need(part).statistics for part in plan]

    def _need(self, partition: Partition) -> PartitionRecord:
        record = self._record(partition)
        if record is None:
            raise DamagedArtifactError(f"{partition.name} of {self.key[:12]} vanished while building.", self.key)
        return record

    def publish(self, draft: Manifest, tables: "Mapping[str, pa.Table]") -> Artifact:
        """Make the artifact visible: write its tables, then the sealed manifest.

        Parameters
        ----------
        draft : the manifest without `files`; an empty `content` is filled with the digest of the files.
        tables : Parquet tables by name, without the ending.
        """
        import zarr

        folder = folder_of(self.key)
        files: dict[str, FileRecord] = {}
        for part in draft.partitions:
            path = f"{part.name}/{RECORD}"
            files |= {f"{part.name}/{name}": entry for name, entry in self._need(part).files.items()}
            files[path] = _file_record(self.location.read_bytes(f"{folder}/{path}"))
        for name, table in tables.items():
            data = _parquet(table)
            self.location.write_bytes(f"{folder}/{name}.parquet", data)
            files[f"{name}.parquet"] = _file_record(data)
        self.location.remove(f"{folder}/zarr.json")
        zarr.create_group(
            self.location.zarr_store(folder, read_only=False),
            attributes={"kind": draft.kind, "dataset": draft.dataset, "key": draft.key},
        )
        files["zarr.json"] = _file_record(self.location.read_bytes(f"{folder}/zarr.json"))
        self._sweep({name.split("/")[0] for name in files})
        content = draft.content or content_of(files)
        manifest = draft.model_copy(update={"files": files, "content": content}).seal()
        index.add(self.location, manifest)
        self.location.write_bytes(f"{folder}/{MANIFEST}", manifest.encode(), durable=True)
        self.published = Artifact(self.location, manifest)
        return self.published

    def _sweep(self, kept: set[str]) -> None:
        """Remove what an interrupted build has left halfway: staged files, partitions on their way out."""
        folder = folder_of(self.key)
        for name in self.location.names(folder):
            if name not in kept:
                self.location.remove(f"{folder}/{name}")

    def abandon(self) -> None:
        """Remove what was written so far."""
        erase(self.location, self.key)


def _read_record(location: Location, path: str, partition: Partition) -> PartitionRecord | None:
    """Return the record of a partition if it is of these nodes and all that it names is there, byte for byte."""
    try:
        raw = json.loads(location.read_bytes(f"{path}/{RECORD}"))
        if raw["partition"] != partition.model_dump():  # left by a version that cut the work in another way
            return None
        files = {name: FileRecord(**entry) for name, entry in raw["files"].items()}
        for name, record in files.items():
            if _file_record(location.read_bytes(f"{path}/{name}")) != record:
                return None
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    return PartitionRecord(files, raw["statistics"])


def _file_record(data: bytes) -> FileRecord:
    return FileRecord(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def _parquet(table: "pa.Table") -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())
