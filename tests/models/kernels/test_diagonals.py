"""Heat kernels and PageRank against dense matrix functions, and their independence of what they share a call with."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.linalg import expm

from leap.models.kernels.components import small_components
from leap.models.kernels.diagonals import heat_diagonals, pagerank_diagonals
from leap.store.errors import InvalidInputError
from tests.models.kernels.graphs import GRAPHS, adjacency, matrix
from tests.strategies import simple_graphs

TIMES = np.array([0.25, 1.0, 3.0, 50.0])
ALPHAS = np.array([0.9, 0.5, 0.15, 1e-3])


def inverse_degrees(graph):
    degrees = matrix(graph).sum(axis=0)
    return np.where(degrees > 0, 1 / np.maximum(degrees, 1), 0)


def dense_heat(graph, times=TIMES):
    """diag(exp(-t L)) by Padé approximation of the whole graph's matrix."""
    root = np.sqrt(inverse_degrees(graph))
    laplacian = np.eye(len(root)) - root[:, None] * matrix(graph) * root
    return np.array([np.diag(expm(-t * laplacian)) for t in times]).reshape(len(times), len(root)).T


def dense_pagerank(graph, alphas=ALPHAS):
    """diag(a (I - (1 - a) D^-1 A)^-1) by inverting the whole graph's matrix."""
    walk = inverse_degrees(graph)[:, None] * matrix(graph)
    found = [np.diag(a * np.linalg.inv(np.eye(len(walk)) - (1 - a) * walk)) for a in alphas]
    return np.array(found).reshape(len(alphas), len(walk)).T


BOTH = [(heat_diagonals, dense_heat, TIMES), (pagerank_diagonals, dense_pagerank, ALPHAS)]


@pytest.mark.parametrize(("diagonals", "oracle", "rates"), BOTH)
@pytest.mark.parametrize("name", GRAPHS)
def test_equal_dense_matrix_functions(name, diagonals, oracle, rates):
    graph = GRAPHS[name]()
    np.testing.assert_allclose(diagonals(*adjacency(graph), rates), oracle(graph), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(("diagonals", "oracle", "rates"), BOTH)
@settings(max_examples=40, deadline=None)
@given(case=simple_graphs(max_nodes=30))
def test_equal_dense_matrix_functions_on_any_graph(diagonals, oracle, rates, case):
    graph = case.to_networkx()
    np.testing.assert_allclose(diagonals(*adjacency(graph), rates), oracle(graph), rtol=1e-9, atol=1e-13)


def test_isolated_nodes_lose_heat_and_walks():
    csr = adjacency(nx.empty_graph(2))
    np.testing.assert_allclose(heat_diagonals(*csr, TIMES), np.exp(-TIMES)[None].repeat(2, axis=0), rtol=1e-15)
    assert np.array_equal(pagerank_diagonals(*csr, ALPHAS), ALPHAS[None].repeat(2, axis=0))


def test_long_times_and_small_alphas_show_the_stationary_distribution():
    graph = nx.barabasi_albert_graph(40, 3, seed=0)
    stationary = matrix(graph).sum(axis=0) / (2 * graph.number_of_edges())
    np.testing.assert_allclose(heat_diagonals(*adjacency(graph), [2.0**1000])[:, 0], stationary, rtol=1e-12)
    np.testing.assert_allclose(pagerank_diagonals(*adjacency(graph), [1e-300])[:, 0], stationary, rtol=1e-12)


@pytest.mark.parametrize(("diagonals", "oracle", "rates"), BOTH)
def test_neither_other_columns_nor_other_graphs_change_a_bit(diagonals, oracle, rates):
    graphs = [nx.gnp_random_graph(30, 0.2, seed=seed) for seed in range(6)]
    together = diagonals(*adjacency(nx.disjoint_union_all(graphs)), rates)
    for place, graph in enumerate(graphs):
        alone = diagonals(*adjacency(graph), rates)
        assert np.array_equal(together[30 * place : 30 * place + 30], alone)
        for column in range(len(rates)):
            assert np.array_equal(diagonals(*adjacency(graph), rates[column : column + 1])[:, 0], alone[:, column])


@pytest.mark.parametrize(("diagonals", "oracle", "rates"), BOTH)
def test_a_component_beyond_the_limit_is_refused_with_an_estimate(diagonals, oracle, rates):
    csr = adjacency(nx.disjoint_union(nx.path_graph(9), nx.path_graph(12)))
    assert diagonals(*csr, rates, largest=12).shape == (21, 4)
    with pytest.raises(InvalidInputError, match=r"a component of 12 nodes.*about 0 s.*The limit is 11 nodes\. Use"):
        diagonals(*csr, rates, largest=11)


def test_many_small_components_are_no_large_one():
    graph = nx.disjoint_union_all([nx.path_graph(3)] * 700)
    assert heat_diagonals(*adjacency(graph), TIMES).shape == (2100, 4)
    with pytest.raises(
        InvalidInputError, match=r"graph 7 of 'roads' has a component of 30,000 nodes.* h and 20\.1 GiB"
    ):
        small_components(*adjacency(nx.path_graph(30_000)), where="graph 7 of 'roads'")


@pytest.mark.parametrize("rates", [[0.0], [-1.0], [np.inf], [np.nan], [[1.0]], ["a"], [True]])
def test_impossible_times_and_alphas_are_refused(rates):
    csr = adjacency(nx.cycle_graph(4))
    with pytest.raises(InvalidInputError, match="times must be"):
        heat_diagonals(*csr, rates)
    with pytest.raises(InvalidInputError, match="alphas must be"):
        pagerank_diagonals(*csr, rates)
    with pytest.raises(InvalidInputError, match="alphas must be above 0 and below 1, got 1"):
        pagerank_diagonals(*csr, [0.5, 1.0])


@pytest.mark.parametrize(
    ("indptr", "indices"),
    [([0, 1], [5]), ([0, 1, 1], [1]), ([0, 2], [0]), ([], []), ([0, 1, 2], [-1, 0]), ([0, 1.5], [0])],
)
def test_arrays_that_are_no_adjacency_are_refused(indptr, indices):
    for call in (lambda: heat_diagonals(indptr, indices, TIMES), lambda: pagerank_diagonals(indptr, indices, ALPHAS)):
        with pytest.raises(InvalidInputError):
            call()
