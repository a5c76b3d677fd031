import doctest

import numpy as np
import pytest
import torch
import torch_geometric.transforms as T
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset
from torch_geometric.loader import DataLoader

from leap.pipeline.derived.neighborhoods import khop
from leap.pipeline.pyg import transform as transform_module
from leap.pipeline.pyg.transform import AddNeighborhoods
from leap.store.errors import InvalidInputError
from leap.store.graphs.neighborhoods import Neighborhoods
from tests.strategies import simple_graphs


def to_data(graph):
    edge_index = torch.from_numpy(np.ascontiguousarray(graph.edge_index))
    return Data(x=torch.arange(2.0 * graph.num_nodes).reshape(-1, 2), edge_index=edge_index)


def from_edges(pairs, num_nodes):
    edges = torch.tensor(pairs).reshape(-1, 2).T
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    return Data(x=torch.arange(float(num_nodes)).reshape(-1, 1), edge_index=edge_index)


PATH = from_edges([(0, 1), (1, 2), (2, 3)], 4)
CYCLE = from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], 5)
LONELY = from_edges([(0, 1)], 3)
NOTHING = Data(x=torch.empty(0, 1), edge_index=torch.empty(2, 0, dtype=torch.long))
SINGLE = Data(x=torch.ones(1, 1), edge_index=torch.empty(2, 0, dtype=torch.long))
GRAPHS = [PATH, NOTHING, CYCLE, SINGLE, LONELY, NOTHING]


def assert_neighbourhoods_of(data, hops):
    found = Neighborhoods.from_data(data, hops)
    found.validate()
    assert found.equals(khop(data.edge_index, data.num_nodes, hops))


@settings(max_examples=40, deadline=None)
@given(st.lists(simple_graphs(max_nodes=9), min_size=1, max_size=5))
def test_a_batch_has_the_neighbourhoods_of_its_edge_index(graphs):
    transform = AddNeighborhoods(hops=(1, 2, 3))
    data_list = [transform(to_data(graph)) for graph in graphs]
    batch = Batch.from_data_list(data_list)
    for hops in (1, 2, 3):
        assert_neighbourhoods_of(batch, hops)
        for data in (*data_list, *batch.to_data_list()):
            assert_neighbourhoods_of(data, hops)


@pytest.mark.parametrize("workers", [0, 1])
def test_loader_batches_have_the_neighbourhoods_of_their_edge_index(workers):
    data_list = [AddNeighborhoods(hops=2)(data) for data in GRAPHS * 3]
    loader = DataLoader(data_list, batch_size=4, shuffle=True, num_workers=workers)
    for batch in loader:
        assert_neighbourhoods_of(batch, 2)


class Stored(InMemoryDataset):
    """An in-memory dataset whose graphs are transformed before they are saved."""

    @property
    def processed_file_names(self):
        return ["data.pt"]

    def __init__(self, root, **options):
        super().__init__(root, **options)
        self.load(self.processed_paths[0])

    def process(self):
        self.save([self.pre_transform(data) for data in GRAPHS], self.processed_paths[0])


def test_an_in_memory_dataset_saves_loads_and_slices_them(tmp_path):
    Stored(str(tmp_path), pre_transform=AddNeighborhoods(hops=[1, 2]))
    loaded = Stored(str(tmp_path), pre_transform=AddNeighborhoods(hops=[1, 2]))
    assert len(loaded) == len(GRAPHS)
    for hops in (1, 2):
        for i, data in enumerate(loaded):
            assert torch.equal(data.edge_index, GRAPHS[i].edge_index)
            assert_neighbourhoods_of(data, hops)
        for subset in (loaded[2:5], loaded[torch.tensor([4, 0, 2])], loaded.shuffle()):
            for batch in DataLoader(subset, batch_size=2):
                assert_neighbourhoods_of(batch, hops)
        assert_neighbourhoods_of(loaded[2:5].copy()[0], hops)


def test_a_transform_on_access_works_too(tmp_path):
    dataset = Stored(str(tmp_path), pre_transform=T.Constant(), transform=AddNeighborhoods())
    for batch in DataLoader(dataset, batch_size=3):
        assert_neighbourhoods_of(batch, 1)


def test_follow_batch_leaves_them_intact():
    data_list = [AddNeighborhoods()(data) for data in GRAPHS]
    for batch in DataLoader(data_list, batch_size=6, follow_batch=["x", "khop1"]):
        assert_neighbourhoods_of(batch, 1)
        owners = torch.repeat_interleave(torch.tensor([d.khop1["nodes_index"].numel() for d in data_list]))
        assert torch.equal(batch.khop1_batch["nodes_index"], owners)
        for data in batch.to_data_list():
            assert_neighbourhoods_of(data, 1)


