"""An artifact under construction: partitions written one by one, kept across interruptions, published at once.

Each opening of a build has a token, and each attempt at a partition a folder of its own,
`builds/KEY/TOKEN/NAME.ATTEMPT`. Nobody writes into the folder of another, so a task that outlives its builder can harm
nothing. An attempt counts as done when its `partition.json`, written last, is there and every file it names is whole;
it never changes again, and any later builder may use it.

The holder of the lock publishes: it moves one finished attempt per partition into the artifact's folder, removes all
others, and writes the manifest. Readers never look at a folder without a manifest. A holder that has lost its lease
without noticing can do no harm either: whoever took over has removed what it would move before a manifest appears.
"""

import contextlib
import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from leap import store
from leap.store import index
from leap.store.artifact import Artifact, builds_of, erase, folder_of
from leap.store.conditional import create_file
from leap.store.errors import DamagedArtifactError, LeapError, LeaseLostError
from leap.store.keys import canonical_json
from leap.store.location import Location, locate
from leap.store.lock import Holding
from leap.store.manifest import MANIFEST, FileRecord, Manifest, Partition, content_of

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

RECORD = "partition.json"
OPEN = "open"  # a file in a builder's folder, there as long as its tasks are wanted; it lists the keys that they read
TOP = "artifact"  # a folder in a builder's folder, for what lies beside the partitions


@dataclass(frozen=True)
class FinishedPartition:
    """Where a finished partition lies, what it says of itself, and all its files, the record included."""

    path: str
    files: dict[str, FileRecord]
    statistics: dict[str, Any]


@dataclass(frozen=True)
class PartitionWriter:
    """Writes partitions of one build from any process; it is sent to workers, so it holds names only."""

    url: str
    key: str
    token: str

    @property
    def folder(self) -> str:
        """Path of all that this build writes, inside its store."""
        return f"{builds_of(self.key)}/{self.token}"

    def check(self) -> None:
        """Raise LeaseLostError if the build is over, so that what it left in a queue is not computed for nobody."""
        if not locate(self.url).exists(f"{self.folder}/{OPEN}"):
            raise LeaseLostError(
                f"the artifact {self.key[:12]} is made by another process by now, or finished. Run the command again "
                "to use it."
            )

    def write(self, partition: Partition, arrays: "Mapping[str, NDArray[Any]]", statistics: Mapping[str, Any]) -> None:
        """Write all arrays of a partition, then its record.

        Raises
        ------
        LeaseLostError
            If the build was over before the record was written; nothing stays then.
        """
        location = locate(self.url)
        path = f"{self.folder}/{partition.name}.{uuid.uuid4().hex}"
        files = store.arrays.write_group(location, path, arrays, partition.model_dump())
        record = {
            "files": {name: asdict(entry) for name, entry in sorted(files.items())},
            "partition": partition.model_dump(),
            "statistics": dict(statistics),
        }
        try:
            self.check()
        except LeaseLostError:
            location.remove(path)
            raise
        location.write_bytes(f"{path}/{RECORD}", canonical_json(record))


