"""Attaching what is stored to your own graphs: right rows, the same graphs, untouched objects."""

import io

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from leap.pipeline import AddNeighborhoods, Context, IngestOptions, Workforce, attach, encode, extract, from_pyg, ingest
from leap.store import Neighborhoods, Store
from leap.store.errors import InvalidInputError


def make(size, name):
    """A cycle listed in one direction, with a self-loop, a repeated edge and an isolated node."""
    ring = torch.arange(size)
    edges = torch.stack([torch.cat([ring, ring[:1], ring[:1]]), torch.cat([ring.roll(-1), ring[:1], ring[1:2]])])
    return Data(x=torch.rand(size + 1, 2), edge_index=edges.flip(1), name=name, extra=torch.ones(3))


GRAPHS = [make(size, f"ring {size}") for size in (5, 3, 8, 4)]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Dataset, neighbourhoods of one and two hops, and an encoding, with partitions smaller than graphs."""
    context = Context(Store.open(tmp_path_factory.mktemp("store")), workforce=Workforce(0))
    options = IngestOptions(partition_mb=0.001)
    source = from_pyg(GRAPHS, "rings")
    made = extract(source, [1, 2], ingest_options=options, context=context)
    walks = encode(source, "rwpe", params={"dim": 3}, ingest_options=options, context=context)
    hoods = [context.store.find("neighborhoods", "rings", hops=hops) for hops in (1, 2)]
    return context.store.get(made["dataset"].key), *hoods, context.store.get(walks["rwpe"].key)


def test_graphs_get_what_the_transform_would_give_them(stored):
    attached = attach(GRAPHS, *stored)
    rwpe, start = stored[3].values(), 0
    for before, after in zip(GRAPHS, attached, strict=True):
        expected = AddNeighborhoods(hops=(1, 2))(before)
        for hops in (1, 2):
            assert Neighborhoods.from_data(after, hops).equals(Neighborhoods.from_data(expected, hops))
        assert after.rwpe.tolist() == rwpe[start : start + before.num_nodes].tolist()
        assert (after.name, after.x is before.x) == (before.name, True)
        assert set(before.keys()) == {"x", "edge_index", "name", "extra"}
        start += before.num_nodes
    batch = next(iter(DataLoader(attached, batch_size=4)))
    assert Neighborhoods.from_data(batch, 2).num_nodes == batch.num_nodes == len(batch.rwpe)


def test_some_graphs_of_the_dataset_are_named_by_number(stored):
    (found,) = attach([GRAPHS[2]], *stored, numbers=[2])
    assert torch.equal(found.rwpe, attach(GRAPHS, *stored)[2].rwpe)
    alone = attach(GRAPHS[2], *stored, numbers=[2])
    assert isinstance(alone, Data)
    assert torch.equal(alone.khop2["nodes_index"], found.khop2["nodes_index"])
    assert torch.equal(attach(GRAPHS[2], *stored, numbers=2).rwpe, alone.rwpe)
    assert attach([], *stored, numbers=[]) == []


@pytest.mark.parametrize("numbers", [[2.5], ["2"], [[2]]])
def test_numbers_that_are_none_are_refused(stored, numbers):
    with pytest.raises(InvalidInputError, match="`numbers` must be whole numbers, one per graph"):
        attach([GRAPHS[2]], *stored, numbers=numbers)


def test_no_graphs_are_not_a_dataset(stored):
    with pytest.raises(InvalidInputError, match="0 graphs were given for 4 of the 4"):
        attach([], *stored)


def test_a_batch_gives_its_graphs(stored):
    assert [graph.num_nodes for graph in attach(Batch.from_data_list(GRAPHS), *stored)] == [6, 4, 9, 5]


def test_a_graph_is_saved_with_its_own_rows_alone(stored):
    stream = io.BytesIO()
    torch.save(attach(GRAPHS, *stored)[0].rwpe, stream)
    whole = io.BytesIO()
    torch.save(torch.from_numpy(stored[3].values()), whole)
    assert attach(GRAPHS, *stored)[0].rwpe.untyped_storage().nbytes() == 6 * 3 * 4
    assert len(stream.getvalue()) < len(whole.getvalue()) + 200


def changed(change):
    graphs = [graph.clone() for graph in GRAPHS]
    change(graphs)
    return graphs


def drop_node(graphs):
    graphs[1].x = graphs[1].x[:-1]


def swap_ends(graphs):
    graphs[2].edge_index = torch.where(graphs[2].edge_index == 3, 5, graphs[2].edge_index)


BAD = {
    "another order": (
        lambda graphs: graphs.reverse(),
        "graph 0 is not graph 0 of 'rings': it has 5 nodes instead of 6",
    ),
    "a node less": (drop_node, "graph 1 is not graph 1 of 'rings': it has 3 nodes instead of 4"),
    "other edges": (swap_ends, "graph 2 is not graph 2 of 'rings': its edges are others"),
    "fewer graphs": (list.pop, "3 graphs were given for 4 of the 4 graphs of 'rings'"),
}


@pytest.mark.parametrize("case", BAD)
def test_other_graphs_are_refused(stored, case):
    change, message = BAD[case]
    with pytest.raises(InvalidInputError, match=message):
        attach(changed(change), *stored)


def test_what_belongs_to_another_dataset_is_refused(stored, tmp_path):
    context = Context(Store.open(tmp_path / "store"), workforce=Workforce(0))
    other = context.store.get(ingest(from_pyg(GRAPHS[:2], "two"), context=context)["dataset"].key)
    with pytest.raises(InvalidInputError, match="was not made from"):
        attach(GRAPHS[:2], other, stored[3])
    with pytest.raises(InvalidInputError, match="an encoding is needed"):
        attach(GRAPHS, stored[0], stored[0])