def test_the_given_graph_is_not_changed():
    before = set(PATH.keys())
    after = set(AddNeighborhoods(hops=(1, 2))(PATH).keys())
    assert set(PATH.keys()) == before
    assert after - before == {"khop1", "khop2"}


def test_directed_entries_are_made_undirected():
    data = AddNeighborhoods()(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=4))
    assert Neighborhoods.from_data(data, 1).members(1).tolist() == [1, 0, 2]
    assert_neighbourhoods_of(Batch.from_data_list([data, data]), 1)


def test_cap_and_seed_reach_the_extraction():
    star = from_edges([(0, i) for i in range(1, 20)], 20)
    data = AddNeighborhoods(2, 5, 3)(star)
    found = Neighborhoods.from_data(Batch.from_data_list([data]), 2)
    assert found.cap == 5
    assert found.equals(khop(star.edge_index, 20, 2, cap=5, seed=3))
    assert Neighborhoods.from_data(AddNeighborhoods()(star), 1).cap is None


def permuted(data):
    return data.subgraph(torch.tensor([2, 0, 1, *range(3, data.num_nodes)]))


def rewired(data):
    """Swap the ends of two edges, which keeps every degree."""
    changed = data.clone()
    changed.edge_index = from_edges([(0, 2), (1, 2), (1, 3), (3, 4), (0, 4)], 5).edge_index
    return changed


def without_last_node(data):
    changed = data.clone()
    changed.x = changed.x[:-1]
    return changed


def with_another_edge(data):
    changed = data.clone()
    changed.edge_index = torch.cat([changed.edge_index, torch.tensor([[0, 2], [2, 0]])], dim=1)
    return changed


