"""Damage met in the middle of a stage: what is damaged is made again, with a warning, and nothing wrong is read."""

from pathlib import Path

import pytest

from leap.pipeline import encode, extract, ingest
from leap.pipeline.derived.ect import DectRecipe
from leap.pipeline.derived.neighborhoods import NeighborhoodsRecipe
from leap.pipeline.reader import MEMORY
from leap.store import Store
from leap.store.collect import remove
from leap.store.errors import DamagedArtifactError, DamagedArtifactWarning


@pytest.fixture(autouse=True)
def _forget_arrays():
    """Each test opens its datasets anew, as another process would."""
    MEMORY.clear()
    yield
    MEMORY.clear()


def chunk(store, key, array):
    """A file of an array of the last partition: nothing reads it before the work on that partition begins."""
    artifact = store.get(key)
    folder = Path(artifact.path) / artifact.partitions[-1].name / array
    return next(path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "zarr.json")


@pytest.mark.parametrize("array", ["x", "indices", "indptr", "node_ptr"])
def test_a_dataset_damaged_unnoticed_is_ingested_again(varied, small_parts, new_context, snapshot, flip_a_bit, array):
    sound, context = new_context("sound"), new_context()
    extract(varied, 1, ingest_options=small_parts, context=sound)
    key = ingest(varied, options=small_parts, context=context)["dataset"].key
    flip_a_bit(chunk(context.store, key, array))
    assert context.store.lookup(key) is not None, "the quick check must not notice, or this test shows nothing"
    with pytest.warns(DamagedArtifactWarning, match=f"{key[:12]} is damaged and will be rebuilt"):
        result = extract(varied, 1, ingest_options=small_parts, context=context)
    assert [report.cached for report in result.artifacts] == [False, False]
    assert context.store.verify() == []
    assert snapshot(context.store.url) == snapshot(sound.store.url)


@pytest.mark.slow
def test_damage_that_a_worker_meets_is_mended_too(varied, small_parts, new_context, snapshot, flip_a_bit):
    sound, context = new_context("sound"), new_context(workers=2)
    extract(varied, 1, ingest_options=small_parts, context=sound)
    key = ingest(varied, options=small_parts, context=context)["dataset"].key
    flip_a_bit(chunk(context.store, key, "x"))
    with pytest.warns(DamagedArtifactWarning, match="will be rebuilt"):
        extract(varied, 1, ingest_options=small_parts, context=context)
    assert snapshot(context.store.url) == snapshot(sound.store.url)


def test_damaged_neighbourhoods_are_extracted_again_for_a_transform(
    varied, small_parts, new_context, snapshot, flip_a_bit
):
    sound, context = new_context("sound"), new_context()
    for each in (sound, context):
        extract(varied, 1, ingest_options=small_parts, context=each)
    flip_a_bit(chunk(context.store, context.store.find("neighborhoods", "varied").key, "mean"))
    encode(varied, "dect", params={"directions": 2}, ingest_options=small_parts, context=sound)
    with pytest.warns(DamagedArtifactWarning, match="will be rebuilt"):
        encode(varied, "dect", params={"directions": 2}, ingest_options=small_parts, context=context)
    assert snapshot(context.store.url) == snapshot(sound.store.url)


@pytest.mark.parametrize("moment", ["plan", "compute"])
@pytest.mark.parametrize("input_kind", ["dataset", "neighborhoods"])
def test_an_input_that_is_removed_during_a_stage_is_made_again(
    varied, small_parts, new_context, snapshot, monkeypatch, moment, input_kind
):
    sound, context = new_context("sound"), new_context()
    encode(varied, "dect", params={"directions": 2}, ingest_options=small_parts, context=sound)
    extract(varied, 1, ingest_options=small_parts, context=context)
    key, work, removed = context.store.find(input_kind, "varied").key, getattr(DectRecipe, moment), []

    def remove_and_work(self, *args):
        if not removed:
            remove(context.store, [key])
            removed.append(key)
            MEMORY.clear()
        return work(self, *args)

    monkeypatch.setattr(DectRecipe, moment, remove_and_work)
    encode(varied, "dect", params={"directions": 2}, ingest_options=small_parts, context=context)
    assert removed == [key]
    assert context.store.verify() == []
    assert snapshot(context.store.url) == snapshot(sound.store.url)


def test_an_input_that_is_always_removed_is_named_in_the_end(varied, small_parts, new_context, monkeypatch):
    context, compute = new_context(), NeighborhoodsRecipe.compute

    def remove_and_compute(self, *args):
        remove(context.store, [context.store.find("dataset", "varied").key])
        MEMORY.clear()
        return compute(self, *args)

    monkeypatch.setattr(NeighborhoodsRecipe, "compute", remove_and_compute)
    with pytest.raises(DamagedArtifactError, match=r"is missing|was removed"):
        extract(varied, 1, ingest_options=small_parts, context=context)


def test_damage_that_comes_back_is_an_error_in_the_end(varied, small_parts, new_context, monkeypatch):
    context = new_context()
    key = ingest(varied, options=small_parts, context=context)["dataset"].key

    def broken(*args, **kwargs):
        raise DamagedArtifactError("the disk lies", key)

    monkeypatch.setattr("leap.pipeline.derived.neighborhoods.NeighborhoodsRecipe.compute", broken)
    with pytest.raises(DamagedArtifactError, match="the disk lies"):
        extract(varied, 1, ingest_options=small_parts, context=context)


def test_a_rebuilt_artifact_is_not_dropped_by_a_late_complaint(varied, new_context):
    context = new_context()
    key = ingest(varied, context=context)["dataset"].key
    # Another process met the damage before this one made the artifact again, and only now gets the lock.
    Store.open(context.store.url).discard(key, "a chunk was damaged")
    assert context.store.keys() == [key]
    assert context.store.verify() == []
