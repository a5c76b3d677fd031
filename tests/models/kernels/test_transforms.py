"""The transforms against direct evaluation of their formulas and against networkx's Euler characteristics."""

from dataclasses import astuple, dataclass

import networkx as nx
import numpy as np
import pytest
from hypothesis import example as always
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.models.kernels.directions import random_directions, threshold_grid
from leap.models.kernels.transforms import dect_forward, ect_forward
from leap.store.errors import InvalidInputError
from tests.strategies import SimpleGraph, simple_graphs


@dataclass
class Case:
    """Neighbourhoods in the arguments' order of the transforms."""

    x: np.ndarray
    node_ptr: np.ndarray
    nodes: np.ndarray
    edge_ptr: np.ndarray
    edges: np.ndarray
    mean: np.ndarray
    scale: np.ndarray


def subgraphs(graph, hops=1):
    return [nx.ego_graph(graph, v, hops) for v in range(graph.number_of_nodes())]


def case_of(parts, x):
    """Pack induced subgraphs with their float64 statistics."""
    node_ptr, edge_ptr, nodes, edges, mean, scale = [0], [0], [], [], [], []
    wide = x.astype(np.float64)
    for part in parts:
        members = list(part.nodes)
        nodes += members
        edges += [(min(e), max(e)) for e in part.edges]
        node_ptr.append(len(nodes))
        edge_ptr.append(len(edges))
        centre = wide[members].mean(axis=0)
        mean.append(centre)
        scale.append(np.linalg.norm(wide[members] - centre, axis=1).max())
    return Case(
        x,
        np.array(node_ptr),
        np.array(nodes, np.int32),
        np.array(edge_ptr),
        np.array(edges, np.int32).reshape(-1, 2).T,
        np.array(mean).reshape(-1, x.shape[1]),
        np.array(scale),
    )


def heights(case, part, v, directions):
    """Normalized heights of one neighbourhood by the plain formula, {node: (D,)} in float64."""
    mean, scale = case.mean[v].astype(np.float64), float(case.scale[v])
    return {u: ((case.x[u].astype(np.float64) - mean) / (scale + 1e-6)) @ directions for u in part.nodes}


def dense_dect(case, parts, directions, thresholds, s, edge_weight=1.0):
    """The formula with every sigmoid evaluated, in float64."""
    out = np.zeros((len(parts), directions.shape[1], len(thresholds)))

    def sigmoid(h):
        return 1 / (1 + np.exp(-np.clip(s * (thresholds[None] - h[:, None]), -700, 700)))

    for v, part in enumerate(parts):
        h = heights(case, part, v, directions)
        for u in part.nodes:
            out[v] += sigmoid(h[u])
        for a, b in part.edges:
            out[v] -= edge_weight * sigmoid(np.maximum(h[a], h[b]))
    return out


def example(seed=0, d=3, n=30, offset=0.0):
    graph = nx.gnp_random_graph(n, 0.15, seed=seed)
    x = (np.random.default_rng(seed).standard_normal((n, d)) + offset).astype(np.float32)
    parts = subgraphs(graph)
    return case_of(parts, x), parts


@pytest.mark.parametrize("s", [2.0, 8.0, 32.0, 128.0, 512.0])
@pytest.mark.parametrize("count", [1, 2, 16, 64])
def test_dect_equals_the_formula(s, count):
    case, parts = example()
    directions, thresholds = random_directions(3, 5), threshold_grid(count, 1.1)
    result = dect_forward(*astuple(case), directions, thresholds, s)
    assert result.shape == (30, 5, count)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, dense_dect(case, parts, directions, thresholds, s), atol=2e-6)


@settings(max_examples=40, deadline=None)
@given(
    simple_graphs(max_nodes=20),
    st.integers(1, 4),
    st.lists(st.floats(-1.2, 1.2), min_size=1, max_size=20, unique=True),
    st.floats(2.0, 512.0),
    st.floats(0.0, 3.0),
    st.integers(0, 2**16),
)
@always(SimpleGraph(1, np.zeros((2, 0), np.int64)), 1, [0.0, 3.4610147886096054e-267], 2.0, 0.0, 0)
def test_dect_equals_the_formula_for_any_ascending_thresholds(graph, d, thresholds, s, edge_weight, seed):
    x = np.random.default_rng(seed).integers(-3, 4, (graph.num_nodes, d)).astype(np.float32)
    parts = subgraphs(graph.to_networkx(), hops=2)
    case = case_of(parts, x)
    directions, grid = random_directions(d, 4, seed), np.sort(thresholds)
    result = dect_forward(*astuple(case), directions, grid, s, edge_weight)
    np.testing.assert_allclose(result, dense_dect(case, parts, directions, grid, s, edge_weight), rtol=1e-6, atol=5e-6)


def test_dect_is_right_for_features_far_from_zero():
    case, parts = example(offset=1e5)
    directions, thresholds = random_directions(3, 8), threshold_grid(16, 1.1)
    result = dect_forward(*astuple(case), directions, thresholds, 128.0)
    np.testing.assert_allclose(result, dense_dect(case, parts, directions, thresholds, 128.0), atol=2e-6)
    # Heights move by what float32 loses of the mean and by no more.
    case.mean = case.mean.astype(np.float32)
    case.scale = case.scale.astype(np.float32)
    rough = dect_forward(*astuple(case), directions, thresholds, 128.0)
    exact_for_that_mean = dense_dect(case, parts, directions, thresholds, 128.0)
    np.testing.assert_allclose(rough, exact_for_that_mean, atol=2e-6)


