"""Reading around a partition: a cut graph gives what the whole graph gives, whichever way its pieces are gathered."""

import threading
from concurrent.futures import ThreadPoolExecutor

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.models.kernels.balls import khop_arrays
from leap.models.kernels.walks import rwpe
from leap.pipeline.canonical import canonicalize
from leap.pipeline.graphs import RawGraphs
from leap.pipeline.partition import plan_dataset
from leap.pipeline.reader import GraphReader, new_memory
from leap.store.graphs import StoredGraphs
from leap.store.location import locate
from leap.store.manifest import Manifest
from tests.strategies import simple_graphs

HALO = {"memory": 1, "whole_graph_bytes": 0}  # forgets every array at once and never loads a cut graph whole
WAYS = pytest.mark.parametrize("limits", [{}, HALO], ids=["whole graph", "halo"])


class StoredInMemory(StoredGraphs):
    """A stored dataset whose arrays never were on a disk."""

    def __init__(self, graphs, partition_bytes):
        plan = plan_dataset(graphs, partition_bytes)
        named = {
            "kind": "dataset",
            "key": "k",
            "dataset": "d",
            "params": {},
            "algorithm": 1,
            "source": "",
            "content": "",
        }
        super().__init__(locate("."), Manifest(**named, summary=graphs.facts, partitions=plan))
        self._arrays = [graphs.arrays(part) for part in plan]

    def read(self, partition, names=None):
        return {name: self._arrays[partition][name].copy() for name in names}


def reader_of(dataset, memory=2**30, **limits):
    return GraphReader(dataset, new_memory(memory), **limits)


def dataset_of(graphs, partition_bytes=100):
    """Canonical form of NetworkX graphs or of one `SimpleGraph`, and its partitions."""
    counts = [graph.number_of_nodes() for graph in graphs]
    starts = np.cumsum([0, *counts])
    edges = [np.array(list(g.edges), dtype=np.int64).reshape(-1, 2) + at for g, at in zip(graphs, starts, strict=False)]
    x = np.random.default_rng(0).normal(size=(int(starts[-1]), 2)).astype(np.float32)
    raw = RawGraphs(np.array(counts), np.concatenate(edges).T, x, None, "none")
    canonical = canonicalize(raw)
    return canonical, StoredInMemory(canonical, partition_bytes)


def neighbourhoods(indptr, indices, hops, sources, cap=0, ids=None):
    """Member and edge lists with dataset-wide ids, one entry for each source."""
    found = khop_arrays(indptr, indices, hops, sources=sources, cap=cap, seed=3, global_ids=ids)
    names = np.arange(len(indptr) - 1) if ids is None else ids
    members = np.split(names[found.nodes], found.node_ptr[1:-1])
    edges = np.split(names[found.edges], found.edge_ptr[1:-1], axis=1)
    return [(m.tolist(), e.tolist()) for m, e in zip(members, edges, strict=True)]


def check_neighbourhoods(canonical, dataset, limits, hops, cap=0):
    reader = reader_of(dataset, **limits)
    whole = neighbourhoods(canonical.indptr, canonical.indices, hops, None, cap)
    for part in dataset.partitions:
        if part.num_nodes:
            local = reader.around(part.node_lo, part.node_hi, hops)
            pieces = neighbourhoods(local.indptr, local.indices, hops, local.sources, cap, local.ids)
            assert pieces == whole[part.node_lo : part.node_hi]


SHAPES = {
    "cut path": [nx.path_graph(60)],
    "cut star": [nx.star_graph(40)],
    "cut grid": [nx.convert_node_labels_to_integers(nx.grid_2d_graph(8, 9))],
    "cut hubs among small graphs": [nx.path_graph(3), nx.barabasi_albert_graph(80, 3, seed=1), nx.cycle_graph(4)],
    "isolated and empty": [nx.empty_graph(0), nx.empty_graph(30), nx.empty_graph(0), nx.path_graph(1)],
    "two cut graphs": [nx.gnp_random_graph(50, 0.1, seed=2), nx.empty_graph(0), nx.gnp_random_graph(40, 0.2, seed=3)],
}


@WAYS
@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_cut_graph_has_the_neighbourhoods_of_the_whole(shape, hops, limits):
    canonical, dataset = dataset_of(SHAPES[shape])
    assert len(dataset.partitions) > 2
    check_neighbourhoods(canonical, dataset, limits, hops)


@WAYS
@pytest.mark.parametrize("cap", [2, 5, 20])
def test_a_capped_sample_does_not_depend_on_the_cut(cap, limits):
    canonical, dataset = dataset_of(SHAPES["cut hubs among small graphs"])
    check_neighbourhoods(canonical, dataset, limits, 2, cap)


