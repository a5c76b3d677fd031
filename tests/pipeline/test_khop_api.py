import doctest
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.pipeline.derived import neighborhoods as neighborhoods_module
from leap.pipeline.derived.neighborhoods import khop
from leap.store.errors import InvalidInputError
from tests.strategies import edge_lists, simple_graphs


@settings(max_examples=60, deadline=None)
@given(simple_graphs(), st.integers(1, 3))
def test_khop_equals_the_ego_graphs_of_networkx(graph, hops):
    oracle = graph.to_networkx()
    hoods = khop(graph.edge_index, graph.num_nodes, hops)
    assert len(hoods) == graph.num_nodes
    for v in range(graph.num_nodes):
        ego = nx.ego_graph(oracle, v, radius=hops)
        assert set(hoods.members(v).tolist()) == set(ego.nodes)
        assert {frozenset(edge) for edge in hoods.edges_of(v).T.tolist()} == {frozenset(edge) for edge in ego.edges}
        assert hoods.edges_of(v).shape[1] == ego.number_of_edges()


@settings(max_examples=40, deadline=None)
@given(edge_lists(), st.integers(1, 2))
def test_directed_repeated_and_looping_entries_are_made_simple_first(case, hops):
    edges, n = case
    simple = {(min(pair), max(pair)) for pair in edges.T.tolist() if pair[0] != pair[1]}
    expected = khop(np.array(sorted(simple), dtype=np.int64).reshape(-1, 2).T, n, hops)
    assert khop(edges, n, hops).equals(expected)
    assert khop(torch.from_numpy(edges.copy()), n, hops).equals(expected)


def test_tensors_in_tensors_out_and_arrays_otherwise():
    edges = [[0, 1], [1, 2]]
    assert khop(edges).is_numpy
    assert khop(np.array(edges, dtype=np.int32)).is_numpy
    for dtype in (torch.int64, torch.int32):
        hoods = khop(torch.tensor(edges, dtype=dtype))
        assert isinstance(hoods.nodes, torch.Tensor)
        assert (hoods.node_ptr.dtype, hoods.nodes.dtype) == (torch.int64, torch.int32)
        assert hoods.equals(khop(edges))


def test_the_number_of_nodes_is_taken_from_the_largest_id():
    assert khop([[0, 3], [1, 0]]).num_nodes == 4
    assert khop([[], []]).num_nodes == 0
    assert khop(torch.empty(2, 0, dtype=torch.long), num_nodes=2).nodes.tolist() == [0, 1]


def test_hops_and_cap_are_remembered():
    hoods = khop([[0, 0, 0], [1, 2, 3]], hops=2, cap=3)
    assert (hoods.hops, hoods.cap) == (2, 3)
    assert np.diff(hoods.node_ptr).tolist() == [3, 3, 3, 3]
    assert khop([[0], [1]]).cap is None


def test_a_seed_changes_samples_and_repeats_them():
    star = np.stack([np.zeros(30, dtype=np.int64), np.arange(1, 31)])
    first, again, other = (khop(star, cap=10, seed=seed) for seed in (0, 0, 1))
    assert first.equals(again)
    assert not first.equals(other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edge_index": [[0], [1]], "hops": 0}, "at least 1 hop, but hops = 0"),
        ({"edge_index": [[0], [1]], "cap": 0}, "cap = 0"),
        ({"edge_index": [[0, 1]]}, r"shape \(2, E\), but has shape \(1, 2\)"),
        ({"edge_index": [[0], [-4]]}, "node -4 does not exist"),
        ({"edge_index": [[0], [5]], "num_nodes": 5}, "node 5 does not exist"),
        ({"edge_index": [[0.0], [np.nan]]}, "integer node ids, but holds float64"),
        ({"edge_index": torch.tensor([[0.0], [1.0]])}, "integer node ids, but holds float32"),
    ],
)
def test_wrong_input_is_refused_with_the_value_met(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        khop(**arguments)


@pytest.mark.slow
def test_the_package_offers_the_function_whatever_was_imported_before():
    for before in ("", "from leap.pipeline import AddNeighborhoods; ", "import leap.pipeline.pyg.transform; "):
        code = f"{before}from leap.pipeline import khop; assert khop([[0], [1]]).num_nodes == 2"
        subprocess.run([sys.executable, "-c", code], check=True)


def test_the_examples_in_the_documentation_run():
    failed, attempted = doctest.testmod(neighborhoods_module)
    assert attempted > 0
    assert failed == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hops": 1.5}, "hops must be a whole number. Got 1.5"),
        ({"hops": "1"}, "hops must be a whole number"),
        ({"hops": True}, "hops must be a whole number"),
        ({"cap": 1.5}, "cap must be a whole number"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"num_nodes": 2.5}, "num_nodes must be a whole number"),
        ({"edge_index": [[0, 2**62], [1, 2]]}, "no memory for a graph of 4,611,686,018,427,387,905 nodes"),
        ({"edge_index": [[0, 1], [1]]}, "edge_index must be a dense"),
        ({"edge_index": torch.zeros(2, 3, dtype=torch.long, device="meta")}, "edge_index must be a dense"),
    ],
)
def test_values_of_a_wrong_kind_are_refused_with_a_sentence(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        khop(**{"edge_index": [[0, 1], [1, 2]], **arguments})


def test_whole_numbers_of_any_type_are_fine():
    wanted = khop([[0, 1], [1, 2]], 3, 2, cap=2, seed=4)
    assert khop([[0, 1], [1, 2]], np.int64(3), torch.tensor(2), cap=np.int32(2), seed=np.uint8(4)).equals(wanted)
