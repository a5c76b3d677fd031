"""Builds: nobody but the holder of the lock touches an artifact, and nobody at all touches a published one."""

import os
import stat
import uuid
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest

from leap.store import Manifest, Partition, Store
from leap.store.artifact import BUILDS, builds_of, folder_of
from leap.store.errors import LeaseLostError
from leap.store.location import LocalLocation, locate
from leap.store.lock import LEASE_SECONDS, lock_path
from tests.clocks import SteppedClock

KEY = "a" * 40
PARTS = [Partition(index=i, graph_lo=i, graph_hi=i + 1, node_lo=3 * i, node_hi=3 * i + 3) for i in range(4)]


@pytest.fixture(params=["local", "s3"])
def store(request, tmp_path):
    """An empty store on a disk, and behind an S3 API in a bucket that remembers every version of an object."""
    if request.param == "local":
        return Store.open(tmp_path / "store")
    s3 = request.getfixturevalue("s3")
    if not s3.exists("versioned"):
        s3.mkdir("versioned")
        s3.call_s3("put_bucket_versioning", Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
    return Store.open(f"s3://versioned/{uuid.uuid4().hex}")


def arrays_of(part):
    return {"encoding": np.arange(part.node_lo, part.node_hi, dtype=np.float32)}


def draft():
    named = {"kind": "rwpe", "key": KEY, "dataset": "toy", "params": {}, "algorithm": 1}
    return Manifest(**named, source="s", content="", partitions=PARTS)


def publish(build, value=None):
    """Write what is missing and publish; return how many partitions were there."""
    finished = build.finished(PARTS)
    for part in PARTS:
        if part.index not in finished:
            arrays = arrays_of(part) if value is None else {"encoding": np.full(3, value, np.float32)}
            build.writer.write(part, arrays, {})
    build.publish(draft(), {"partitions": pa.table({"index": [part.index for part in PARTS]})})
    return len(finished)


def make(store):
    with store.building(KEY) as build:
        return publish(build)


def touched(store):
    """Everything that a write or removal below the artifact would change, were it only for a moment."""
    location = store.location
    if isinstance(location, LocalLocation):
        names = [*location.files(folder_of(KEY)), *(part.name for part in PARTS)]
        found = {name: os.stat(location.path(f"{folder_of(KEY)}/{name}")) for name in names}
        return {name: (info.st_ino, info.st_mtime_ns, info.st_ctime_ns) for name, info in found.items()}
    bucket, prefix, _ = location.fs.split_path(location.full(folder_of(KEY)))
    listed = location.fs.call_s3("list_object_versions", Bucket=bucket, Prefix=f"{prefix}/")
    return {
        (entry["Key"], entry["VersionId"]) for kind in ("Versions", "DeleteMarkers") for entry in listed.get(kind, [])
    }


def left_behind(store):
    """Files below `builds`."""
    location = store.location
    if isinstance(location, LocalLocation):
        return [*location.files(BUILDS), *location.names(BUILDS)]
    # Asked for directly: in buckets with versions, Moto lists folders of removed objects.
    bucket, prefix, _ = location.fs.split_path(location.full(BUILDS))
    return [
        entry["Key"]
        for entry in location.fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix).get("Contents", [])
    ]


def bytes_of(store):
    folder = folder_of(KEY)
    return {name: store.location.read_bytes(f"{folder}/{name}") for name in store.location.files(folder)}


def leave_a_builder_behind(store, parts=()):
    """Return the writer of a builder that died after some partitions; its tasks may still run."""

    def die():
        with store.building(KEY) as build:
            writer = build.writer
            for part in parts:
                writer.write(part, arrays_of(part), {})
            raise KeyboardInterrupt(writer)

    with pytest.raises(KeyboardInterrupt) as death:
        die()
    return death.value.args[0]


class Meanwhile(Mapping):
    """Arrays between the first and the second of which something happens."""

    def __init__(self, arrays, happens):
        self._arrays, self._happens = arrays, happens

    def __getitem__(self, name):
        return self._arrays[name]

    def __len__(self):
        return len(self._arrays)

    def __iter__(self):
        for number, name in enumerate(self._arrays):
            if number == 1:
                self._happens()
            yield name


def test_an_orphan_after_publication_leaves_the_artifact_alone(store):
    orphan = leave_a_builder_behind(store)
    make(store)
    before = touched(store)
    with pytest.raises(LeaseLostError, match="by another process by now, or finished"):
        orphan.check()
    with pytest.raises(LeaseLostError):
        orphan.write(PARTS[0], {"encoding": np.full(3, -1, np.float32)}, {})
    assert touched(store) == before
    assert store.verify() == []
    assert left_behind(store) in ([], [KEY]), "at most an empty folder"


def test_an_orphan_in_the_middle_of_writing_while_others_publish_leaves_the_artifact_alone(store):
    orphan = leave_a_builder_behind(store, PARTS[:1])
    seen = []

    def others_publish():
        assert make(store) == 1
        seen.append(touched(store))

    other_values = {"encoding": np.full(3, -1, np.float32), "more": np.zeros(3, np.float32)}
    for part in PARTS[:2]:  # one that was finished and one that was not
        happens = others_publish if not seen else lambda: None
        with pytest.raises(LeaseLostError):
            orphan.write(part, Meanwhile(other_values, happens), {})
        assert touched(store) == seen[0]
    assert store.verify() == []
    assert store.get(KEY).load("encoding").tolist() == list(range(12))


