"""RWPE against dense matrix powers, and its independence of how the work is cut."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.models.kernels.adjacency import build_csr
from leap.models.kernels.walks import rwpe
from leap.store.errors import InvalidInputError
from tests.strategies import simple_graphs


def arrays(graph: nx.Graph):
    edges = np.array(list(graph.edges), np.int64).reshape(-1, 2).T
    csr = build_csr(edges, graph.number_of_nodes())
    return csr.indptr, csr.indices


def powers(graph: nx.Graph, steps: int):
    """diag((A D^-1)^j) by dense products, zero for isolated nodes."""
    n = graph.number_of_nodes()
    adjacency = nx.to_numpy_array(graph, nodelist=range(n)) if n else np.zeros((0, 0))
    walk = adjacency / np.maximum(adjacency.sum(axis=0), 1.0)
    power, columns = np.eye(n), []
    for _ in range(steps):
        power = power @ walk
        columns.append(np.diag(power))
    return np.stack(columns, axis=1)


@settings(max_examples=60, deadline=None)
@given(simple_graphs(max_nodes=40), st.integers(1, 12))
def test_equals_dense_matrix_powers(case, steps):
    graph = case.to_networkx()
    np.testing.assert_allclose(rwpe(*arrays(graph), steps), powers(graph, steps), rtol=1e-12, atol=1e-15)


# One graph for each way through: overlapping balls (blocks), scattered balls (one by one), a dense graph, a hub.
LARGER = {
    "cycle": lambda: nx.cycle_graph(200),
    "scattered": lambda: nx.random_regular_graph(3, 400, seed=1),
    "dense": lambda: nx.gnp_random_graph(150, 0.3, seed=2),
    "star": lambda: nx.star_graph(150),
    "mixed": lambda: nx.disjoint_union_all(
        [nx.random_labeled_tree(80, seed=3), nx.empty_graph(70), nx.complete_graph(30), nx.path_graph(40)]
    ),
}


@pytest.mark.parametrize("name", LARGER)
def test_equals_dense_matrix_powers_beyond_one_block(name):
    graph = LARGER[name]()
    np.testing.assert_allclose(rwpe(*arrays(graph), 9), powers(graph, 9), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", LARGER)
def test_a_column_does_not_depend_on_the_number_of_steps(name):
    csr = arrays(LARGER[name]())
    whole = rwpe(*csr, 11)
    for steps in (1, 2, 5, 10):
        assert np.array_equal(rwpe(*csr, steps), whole[:, :steps])


@pytest.mark.parametrize("name", LARGER)
def test_a_row_does_not_depend_on_the_range_asked_for(name):
    csr = arrays(LARGER[name]())
    whole = rwpe(*csr, 6)
    for start, stop in ((0, 1), (3, 70), (64, 128), (149, 150), (20, 20)):
        assert np.array_equal(rwpe(*csr, 6, start, stop), whole[start:stop])


def test_a_graph_does_not_depend_on_its_neighbours_in_the_dataset():
    alone = nx.gnp_random_graph(60, 0.1, seed=4)
    together = nx.disjoint_union_all([nx.star_graph(37), alone, nx.cycle_graph(90)])
    assert np.array_equal(rwpe(*arrays(together), 10)[38:98], rwpe(*arrays(alone), 10))


def test_blocks_narrowed_by_the_memory_bound_change_no_bit():
    from leap.models.kernels import walks as module

    csr = arrays(LARGER["dense"]())
    out = np.zeros((150, 8))
    level, rank = np.zeros(150, np.int32), np.arange(150, dtype=np.int32)
    ball = np.arange(150, dtype=np.int32)
    degrees = np.diff(csr[0])
    assert degrees.min() > 0
    for width in (1, 7, 64):
        for begin in range(0, 150, width):
            part = out[begin : begin + width]
            module._walk_columns(csr[0], begin, level, rank, ball, csr[0], csr[1], part)
        assert np.array_equal(out, rwpe(*csr, 8))


def test_odd_walks_on_a_bipartite_graph_never_return():
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(9, 11))
    columns = rwpe(*arrays(graph), 9)
    assert not columns[:, ::2].any()
    assert (columns[:, 1::2] > 0).all()


def test_isolated_nodes_and_empty_graphs_give_zeros():
    assert rwpe(*arrays(nx.empty_graph(3)), 4).tolist() == np.zeros((3, 4)).tolist()
    assert rwpe(*arrays(nx.empty_graph(0)), 4).shape == (0, 4)


def test_wide_index_types_and_read_only_arrays_are_accepted():
    indptr, indices = arrays(nx.cycle_graph(7))
    frozen = indices.copy()
    frozen.flags.writeable = False
    expected = rwpe(indptr, indices, 3)
    assert np.array_equal(rwpe(indptr, frozen, 3), expected)
    assert np.array_equal(rwpe(indptr, indices.astype(np.int64), 3), expected)


@pytest.mark.parametrize("bad", [{"steps": 0}, {"steps": 2, "stop": 9}, {"steps": 2, "start": 3, "stop": 2}])
def test_impossible_requests_are_refused(bad):
    with pytest.raises(InvalidInputError):
        rwpe(*arrays(nx.cycle_graph(7)), **bad)
