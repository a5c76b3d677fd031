import doctest
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.models.kernels import normalization
from leap.models.kernels.adjacency import build_csr
from leap.models.kernels.balls import khop_arrays
from leap.models.kernels.normalization import mean_and_scale
from leap.store.errors import InvalidInputError
from tests.strategies import simple_graphs


def expected_statistics(x, node_ptr, nodes):
    wide = x.astype(np.float64)
    groups = [wide[nodes[a:b]] for a, b in itertools.pairwise(node_ptr)]
    means = np.array([group.mean(axis=0) for group in groups]).reshape(len(groups), x.shape[1])
    scales = [np.linalg.norm(group - m, axis=1).max() for group, m in zip(groups, means, strict=True)]
    return means, np.array(scales)


@settings(max_examples=60, deadline=None)
@given(
    simple_graphs(),
    st.integers(1, 2),
    st.sampled_from([1, 2, 7, 8, 19]),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([0.0, 1.0, 1e4]),
)
def test_mean_and_scale_equal_numpys(graph, hops, width, dtype, offset):
    csr = build_csr(graph.edges, graph.num_nodes)
    arrays = khop_arrays(csr.indptr, csr.indices, hops)
    rng = np.random.default_rng(graph.num_nodes)
    x = (offset + rng.standard_normal((graph.num_nodes, width))).astype(dtype)
    mean, scale = mean_and_scale(x, arrays.node_ptr, arrays.nodes)
    assert mean.dtype == scale.dtype == np.float32
    means, scales = expected_statistics(x, arrays.node_ptr, arrays.nodes)
    np.testing.assert_allclose(mean, means, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(scale, scales, rtol=1e-6, atol=1e-12)


def test_one_node_has_itself_as_mean_and_no_scale():
    x = np.array([[1e30, -3.7], [0.1, 0.2]], dtype=np.float32)
    mean, scale = mean_and_scale(x, np.array([0, 1, 2]), np.array([1, 0], dtype=np.int32))
    np.testing.assert_array_equal(mean, x[::-1])
    assert scale.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, -1e5, 3e7, 1e30])
def test_equal_features_have_scale_exactly_zero(dtype, value):
    x = np.full((7, 3), value, dtype=dtype)
    mean, scale = mean_and_scale(x, np.array([0, 7]), np.arange(7))
    assert scale.tolist() == [0.0]
    np.testing.assert_allclose(mean[0], x[0], rtol=1e-7)


def test_differences_below_float32_rounding_of_the_members_count_as_constant():
    ulp = float(np.finfo(np.float32).eps)
    pair, order = np.array([0, 2]), np.array([0, 1])
    for size in (1.0, 1e6):
        below = np.array([[size], [size * (1 + 1.9 * ulp)]])
        above = np.array([[size], [size * (1 + 2.2 * ulp)]])
        assert mean_and_scale(below, pair, order)[1][0] == 0.0
        assert mean_and_scale(above, pair, order)[1][0] > 0.0


def test_a_large_value_elsewhere_does_not_flatten_a_neighbourhood():
    x = np.array([[0.001], [0.002], [1e9]])
    _, scale = mean_and_scale(x, np.array([0, 2, 3]), np.array([0, 1, 2]))
    np.testing.assert_allclose(scale, [0.0005, 0.0], rtol=1e-6)


def test_neighbourhoods_without_members_or_features_give_zeros():
    mean, scale = mean_and_scale(np.ones((2, 3)), np.array([0, 0, 2]), np.array([0, 1]))
    assert mean.tolist() == [[0, 0, 0], [1, 1, 1]]
    assert scale.tolist() == [0, 0]
    for shape in ((0, 3), (2, 0)):
        members = np.arange(shape[0])
        mean, scale = mean_and_scale(np.ones(shape), np.arange(shape[0] + 1), members)
        assert (mean.shape, scale.tolist()) == (shape, [0.0] * shape[0])


@pytest.mark.parametrize("width", [2, 33])
def test_no_bit_depends_on_the_number_of_threads(monkeypatch, width):
    rng = np.random.default_rng(0)
    n = 700
    csr = build_csr(rng.integers(0, n, (2, 3 * n)), n)
    arrays = khop_arrays(csr.indptr, csr.indices, 2)
    x = rng.standard_normal((n, width)).astype(np.float32)
    one = mean_and_scale(x, arrays.node_ptr, arrays.nodes, threads=1)
    monkeypatch.setattr(normalization, "SERIAL_WORK", 0)
    for threads in (2, 3):
        many = mean_and_scale(x, arrays.node_ptr, arrays.nodes, threads=threads)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(one, many, strict=True))


def test_part_of_the_neighbourhoods_has_the_statistics_of_the_whole():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((6, 11)).astype(np.float32)
    node_ptr, nodes = np.array([0, 2, 3, 7]), np.array([0, 5, 1, 2, 3, 4, 0])
    mean, scale = mean_and_scale(x, node_ptr, nodes)
    tail_mean, tail_scale = mean_and_scale(x, node_ptr[1:] - 2, nodes[2:])
    assert tail_mean.tobytes() == mean[1:].tobytes()
    assert tail_scale.tobytes() == scale[1:].tobytes()


def test_fortran_ordered_and_read_only_features_are_accepted():
    x = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    x.flags.writeable = False
    mean, _ = mean_and_scale(x, np.array([0, 3]), np.arange(3))
    assert mean.tolist() == [[2.0, 3.0]]


def test_unusable_features_are_refused_with_the_value_met():
    with pytest.raises(InvalidInputError, match=r"int64 of shape \(2, 1\)"):
        mean_and_scale(np.ones((2, 1), dtype=np.int64), np.array([0, 1]), np.array([0]))
    with pytest.raises(InvalidInputError, match=r"float64 of shape \(2,\)"):
        mean_and_scale(np.ones(2), np.array([0, 1]), np.array([0]))
    with pytest.raises(InvalidInputError, match="nodes must lie in 0…1, but span 2…2"):
        mean_and_scale(np.ones((2, 1)), np.array([0, 1]), np.array([2]))


def test_the_examples_in_the_documentation_run():
    failed, attempted = doctest.testmod(normalization)
    assert attempted > 0
    assert failed == 0
