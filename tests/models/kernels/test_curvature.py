"""Curvature profiles against NetworkX and linear programs, and their independence of the range asked for."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import linprog

from leap.models.kernels.curvature import curvature_profiles
from leap.store.errors import InvalidInputError
from tests.models.kernels.graphs import GRAPHS, adjacency
from tests.strategies import simple_graphs

KINDS = ("forman", "augmented", "ollivier")


def wasserstein(graph, u, v):
    """Distance of the uniform measures on the neighbours of two nodes, by a linear program over all pairs."""
    here, there = sorted(graph[u]), sorted(graph[v])
    lengths = np.array([[nx.shortest_path_length(graph, x, y) for y in there] for x in here], dtype=float)
    rows = np.kron(np.eye(len(here)), np.ones(len(there)))
    columns = np.kron(np.ones(len(here)), np.eye(len(there)))
    masses = [*[1 / len(here)] * len(here), *[1 / len(there)] * len(there)]
    return linprog(lengths.ravel(), A_eq=np.vstack([rows, columns]), b_eq=masses, method="highs").fun


def of_edge(graph, u, v, kind):
    if kind == "ollivier":
        return 1 - wasserstein(graph, u, v)
    triangles = len(list(nx.common_neighbors(graph, u, v))) if kind == "augmented" else 0
    return 4 - graph.degree(u) - graph.degree(v) + 3 * triangles


def by_definition(graph, kind):
    out = np.zeros((graph.number_of_nodes(), 5))
    values = {frozenset(edge): of_edge(graph, *edge, kind) for edge in graph.edges}
    for v in graph:
        found = [values[frozenset((u, v))] for u in graph[v]]
        if found:
            out[v] = np.min(found), np.max(found), np.mean(found), np.std(found), np.median(found)
    return out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GRAPHS)
def test_follow_the_definition(name, kind):
    graph = GRAPHS[name]()
    found = curvature_profiles(*adjacency(graph), kind)
    np.testing.assert_allclose(found, by_definition(graph, kind), rtol=1e-9, atol=1e-7 if kind == "ollivier" else 1e-12)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(case=simple_graphs(max_nodes=21))
def test_follow_the_definition_on_any_graph(kind, case):
    graph = case.to_networkx()
    found = curvature_profiles(*adjacency(graph), kind)
    np.testing.assert_allclose(found, by_definition(graph, kind), rtol=1e-9, atol=1e-7 if kind == "ollivier" else 1e-12)


@pytest.mark.parametrize(
    ("graph", "value"),
    [(nx.complete_graph(6), 4 / 5), (nx.cycle_graph(3), 1 / 2), (nx.cycle_graph(4), 0), (nx.cycle_graph(6), 0)],
    ids=["complete", "triangle", "square", "hexagon"],
)
def test_ollivier_curvatures_that_are_known(graph, value):
    found = curvature_profiles(*adjacency(graph), "ollivier")
    np.testing.assert_allclose(found, [[value, value, value, 0, value]] * len(graph), atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_does_not_depend_on_the_range_asked_for(kind):
    csr = adjacency(nx.barabasi_albert_graph(60, 4, seed=1))
    whole = curvature_profiles(*csr, kind)
    for start, stop in ((0, 1), (3, 40), (59, 60), (20, 20)):
        assert np.array_equal(curvature_profiles(*csr, kind, start, stop), whole[start:stop])


@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_does_not_depend_on_its_neighbours_in_the_dataset(kind):
    alone = nx.gnp_random_graph(30, 0.2, seed=4)
    together = nx.disjoint_union_all([nx.star_graph(9), alone, nx.cycle_graph(9)])
    found = curvature_profiles(*adjacency(together), kind)[10:40]
    assert np.array_equal(found, curvature_profiles(*adjacency(alone), kind))


@pytest.mark.parametrize("wrong", [{"curvature": "ricci"}, {"start": -1}, {"start": 3, "stop": 2}, {"stop": 9}])
def test_impossible_requests_are_refused(wrong):
    with pytest.raises(InvalidInputError):
        curvature_profiles(*adjacency(nx.cycle_graph(7)), **wrong)


@pytest.mark.parametrize(("indptr", "indices"), [([0, 1], [5]), ([0, 1, 1], [1]), ([0, 2], [0]), ([], [])])
def test_arrays_that_are_no_adjacency_are_refused(indptr, indices):
    for kind in KINDS:
        with pytest.raises(InvalidInputError):
            curvature_profiles(indptr, indices, kind)
