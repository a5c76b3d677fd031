import doctest

import numpy as np
import pytest
from hypothesis import given, settings

from leap.models.kernels import adjacency
from leap.models.kernels.adjacency import build_csr
from leap.store.errors import InvalidInputError
from tests.strategies import edge_lists


@settings(max_examples=80, deadline=None)
@given(edge_lists())
def test_rows_are_the_sorted_neighbours_of_the_simple_graph(case):
    edges, n = case
    entries = list(zip(*edges.tolist(), strict=True))
    neighbours = [set() for _ in range(n)]
    for i, j in entries:
        if i != j:
            neighbours[i].add(j)
            neighbours[j].add(i)
    csr = build_csr(edges, n)
    rows = [csr.indices[csr.indptr[v] : csr.indptr[v + 1]].tolist() for v in range(n)]
    assert rows == [sorted(row) for row in neighbours]
    assert csr.indptr[-1] == len(csr.indices)
    proper = [pair for pair in entries if pair[0] != pair[1]]
    assert csr.self_loops == len(entries) - len(proper)
    assert csr.duplicates == len(proper) - len(set(proper))


@settings(max_examples=30, deadline=None)
@given(edge_lists())
def test_direction_order_and_integer_type_do_not_matter(case):
    edges, n = case
    expected = build_csr(edges, n)
    both = np.concatenate([edges[::-1], edges], axis=1)
    for variant in (
        edges[::-1],
        both,
        edges.astype(np.int32),
        edges.astype(np.uint8),
        np.asfortranarray(edges),
    ):
        csr = build_csr(variant, n)
        np.testing.assert_array_equal(csr.indptr, expected.indptr)
        np.testing.assert_array_equal(csr.indices, expected.indices)


def test_both_directions_are_no_duplicates_but_a_repeat_is():
    assert build_csr([[0, 1], [1, 0]], 2).duplicates == 0
    assert build_csr([[0, 1, 1], [1, 0, 0]], 2).duplicates == 1


def test_ids_are_32_bit_until_they_no_longer_fit(monkeypatch):
    edges = np.array([[0, 2, 2, 1], [1, 1, 0, 2]])
    narrow = build_csr(edges, 3)
    monkeypatch.setattr(adjacency, "INT32_NODES", 3)
    wide = build_csr(edges, 3)
    assert (narrow.indices.dtype, wide.indices.dtype) == (np.int32, np.int64)
    np.testing.assert_array_equal(narrow.indices, wide.indices)
    assert narrow.indptr.dtype == wide.indptr.dtype == np.int64


def test_read_only_input_is_accepted_and_left_alone():
    edges = np.array([[0, 1], [1, 1]])
    edges.flags.writeable = False
    assert build_csr(edges, 2).indices.tolist() == [1, 0]


def test_an_empty_list_gives_an_edgeless_graph():
    for edges in (np.empty((2, 0)), np.empty((2, 0), dtype=np.int64), [[], []]):
        csr = build_csr(edges, 3)
        assert csr.indptr.tolist() == [0, 0, 0, 0]
        assert csr.indices.dtype == np.int32
        assert len(csr.indices) == 0
    assert build_csr([[], []], 0).indptr.tolist() == [0]


@pytest.mark.parametrize(
    ("edges", "num_nodes", "message"),
    [
        ([[0, 1], [1, 7]], 3, r"Edge 1 joins nodes 1 and 7, but node 7 does not exist"),
        ([[0, -1], [1, 2]], 3, r"node -1 does not exist"),
        ([[0], [0]], 0, r"node 0 does not exist"),
        ([[0, 1, 2]], 3, r"shape \(2, E\), but has shape \(1, 3\)"),
        ([0, 1], 3, r"shape \(2, E\), but has shape \(2,\)"),
        ([[0.5], [1.0]], 3, r"integer node ids, but holds float64"),
        ([[0], [1]], -1, r"must not be negative, but is -1"),
    ],
)
def test_what_is_no_edge_list_is_refused_with_the_value_met(edges, num_nodes, message):
    with pytest.raises(InvalidInputError, match=message):
        build_csr(edges, num_nodes)


def test_the_examples_in_the_documentation_run():
    failed, attempted = doctest.testmod(adjacency)
    assert attempted > 0
    assert failed == 0