def test_two_workers_on_one_partition_do_not_disturb_each_other(store):
    """Dask gives a task to another worker when it takes the first for dead."""
    both = {"encoding": np.zeros(3, np.float32), "more": np.zeros(3, np.float32)}
    with store.building(KEY) as build:
        writer = build.writer
        writer.write(PARTS[0], Meanwhile(both, lambda: writer.write(PARTS[0], arrays_of(PARTS[0]), {})), {})
        assert build.finished(PARTS) == {0}
        publish(build)
    assert store.verify() == []
    assert left_behind(store) == []


@pytest.mark.parametrize("moment", [0, 1, 2, 4, 5, 6])
def test_a_build_killed_while_publishing_is_resumed_with_the_same_bytes(store, tmp_path, monkeypatch, moment):
    reference = Store.open(tmp_path / "reference")
    make(reference)
    location = type(store.location)
    move, remove = location.move, location.remove

    def move_some(self, moves):
        """Move one after the other, up to the moment."""
        for number, (source, target) in enumerate(moves.items()):
            if number == moment:
                raise KeyboardInterrupt
            move(self, {source: target})
        monkeypatch.setattr(location, "remove", stop)

    def stop(self, path):
        raise KeyboardInterrupt

    monkeypatch.setattr(location, "move", move_some)
    with pytest.raises(KeyboardInterrupt):
        make(store)
    monkeypatch.setattr(location, "move", move)
    monkeypatch.setattr(location, "remove", remove)
    assert (store.keys(), store.unfinished(), store.verify()) == ([], [KEY], [])
    assert make(store) == len(PARTS), "no finished partition is done again"
    assert bytes_of(store) == bytes_of(reference)
    assert store.verify() == []
    assert left_behind(store) == []


def test_partitions_left_in_place_by_an_earlier_version_are_kept(store):
    leave_a_builder_behind(store, PARTS[:2])
    location = store.location
    [token] = location.names(builds_of(KEY))
    for name in location.names(f"{builds_of(KEY)}/{token}"):
        if "." in name:
            location.move({f"{builds_of(KEY)}/{token}/{name}": f"{folder_of(KEY)}/{name.split('.')[0]}"})
    location.remove(builds_of(KEY))
    assert make(store) == 2
    assert store.verify() == []


MOMENTS = ["before moving", "after moving", "before the manifest"]


@pytest.mark.parametrize("store", ["s3"], indirect=True)  # a file lock cannot be lost
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_holder_that_sleeps_while_publishing_does_not_touch_what_another_publishes(store, monkeypatch, moment):
    """It is between asking for its lease and using it, the one moment at which it cannot know."""
    asleep, awake = SteppedClock(), SteppedClock()
    sleeper, other = Store(locate(store.url), asleep), Store(locate(store.url), awake)
    seen = []

    def sleep():
        """What others do meanwhile."""
        monkeypatch.undo()
        monkeypatch.setattr("leap.store.lock.LEASE_SECONDS", -1.0)  # the term is over as soon as it is looked at
        make(other)
        monkeypatch.undo()
        seen.append(touched(other))

    location = type(store.location)
    move = location.move
    if moment == "before moving":
        monkeypatch.setattr(location, "move", lambda self, moves: (sleep(), self.move(moves)))
    elif moment == "after moving":
        monkeypatch.setattr(location, "move", lambda self, moves: (move(self, moves), sleep()))
    else:
        from leap.store.conditional import create_file

        monkeypatch.setattr("leap.store.build.create_file", lambda *args: (sleep(), create_file(*args))[1])

    def work():
        with sleeper.building(KEY) as build:
            publish(build, value=-1)  # other bytes than the other's, as another processor may give

    if moment == "before the manifest":
        work()  # the other's manifest is used
    else:
        with pytest.raises(LeaseLostError):
            work()
    assert touched(store) == seen[0]
    assert store.verify() == []
    with sleeper.building(KEY) as build:
        assert build.published is not None


def test_a_builder_whose_lease_was_taken_stops_at_its_next_step(url):
    clock = SteppedClock()
    store = Store(locate(url), clock)
    with store.building(KEY) as build:
        build.writer.write(PARTS[0], arrays_of(PARTS[0]), {})
        build.check()
        store.location.write_bytes(lock_path(store.location, KEY), b'{"holder": "another"}')
        clock._time += LEASE_SECONDS + 1
        before = store.location.files("")
        for step in (build.check, lambda: build.finished(PARTS)):
            with pytest.raises(LeaseLostError):
                step()
        for part in PARTS:
            build.writer.write(part, arrays_of(part), {})
        with pytest.raises(LeaseLostError):
            build.publish(draft(), {})
        build.abandon()
    after = store.location.files("")
    assert {name for name in after.keys() ^ before.keys() if not name.startswith(BUILDS)} == set()


def test_a_durable_write_reaches_the_disk_with_its_name(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync

    def noting(handle):
        info = os.fstat(handle)
        names = sorted(path.name for path in tmp_path.iterdir()) if stat.S_ISDIR(info.st_mode) else None
        synced.append((info.st_ino, names))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noting)
    locate(tmp_path).write_bytes("file", b"data", durable=True)
    file, folder = (tmp_path / "file").stat().st_ino, tmp_path.stat().st_ino
    assert synced == [(file, None), (folder, ["file"])], "the file, and after the renaming its folder"