CHANGES = {
    "subgraph": (PATH, lambda data: data.subgraph(torch.tensor([0, 1, 2]))),
    "subgraph of all but an isolated node": (LONELY, lambda data: data.subgraph(torch.tensor([0, 1]))),
    "isolated nodes removed": (LONELY, T.RemoveIsolatedNodes()),
    "dropped node without edges": (LONELY, without_last_node),
    "permuted nodes": (PATH, permuted),
    "permuted nodes of a regular graph": (CYCLE, permuted),
    "rewired edges of equal degrees": (CYCLE, rewired),
    "edge subgraph": (PATH, lambda data: data.edge_subgraph(torch.tensor([0, 1, 3, 4]))),
    "one edge left": (PATH, lambda data: data.edge_subgraph(torch.tensor([2]))),
    "all edges removed": (PATH, lambda data: data.edge_subgraph(torch.tensor([], dtype=torch.long))),
    "second direction added": (Data(x=torch.ones(3, 1), edge_index=PATH.edge_index[:, :2]), T.ToUndirected()),
    "largest component": (LONELY, T.LargestConnectedComponents()),
    "one more edge": (PATH, with_another_edge),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_graph_changed_after_the_transform_is_refused(name):
    graph, change = CHANGES[name]
    data = AddNeighborhoods()(graph)
    assert_neighbourhoods_of(data, 1)
    changed = change(data)
    with pytest.raises(InvalidInputError, match="The graph changed after its 1-hop neighbourhoods were extracted"):
        Neighborhoods.from_data(changed, 1)
    with pytest.raises(InvalidInputError, match="The graph changed"):
        Neighborhoods.from_data(Batch.from_data_list([AddNeighborhoods()(CYCLE), changed]), 1)


def test_a_batch_changed_after_batching_is_refused():
    batch = Batch.from_data_list([AddNeighborhoods()(data) for data in (PATH, CYCLE)])
    with pytest.raises(InvalidInputError, match="The graph changed"):
        Neighborhoods.from_data(batch.subgraph(torch.arange(1, 9)), 1)
    with pytest.raises(InvalidInputError, match="The graph changed"):
        Neighborhoods.from_data(batch.edge_subgraph(torch.arange(3, 12)), 1)


@pytest.mark.parametrize("change", [T.AddSelfLoops(), T.AddRemainingSelfLoops(), Data.coalesce])
@pytest.mark.parametrize("graph", [PATH, CYCLE, LONELY], ids=["path", "cycle", "lonely"])
def test_self_loops_and_the_order_of_edges_may_change(change, graph):
    expected = khop(graph.edge_index, graph.num_nodes)
    after, before = change(AddNeighborhoods()(graph)), AddNeighborhoods()(change(graph))
    for data in (after, before, Batch.from_data_list([after])):
        assert Neighborhoods.from_data(data, 1).equals(expected)
    shuffled = AddNeighborhoods()(graph)
    shuffled.edge_index = shuffled.edge_index[:, torch.randperm(graph.num_edges)]
    assert Neighborhoods.from_data(shuffled, 1).equals(expected)


@settings(max_examples=30, deadline=None)
@given(st.lists(simple_graphs(max_nodes=9), min_size=1, max_size=5), st.sampled_from([None, 3]))
def test_a_batch_gets_what_its_graphs_would_get(graphs, cap):
    transform = AddNeighborhoods(hops=(1, 2), cap=cap, seed=5)
    plain = [to_data(graph) for graph in graphs]
    expected = Batch.from_data_list([transform(data) for data in plain])
    before = Batch.from_data_list(plain)
    found = transform(before)
    assert set(before.keys()) == set(expected.keys()) - {"khop1", "khop2"}
    for hops in (1, 2):
        assert Neighborhoods.from_data(found, hops).equals(Neighborhoods.from_data(expected, hops))
        for one, other in zip(found.to_data_list(), expected.to_data_list(), strict=True):
            mine, theirs = one[f"khop{hops}"], other[f"khop{hops}"]
            assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


def test_batches_that_were_given_neighbourhoods_can_be_joined_again():
    transform = AddNeighborhoods(hops=1)
    parts = [transform(Batch.from_data_list(graphs)).to_data_list() for graphs in (GRAPHS[:3], GRAPHS[3:])]
    assert_neighbourhoods_of(Batch.from_data_list([data for part in parts for data in part]), 1)


def test_features_and_devices_may_change():
    data = T.NormalizeFeatures()(AddNeighborhoods()(PATH)).to("cpu").contiguous()
    assert_neighbourhoods_of(data, 1)
    assert AddNeighborhoods()(PATH).to("meta").khop1["nodes_index"].device.type == "meta"


def test_unchecked_reading_skips_the_comparison():
    changed = AddNeighborhoods()(PATH).edge_subgraph(torch.tensor([0]))
    assert Neighborhoods.from_data(changed, 1, check=False).equals(khop(PATH.edge_index, 4))


def test_missing_neighbourhoods_are_named_with_the_way_out():
    with pytest.raises(InvalidInputError, match=r"carries no 2-hop neighbourhoods. Apply .*AddNeighborhoods\(hops=2\)"):
        Neighborhoods.from_data(AddNeighborhoods(hops=1)(PATH), 2)


def test_a_graph_that_lost_its_edge_index_says_so():
    data = AddNeighborhoods()(PATH)
    del data.edge_index
    with pytest.raises(InvalidInputError, match="no edge_index to compare"):
        Neighborhoods.from_data(data, 1)


def test_repr_shows_all_parameters():
    assert repr(AddNeighborhoods()) == "AddNeighborhoods(hops=1, cap=None, seed=0)"
    assert repr(AddNeighborhoods((1, 2), cap=64, seed=7)) == "AddNeighborhoods(hops=(1, 2), cap=64, seed=7)"


@pytest.mark.parametrize("options", [{"hops": 0}, {"hops": ()}, {"hops": (1, -1)}, {"cap": 0}])
def test_wrong_parameters_are_refused(options):
    with pytest.raises(InvalidInputError):
        AddNeighborhoods(**options)


@pytest.mark.parametrize("hops", [1.7, "12", (1, 2.0)])
def test_hop_counts_that_are_not_whole_are_refused(hops):
    with pytest.raises(TypeError, match="integer"):
        AddNeighborhoods(hops)


def test_hop_counts_may_be_an_array():
    assert AddNeighborhoods(np.array([1, 2])).hops == (1, 2)


def test_a_batch_that_does_not_say_where_its_graphs_begin_is_refused():
    batch = Batch(x=PATH.x, edge_index=PATH.edge_index, batch=torch.zeros(PATH.num_nodes, dtype=torch.long))
    with pytest.raises(InvalidInputError, match=r"has no ptr. Make it with Batch.from_data_list"):
        AddNeighborhoods()(batch)


@pytest.mark.parametrize("data", [HeteroData(), Batch.from_data_list([HeteroData()]), Data(x=torch.ones(2, 1))])
def test_data_that_is_not_homogeneous_or_has_no_edges_is_refused(data):
    with pytest.raises(InvalidInputError, match="AddNeighborhoods"):
        AddNeighborhoods()(data)


def test_the_examples_in_the_documentation_run():
    failed, attempted = doctest.testmod(transform_module)
    assert attempted > 0
    assert failed == 0
