"""Streams: batches hold what is stored, in the order's order, whatever the memory; nothing is left behind."""

import multiprocessing
import pickle
import shutil
import threading
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from leap.pipeline import Context, Workforce, extract, from_networkx, khop
from leap.pipeline.datasets.source import MemorySource
from leap.pipeline.graphs import RawGraphs
from leap.store import Artifact, Store
from leap.store.errors import DamagedArtifactError, InvalidInputError
from leap.store.graphs import GraphStream, assemble
from leap.store.graphs.blocks import Block, Selection
from leap.store.graphs.dataset import Shard
from tests.store.graphs.conftest import HOPS, SMALL, assert_same, flat


def test_the_stored_example_is_as_awkward_as_it_should_be(stored):
    parts = stored.dataset.partitions
    assert len({part.graph_lo for part in parts}) < len(parts), "no graph is cut"
    bounds = {part.node_lo for part in parts}
    assert {part.node_lo for part in stored.encodings[1].partitions} - bounds, "lape's partitions follow the dataset's"
    assert len(stored.hoods[1].partitions) > len(parts)
    assert any(graph.number_of_nodes() == 0 for graph in stored.graphs)


@pytest.mark.parametrize("memory_bytes", [0, 2**31])
def test_batches_hold_what_is_stored(stored, memory_bytes):
    offsets = np.cumsum([0, *(graph.number_of_nodes() for graph in stored.graphs)])
    x = stored.dataset.load("x")
    encodings = {artifact.kind: artifact.load("encoding") for artifact in stored.encodings}
    stats = {a.params["hops"]: (a.load("mean"), a.load("scale")) for a in stored.hoods}
    for batch in stored.stream(memory_bytes=memory_bytes).epoch(2):
        rows = np.concatenate([np.arange(offsets[g], offsets[g + 1]) for g in batch.graphs])
        sizes = [stored.graphs[g].number_of_nodes() for g in batch.graphs]
        assert batch.ptr.tolist() == np.cumsum([0, *sizes]).tolist()
        assert batch.batch.tolist() == np.repeat(np.arange(len(sizes)), sizes).tolist()
        assert batch.y.tolist() == [g % 3 for g in batch.graphs]
        assert np.array_equal(batch.x, x[rows])
        expected = nx.disjoint_union_all([stored.graphs[g] for g in batch.graphs]).to_directed()
        assert sorted(map(tuple, batch.edge_index.T.tolist())) == sorted(expected.edges)
        for hops in HOPS:
            fresh = khop(batch.edge_index, batch.num_nodes, hops)
            batch.neighborhoods[hops].validate()
            assert batch.neighborhoods[hops].equals(fresh)
            for found, whole in zip(batch.stats[hops], stats[hops], strict=True):
                assert np.array_equal(found, whole[rows])
        assert batch.encodings.keys() == {"rwpe", "lape", "dect"}
        for name, whole in encodings.items():
            assert np.array_equal(batch.encodings[name], whole[rows])
        arrays = flat(batch)
        assert all(array.flags.c_contiguous and array.flags.writeable for array in arrays)


def test_an_epoch_visits_every_graph_once_and_as_many_batches_as_announced(stored):
    stream = stored.stream()
    for epoch in range(3):
        batches = list(stream.epoch(epoch))
        assert len(batches) == stream.batches(epoch)
        assert sorted(np.concatenate([batch.graphs for batch in batches])) == list(range(80))


@pytest.mark.parametrize("share", [0.0, 0.6])
@pytest.mark.parametrize("graphs", [None, np.random.default_rng(1).permutation(80)[:31]])
def test_memory_changes_nothing(stored, graphs, share):
    roomy = stored.stream(graphs=graphs)
    tight = stored.stream(graphs=graphs, memory_bytes=int(share * roomy.nbytes), window=2)
    roomy = stored.stream(graphs=graphs, window=2)
    assert roomy.fits_in_memory
    assert not tight.fits_in_memory
    for epoch in (0, 1, 0):
        assert_same(list(tight.epoch(epoch)), list(roomy.epoch(epoch)))