@dataclass
class Build:
    """The right to make one artifact; its lock is held by whoever opened it (`Store.building`).

    `typed` makes an artifact of its manifest.
    """

    location: Location
    key: str
    lock: Holding
    typed: Callable[[Manifest], Artifact]
    published: Artifact | None = None
    reads: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    _is_open: bool = False
    _finished: dict[int, FinishedPartition] = field(default_factory=dict)

    @property
    def writer(self) -> PartitionWriter:
        """What a worker needs to write partitions."""
        writer = PartitionWriter(self.location.url, self.key, self.token)
        if not self._is_open:
            self.location.write_bytes(f"{writer.folder}/{OPEN}", canonical_json(sorted(self.reads)))
            self._is_open = True
        return writer

    def check(self) -> None:
        """Raise LeaseLostError if another process makes the artifact by now; to be asked between steps of the work."""
        self.lock.check()

    def finished(self, plan: Iterable[Partition]) -> set[int]:
        """Indices of partitions that earlier, interrupted builds have left whole; their tasks are told to stop."""
        self.check()
        for token in self.location.names(builds_of(self.key)):
            if token != self.token:
                self.location.remove(f"{builds_of(self.key)}/{token}/{OPEN}")
        self._look_for(plan)
        return set(self._finished)

    def statistics(self, plan: Iterable[Partition]) -> list[dict[str, Any]]:
        """Return what each finished partition noted about itself, in order."""
        parts = list(plan)
        self._look_for(parts)
        return [self._need(part).statistics for part in parts]

    def _look_for(self, plan: Iterable[Partition]) -> None:
        """Find the partitions of a plan that are finished and were not seen before, and check them."""
        attempts: dict[str, list[str]] = {}
        for path in self._attempts():
            attempts.setdefault(path.rsplit("/", 1)[1].split(".")[0], []).append(path)
        for part in plan:
            if part.index in self._finished:
                continue
            # One that lies in its place already was put there when an earlier builder died.
            for path in [f"{folder_of(self.key)}/{part.name}", *attempts.get(part.name, [])]:
                found = _read_finished(self.location, path, part)
                if found is not None:
                    self._finished[part.index] = found
                    break

    def _attempts(self) -> Iterator[str]:
        """Paths of all attempts at partitions, of this builder and of earlier ones."""
        top = builds_of(self.key)
        for token in self.location.names(top):
            yield from (f"{top}/{token}/{name}" for name in self.location.names(f"{top}/{token}") if "." in name)

    def _need(self, partition: Partition) -> FinishedPartition:
        found = self._finished.get(partition.index)
        if found is None:
            raise self._vanished(partition.name)
        return found

    def _vanished(self, what: str) -> DamagedArtifactError:
        self.lock.confirm()  # else it is gone because another process has taken over
        return DamagedArtifactError(f"{what} of {self.key[:12]} vanished while building.", self.key)

    def publish(self, draft: Manifest, tables: "Mapping[str, pa.Table]") -> Artifact:
        """Make the artifact visible: move its files into their place, then write the sealed manifest.

        Parameters
        ----------
        draft : the manifest without `files`; an empty `content` is filled with the digest of the files.
        tables : Parquet tables by name, without the ending.

        Returns
        -------
        The artifact: another's, should one have been published meanwhile.

        Raises
        ------
        LeaseLostError
            If another process makes the artifact by now.
        """
        folder, writer = folder_of(self.key), self.writer
        self._look_for(draft.partitions)
        files: dict[str, FileRecord] = {}
        moves: dict[str, str] = {}
        for part in draft.partitions:
            found = self._need(part)
            files |= {f"{part.name}/{name}": entry for name, entry in found.files.items()}
            if found.path != f"{folder}/{part.name}":
                moves[found.path] = f"{folder}/{part.name}"
        beside = self._write_beside(f"{writer.folder}/{TOP}", draft, tables)
        files |= beside
        moves |= {f"{writer.folder}/{TOP}/{name}": f"{folder}/{name}" for name in beside}
        # From here on order matters. All that we move was there before the lease is confirmed, so one who takes it
        # over later removes it before publishing. What could overwrite a file in its place with other bytes is gone
        # before we move anything there.
        builders = [f"{builds_of(self.key)}/{token}" for token in self.location.names(builds_of(self.key))]
        unused = [path for path in self._attempts() if path not in moves]
        self.lock.confirm()
        for path in [f"{writer.folder}/{OPEN}", *unused]:
            self.location.remove(path)
        try:
            self.location.move(moves)
        except FileNotFoundError as error:
            raise self._vanished("a partition") from error
        for path in builders:
            self.location.remove(path)
        self.close()
        self.lock.confirm()
        self._tidy(files)
        content = draft.content or content_of(files)
        manifest = draft.model_copy(update={"files": files, "content": content}).seal()
        index.add(self.location, manifest)
        if not create_file(self.location, f"{folder}/{MANIFEST}", manifest.encode()):
            manifest = Manifest.decode(self.location.read_bytes(f"{folder}/{MANIFEST}"), self.key)
        self.published = self.typed(manifest)
        return self.published

    def _write_beside(self, path: str, draft: Manifest, tables: "Mapping[str, pa.Table]") -> dict[str, FileRecord]:
        """Write what lies beside the partitions to a folder of ours."""
        files = {}
        for name, table in tables.items():
            data = store.tables.encode(table)
            self.location.write_bytes(f"{path}/{name}.parquet", data)
            files[f"{name}.parquet"] = _file_record(data)
        attributes = {"kind": draft.kind, "dataset": draft.dataset, "key": draft.key}
        store.arrays.write_root(self.location, path, attributes)
        files["zarr.json"] = _file_record(self.location.read_bytes(f"{path}/zarr.json"))
        return files

    def _tidy(self, files: Mapping[str, FileRecord]) -> None:
        """Remove what interrupted builds have left halfway, and see that all files are there."""
        folder = folder_of(self.key)
        kept = {name.split("/")[0] for name in files}
        for name in self.location.names(folder):
            if name not in kept and name != MANIFEST:
                self.location.remove(f"{folder}/{name}")
        present = self.location.files(folder)
        for name, record in files.items():
            if name not in present or present[name].size != record.bytes:
                raise self._vanished(name)

    def close(self) -> None:
        """Tell tasks that are left over to stop, and leave no trace if none has finished anything."""
        if not self._is_open:
            return
        self._is_open = False
        with contextlib.suppress(LeapError, OSError):  # it is a courtesy: the next builder does the same
            folder = f"{builds_of(self.key)}/{self.token}"
            self.location.remove(f"{folder}/{OPEN}")
            for path in (folder, builds_of(self.key)):
                if not self.location.names(path):
                    self.location.remove(path)

    def abandon(self) -> None:
        """Remove what was written so far, unless it is another's by now."""
        with contextlib.suppress(LeaseLostError):
            self.check()
            erase(self.location, self.key)


def read_by_builders(location: Location, key: str) -> set[str]:
    """Return the keys of the artifacts that builders of an artifact say they read."""
    found: set[str] = set()
    for token in location.names(builds_of(key)):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, ValueError, TypeError):
            found.update(json.loads(location.read_bytes(f"{builds_of(key)}/{token}/{OPEN}")))
    return found


def _read_finished(location: Location, path: str, partition: Partition) -> FinishedPartition | None:
    """Return the partition at a path if it is of these nodes and all that it names is there, byte for byte."""
    try:
        data = location.read_bytes(f"{path}/{RECORD}")
        raw = json.loads(data)
        if raw["partition"] != partition.model_dump():  # left by a version that cut the work in another way
            return None
        files = {name: FileRecord(**entry) for name, entry in raw["files"].items()}
        for name, record in files.items():
            if _file_record(location.read_bytes(f"{path}/{name}")) != record:
                return None
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    return FinishedPartition(path, files | {RECORD: _file_record(data)}, raw["statistics"])


def _file_record(data: bytes) -> FileRecord:
    return FileRecord(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
