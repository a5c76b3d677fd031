"""Numbers of cycles against NetworkX's enumeration and closed formulas, and the budget of the search."""

from math import factorial

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.models.kernels.cycles import count_cycles, search_steps
from leap.store.errors import InvalidInputError
from tests.models.kernels.graphs import GRAPHS, adjacency
from tests.strategies import simple_graphs


def enumerated(graph, longest=8):
    counts = np.zeros((graph.number_of_nodes(), longest - 2), np.int64)
    for cycle in nx.simple_cycles(graph, length_bound=longest):
        counts[cycle, len(cycle) - 3] += 1
    return counts


@pytest.mark.parametrize("name", GRAPHS)
def test_equal_an_enumeration(name):
    graph = GRAPHS[name]()
    assert np.array_equal(count_cycles(*adjacency(graph)), enumerated(graph))


@settings(max_examples=40, deadline=None)
@given(simple_graphs(max_nodes=21), st.integers(3, 8))
def test_equal_an_enumeration_on_any_graph(case, longest):
    graph = case.to_networkx()
    assert np.array_equal(count_cycles(*adjacency(graph), longest), enumerated(graph, longest))


def test_complete_graphs_have_the_numbers_of_the_formula():
    expected = [factorial(9) // factorial(10 - length) // 2 for length in range(3, 9)]
    assert count_cycles(*adjacency(nx.complete_graph(10))).tolist() == [expected] * 10


def test_a_column_does_not_depend_on_the_longest_length():
    csr = adjacency(nx.gnp_random_graph(20, 0.3, seed=3))
    whole = count_cycles(*csr)
    for longest in range(3, 8):
        assert np.array_equal(count_cycles(*csr, longest), whole[:, : longest - 2])


def test_trees_take_no_search():
    csr = adjacency(nx.balanced_tree(3, 7))
    assert not count_cycles(*csr).any()
    assert search_steps(*csr, 8, np.arange(3280), 2**60) < 200 * 3280


def test_a_search_beyond_the_budget_is_given_up():
    csr = adjacency(nx.complete_graph(60))
    with pytest.raises(InvalidInputError, match=r"up to 8 nodes in a graph of 60 nodes was given up after 1\d\d,"):
        count_cycles(*csr, budget=100_000)
    assert 5000 < search_steps(*csr, 8, np.array([0, 7]), 5000) < 10_000


@pytest.mark.parametrize("longest", [2, 9, -1])
def test_other_lengths_are_refused(longest):
    csr = adjacency(nx.cycle_graph(5))
    for call in (lambda: count_cycles(*csr, longest), lambda: search_steps(*csr, longest, np.arange(2), 9)):
        with pytest.raises(InvalidInputError, match=f"a length of 3 to 8, got {longest}"):
            call()


@pytest.mark.parametrize(("indptr", "indices"), [([0, 1], [5]), ([0, 1, 1], [1]), ([0, 2], [0]), ([], [])])
def test_arrays_that_are_no_adjacency_are_refused(indptr, indices):
    with pytest.raises(InvalidInputError):
        count_cycles(indptr, indices)


def test_nodes_that_do_not_exist_are_refused():
    with pytest.raises(InvalidInputError, match="Source 9 does not exist"):
        search_steps(*adjacency(nx.cycle_graph(5)), 8, np.array([9]), 9)