def test_what_fits_is_read_once_and_the_rest_again(stored, monkeypatch):
    reads: list[str] = []
    real = Artifact.read_file

    def spy(self: Artifact, name: str) -> bytes:
        reads.append(f"{self.key}/{name}")
        return real(self, name)

    monkeypatch.setattr(Artifact, "read_file", spy)

    def count(stream: GraphStream) -> list[int]:
        found = []
        for epoch in range(3):
            reads.clear()
            assert sum(1 for _ in stream.epoch(epoch))
            found.append(len(reads))
        return found

    first, *later = count(stored.stream(window=1))
    assert first > 100
    assert later == [0, 0]
    nothing = count(stored.stream(window=1, memory_bytes=0))
    some = count(stored.stream(window=1, memory_bytes=stored.stream().nbytes * 2 // 3))
    assert nothing[1] == nothing[2] > 100
    assert 0 < some[1] == some[2] < 0.7 * nothing[1]


def test_the_estimate_of_memory_is_right(stored):
    stream = stored.stream()
    next(stream.epoch(0))
    assert stream.nbytes == pytest.approx(stream._memory.everything().nbytes, rel=0.15)
    assert stream.window_bytes == stream.nbytes * 4 // len(stream.dataset.shards)
    assert stored.stream(window=100).window_bytes == stream.nbytes


def test_no_graphs_are_no_batches(stored):
    stream = stored.stream(graphs=[])
    assert (list(stream.epoch(0)), stream.batches(0), stream.window_bytes) == ([], 0, 0)


@pytest.mark.parametrize("memory_bytes", [0, 2**31])
@pytest.mark.parametrize(("start", "step"), [(3, 1), (9, 1), (1, 3), (1000, 1)])
def test_an_epoch_resumes_anywhere(stored, memory_bytes, start, step):
    stream = stored.stream(memory_bytes=memory_bytes)
    assert_same(list(stream.epoch(1, start, step=step)), list(stream.epoch(1))[start::step])


def test_skipped_windows_are_not_read(stored, monkeypatch):
    stream = stored.stream(memory_bytes=0, window=1)
    last = stream.batches(0) - 1
    shards = []
    real = stream._memory._read
    monkeypatch.setattr(stream._memory, "_read", lambda shard: shards.append(shard) or real(shard))
    assert len(list(stream.epoch(0, start=last))) == 1
    assert len(shards) == 1


def test_a_subset_is_visited_alone(stored):
    chosen = np.array([70, 3, 12, 11, 40])
    batches = list(stored.stream(graphs=chosen, shuffle=False, window=100).epoch(0))
    assert np.concatenate([batch.graphs for batch in batches]).tolist() == [3, 11, 12, 40, 70]


@pytest.mark.parametrize("memory_bytes", [0, 2**31])
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_part_has_the_batches_of_a_stream_made_alone(stored, memory_bytes, shuffle):
    rng = np.random.default_rng(2)
    parent = stored.stream(memory_bytes=memory_bytes, seed=9)
    inside = stored.stream(memory_bytes=memory_bytes, graphs=np.arange(3, 80))
    for seed in range(3):
        named = {"graphs": 3 + rng.permutation(77)[:40], "batch_size": 4 + seed, "shuffle": shuffle, "seed": seed}
        alone = stored.stream(memory_bytes=memory_bytes, **named)
        for part in (parent.part(**named), inside.part(**named), parent.part(batch_size=1).part(**named)):
            assert part.batches(1) == alone.batches(1)
            for epoch, start in ((0, 0), (1, 2)):
                assert_same(list(part.epoch(epoch, start)), list(alone.epoch(epoch, start)))
    whole = parent.part(batch_size=5, shuffle=shuffle)
    assert_same(list(whole.epoch(0)), list(stored.stream(shuffle=shuffle).epoch(0)))


@pytest.fixture
def reads(monkeypatch):
    """The shards that streams read from now on, in order."""
    found: list[tuple[int, ...]] = []
    real = Selection.read

    def spy(self: Selection, shard: Shard, *rest) -> Block:
        found.append(shard.partitions)
        return real(self, shard, *rest)

    monkeypatch.setattr(Selection, "read", spy)
    return found


def test_parts_share_one_memory(stored, reads):
    parent = stored.stream(seed=3)
    rng = np.random.default_rng(7)
    parts = [parent.part(rng.permutation(80)[:50], batch_size=6, seed=seed) for seed in range(6)]
    picks = [pick for epoch in range(2) for part in (parent, *parts) for pick in part.picks(epoch)]
    assert sorted(reads) == sorted(shard.partitions for shard in stored.dataset.shards)
    assert len({id(pick.block) for pick in picks}) == 1


def test_parts_share_the_partitions_that_are_kept(stored, reads):
    parent = stored.stream(window=1, memory_bytes=stored.stream().nbytes * 2 // 3)
    parts = [parent.part(np.arange(first, 80, 3), batch_size=6) for first in range(3)]
    for part in parts:
        list(part.picks(0))
    before = len(reads)
    kept = parent._memory._kept
    assert 0 < sum(block.nbytes for block in kept.values()) <= 2 / 3 * parent.nbytes
    for part in parts:
        list(part.picks(1))
    used = sum(len(window.shards) for part in parts for window in part._order.windows(1))
    assert len(reads) - before == used - sum(len(part._order.members(shard)) > 0 for part in parts for shard in kept)


def test_a_part_is_of_its_streams_graphs(stored):
    parent = stored.stream(graphs=[1, 2, 40])
    with pytest.raises(InvalidInputError, match="does not visit graph 3"):
        parent.part([1, 3], batch_size=2, shuffle=True, seed=0)
    assert parent.part([40], batch_size=2, shuffle=True, seed=0).num_graphs == 1
    with pytest.raises(InvalidInputError, match="batch_size"):
        parent.part([40], batch_size=0, shuffle=True, seed=0)


@pytest.mark.parametrize("memory_bytes", [0, 2**31])
def test_picks_are_the_batches_of_an_epoch_not_yet_assembled(stored, memory_bytes):
    stream = stored.stream(memory_bytes=memory_bytes)
    found = [assemble([pick])[0] for pick in stream.picks(1, 2, step=2)]
    assert_same(found, list(stream.epoch(1))[2::2])


def test_closing_early_leaves_no_thread(stored):
    before = set(threading.enumerate())
    batches = stored.stream(memory_bytes=0, window=1).epoch(0)
    next(batches)
    assert any(thread.name.startswith("leap-read-ahead") for thread in set(threading.enumerate()) - before)
    batches.close()
    assert set(threading.enumerate()) <= before
    list(stored.stream(memory_bytes=0, window=1).epoch(0))
    assert set(threading.enumerate()) <= before


def test_no_more_than_one_window_is_read_ahead(stored, monkeypatch):
    stream = stored.stream(memory_bytes=0, window=1)
    loaded = []
    real = stream._load_window
    monkeypatch.setattr(stream, "_load_window", lambda window: loaded.append(window.number) or real(window))
    windows = {window.first_batch: window.number for window in stream._order.windows(0)}
    at = 0
    for number, _ in enumerate(stream.epoch(0)):
        at = windows.get(number, at)
        assert max(loaded) <= at + 1


def first_batches(stream: GraphStream) -> list[np.ndarray]:
    return [array for batch in list(stream.epoch(0))[:2] for array in flat(batch)]


@pytest.mark.parametrize("memory_bytes", [0, 2**31])
def test_a_stream_works_in_a_spawned_process(stored, memory_bytes):
    stream = stored.stream(memory_bytes=memory_bytes)
    expected = first_batches(stream)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(first_batches, (stream,))
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_what_is_in_memory_is_not_sent_along(stored):
    stream = stored.stream()
    before = len(pickle.dumps(stream))
    next(stream.epoch(0))
    assert len(pickle.dumps(stream)) < 1.2 * before
    assert_same(list(pickle.loads(pickle.dumps(stream)).epoch(3)), list(stream.epoch(3)))


def test_parts_are_sent_as_streams_are_and_still_share_memory(stored, reads):
    parent = stored.stream()
    parts = [parent.part(np.arange(first, 80, 2), batch_size=6, seed=first) for first in range(2)]
    expected = [list(part.epoch(1)) for part in parts]
    sent = pickle.dumps(parts)
    assert len(sent) < 3 * len(pickle.dumps(stored.stream()))
    reads.clear()
    found = [list(part.epoch(1)) for part in pickle.loads(sent)]
    assert len(reads) == len(stored.dataset.shards)
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)


def test_making_a_stream_reads_nothing(stored, monkeypatch):
    monkeypatch.setattr(Artifact, "read_file", lambda *_: pytest.fail("read"))
    stream = stored.stream().part([3, 4], batch_size=1, shuffle=True, seed=0)
    assert stream.batches(0) > 0
    assert "shapes" in repr(stream)


@pytest.mark.parametrize("memory_bytes", [0, 2**31])
def test_damage_is_reported_and_never_returned(stored, tmp_path, flip_a_bit, memory_bytes):
    store = Store.open(shutil.copytree(stored.context.store.url, tmp_path / "store"))
    hoods = store.get(stored.hoods[0].key)
    victim = next(name for name in sorted(hoods.manifest.files) if "part-00003/nodes/c" in name)
    flip_a_bit(Path(hoods.path) / victim)
    before = set(threading.enumerate())
    stream = GraphStream(store.get(stored.dataset.key), [hoods], memory_bytes=memory_bytes, window=1)
    with pytest.raises(DamagedArtifactError, match="nodes"):
        list(stream.epoch(0))
    assert set(threading.enumerate()) <= before


def test_encodings_of_one_kind_need_names(stored):
    small, large = stored.encodings[0], stored.context.store.find("rwpe", "shapes")
    with pytest.raises(InvalidInputError, match="two 'rwpe'"):
        GraphStream(stored.dataset, encodings=[small, large])
    batch = next(GraphStream(stored.dataset, encodings={"near": small, "far": large}).epoch(0))
    assert (batch.encodings["near"].shape[1], batch.encodings["far"].shape[1]) == (4, 10)
    assert batch.neighborhoods == batch.stats == {}


def test_statistics_are_left_out_on_request(stored):
    batch = next(GraphStream(stored.dataset, stored.hoods, with_stats=False).epoch(0))
    assert batch.neighborhoods.keys() == {1, 2}
    assert batch.stats == {}


def test_artifacts_of_other_datasets_are_refused(stored, tmp_path):
    context = Context(Store.open(tmp_path / "store"), workforce=Workforce(0))
    other = extract(from_networkx([nx.path_graph(3)], "path"), 1, context=context)
    hoods = context.store.get(other["neighborhoods"].key)
    with pytest.raises(InvalidInputError, match="was not made from"):
        GraphStream(stored.dataset, [hoods])
    with pytest.raises(InvalidInputError, match="a dataset is needed"):
        GraphStream(stored.hoods[0])


@pytest.mark.parametrize("graphs", [[1, 1], [0.5], [[1]], [80], [-1]])
def test_subsets_that_are_none_are_refused(stored, graphs):
    with pytest.raises(InvalidInputError):
        stored.stream(graphs=graphs)


@pytest.mark.parametrize(("number", "named"), [(-1, {}), (0, {"start": -1}), (0, {"step": 0})])
def test_epochs_that_are_none_are_refused(stored, number, named):
    with pytest.raises(InvalidInputError, match="at least"):
        stored.stream().epoch(number, **named)


@pytest.fixture
def make(tmp_path):
    """Return a function that stores raw graphs with 1-hop neighbourhoods and gives a stream over them."""

    def build(raw: RawGraphs, **named) -> GraphStream:
        context = Context(Store.open(tmp_path / "raw"), workforce=Workforce(0))
        made = extract(MemorySource("raw", "test", raw), 1, ingest_options=SMALL, context=context)
        return GraphStream(
            context.store.get(made["dataset"].key), [context.store.get(made["neighborhoods"].key)], **named
        )

    return build


@pytest.mark.parametrize("memory_bytes", [0, 2**31])
def test_a_node_task_is_one_batch_with_everything(make, memory_bytes):
    graph = nx.barabasi_albert_graph(200, 2, seed=3)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 3)).astype(np.float32), rng.integers(0, 4, 200)
    masks = {part: rng.random((200, 2)) < 0.5 for part in ("train", "val", "test")}
    raw = RawGraphs(np.array([200]), np.array(graph.edges).T, x, y, "node-classification", masks)
    stream = make(raw, memory_bytes=memory_bytes, batch_size=16)
    assert len(stream.dataset.partitions) > 1
    for epoch in (0, 1):
        (batch,) = stream.epoch(epoch)
        assert batch.graphs.tolist() == [0]
        assert batch.ptr.tolist() == [0, 200]
        assert np.array_equal(batch.x, x)
        assert np.array_equal(batch.y, y)
        assert all(np.array_equal(batch.masks[part], mask) for part, mask in masks.items())
        assert batch.neighborhoods[1].equals(khop(batch.edge_index, 200, 1))
        assert sorted(map(tuple, batch.edge_index.T.tolist())) == sorted(graph.to_directed().edges)
    with pytest.raises(InvalidInputError, match="masks"):
        make(raw, graphs=[0])


