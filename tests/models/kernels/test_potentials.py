"""Statistics of potentials against dense pseudo-inverses of each component."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from leap.models.kernels.potentials import potential_statistics
from leap.store.errors import InvalidInputError
from tests.models.kernels.graphs import GRAPHS, adjacency, matrix
from tests.strategies import simple_graphs


def by_definition(graph):
    out = np.zeros((graph.number_of_nodes(), 7))
    whole = matrix(graph)
    for part in nx.connected_components(graph):
        nodes = sorted(part)
        if len(nodes) == 1:
            continue
        links = whole[np.ix_(nodes, nodes)]
        degrees = links.sum(axis=1)
        green = np.linalg.pinv(np.diag(degrees) - links, rcond=1e-10, hermitian=True)
        potential = green - np.diag(green)
        walk = links / degrees[:, None]
        out[nodes] = np.stack(
            [
                potential.min(axis=0),
                potential.mean(axis=0),
                potential.std(axis=0, ddof=1),
                potential.min(axis=1),
                potential.std(axis=1, ddof=1),
                (walk * potential).sum(axis=0),
                (walk * potential).sum(axis=1),
            ],
            axis=1,
        )
    return out


@pytest.mark.parametrize("name", GRAPHS)
def test_follow_the_definition(name):
    graph = GRAPHS[name]()
    np.testing.assert_allclose(potential_statistics(*adjacency(graph)), by_definition(graph), rtol=1e-9, atol=1e-11)


@settings(max_examples=40, deadline=None)
@given(simple_graphs(max_nodes=30))
def test_follow_the_definition_on_any_graph(case):
    graph = case.to_networkx()
    np.testing.assert_allclose(potential_statistics(*adjacency(graph)), by_definition(graph), rtol=1e-9, atol=1e-11)


def test_what_is_left_out_says_nothing():
    """A charge has its highest potential, 0, at its own node; the mean potential at a node is the same everywhere."""
    green = np.linalg.pinv(nx.laplacian_matrix(GRAPHS["hubs"]()).toarray().astype(float))
    potential = green - np.diag(green)
    np.testing.assert_allclose(potential.max(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(potential.mean(axis=1), potential.mean(), rtol=1e-9)


def test_a_component_does_not_depend_on_others():
    graphs = [nx.gnp_random_graph(30, 0.2, seed=seed) for seed in range(5)]
    together = potential_statistics(*adjacency(nx.disjoint_union_all(graphs)))
    for place, graph in enumerate(graphs):
        assert np.array_equal(together[30 * place : 30 * place + 30], potential_statistics(*adjacency(graph)))


def test_a_component_beyond_the_limit_is_refused_with_an_estimate():
    with pytest.raises(InvalidInputError, match=r"a component of 12 nodes.*The limit is 11 nodes"):
        potential_statistics(*adjacency(nx.path_graph(12)), largest=11)


@pytest.mark.parametrize(("indptr", "indices"), [([0, 1], [5]), ([0, 1, 1], [1]), ([0, 2], [0]), ([], [])])
def test_arrays_that_are_no_adjacency_are_refused(indptr, indices):
    with pytest.raises(InvalidInputError):
        potential_statistics(indptr, indices)
