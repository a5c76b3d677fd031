"""The store: published whole or not at all, never read damaged, made once."""

import json
import multiprocessing
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from leap.store import Manifest, Partition, Store
from leap.store.artifact import builds_of, folder_of
from leap.store.errors import (
    ArtifactInUseError,
    ArtifactNotFoundError,
    DamagedArtifactError,
    DamagedArtifactWarning,
    InvalidInputError,
    NewerSchemaError,
    NotAStoreError,
)
from leap.store.keys import derived_key
from leap.store.manifest import MANIFEST
from leap.store.request import Request
from tests.processes import PATIENCE_SECONDS

PARTS = [
    Partition(index=0, graph_lo=0, graph_hi=2, node_lo=0, node_hi=3),
    Partition(index=1, graph_lo=2, graph_hi=3, node_lo=3, node_hi=5),
]


def make(store, kind="rwpe", dim=4, dataset="toy", inputs=None, source="s" * 64):
    """Publish a small artifact with two partitions and a table."""
    params = {"dim": dim}
    key = derived_key(kind, source, params, 1)
    with store.building(key) as build:
        if build.published is not None:
            return build.published
        for part in PARTS:
            rows = np.arange(part.node_lo, part.node_hi, dtype=np.float32)
            encoding = np.tile(rows[:, None], (1, dim)) + np.arange(dim, dtype=np.float32)
            build.writer.write(part, {"encoding": encoding}, {"nodes": part.num_nodes})
        draft = Manifest(
            kind=kind, key=key, dataset=dataset, params=params, algorithm=1, source=source, content="",
            inputs=inputs or {}, partitions=PARTS,
        )  # fmt: skip
        return build.publish(draft, {"graphs": pa.table({"graph": [0, 1, 2]})})


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "store")


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_what_was_written_is_read_back(store):
    artifact = store.get(make(store).key)
    assert artifact.load("encoding")[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert artifact.table("graphs")["graph"].to_pylist() == [0, 1, 2]
    assert artifact.array_names() == ["encoding"]


def test_plain_zarr_and_pyarrow_can_read_an_artifact(store):
    import pyarrow.parquet as pq
    import zarr

    artifact = make(store)
    group = zarr.open_group(artifact.path, mode="r")
    assert group["part-00001/encoding"][:, 0].tolist() == [3, 4]
    assert pq.read_table(f"{artifact.path}/graphs.parquet").num_rows == 3


def test_opening_a_new_place_writes_nothing(tmp_path):
    assert Store.open(tmp_path / "new").list() == []
    assert not (tmp_path / "new").exists()


def test_equal_work_gives_equal_bytes(tmp_path):
    one, two = Store.open(tmp_path / "one"), Store.open(tmp_path / "two")
    first, second = make(one), make(two)
    assert tree(Path(first.path)) == tree(Path(second.path))


def interrupted(store, parts):
    """Begin an artifact, write some of its partitions and fail."""
    key = derived_key("rwpe", "s" * 64, {"dim": 4}, 1)

    def fail():
        with store.building(key) as build:
            for part in parts:
                build.writer.write(part, {"encoding": np.ones((part.num_nodes, 4), np.float32)}, {})
            assert store.list() == []
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    return key


def test_an_artifact_is_invisible_until_published(store):
    key = interrupted(store, PARTS[:1])
    assert store.list() == []
    assert store.lookup(key) is None
    assert store.unfinished() == [key]
    assert store.verify() == []


def test_an_interrupted_build_keeps_its_finished_partitions(store):
    key = interrupted(store, PARTS[:1])
    with store.building(key) as build:
        assert build.finished(PARTS) == {0}


def test_a_half_written_partition_is_not_finished(store):
    key = interrupted(store, PARTS)
    folder = Path(store.url) / builds_of(key)
    next(folder.glob("*/part-00000.*/partition.json")).unlink()
    chunk = next(p for p in folder.glob("*/part-00001.*/encoding/c/**/*") if p.is_file())
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with store.building(key) as build:
        assert build.finished(PARTS) == set()


def every_file(store):
    artifact = store.list()[0]
    return [*sorted(artifact.manifest.files), MANIFEST]


def damage_flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    later = path.stat().st_mtime_ns + 10**9  # the clock of files may not have moved since the artifact was published
    path.write_bytes(bytes(data))
    os.utime(path, ns=(later, later))


def damage_truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def damage_remove(path):
    path.unlink()


@pytest.mark.parametrize("damage", [damage_flip, damage_truncate, damage_remove])
def test_verify_names_any_damaged_file(tmp_path, damage):
    original = Store.open(tmp_path / "original")
    make(original)
    for name in every_file(original):
        shutil.copytree(tmp_path / "original", tmp_path / "copy")
        store = Store.open(tmp_path / "copy")
        key = store.keys()[0]
        damage(Path(store.url) / folder_of(key) / name)
        if name == MANIFEST and damage is damage_remove:
            assert store.keys() == []  # without a manifest there is no artifact
        else:
            problems = store.verify()
            assert problems, f"{damage.__name__} of {name} was not noticed"
            assert problems[0].key == key
            assert name in problems[0].message
        shutil.rmtree(tmp_path / "copy")


def test_verify_notices_an_edited_manifest_that_is_still_valid(store):
    artifact = make(store)
    path = Path(artifact.path) / MANIFEST
    raw = json.loads(path.read_text())
    raw["params"]["dim"] = 5
    path.write_text(json.dumps(raw))
    assert "edited" in store.verify()[0].message


def test_a_flipped_bit_is_never_read(store):
    artifact = make(store)
    chunk = next(p for p in Path(artifact.path).rglob("c/*/*") if p.is_file())
    damage_flip(chunk)
    with pytest.raises(DamagedArtifactError, match="checksum"):
        artifact.load("encoding")


def test_a_deleted_chunk_is_not_read_as_zeros(store):
    artifact = make(store)
    next(p for p in Path(artifact.path).rglob("c/*/*") if p.is_file()).unlink()
    with pytest.raises(DamagedArtifactError, match="missing"):
        artifact.load("encoding")


def test_a_damaged_artifact_is_made_again_with_a_warning(store):
    artifact = make(store)
    before = tree(Path(artifact.path))
    damage_flip(next(p for p in Path(artifact.path).rglob("c/*/*") if p.is_file()))
    with pytest.warns(DamagedArtifactWarning, match="will be rebuilt"):
        assert store.lookup(artifact.key) is None
    assert tree(Path(make(store).path)) == before


def test_a_smaller_dimension_is_a_view(store):
    artifact = make(store, dim=4)
    found = store.find("rwpe", "toy", dim=2)
    assert found.key == artifact.key
    assert found.params == {"dim": 2}
    assert found.load("encoding").tolist() == artifact.load("encoding")[:, :2].tolist()
    assert store.answer(Request("rwpe", "s" * 64, {"dim": 2}, 1)).dim == 2
    assert store.answer(Request("rwpe", "s" * 64, {"dim": 4}, 1)).dim is None
    assert store.answer(Request("rwpe", "s" * 64, {"dim": 5}, 1)) is None
    assert store.answer(Request("rwpe", "t" * 64, {"dim": 2}, 1)) is None


def test_find_refuses_to_guess(store):
    make(store, dim=4)
    make(store, dim=8)
    with pytest.raises(ArtifactNotFoundError, match="2 artifacts"):
        store.find("rwpe", "toy")
    with pytest.raises(ArtifactNotFoundError, match=r"Stored are those with {'dim': 4}; {'dim': 8}"):
        store.find("rwpe", "toy", dim=9)
    with pytest.raises(ArtifactNotFoundError, match="Did you mean 'rwpe'"):
        store.find("rpwe", "toy")
    with pytest.raises(ArtifactNotFoundError, match=r"nothing of 'tyo'.* Did you mean 'toy'"):
        store.find("rwpe", "tyo")
    assert store.find("rwpe", "toy", dim=8).params == {"dim": 8}
    make(store, dim=8, source="t" * 64)
    with pytest.raises(ArtifactNotFoundError, match="data that differs"):
        store.find("rwpe", "toy", dim=8)


def test_keys_can_be_abbreviated_and_tagged(store):
    artifact = make(store)
    assert store.get(artifact.key[:6]).key == artifact.key
    store.references.tag("best", artifact.key)
    assert store.get("best").key == artifact.key
    with pytest.raises(ArtifactNotFoundError, match="leap store ls"):
        store.get("0000000")


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "x" * 101, "a..b"])
def test_a_tag_cannot_leave_its_folder(store, name):
    artifact = make(store)
    with pytest.raises(InvalidInputError, match="not allowed"):
        store.references.tag(name, artifact.key)


