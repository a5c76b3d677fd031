"""The index: a look-up asks as much of a large store as of a small one, and the index is never wrong, only helpful."""

import collections
import shutil
from pathlib import Path

import pytest

from leap.store import Manifest, Store
from leap.store.collect import remove
from leap.store.errors import ArtifactNotFoundError
from leap.store.keys import derived_key
from leap.store.location import LocalLocation

SOURCE = "s" * 64
OPERATIONS = ("read_bytes", "write_bytes", "exists", "names", "files")


class CountingLocation(LocalLocation):
    """A directory that counts what is asked of it."""

    def __init__(self, root):
        super().__init__(root)
        self.asked = collections.Counter()


def _counting(name):
    def method(self, *args, **kwargs):
        self.asked[name] += 1
        return getattr(LocalLocation, name)(self, *args, **kwargs)

    return method


for operation in OPERATIONS:
    setattr(CountingLocation, operation, _counting(operation))


def publish(store, kind="rwpe", dataset="toy", source=SOURCE, algorithm=1, inputs=None, **params):
    """Publish an artifact without arrays."""
    key = derived_key(kind, source, params, algorithm)
    with store.building(key) as build:
        draft = Manifest(
            kind=kind, key=key, dataset=dataset, params=params, algorithm=algorithm, source=source, content=source,
            inputs=inputs or {},
        )  # fmt: skip
        return build.publish(draft, {})


def fill(store, count):
    """Publish three artifacts of the dataset "toy", and others until there are `count`."""
    publish(store, "dataset")
    publish(store, "neighborhoods", hops=1)
    wanted = publish(store, "rwpe", dim=1000)
    for number in range(count - 3):
        if number % 2:
            publish(store, "rwpe", dim=number)
        else:
            publish(store, ("rwpe", "neighborhoods")[number % 4 // 2], f"d{number}", f"{number:064d}", dim=number)
    store.references.tag("best", wanted.key)
    for number in range(count):
        store.references.tag(f"tag-{number}", wanted.key)
    return wanted.key


def request(dim):
    from leap.store.request import Request

    return Request("rwpe", SOURCE, {"dim": dim}, 1)


def missing(store, key):
    with pytest.raises(ArtifactNotFoundError):
        store.get("f" * 40)


LOOK_UPS = {
    "a full key": lambda store, key: store.get(key),
    "a tag": lambda store, key: store.get("best"),
    "the beginning of a key": lambda store, key: store.get(key[:20]),
    "a key that is not there": missing,
    "kind and dataset": lambda store, key: store.find("neighborhoods", "toy"),
    "a request": lambda store, key: store.answer(request(1000)),
    "a view": lambda store, key: store.answer(request(999)),
    "a request that nothing answers": lambda store, key: store.answer(request(1001)),
}


@pytest.fixture(scope="module")
def small_and_large(tmp_path_factory):
    """Stores of 3 and of 300 artifacts: their folders, and the key of an artifact that both have."""
    folders = [tmp_path_factory.mktemp(f"of-{count}") / "store" for count in (3, 300)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda file: None)  # these need not survive a power cut
        [key] = {fill(Store.open(folder), count) for folder, count in zip(folders, (3, 300), strict=True)}
    return folders, key


@pytest.mark.parametrize("what", LOOK_UPS)
def test_a_look_up_asks_as_much_of_a_large_store_as_of_a_small_one(small_and_large, what):
    folders, key = small_and_large
    asked = []
    for folder in folders:
        store = Store(CountingLocation(folder))
        LOOK_UPS[what](store, key)
        asked.append(dict(store.location.asked))
    assert asked[0] == asked[1]
    assert sum(asked[0].values()) <= 12


def test_a_full_key_is_opened_by_one_read(small_and_large):
    folders, key = small_and_large
    store = Store(CountingLocation(folders[1]))
    assert store.get(key).key == key
    assert store.location.asked == {"read_bytes": 1}


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "store")


def test_a_tag_may_look_like_a_key(store):
    artifact = publish(store, dim=4)
    store.references.tag("0" * 40, artifact.key)
    assert store.get("0" * 40).key == artifact.key


def test_what_is_derived_from_equal_content_is_listed_for_either_name(store):
    hoods = publish(store, "neighborhoods", "one", hops=1)
    publish(store, "dataset", "one", name=1)
    other = publish(store, "dataset", "two", name=2)
    publish(store, "neighborhoods", "three", "t" * 64, hops=1)
    assert [artifact.key for artifact in store.list("neighborhoods", "two")] == [hoods.key]
    assert store.find("neighborhoods", "two", hops=1).key == hoods.key
    assert [artifact.key for artifact in store.list("dataset", "two")] == [other.key]
    assert len(store.list(dataset="one")) == 2
    remove(store, [other.key])
    assert store.list(dataset="two") == []
    assert len(store.list(dataset="one")) == 2


def test_an_entry_without_an_artifact_means_nothing(store):
    larger = publish(store, dim=8)
    largest = publish(store, dim=9)
    (Path(larger.path) / "manifest.json").unlink()
    assert store.answer(request(4)).key == largest.key
    assert [artifact.key for artifact in store.list("rwpe", "toy")] == [largest.key]
    foreign = next(Path(store.url).glob("index/sources/*/rwpe"))
    (foreign / "notes.txt").write_text("mine")
    assert store.answer(request(4)).key == largest.key


def test_an_entry_goes_with_its_artifact(store):
    artifact = publish(store, dim=8)
    [entry] = Path(store.url).glob(f"index/sources/*/rwpe/{artifact.key}*")
    remove(store, [artifact.key])
    assert not entry.exists()


def test_an_entry_is_there_before_its_artifact_is_visible(store, monkeypatch):
    whole = LocalLocation.write_bytes
    seen = []

    def spy(self, path, data, *, durable=False):
        if path.endswith("manifest.json"):
            seen.append(list(Path(store.url).glob("index/sources/*/rwpe/*")))
        whole(self, path, data, durable=durable)

    monkeypatch.setattr(LocalLocation, "write_bytes", spy)
    publish(store, dim=8)
    assert [len(entries) for entries in seen] == [1]


def test_a_store_without_an_index_gets_it_when_first_needed(store):
    key = publish(store, dim=8).key
    folder = Path(store.url) / "index"
    before = {path.relative_to(folder) for path in folder.rglob("*")}
    shutil.rmtree(folder)
    assert Store.open(store.url).get(key).key == key
    assert not folder.exists(), "a key needs no index"
    assert Store.open(store.url).answer(request(4)).key == key
    assert {path.relative_to(folder) for path in folder.rglob("*")} == before


def test_asking_an_empty_place_creates_nothing(tmp_path):
    store = Store.open(tmp_path / "new")
    assert store.answer(request(4)) is None
    assert store.list("rwpe", "toy") == []
    assert not (tmp_path / "new").exists()
