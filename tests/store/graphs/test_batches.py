"""Batches of many streams as one: the disjoint union, in order, of what each would have been alone."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from leap.pipeline import Context, Workforce, extract, from_networkx, khop
from leap.pipeline.datasets.source import MemorySource
from leap.pipeline.graphs import RawGraphs
from leap.store import Store
from leap.store.errors import InvalidInputError
from leap.store.graphs import ArrayBatch, GraphStream, Pick, assemble
from tests.store.graphs.conftest import HOPS, SMALL, Stored, assert_same, flat


def union(batches: list[ArrayBatch]) -> dict[str, list]:
    """The oracle: loops over batches and nodes, one Python number after the other."""
    lists: dict[str, list] = {}

    def add(name: str, values) -> None:
        lists.setdefault(name, []).extend(values)

    nodes = graphs = 0
    for batch in batches:
        add("graphs", batch.graphs.tolist())
        add("sizes", np.diff(batch.ptr).tolist())
        add("batch", [graph + graphs for graph in batch.batch.tolist()])
        add("x", batch.x.tolist())
        add("edge_index", [(u + nodes, v + nodes) for u, v in batch.edge_index.T.tolist()])
        add("y", [] if batch.y is None else batch.y.tolist())
        for hops, hoods in batch.neighborhoods.items():
            for node in range(batch.num_nodes):
                add(f"members {hops}", [[member + nodes for member in hoods.members(node).tolist()]])
                add(f"edges {hops}", [[(u + nodes, v + nodes) for u, v in hoods.edges_of(node).T.tolist()]])
        for hops, (mean, scale) in batch.stats.items():
            add(f"mean {hops}", mean.tolist())
            add(f"scale {hops}", scale.tolist())
        for name, values in batch.encodings.items():
            add(name, values.tolist())
        nodes, graphs = nodes + batch.num_nodes, graphs + batch.num_graphs
    return lists


def assert_is_union(picks: list[Pick]) -> ArrayBatch:
    alone = [assemble([pick])[0] for pick in picks]
    whole, rows, graphs = assemble(picks)
    assert union([whole]) == union(alone)
    for one in alone:
        assert [array.dtype for array in flat(whole)] == [array.dtype for array in flat(one)]
        assert whole.x.shape[1:] == one.x.shape[1:]
        for name, values in one.encodings.items():
            assert whole.encodings[name].shape[1:] == values.shape[1:]
    assert rows.dtype == graphs.dtype == np.int64
    assert rows.tolist() == [0, *np.cumsum([batch.num_nodes for batch in alone])]
    assert graphs.tolist() == [0, *np.cumsum([batch.num_graphs for batch in alone])]
    assert all(array.flags.c_contiguous and array.flags.writeable for array in flat(whole))
    for hoods in whole.neighborhoods.values():
        hoods.validate()
    return whole


FEW = {
    "one node": [nx.empty_graph(1)],
    "hardly more than empty graphs": [*(nx.Graph() for _ in range(5)), nx.empty_graph(1)],
    "no edges": [nx.empty_graph(n) for n in (3, 1, 2, 5)],
    "empty graphs in between": [nx.empty_graph(0), nx.path_graph(4), nx.empty_graph(0), nx.star_graph(3), nx.Graph()],
    "paths": [nx.path_graph(n) for n in range(1, 9)],
    "cycles": [nx.cycle_graph(n) for n in range(3, 10)],
    "complete": [nx.complete_graph(n) for n in (5, 2, 7, 1, 4)],
    "hubs": [nx.star_graph(n) for n in (1, 12, 3, 30)],
    "two components": [nx.disjoint_union(nx.path_graph(n), nx.cycle_graph(4)) for n in (2, 5, 3)],
    "grids": [nx.convert_node_labels_to_integers(nx.grid_2d_graph(n, 3)) for n in (1, 4, 2)],
    "one much larger": [nx.path_graph(2), nx.barabasi_albert_graph(150, 2, seed=1), nx.path_graph(3)],
    "dense and sparse": [nx.gnp_random_graph(12, p, seed=2) for p in (0.9, 0.05, 0.5, 0.0)],
}


@pytest.mark.parametrize("memory_bytes", [0, 2**31])
@pytest.mark.parametrize("graphs", FEW.values(), ids=FEW)
def test_a_union_is_what_the_batches_are_alone_side_by_side(tmp_path, graphs, memory_bytes):
    rng = np.random.default_rng(3)
    for number, graph in enumerate(graphs):
        graph.graph["y"] = number % 2
        nx.set_node_attributes(graph, {node: float(rng.normal()) for node in graph}, "height")
    context = Context(Store.open(tmp_path), workforce=Workforce(0))
    made = extract(from_networkx(graphs, "few"), list(HOPS), ingest_options=SMALL, context=context)
    hoods = [context.store.find("neighborhoods", "few", hops=hops) for hops in HOPS]
    stream = GraphStream(context.store.get(made["dataset"].key), hoods, window=2, memory_bytes=memory_bytes)
    picks = [pick for size in (1, 3, 2) for pick in stream.part(batch_size=size, seed=size).picks(size)]
    whole = assert_is_union(picks)
    expected = nx.disjoint_union_all([graphs[number] for number in whole.graphs]).to_directed()
    assert whole.num_nodes == len(expected)
    assert sorted(map(tuple, whole.edge_index.T.tolist())) == sorted(expected.edges)
    for hops in HOPS:
        assert whole.neighborhoods[hops].equals(khop(whole.edge_index, whole.num_nodes, hops))


def test_a_union_may_have_no_nodes(stored):
    stream = stored.stream()
    empty = [number for number, graph in enumerate(stored.graphs) if not len(graph)]
    picks = [*stream.part(empty, batch_size=2).picks(0), *stored.stream(graphs=empty[:2]).picks(0)]
    whole = assert_is_union(picks)
    assert (whole.num_nodes, whole.num_graphs) == (0, len(empty) + 2)
    assert whole.x.shape == (0, 2)
    assert whole.edge_index.shape == (2, 0)


def folds(total: int, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(4)
    return [np.sort(rng.permutation(total)[: total * 2 // 3]) for _ in range(count)]


@pytest.mark.parametrize("memory_bytes", [0, 2**31])
def test_steps_of_many_folds_are_unions(stored, memory_bytes):
    stream = stored.stream(memory_bytes=memory_bytes)
    parts = [stream.part(f, batch_size=3 + k, seed=k) for k, f in enumerate(folds(80, 4))]
    steps = list(zip(*(part.picks(2) for part in parts), strict=False))
    assert len(steps) > 5
    for picks in steps:
        assert_is_union(list(picks))


def test_picks_of_a_block_are_taken_at_once_whatever_comes_in_between(stored, monkeypatch):
    picks = [next(stored.stream().picks(0)) for _ in range(2)]  # two blocks, as two streams share nothing
    first, second = picks
    taken = []
    block_type = type(first.block)
    real = block_type.take
    monkeypatch.setattr(block_type, "take", lambda block, places: taken.append(len(places)) or real(block, places))
    assemble([first] * 6 + [second] * 3)
    assert taken == [30, 15]
    taken.clear()
    assemble([first, second] * 50)
    assert taken == [250, 250, 500]  # the last puts them in order


def test_datasets_of_the_same_columns_are_united(stored, tmp_path):
    other = Stored(tmp_path, "others", seed=6)
    one, two = next(stored.stream().picks(0)), next(other.stream(batch_size=7).picks(1))
    backwards = GraphStream(other.dataset, other.hoods[::-1], other.encodings[::-1])
    three = next(backwards.picks(0))
    picks = [one, two, two, three, one, three]
    whole = assert_is_union(picks)
    assert whole.graphs.tolist() == [number for pick in picks for number in pick.graphs]
    assert_is_union([two, three])


def test_unions_of_different_columns_are_refused(stored, tmp_path):
    def first(**named) -> Pick:
        given = {"neighborhoods": stored.hoods, "encodings": stored.encodings} | named
        return next(GraphStream(stored.dataset, **given).picks(0))

    usual = first()
    for named, word in (
        ({"neighborhoods": stored.hoods[:1]}, "members 2"),
        ({"encodings": stored.encodings[1:]}, "encoding rwpe"),
        ({"encodings": {"rwpe": stored.context.store.find("rwpe", "shapes")}}, "encoding"),
        ({"with_stats": False}, "mean 1"),
    ):
        for picks in ([usual, first(**named)], [first(**named), usual]):
            with pytest.raises(InvalidInputError, match=f"cannot be one: {word}"):
                assemble(picks)
    with pytest.raises(InvalidInputError, match="'shapes' and 'path' cannot be one: x is float32"):
        assemble([usual, next(path_stream(tmp_path, None).picks(0))])


def path_stream(folder: Path, cap: int | None) -> GraphStream:
    context = Context(Store.open(folder), workforce=Workforce(0))
    made = extract(from_networkx([nx.path_graph(3)], "path"), list(HOPS), cap=cap, context=context)
    hoods = [context.store.find("neighborhoods", "path", hops=hops, cap=cap) for hops in HOPS]
    return GraphStream(context.store.get(made["dataset"].key), hoods)


def test_neighbourhoods_of_different_caps_are_not_united(tmp_path):
    picks = [next(path_stream(tmp_path, cap).picks(0)) for cap in (None, 2)]
    with pytest.raises(InvalidInputError, match="cap of 1 hops is None in the first and 2 in the second"):
        assemble(picks)


def test_a_union_of_nothing_is_refused():
    with pytest.raises(InvalidInputError, match="at least one pick"):
        assemble([])


def test_a_union_is_its_receivers_own(stored):
    stream = stored.stream()
    picks = list(stream.picks(0))[:3]
    kept, _, _ = assemble(picks)
    copies = [array.copy() for array in flat(kept)]
    again, _, _ = assemble(picks)
    list(stream.epoch(1))
    assert all(np.array_equal(array, copy) for array, copy in zip(flat(kept), copies, strict=True))
    for array, other in zip(flat(kept), flat(again), strict=True):
        assert not np.shares_memory(array, other)
        array[...] = 0
    assert_same([assemble(picks)[0]], [again])


def test_the_batch_of_a_node_task_is_not_copied(tmp_path):
    graph = nx.barabasi_albert_graph(60, 2, seed=3)
    rng = np.random.default_rng(0)
    masks = {part: rng.random((60, 2)) < 0.5 for part in ("train", "val", "test")}
    x, y = rng.normal(size=(60, 3)).astype(np.float32), rng.integers(0, 4, 60)
    raw = RawGraphs(np.array([60]), np.array(graph.edges).T, x, y, "node-classification", masks)
    context = Context(Store.open(tmp_path), workforce=Workforce(0))
    made = extract(MemorySource("raw", "test", raw), 1, ingest_options=SMALL, context=context)
    stream = GraphStream(context.store.get(made["dataset"].key), [context.store.get(made["neighborhoods"].key)])
    (one,), (two,) = stream.picks(0), stream.part(batch_size=9, shuffle=True, seed=3).picks(1)
    batch, rows, graphs = assemble([one])
    assert (rows.tolist(), graphs.tolist()) == ([0, 60], [0, 1])
    other, _, _ = assemble([two])
    for array, same in zip((batch.x, batch.y, batch.masks["val"]), (other.x, other.y, other.masks["val"]), strict=True):
        assert np.shares_memory(array, same)
    for name in ("nodes", "edges"):
        assert np.shares_memory(*(getattr(b.neighborhoods[1], name) for b in (batch, other)))
    both = assert_is_union([one, two])
    assert np.array_equal(both.masks["val"], np.concatenate([masks["val"]] * 2))
