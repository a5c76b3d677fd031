"""Export to PyG: the same graphs, labels, encodings and neighbourhoods, through PyG's own loaders."""

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.loader import DataLoader

from leap.pipeline import Context, IngestOptions, encode, extract, from_networkx, ingest, khop, to_pyg
from leap.store import Neighborhoods, Store
from leap.store.errors import InvalidInputError


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    context = Context(store=Store.open(tmp_path_factory.mktemp("store")))
    options = IngestOptions(partition_mb=0.05)
    extract("letters-high", [1, 2], ingest_options=options, context=context)
    encode("letters-high", ["rwpe"], ingest_options=options, context=context)
    return context


@pytest.fixture(scope="module")
def exported(context):
    find = context.store.find
    hoods = [find("neighborhoods", "letters-high", hops=hops) for hops in (1, 2)]
    return to_pyg(find("dataset", "letters-high"), [find("rwpe", "letters-high", dim=5)], hoods)


def test_every_graph_has_its_own_ids_label_and_encoding(context, exported):
    dataset = context.store.find("dataset", "letters-high")
    assert len(dataset.partitions) > 1
    assert len(exported) == 2250
    x, rwpe = dataset.load("x"), context.store.find("rwpe", "letters-high").load("encoding")
    offsets = dataset.table("graphs")["node_offset"].to_numpy()
    labels = dataset.table("graphs")["label"].to_numpy()
    for number in range(0, 2250, 97):
        data = exported[number]
        rows = slice(offsets[number], offsets[number] + data.num_nodes)
        assert np.array_equal(data.x.numpy(), x[rows])
        assert np.array_equal(data.rwpe.numpy(), rwpe[rows, :5])
        assert int(data.y) == labels[number]
        assert data.edge_index.numel() == 0 or int(data.edge_index.max()) < data.num_nodes


@pytest.mark.parametrize("hops", [1, 2])
def test_batches_of_a_pyg_loader_carry_right_neighbourhoods(exported, hops):
    for batch in DataLoader(exported[:200], batch_size=64):
        stored = Neighborhoods.from_data(batch, hops)
        fresh = khop(batch.edge_index, batch.num_nodes, hops)
        assert torch.equal(stored.nodes, fresh.nodes)
        assert torch.equal(stored.edges, fresh.edges)


def test_the_published_folds_come_along(exported):
    assert len(exported.folds) == 5
    tests = torch.cat([test for _, _, test in exported.folds])
    assert torch.equal(tests.sort().values, torch.arange(2250))


def test_an_artifact_of_another_dataset_is_refused(context, exported):
    ingest("letters-low", context=context)
    with pytest.raises(InvalidInputError, match="was not made from"):
        to_pyg(context.store.find("dataset", "letters-low"), [context.store.find("rwpe", "letters-high")])


def test_empty_graphs_stay_empty(tmp_path):
    context = Context(store=Store.open(tmp_path / "store"))
    graphs = [nx.path_graph(3), nx.Graph(), nx.empty_graph(2), nx.complete_graph(4)]
    for label, graph in enumerate(graphs):
        graph.graph["y"] = label % 2
    result = extract(from_networkx(graphs, "tiny"), 1, context=context)
    exported = to_pyg(
        context.store.get(result["dataset"].key), neighborhoods=[context.store.get(result["neighborhoods"].key)]
    )
    assert [data.num_nodes for data in exported] == [3, 0, 2, 4]
    assert [data.num_edges for data in exported] == [4, 0, 0, 12]
    batch = next(iter(DataLoader(exported, batch_size=4)))
    assert Neighborhoods.from_data(batch, 1).num_nodes == 9
