"""Arrays read straight from their chunks are those that Zarr reads, or Zarr reads them."""

from pathlib import Path

import numpy as np
import pytest
import zarr

from leap.store import Artifact, Manifest, Partition, Store, arrays
from leap.store.errors import DamagedArtifactError

KEY = "ab" * 20
RNG = np.random.default_rng(0)
ARRAYS = {
    "noise": RNG.normal(size=(700, 3)).astype(np.float32),
    "counts": np.arange(5000),
    "wide": np.arange(6000, dtype=np.int32).reshape(2, 3000),
    "encoding": np.round(RNG.normal(size=(300, 8, 2)), 1).astype(np.float32),
    "masks": RNG.random((900, 2)) < 0.5,
    "zeros": np.zeros(4000, np.float32),
    "half": np.concatenate([np.zeros(2000), np.ones(2000)]),
    "empty": np.zeros((0, 4), np.float32),
    "flat": np.zeros((5, 0), np.float32),
    "short": np.arange(100, dtype=np.int16),  # a type that only Zarr reads
}


@pytest.fixture(params=[2**24, 4096], ids=["one chunk", "many chunks"])
def artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Artifact:
    monkeypatch.setattr(arrays, "CHUNK_BYTES", request.param)
    store = Store.open(tmp_path / "store")
    part = Partition(index=0, graph_lo=0, graph_hi=1, node_lo=0, node_hi=700)
    named = {"kind": "rwpe", "key": KEY, "dataset": "toy", "params": {"dim": 8}, "algorithm": 1}
    with store.building(KEY) as build:
        build.writer.write(part, ARRAYS, {})
        return build.publish(Manifest(**named, source="x", content="", partitions=[part]), {})


def test_every_array_is_as_written(artifact):
    found = artifact.read(0, ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)
        assert found[name].flags.writeable


def test_zarr_is_not_asked_for_what_we_write(artifact, monkeypatch):
    monkeypatch.setattr(zarr, "open_group", lambda *_, **__: pytest.fail("asked"))
    assert len(artifact.read(0, ARRAYS.keys() - {"short"})) == len(ARRAYS) - 1


def test_a_view_shows_its_columns(artifact):
    narrow = artifact.view(3)
    assert np.array_equal(narrow.read(0, ["encoding"])["encoding"], ARRAYS["encoding"][:, :3])


@pytest.mark.parametrize("name", ["noise", "counts", "half"])
def test_damage_is_noticed(artifact, flip_a_bit, name):
    chunk = sorted(name_ for name_ in artifact.manifest.files if f"/{name}/c/" in name_)[-1]
    path = Path(artifact.path) / chunk
    flip_a_bit(path)
    with pytest.raises(DamagedArtifactError, match="checksum"):
        artifact.read(0, [name])
    path.unlink()
    with pytest.raises(DamagedArtifactError, match="missing"):
        artifact.read(0, [name])


def test_an_unknown_array_is_a_key_error(artifact):
    with pytest.raises(KeyError):
        artifact.read(0, ["nothing"])