def test_a_directory_with_other_things_is_not_a_store(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(NotAStoreError, match=r"thesis\.tex"):
        Store.open(tmp_path)
    with pytest.raises(NotAStoreError, match="is a file"):
        Store.open(tmp_path / "thesis.tex")


def test_a_newer_store_is_refused(store):
    make(store)
    marker = Path(store.url) / "leap-store.json"
    marker.write_text(json.dumps({"format": "leap-store", "schema": 99}))
    with pytest.raises(NewerSchemaError, match="99"):
        Store.open(store.url)


def test_removal_protects_what_others_were_made_from(store):
    from leap.store.collect import plan_removal, remove

    parent = make(store, kind="dataset")
    child = make(store, kind="rwpe", inputs={"dataset": parent.key})
    with pytest.raises(ArtifactInUseError, match="--cascade"):
        plan_removal(store, [parent.key], cascade=False)
    doomed = plan_removal(store, [parent.key], cascade=True)
    assert {artifact.key for artifact in doomed} == {parent.key, child.key}
    remove(store, [artifact.key for artifact in doomed])
    assert store.keys() == []


def test_gc_keeps_what_is_tagged_pinned_run_or_recent_and_its_lineage(store):
    from leap.store.collect import plan_collection

    parent = make(store, kind="dataset")
    children = [make(store, dim=dim, inputs={"dataset": parent.key}) for dim in (1, 2, 3, 4)]
    in_a_month = store.usage(parent.key).created + 30 * 86_400
    assert not any(verdict.keep for verdict in plan_collection(store, now=in_a_month))
    store.references.tag("kept", children[0].key)
    store.references.pin(children[1].key)
    store.references.record_run("run-1", [children[2].key])
    verdicts = {verdict.artifact.key: verdict for verdict in plan_collection(store, now=in_a_month)}
    assert [verdicts[child.key].keep for child in children] == [True, True, True, False]
    assert verdicts[parent.key].keep
    assert "made from it" in verdicts[parent.key].reason
    assert all(verdict.keep for verdict in plan_collection(store))


def test_removing_an_artifact_removes_stage_manifests_that_name_it(store):
    from leap.store.collect import remove

    artifact = make(store)
    path = Path(store.url) / "stages" / "encode" / "toy.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"artifacts": [{"key": artifact.key}]}))
    assert remove(store, [artifact.key]) == ["stages/encode/toy.json"]
    assert not path.exists()


def test_the_nearest_artifact_explains_a_miss(store):
    from leap.store.explain import explain

    make(store, dim=4)
    make(store, dim=8, dataset="other", source="o" * 64)
    answer = explain(store, "rwpe", "toy", "s" * 64, {"dim": 6}, 1)
    assert answer.nearest.manifest.dataset == "toy"
    assert answer.differences == {"dim": (6, 4)}
    assert explain(store, "rwpe", "toy", "s" * 64, {"dim": 4}, 1).hit
    assert "algorithm" in explain(store, "rwpe", "toy", "s" * 64, {"dim": 4}, 2).differences


def _make_in_process(url, barrier, results):
    store = Store.open(url)
    key = derived_key("rwpe", "s" * 64, {"dim": 4}, 1)
    barrier.wait()
    with store.building(key) as build:
        results.put(build.published is None)
        if build.published is None:
            for part in PARTS:
                build.writer.write(part, {"encoding": np.zeros((part.num_nodes, 4), np.float32)}, {})
            draft = Manifest(
                kind="rwpe", key=key, dataset="toy", params={"dim": 4}, algorithm=1, source="s" * 64, content="",
                partitions=PARTS,
            )  # fmt: skip
            build.publish(draft, {})


def test_of_several_processes_one_makes_and_the_others_read(tmp_path):
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(4), context.Queue()
    url = str(tmp_path / "store")
    workers = [context.Process(target=_make_in_process, args=(url, barrier, results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    answers = [results.get(timeout=PATIENCE_SECONDS) for _ in workers]
    for worker in workers:
        worker.join()
    assert sorted(answers) == [False, False, False, True]


def _hold_and_die(url, ready):
    import os

    store = Store.open(url)
    with store.building("0" * 40):
        ready.set()
        os.kill(os.getpid(), 9)


def test_a_dead_holder_does_not_block(tmp_path):
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    url = str(tmp_path / "store")
    holder = context.Process(target=_hold_and_die, args=(url, ready))
    holder.start()
    assert ready.wait(PATIENCE_SECONDS)
    holder.join()
    with Store.open(url).building("0" * 40) as build:
        assert build.published is None