def test_targets_and_categorical_features_keep_their_types(make):
    counts = np.array([3, 2, 4])
    edges = np.array([[0, 1, 3, 5, 6, 7], [1, 2, 4, 6, 7, 8]])
    codes, targets = np.arange(18).reshape(9, 2), np.array([[0.5, 1], [2, 3], [4, 5]])
    stream = make(RawGraphs(counts, edges, codes, targets, "graph-regression"), shuffle=False, batch_size=2)
    first, second = stream.epoch(0)
    assert (first.x.dtype, first.y.dtype) == (np.int64, np.float32)
    assert first.y.tolist() == [[0.5, 1], [2, 3]]
    assert second.y.tolist() == [[4, 5]]
    assert first.stats == {}
    assert sorted(map(tuple, second.edge_index.T.tolist())) == [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]


def test_graphs_without_labels_have_none(make):
    stream = make(RawGraphs(np.array([2, 0, 0]), np.array([[0], [1]]), np.ones((2, 1)), None, "none"), batch_size=3)
    (batch,) = stream.epoch(0)
    assert batch.y is None
    assert batch.masks is None
    assert batch.num_nodes == 2


def test_a_batch_of_nothing_but_empty_graphs_is_one_too(make):
    labels = np.array([0, 1, 0])
    raw = RawGraphs(np.array([0, 0, 3]), np.zeros((2, 0), int), np.ones((3, 2)), labels, "graph-classification")
    (batch,) = make(raw, graphs=[0, 1]).epoch(0)
    assert sorted(batch.graphs.tolist()) == [0, 1]
    assert batch.x.shape == (0, 2)
    assert batch.edge_index.shape == (2, 0)
    assert batch.neighborhoods[1].num_nodes == 0
