"""Batches as tensors and as PyG's: the same values, whoever reads them and with how many workers."""

import pickle

import networkx as nx
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torch_geometric.data import Batch
from torch_geometric.nn import GCNConv, global_add_pool

from leap.models import LEAP, dect
from leap.pipeline import AddNeighborhoods, Context, Workforce, encode, extract, from_networkx, khop
from leap.pipeline.pyg.loader import StreamDataset, to_pyg_batch
from leap.pipeline.training.data import node_data
from leap.store import Neighborhoods, Store
from leap.store.errors import InvalidInputError
from leap.store.graphs import GraphStream


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    """Dataset, neighbourhoods of one and two hops, and RWPE of sixty small graphs, some of them empty."""
    rng = np.random.default_rng(0)
    graphs = [nx.gnp_random_graph(int(n), 0.4, seed=int(n)) for n in rng.integers(0, 9, 60)]
    for number, graph in enumerate(graphs):
        graph.graph["y"] = number % 2
        for node in graph:
            graph.nodes[node]["p"], graph.nodes[node]["q"] = rng.normal(size=2).tolist()
    context = Context(Store.open(tmp_path_factory.mktemp("store")), workforce=Workforce(0))
    source = from_networkx(graphs, "small")
    made = extract(source, [1, 2], context=context)
    encode(source, ["rwpe"], params={"dim": 3}, context=context)
    find = context.store.find
    return (
        context.store.get(made["dataset"].key),
        [find("neighborhoods", "small", hops=hops) for hops in (1, 2)],
        [find("rwpe", "small")],
    )


@pytest.fixture
def stream(artifacts):
    return GraphStream(*artifacts, batch_size=7)


def assert_same(one: Batch, other: Batch) -> None:
    mine, theirs = one.to_dict(), other.to_dict()
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        pairs = [(value, theirs[name])] if torch.is_tensor(value) else [(value[k], theirs[name][k]) for k in value]
        assert all(torch.equal(a, b) for a, b in pairs), name


def test_tensors_share_the_memory_of_the_arrays(stream):
    arrays = next(stream.epoch(0))
    nodes = node_data(arrays)
    arrays.encodings["rwpe"][:] = 8
    assert (nodes.encodings["rwpe"] == 8).all()
    assert torch.equal(nodes.graphs.edge_index, torch.from_numpy(arrays.edge_index))
    assert nodes.graphs.num_graphs == 7


def test_cached_statistics_are_those_of_the_features(stream):
    arrays = next(stream.epoch(0))
    nodes, x = node_data(arrays), torch.from_numpy(arrays.x)
    encoder = LEAP(2)
    directions, thresholds = torch.eye(2), torch.linspace(-1.1, 1.1, 5)
    for hops in (1, 2):
        hoods = nodes.neighborhoods[hops]
        cached = dect(x, hoods, directions, thresholds, 128.0, stats=nodes.stats[hops])
        fresh = dect(x, hoods, directions, thresholds, 128.0)
        assert torch.allclose(cached, fresh, atol=1e-4)
    assert encoder(x, nodes.neighborhoods[1]).shape == (len(x), 10)


def test_a_pyg_model_runs_on_the_batches(stream):
    conv = GCNConv(5, 4)
    for batch in StreamDataset(stream):
        out = conv(torch.cat([batch.x, batch.rwpe], dim=1), batch.edge_index)
        assert global_add_pool(out, batch.batch, batch.num_graphs).shape == (batch.num_graphs, 4)
        assert batch.y.shape == (batch.num_graphs,) == (len(batch),)


@pytest.mark.parametrize("hops", [1, 2])
def test_neighbourhoods_are_found_on_the_batches(stream, hops):
    for batch in StreamDataset(stream):
        found = Neighborhoods.from_data(batch, hops)
        assert found.equals(khop(batch.edge_index, batch.num_nodes, hops))
        assert batch[f"khop{hops}_mean"].shape == batch.x.shape


def test_a_graph_changed_afterwards_is_noticed(stream):
    batch = next(b for b in StreamDataset(stream) if b.num_edges)
    batch.edge_index = batch.edge_index[:, 1:]
    with pytest.raises(InvalidInputError, match="changed"):
        Neighborhoods.from_data(batch, 1)


def test_a_batch_is_what_pyg_makes_of_its_own_graphs(stream):
    for arrays in stream.epoch(0):
        batch = to_pyg_batch(arrays)
        apart = batch.to_data_list()
        assert [data.num_nodes for data in apart] == np.diff(arrays.ptr).tolist()
        assert_same(Batch.from_data_list(apart), batch)
        for data in apart:
            again = AddNeighborhoods(hops=[1, 2])(data.clone())
            for name in ("khop1", "khop2"):
                assert all(torch.equal(data[name][key], value) for key, value in again[name].items())


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("memory_bytes", [0, 2**30])
def test_any_number_of_workers_gives_the_same_epoch(artifacts, workers, memory_bytes):
    stream = GraphStream(*artifacts, batch_size=7, memory_bytes=memory_bytes)
    dataset = StreamDataset(stream)
    dataset.set_epoch(3)
    found = list(DataLoader(dataset, batch_size=None, num_workers=workers))
    expected = [to_pyg_batch(batch) for batch in stream.epoch(3)]
    assert len(found) == len(dataset) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)


def test_workers_that_stay_learn_of_the_next_epoch(stream):
    dataset = StreamDataset(stream)
    loader = DataLoader(dataset, batch_size=None, num_workers=1, persistent_workers=True)
    for epoch in (0, 1):
        dataset.set_epoch(epoch)
        found = [batch.number.tolist() for batch in loader]
        assert found == [batch.graphs.tolist() for batch in stream.epoch(epoch)]


def test_a_dataset_can_be_sent_to_another_process(stream):
    dataset = StreamDataset(stream)
    dataset.set_epoch(2)
    sent = pickle.loads(pickle.dumps(dataset))
    assert [batch.number.tolist() for batch in sent] == [batch.number.tolist() for batch in dataset]


def test_names_that_pyg_needs_are_refused(artifacts):
    dataset, _, (rwpe,) = artifacts
    with pytest.raises(InvalidInputError, match="'batch'"):
        StreamDataset(GraphStream(dataset, encodings={"batch": rwpe}))