@settings(max_examples=40, deadline=None)
@given(st.lists(simple_graphs(), min_size=1, max_size=3), st.integers(1, 3), st.integers(20, 400), st.booleans())
def test_any_cut_of_any_graphs_has_the_neighbourhoods_of_the_whole(drawn, hops, partition_bytes, halo):
    graphs = [graph.to_networkx() for graph in drawn]
    if not sum(graph.number_of_nodes() for graph in graphs):
        graphs.append(nx.path_graph(2))
    canonical, dataset = dataset_of(graphs, partition_bytes)
    check_neighbourhoods(canonical, dataset, HALO if halo else {}, hops)


@WAYS
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("steps", [1, 2, 7, 10])
def test_random_walks_of_a_cut_graph_are_those_of_the_whole_bit_by_bit(shape, steps, limits):
    canonical, dataset = dataset_of(SHAPES[shape])
    reader = reader_of(dataset, **limits)
    whole = rwpe(canonical.indptr, canonical.indices, steps)
    for part in dataset.partitions:
        if part.num_nodes:
            local = reader.around(part.node_lo, part.node_hi, (steps + 1) // 2 + 1)
            start = int(local.sources[0])
            piece = rwpe(local.indptr, local.indices, steps, start, start + part.num_nodes)
            assert piece.tobytes() == whole[part.node_lo : part.node_hi].tobytes()


@WAYS
def test_scattered_nodes_can_be_asked_for(limits):
    canonical, dataset = dataset_of(SHAPES["two cut graphs"])
    sources = np.array([0, 1, 17, 50, 88])
    local = reader_of(dataset, **limits).around_ids(sources, 2)
    whole = neighbourhoods(canonical.indptr, canonical.indices, 2, sources)
    assert neighbourhoods(local.indptr, local.indices, 2, local.sources, ids=local.ids) == whole


def test_a_halo_holds_no_more_than_the_wanted_hops():
    _, dataset = dataset_of(SHAPES["cut path"])
    local = reader_of(dataset, **HALO).around(20, 25, 3)
    assert local.ids.tolist() == list(range(17, 28))
    assert local.ids[local.sources].tolist() == list(range(20, 25))


@WAYS
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_features_degrees_and_pointers_survive_the_cut(shape, limits):
    canonical, dataset = dataset_of(SHAPES[shape])
    reader = reader_of(dataset, **limits)
    ids = np.flatnonzero(np.random.default_rng(1).random(canonical.num_nodes) < 0.4)
    found = reader.dataset.neighbours(ids)
    assert found.lengths.tolist() == np.diff(canonical.indptr)[ids].tolist()
    rows = [canonical.indices[canonical.indptr[v] : canonical.indptr[v + 1]] for v in ids]
    assert found["ids"].tolist() == np.concatenate([canonical.indices[:0], *rows]).tolist()
    assert np.array_equal(reader.features(ids), canonical.x[ids])
    assert np.array_equal(reader.dataset.degrees(), np.diff(canonical.indptr))
    assert np.array_equal(reader.dataset.node_ptr(), canonical.node_ptr)


def test_nothing_is_around_no_nodes():
    _, dataset = dataset_of(SHAPES["cut path"])
    local = reader_of(dataset).around(5, 5, 2)
    assert len(local.ids) == len(local.indices) == len(local.sources) == 0
    assert local.indptr.tolist() == [0]


class Overtaken(np.ndarray):
    """An array during whose weighing another thread reads something else from the same reader, once."""

    then = None

    @property
    def nbytes(self):
        then, Overtaken.then = Overtaken.then, None
        if then is not None:
            other = threading.Thread(target=then)
            other.start()
            other.join()
        return super().nbytes


def test_a_thread_may_read_while_another_makes_room(monkeypatch):
    _, dataset = dataset_of(SHAPES["cut path"])
    plain = dataset.read
    monkeypatch.setattr(
        dataset, "read", lambda part, names: {name: a.view(Overtaken) for name, a in plain(part, names).items()}
    )
    reader = reader_of(dataset)
    x = reader.dataset._array
    x(0, "x")
    monkeypatch.setattr(Overtaken, "then", staticmethod(lambda: x(1, "x")))
    x(2, "x")
    assert Overtaken.then is None
    for part in range(3):
        assert np.array_equal(x(part, "x"), plain(part, ["x"])["x"])


def test_threads_that_ask_for_the_same_at_once_read_it_once(monkeypatch):
    _, dataset = dataset_of(SHAPES["cut path"])
    plain, reads, started = dataset.read, [], threading.Barrier(4)

    def counted(part, names):
        reads.append((part, *names))
        return plain(part, names)

    monkeypatch.setattr(dataset, "read", counted)
    reader = reader_of(dataset)

    def ask(part):
        started.wait()
        return reader.around(part.node_lo, part.node_hi, 2).indices.tolist()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, dataset.partitions[:4]))
    assert found == [reader.around(p.node_lo, p.node_hi, 2).indices.tolist() for p in dataset.partitions[:4]]
    assert len(reads) == len(set(reads))


def test_arrays_of_a_reader_cannot_be_written_to():
    _, dataset = dataset_of(SHAPES["cut path"])
    with pytest.raises(ValueError, match="read-only"):
        reader_of(dataset).features(np.arange(dataset.partitions[0].num_nodes))[:] = 0
