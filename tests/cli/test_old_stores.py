"""Stores of version 0.1: without an index, with other keys of transforms, and read like any other."""

import json
import shutil

import pytest

from leap.pipeline import Context, Workforce, encode
from leap.store import Store
from leap.store.keys import derived_key

KINDS = ("lect", "dect")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store as version 0.1 left it: letters-low with neighbourhoods, walks and both transforms."""
    folder = tmp_path_factory.mktemp("version-0.1")
    now = Context(Store.open(folder / "now"), workforce=Workforce(0))
    reports = encode("letters-low", ["rwpe", *KINDS], params={"dim": 6}, context=now).artifacts
    shutil.copytree(folder / "now", folder / "then", ignore=shutil.ignore_patterns("index"))
    then = Store.open(folder / "then")
    for report in reports:
        if report.kind in KINDS:
            shutil.rmtree(folder / "then" / "artifacts" / report.key)
            _publish_under_old_key(then, now.store.get(report.key))
    shutil.rmtree(folder / "then" / "index")
    return folder / "then"


def _publish_under_old_key(store, artifact):
    """Publish an artifact under the key that did not cover what it was made from."""
    manifest = artifact.manifest
    key = derived_key(manifest.kind, manifest.source, manifest.params, manifest.algorithm)
    with store.building(key) as build:
        for part in artifact.partitions:
            build.writer.write(part, artifact.read(part.index), {"nodes": part.num_nodes})
        draft = manifest.model_copy(update={"key": key, "content": "", "files": {}, "digest": ""})
        build.publish(draft, {"partitions": artifact.table("partitions")})


@pytest.fixture
def old(made, store):
    shutil.copytree(made, store)
    return store


ENCODE = ("encode", "letters-low", "-e", "rwpe", "-e", "lect", "-e", "dect", "--dim", "4", "--workers", "0", "--json")


def test_a_store_of_version_0_1_answers_what_it_answered(leap, old):
    outcome = leap(*ENCODE)
    assert outcome.code == 0, outcome.err
    assert [(entry["kind"], entry["cached"]) for entry in outcome.json["artifacts"]] == [
        ("dataset", True),
        ("rwpe", True),
        ("lect", True),
        ("dect", True),
    ]
    keys = {path.name for path in (old / "artifacts").iterdir()}
    assert {entry["key"] for entry in outcome.json["artifacts"]} <= keys
    assert (old / "index" / "complete").exists()
    assert leap("store", "verify").code == 0
    assert len(leap("store", "ls", "--json").json["artifacts"]) == len(keys) == 5
    assert leap("store", "why", "dect", "letters-low", "--json").json["cached"]
    assert leap("store", "gc").code == 0


def test_a_store_of_version_0_1_that_cannot_be_written_answers_too(leap, old, read_only):
    read_only(old)
    outcome = leap(*ENCODE)
    assert outcome.code == 0, outcome.err
    assert all(entry["cached"] for entry in outcome.json["artifacts"])
    assert outcome.err == ""
    assert not (old / "index").exists()


def test_transforms_of_version_0_1_do_not_answer_a_new_algorithm_of_what_they_read(leap, old, monkeypatch):
    from leap.pipeline.derived import NeighborhoodsRecipe

    monkeypatch.setattr(NeighborhoodsRecipe, "algorithm", NeighborhoodsRecipe.algorithm + 1)
    outcome = leap(*ENCODE)
    cached = {entry["kind"]: entry["cached"] for entry in outcome.json["artifacts"]}
    assert cached == {"dataset": True, "rwpe": True, "lect": False, "dect": False}


def test_a_store_of_another_format_is_refused_with_a_way_out(leap, old):
    (old / "leap-store.json").write_text(json.dumps({"format": "leap-store", "schema": 2}))
    outcome = leap("store", "ls")
    assert outcome.code == 2
    assert "has schema 2" in outcome.err
    assert "--store" in outcome.err
