import networkx as nx
import pytest
import torch
from torch_geometric.utils import to_undirected

from leap.pipeline.bench.pyg_khop import khop_loop, timed_khop_loop


@pytest.mark.parametrize("hops", [1, 2])
def test_the_peer_finds_the_ego_graphs(hops: int) -> None:
    graph = nx.gnp_random_graph(40, 0.08, seed=3)
    edge_index = to_undirected(torch.tensor(list(graph.edges)).T, num_nodes=40)
    for node, (members, edges) in enumerate(khop_loop(edge_index, 40, hops)):
        ego = nx.ego_graph(graph, node, radius=hops)
        assert set(members.tolist()) == set(ego.nodes)
        assert {frozenset(pair) for pair in members[edges].T.tolist()} == {frozenset(pair) for pair in ego.edges}


def test_the_timed_peer_covers_all_nodes_and_leaves_the_threads_as_they_were() -> None:
    edge_index = to_undirected(torch.stack([torch.arange(9), torch.arange(1, 10)]))
    threads = torch.get_num_threads()
    seconds, found = timed_khop_loop(edge_index, 10, 1)
    assert seconds > 0
    assert [len(members) for members, _ in found] == [2, *[3] * 8, 2]
    assert torch.get_num_threads() == threads