def test_constant_and_single_neighbourhoods_have_all_heights_at_zero():
    parts = [nx.empty_graph(1), nx.complete_graph(4)]
    x = np.full((4, 2), 1e5, np.float32) + np.float32(0.3)
    case = case_of(parts, x)
    case.mean = case.mean + 0.123  # whatever a rounded mean leaves behind must not count
    case.scale[:] = 0.0
    thresholds = np.array([-0.5, 0.0, 0.5])
    result = dect_forward(*astuple(case), random_directions(2, 3), thresholds, 128.0)
    np.testing.assert_allclose(result[0], [[0.0, 0.5, 1.0]] * 3, atol=1e-7)
    np.testing.assert_allclose(result[1], [[0.0, -1.0, -2.0]] * 3, atol=1e-6)
    exact = ect_forward(*astuple(case), random_directions(2, 3), thresholds)
    assert exact.tolist() == [[[0, 1, 1]] * 3, [[0, -2, -2]] * 3]


@settings(max_examples=40, deadline=None)
@given(simple_graphs(max_nodes=20), st.integers(1, 3), st.integers(1, 40), st.integers(0, 2**16))
def test_ect_is_the_euler_characteristic_of_sublevel_subgraphs(graph, d, count, seed):
    network = graph.to_networkx()
    x = np.random.default_rng(seed).standard_normal((graph.num_nodes, d)).astype(np.float32)
    parts = subgraphs(network)
    case = case_of(parts, x)
    directions, thresholds = random_directions(d, 3, seed), threshold_grid(count, 1.1) + 1e-3
    edges = ect_forward(*astuple(case), directions, thresholds, "edges")
    points = ect_forward(*astuple(case), directions, thresholds, "points")
    assert edges.dtype == points.dtype == np.int32
    for v, part in enumerate(parts):
        h = heights(case, part, v, directions)
        for i in range(3):
            for j, t in enumerate(thresholds):
                below = part.subgraph([u for u in part.nodes if h[u][i] <= t])
                assert points[v, i, j] == below.number_of_nodes()
                cycles = below.number_of_edges() - below.number_of_nodes() + nx.number_connected_components(below)
                assert edges[v, i, j] == nx.number_connected_components(below) - cycles


def test_a_steep_dect_is_the_exact_ect():
    case, _ = example(seed=5)
    directions, thresholds = random_directions(3, 8), threshold_grid(16, 1.1)
    steep = dect_forward(*astuple(case), directions, thresholds, 1e9)
    assert np.array_equal(steep, ect_forward(*astuple(case), directions, thresholds))


def test_published_edge_weight_counts_each_edge_twice():
    case, _ = example(seed=6)
    tail = (random_directions(3, 4), threshold_grid(8, 1.1), 64.0)
    nodes_only = dect_forward(*astuple(case), *tail, 0.0)
    once, twice = dect_forward(*astuple(case), *tail), dect_forward(*astuple(case), *tail, 2.0)
    np.testing.assert_allclose(twice - nodes_only, 2 * (once - nodes_only), atol=1e-5)


def test_bits_depend_neither_on_threads_nor_on_the_other_neighbourhoods():
    case, _ = example(seed=7, n=50, d=20)
    tail = (random_directions(20, 6), threshold_grid(16, 1.1))
    whole = dect_forward(*astuple(case), *tail, 128.0)
    exact = ect_forward(*astuple(case), *tail)
    assert np.array_equal(dect_forward(*astuple(case), *tail, 128.0, threads=3), whole)
    assert np.array_equal(ect_forward(*astuple(case), *tail, threads=3), exact)
    a, b, c, d = case.node_ptr[10], case.node_ptr[20], case.edge_ptr[10], case.edge_ptr[20]
    part = Case(
        case.x,
        case.node_ptr[10:21] - a,
        case.nodes[a:b],
        case.edge_ptr[10:21] - c,
        case.edges[:, c:d],
        case.mean[10:20],
        case.scale[10:20],
    )
    assert np.array_equal(dect_forward(*astuple(part), *tail, 128.0), whole[10:20])


def test_no_neighbourhoods_and_no_members_are_fine():
    empty = case_of([], np.zeros((0, 2), np.float32))
    tail = (random_directions(2, 4), threshold_grid(8, 1.1))
    assert dect_forward(*astuple(empty), *tail, 128.0).shape == (0, 4, 8)
    hollow = Case(
        np.zeros((3, 2), np.float32),
        np.zeros(3, np.int64),
        np.zeros(0, np.int32),
        np.zeros(3, np.int64),
        np.zeros((2, 0), np.int32),
        np.zeros((2, 2)),
        np.zeros(2),
    )
    assert not dect_forward(*astuple(hollow), *tail, 128.0).any()
    assert not ect_forward(*astuple(hollow), *tail).any()


def test_shapes_that_do_not_fit_are_refused():
    case, _ = example()
    good = {"directions": random_directions(3, 4), "thresholds": threshold_grid(8, 1.1), "scale_factor": 8.0}
    wrong = [
        {"directions": random_directions(2, 4)},
        {"thresholds": np.array([0.0, 0.0])},
        {"thresholds": np.zeros(0)},
        {"scale_factor": 0.0},
        {"scale_factor": float("nan")},
    ]
    for change in wrong:
        with pytest.raises(InvalidInputError):
            dect_forward(*astuple(case), **{**good, **change})
    case.mean = case.mean[:-1]
    with pytest.raises(InvalidInputError, match=r"mean must have shape \(30, 3\), got \(29, 3\)"):
        dect_forward(*astuple(case), **good)
    with pytest.raises(InvalidInputError, match="points"):
        ect_forward(*astuple(case), good["directions"], good["thresholds"], "faces")
