"""Garbage collection: what goes, what stays, and what comes to matter while it works."""

import json
import os
from pathlib import Path

import pytest

from leap.store import Manifest, Store
from leap.store.collect import carry_out, plan_collection, remove_stale_builds, stale_builds, stale_writes, tidy_index
from leap.store.errors import DamagedReferenceError
from leap.store.keys import derived_key

HOUR, DAY = 3_600, 86_400
NOW = 2_000_000_000.0


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "store")


def publish(store, kind="rwpe", inputs=None, **params):
    """Publish an artifact without arrays."""
    key = derived_key(kind, "s" * 64, params, 1)
    with store.building(key) as build:
        draft = Manifest(
            kind=kind, key=key, dataset="toy", params=params, algorithm=1, source="s" * 64, content="s" * 64,
            inputs=inputs or {},
        )  # fmt: skip
        return build.publish(draft, {}).key


def write(path, seconds_ago, content="x"):
    """Write a file that looks as if it was written some time before NOW."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, (NOW - seconds_ago, NOW - seconds_ago))
    return path


def kept(store, keep_days=0.0):
    return {verdict.artifact.key for verdict in plan_collection(store, keep_days, NOW) if verdict.keep}


def test_a_run_counts_from_its_start_until_its_folder_is_gone(store, tmp_path):
    key, folder = publish(store, dim=4), tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    store.references.record_run("one", [key], path=str(folder))
    assert (kept(store), store.references.gone_runs()) == ({key}, [])
    folder.rmdir()
    assert (kept(store), store.references.gone_runs()) == (set(), ["one"])
    assert store.references.runs() == {"one": {key}}, "a plan forgets nothing"


def test_what_a_build_under_way_reads_is_kept_until_the_build_is_stale(store):
    dataset, other = publish(store, "dataset"), "f" * 40
    with store.building(other, reads=[dataset]) as build:
        folder = Path(store.location.path(build.writer.folder))
        os.utime(folder / "open", (NOW - HOUR / 2, NOW - HOUR / 2))
        assert kept(store) == {dataset}
        os.utime(folder / "open", (NOW - 2 * HOUR, NOW - 2 * HOUR))
        assert kept(store) == set()
        os.utime(folder / "open", (NOW, NOW))
    assert kept(store) == set(), "a build that is over reads nothing"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"keys": 7}', '{"keys": ['], ids=repr)
@pytest.mark.parametrize("path", ["runs/one.json", "refs/tags/best.json"])
def test_nothing_is_collected_while_a_reference_cannot_be_read(store, tmp_path, path, content):
    key = publish(store, dim=4)
    store.references.record_run("one", [key], path=str(tmp_path))
    store.references.tag("best", key)
    store.location.path(path).write_text(content)
    with pytest.raises(DamagedReferenceError, match=f"{path} cannot be read.*Remove it"):
        plan_collection(store, 0.0, NOW)
    assert store.keys() == [key]


def test_a_run_of_another_machine_is_kept(store, tmp_path):
    key = publish(store, dim=4)
    store.references.record_run("far", [key], path=str(tmp_path / "gone"), host="another")
    assert (kept(store), store.references.gone_runs()) == ({key}, [])


def test_a_run_without_a_folder_is_kept(store):
    key = publish(store, dim=4)
    store.references.record_run("by-hand", [key])
    assert kept(store) == {key}


@pytest.mark.parametrize("is_around", [True, False], ids=["the folder around it is here", "nothing of it is here"])
def test_a_run_of_version_0_1_is_forgotten_if_it_was_surely_here(store, tmp_path, is_around):
    key, folder = publish(store, dim=4), tmp_path / "runs" / "old"
    write(Path(store.url) / "runs" / "old.json", 0, json.dumps({"keys": [key], "path": str(folder)}))
    if is_around:
        folder.parent.mkdir()
    assert store.references.gone_runs() == (["old"] if is_around else [])


def test_what_is_recorded_while_gc_works_is_spared(store, tmp_path):
    dataset = publish(store, "dataset")
    walks, other = (publish(store, inputs={"dataset": dataset}, dim=dim) for dim in (4, 8))
    verdicts = plan_collection(store, 0.0, NOW)
    assert not any(verdict.keep for verdict in verdicts)
    store.references.record_run("late", [walks], path=str(tmp_path))
    assert store.missing([walks]) == []
    final = {verdict.artifact.key: verdict.keep for verdict in carry_out(store, verdicts, 0.0, NOW)}
    assert final == {dataset: True, walks: True, other: False}
    assert store.missing([dataset, walks, other]) == [other]
    assert store.verify() == []
    assert store.find("rwpe", "toy", dim=3).key == walks


def test_what_was_collected_before_a_run_was_recorded_is_noticed(store, tmp_path):
    key = publish(store, dim=4)
    carry_out(store, plan_collection(store, 0.0, NOW), 0.0, NOW)
    store.references.record_run("late", [key], path=str(tmp_path))
    assert store.missing([key]) == [key]


def test_a_collected_artifact_leaves_the_index(store):
    publish(store, dim=4)
    carry_out(store, plan_collection(store, 0.0, NOW), 0.0, NOW)
    assert list(Path(store.url).glob("index/sources/*/*/*")) == []


WRITES = (
    "artifacts/{key}/manifest.json.0f.partial",
    "artifacts/{key}/part-00000/encoding/zarr.0f.partial",
    "builds/{key}/token/part-00000/zarr.0f.partial",
    "refs/tags/best.json.0f.partial",
    "usage/{key}.json.0f.partial",
    "runs/run.json.0f.partial",
    "leap-store.json.0f.partial",
)


@pytest.mark.parametrize("name", WRITES)
def test_interrupted_writes_are_collected_wherever_they_are(store, name):
    path = name.format(key=publish(store, dim=4))
    write(Path(store.url) / path, 3 * DAY)
    assert stale_writes(store, 4.0, NOW) == []
    assert stale_writes(store, 2.0, NOW) == [path]


def test_an_interrupted_removal_is_one_thing(store):
    folder = Path(store.url) / "artifacts" / "00.0f.partial"
    for name in ("zarr.json", "part-00000/zarr.json"):
        write(folder / name, 3 * DAY)
    os.utime(folder, (NOW - DAY, NOW - DAY))
    assert stale_writes(store, 2.0, NOW) == []
    assert stale_writes(store, 0.5, NOW) == ["artifacts/00.0f.partial"]


def test_a_write_under_way_is_never_collected(store):
    publish(store, dim=4)
    path = write(Path(store.url) / "usage" / "a.json.0f.partial", HOUR - 1)
    assert stale_writes(store, 0.0, NOW) == []
    assert stale_writes(store, 0.0, NOW + 2) == [f"usage/{path.name}"]


@pytest.mark.parametrize("folder", ["artifacts", "builds"])
def test_a_build_is_stale_if_nothing_of_it_was_touched_lately(store, folder):
    key, root = "0" * 40, Path(store.url)
    write(root / folder / key / "token" / "part-00000" / "zarr.json", 3 * DAY)
    latest = write(root / "builds" / key / "other" / "part-00001" / "zarr.json", HOUR - 1)
    assert stale_builds(store, 0.0, NOW) == []
    assert stale_builds(store, 0.0, NOW + 2) == [key]
    assert stale_builds(store, 1.0, NOW + 2) == []
    remove_stale_builds(store, [key], 0.0, NOW)
    assert latest.exists(), "somebody has gone on since the plan"
    remove_stale_builds(store, [key], 0.0, NOW + 2)
    assert not (root / "builds" / key).exists()
    assert not (root / "artifacts" / key).exists()


def test_what_a_build_left_goes_and_the_published_artifact_stays(store):
    key = publish(store, dim=4)
    write(Path(store.url) / "builds" / key / "token" / "part-00000" / "zarr.json", 3 * DAY)
    assert stale_builds(store, 2.0, NOW) == [key]
    remove_stale_builds(store, [key], 2.0, NOW)
    assert not (Path(store.url) / "builds" / key).exists()
    assert store.missing([key]) == []
    assert store.verify() == []


def test_gc_repairs_the_index(store):
    known, foreign = publish(store, dim=4), publish(store, dim=8)
    [entry] = Path(store.url).glob(f"index/sources/*/rwpe/{foreign}*")
    entry.unlink()  # as if version 0.1 had published it
    dangling = [write(entry.with_name(f"{digit * 40}.0.9"), age) for digit, age in (("1", 2 * HOUR), ("2", HOUR / 2))]
    tidy_index(store, NOW)
    assert entry.exists()
    assert [path.exists() for path in dangling] == [False, True]
    assert {artifact.key for artifact in store.list("rwpe", "toy")} == {known, foreign}
