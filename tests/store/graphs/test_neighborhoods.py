import doctest
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.pipeline.derived.neighborhoods import khop
from leap.store.errors import InvalidInputError
from leap.store.graphs import neighborhoods as neighborhoods_module
from leap.store.graphs.neighborhoods import Neighborhoods
from tests.strategies import simple_graphs

PATH = [[0, 1, 2], [1, 2, 3]]


def side_by_side(graphs):
    """Edges of the graphs as one, its number of nodes, and the first node of each graph."""
    starts = np.cumsum([0, *(graph.num_nodes for graph in graphs)])
    edges = [graph.edges + start for graph, start in zip(graphs, starts, strict=False)]
    return np.concatenate([np.empty((2, 0), dtype=np.int64), *edges], axis=1), int(starts[-1]), starts


def test_members_and_edges_of_a_node_are_slices():
    hoods = khop(PATH, hops=1)
    assert hoods.num_nodes == len(hoods) == 4
    assert [hoods.members(v).tolist() for v in range(4)] == [[0, 1], [1, 0, 2], [2, 1, 3], [3, 2]]
    assert hoods.edges_of(2).tolist() == [[2, 1], [3, 2]]


@pytest.mark.parametrize("v", [-1, 4])
def test_a_node_that_does_not_exist_is_refused(v):
    hoods = khop(PATH)
    with pytest.raises(InvalidInputError, match=f"no node {v}: ids lie in 0…3"):
        hoods.members(v)
    with pytest.raises(InvalidInputError, match=f"no node {v}"):
        hoods.edges_of(v)


def test_tensors_share_the_arrays_and_come_back():
    hoods = khop(PATH, hops=2)
    tensors = hoods.torch()
    assert tensors.node_ptr.dtype == torch.int64
    assert tensors.nodes.dtype == torch.int32
    assert tensors.nodes.data_ptr() == hoods.nodes.ctypes.data
    assert tensors.torch() is tensors
    assert tensors.numpy().is_numpy
    assert hoods.equals(tensors)
    assert hoods.to("cpu").nodes.device.type == "cpu"
    assert hoods.to("meta").edges.shape == (2, hoods.edges.shape[1])


def test_read_only_arrays_become_tensors_without_a_warning(recwarn):
    hoods = khop(PATH)
    hoods.nodes.flags.writeable = False
    assert hoods.torch().nodes.tolist() == hoods.nodes.tolist()
    assert not recwarn.list


def test_repr_shows_what_it_holds():
    assert repr(khop(PATH)) == "Neighborhoods(hops=1, nodes=4, members=10, edges=6, numpy int32)"
    shown = repr(khop(PATH, hops=2, cap=2).torch())
    assert shown == "Neighborhoods(hops=2, cap=2, nodes=4, members=8, edges=4, torch.int32 on cpu)"


def test_equals_sees_every_difference():
    hoods = khop(PATH, hops=2)
    assert hoods.equals(khop(PATH, hops=2))
    assert hoods.equals(replace(hoods, nodes=hoods.nodes.astype(np.int64)))
    assert not hoods.equals(khop(PATH, hops=1))
    assert not hoods.equals(replace(hoods, cap=9))
    assert not hoods.equals(replace(hoods, nodes=hoods.nodes[::-1]))


@settings(max_examples=30, deadline=None)
@given(st.lists(simple_graphs(max_nodes=9), min_size=1, max_size=4), st.integers(1, 2), st.data())
def test_selecting_graphs_gives_the_neighbourhoods_of_those_graphs(graphs, hops, data):
    edges, n, starts = side_by_side(graphs)
    hoods = khop(edges, n, hops)
    alone = [khop(graph.edges, graph.num_nodes, hops) for graph in graphs]
    for g, expected in enumerate(alone):
        assert hoods.select(starts[g], starts[g + 1]).equals(expected)
        assert hoods.torch().select(int(starts[g]), int(starts[g + 1])).equals(expected)
    assert Neighborhoods.concat(alone).equals(hoods)

    chosen = data.draw(st.lists(st.integers(0, len(graphs) - 1), max_size=5))
    taken = hoods.take(starts[:-1][chosen], starts[1:][chosen])
    edges, n, _ = side_by_side([graphs[g] for g in chosen])
    assert taken.equals(khop(edges, n, hops))
    assert taken.nodes.dtype == taken.edges.dtype == np.int32
    taken.validate()


def test_select_shifts_ids_as_asked():
    assert khop([[0, 2], [1, 3]], 4).select(2, 4, shift=5).nodes.tolist() == [7, 8, 8, 7]


def test_ranges_that_do_not_exist_are_refused():
    hoods = khop(PATH)
    with pytest.raises(InvalidInputError, match="2…5 does not lie in 0…4"):
        hoods.select(2, 5)
    with pytest.raises(InvalidInputError, match="do not all lie in 0…4"):
        hoods.take([0, 3], [1, 5])


def test_neighbourhoods_of_different_hops_are_not_joined():
    with pytest.raises(InvalidInputError, match=r"\(1, None\), \(2, None\)"):
        Neighborhoods.concat([khop(PATH, hops=1), khop(PATH, hops=2)])


@settings(max_examples=30, deadline=None)
@given(simple_graphs(), st.integers(1, 3), st.sampled_from([None, 1, 4]))
def test_what_khop_makes_is_valid(graph, hops, cap):
    hoods = khop(graph.edges, graph.num_nodes, hops, cap=cap)
    hoods.validate()
    hoods.torch().validate()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hops": 0}, "hops = 0"),
        ({"nodes": np.zeros((2, 5), dtype=np.int32)}, r"\(M,\) and edges \(2, K\), but have \(2, 5\)"),
        ({"edges": np.zeros((3, 6), dtype=np.int32)}, r"\(3, 6\)"),
        ({"edge_ptr": np.array([0, 6])}, "but have 5 and 2"),
        ({"node_ptr": np.array([0, 2, 5, 8, 10], dtype=np.int32)}, "node_ptr must be int64"),
        ({"node_ptr": np.array([0, 2, 5, 8, 9])}, "node_ptr must rise from 0 to 10"),
        ({"edge_ptr": np.array([0, 3, 1, 5, 6])}, "edge_ptr must rise from 0 to 6"),
        ({"nodes": np.zeros(10)}, "nodes must be int32 or int64, not float64"),
        ({"nodes": np.full(10, 4, dtype=np.int32)}, "nodes must lie in 0…3, but span 4…4"),
        ({"node_ptr": np.array([0, 2, 2, 8, 10])}, "Node 1 is missing from its neighbourhood"),
        ({"node_ptr": np.array([0, 2, 6, 8, 10])}, "Node 2 is not the first member"),
        ({"edges": np.tile([[2], [1]], 6).astype(np.int32)}, r"Edge 0 is \[2, 1\], but the lower id comes first"),
    ],
)
def test_validate_names_what_is_wrong(change, message):
    hoods = khop(PATH)
    assert (hoods.node_ptr.tolist(), hoods.edges.shape) == ([0, 2, 5, 8, 10], (2, 6))
    with pytest.raises(InvalidInputError, match=message):
        replace(hoods, **change).validate()


def test_importing_it_imports_neither_torch_nor_numba():
    code = "import sys, leap.store.graphs.stream; assert not {'torch', 'torch_geometric', 'numba'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_examples_in_the_documentation_run():
    failed, attempted = doctest.testmod(neighborhoods_module)
    assert attempted > 0
    assert failed == 0
