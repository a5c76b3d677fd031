"""`dect`: the formula, its limit, its gradients, and the laws it must obey."""

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.models import dect
from leap.models.kernels.directions import random_directions, threshold_grid
from leap.models.kernels.normalization import mean_and_scale
from leap.models.transform import Statistics
from leap.pipeline import khop
from leap.store.errors import InvalidInputError
from tests.strategies import simple_graphs


def setting(graph, dim=3, directions=5, thresholds=7, hops=1, seed=0, dtype=torch.float64):
    """Random features, neighbourhoods, unit directions and a grid for a networkx graph."""
    generator = torch.Generator().manual_seed(seed)
    nodes = graph.number_of_nodes()
    edges = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2).T
    x = torch.randn(nodes, dim, generator=generator, dtype=dtype)
    along = torch.from_numpy(random_directions(dim, directions, seed)).to(dtype)
    return x, khop(edges, nodes, hops), along, torch.from_numpy(threshold_grid(thresholds, 1.1)).to(dtype)


def normalized(graph, x, v, hops):
    """Neighbourhood by networkx, and its features normalized by numpy."""
    part = nx.ego_graph(graph, v, radius=hops)
    values = x.detach().double().numpy()[list(part.nodes)]
    centred = values - values.mean(0)
    features = centred / (np.linalg.norm(centred, axis=1).max() + 1e-6)
    return part, dict(zip(part.nodes, features, strict=True))


def direct(graph, x, along, grid, scale, hops=1, edge_weight=1.0):
    """Every sigmoid of the formula, in float64."""
    out = np.zeros((len(x), along.shape[1], len(grid)))
    theta, t = along.detach().double().numpy(), grid.detach().double().numpy()
    for v in graph.nodes:
        part, f = normalized(graph, x, v, hops)
        for u in part.nodes:
            out[v] += 1 / (1 + np.exp(np.clip(-scale * (t - (f[u] @ theta)[:, None]), -700, 700)))
        for a, b in part.edges:
            top = np.maximum(f[a] @ theta, f[b] @ theta)[:, None]
            out[v] -= edge_weight / (1 + np.exp(np.clip(-scale * (t - top), -700, 700)))
    return out


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("edge_weight", [1.0, 2.0])
def test_double_precision_equals_the_formula(hops, edge_weight):
    graph = nx.gnp_random_graph(20, 0.15, seed=3)
    x, hoods, along, grid = setting(graph, hops=hops)
    ours = dect(x, hoods, along, grid, 16.0, edge_weight=edge_weight)
    np.testing.assert_allclose(ours, direct(graph, x, along, grid, 16.0, hops, edge_weight), atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(simple_graphs(max_nodes=12), st.integers(0, 100))
def test_a_steep_transform_is_the_combinatorial_euler_characteristic(graph, seed):
    whole = graph.to_networkx()
    x, hoods, along, grid = setting(whole, seed=seed)
    ours = dect(x, hoods, along, grid, 1e9)
    for v in whole.nodes:
        part, f = normalized(whole, x, v, 1)
        for i in range(along.shape[1]):
            heights = {u: float(f[u] @ along[:, i].numpy()) for u in part.nodes}
            for j, t in enumerate(grid.tolist()):
                if min(abs(h - t) for h in heights.values()) < 1e-6:
                    continue  # on the step itself the sigmoid is one half
                below = part.subgraph([u for u, h in heights.items() if h < t])
                assert float(ours[v, i, j]) == pytest.approx(len(below) - below.number_of_edges(), abs=1e-6)


def test_gradients_of_features_directions_and_thresholds_are_right():
    x, hoods, along, grid = setting(nx.gnp_random_graph(9, 0.3, seed=1), directions=3, thresholds=4)
    inputs = [tensor.requires_grad_() for tensor in (x, along, grid)]
    assert torch.autograd.gradcheck(lambda a, b, c: dect(a, hoods, b, c, 6.0), inputs)


@pytest.mark.parametrize("scale", [2.0, 8.0, 32.0, 128.0, 512.0])
@pytest.mark.parametrize("thresholds", [1, 2, 3, 16, 64])
def test_the_fused_kernel_agrees_with_double_precision(scale, thresholds):
    graph = nx.gnp_random_graph(40, 0.1, seed=2)
    x, hoods, along, grid = setting(graph, dim=2, directions=16, thresholds=thresholds)
    narrow = [tensor.float().requires_grad_() for tensor in (x, along, grid)]
    wide = [tensor.detach().double().requires_grad_() for tensor in narrow]
    ours, reference = dect(narrow[0], hoods, *narrow[1:], scale), dect(wide[0], hoods, *wide[1:], scale)
    # Thresholds are rounded to float32, and the sigmoid multiplies that by its scale.
    tolerance = 1e-6 * (1 + scale / 8)
    torch.testing.assert_close(ours.double(), reference, atol=5 * tolerance, rtol=0)
    upstream = torch.randn(ours.shape, generator=torch.Generator().manual_seed(0))
    found = torch.autograd.grad(ours, narrow, upstream)
    expected = torch.autograd.grad(reference, wide, upstream.double())
    for mine, theirs in zip(found, expected, strict=True):
        size = float(theirs.abs().max()) + scale
        torch.testing.assert_close(mine.double(), theirs, atol=20 * tolerance * size, rtol=0)


@pytest.mark.parametrize("order", [[2, 0, 1, 3], [3, 2, 1, 0]])
def test_thresholds_may_come_in_any_order(order):
    for dtype in (torch.float32, torch.float64):
        x, hoods, along, _ = setting(nx.path_graph(6), dtype=dtype)
        grid = torch.tensor([-0.9, -0.2, 0.35, 0.8], dtype=dtype)
        ours = dect(x, hoods, along, grid[order], 32.0)
        torch.testing.assert_close(ours, dect(x, hoods, along, grid, 32.0)[:, :, order])


@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_features_far_from_zero_lose_nothing(offset):
    graph = nx.gnp_random_graph(30, 0.15, seed=5)
    x, hoods, along, grid = setting(graph, thresholds=16, dtype=torch.float32)
    moved = x + offset
    reference = dect(moved.double(), hoods, along.double(), grid.double(), 128.0)
    torch.testing.assert_close(dect(moved, hoods, along, grid, 128.0).double(), reference, atol=1e-4, rtol=0)


def test_constant_neighbourhoods_in_many_dimensions_are_zeros_not_noise():
    graph = nx.cycle_graph(6)
    x, hoods, along, grid = setting(graph, dim=300, dtype=torch.float32)
    x = x[:1].expand(6, -1).contiguous().requires_grad_()
    out = dect(x, hoods, along, grid, 128.0)
    expected = 3 - 2  # three nodes and two edges, all at height zero
    torch.testing.assert_close(out[:, :, -1], torch.full_like(out[:, :, -1], expected))
    torch.testing.assert_close(out[:, :, 0], torch.zeros_like(out[:, :, 0]))
    out.sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("graph", [nx.empty_graph(1), nx.empty_graph(4), nx.path_graph(2)])
def test_one_node_and_edgeless_neighbourhoods_are_finite(graph, dtype):
    x, hoods, along, grid = setting(graph, dtype=dtype)
    inputs = [tensor.requires_grad_() for tensor in (x, along, grid)]
    out = dect(x, hoods, along, grid, 128.0)
    out.square().sum().backward()
    assert torch.isfinite(out).all()
    assert all(torch.isfinite(tensor.grad).all() for tensor in inputs)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.floats(0.1, 50.0), st.floats(-20.0, 20.0))
def test_moving_and_scaling_features_changes_nothing(seed, factor, shift):
    x, hoods, along, grid = setting(nx.gnp_random_graph(15, 0.2, seed=seed), seed=seed)
    ours = dect(x * factor + shift, hoods, along, grid, 8.0)
    torch.testing.assert_close(ours, dect(x, hoods, along, grid, 8.0), atol=1e-4, rtol=0)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000))
def test_rotating_features_and_directions_together_changes_nothing(seed):
    x, hoods, along, grid = setting(nx.gnp_random_graph(15, 0.2, seed=seed), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    rotation, _ = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64))
    ours = dect(x @ rotation, hoods, rotation.T @ along, grid, 32.0)
    torch.testing.assert_close(ours, dect(x, hoods, along, grid, 32.0))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000))
def test_renumbering_nodes_renumbers_the_result(seed):
    graph = nx.gnp_random_graph(12, 0.25, seed=seed)
    x, hoods, along, grid = setting(graph, seed=seed)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(seed))
    renamed = nx.relabel_nodes(graph, {int(old): new for new, old in enumerate(order)})
    edges = np.array(list(renamed.edges), dtype=np.int64).reshape(-1, 2).T
    ours = dect(x[order], khop(edges, 12), along, grid, 32.0)
    torch.testing.assert_close(ours, dect(x, hoods, along, grid, 32.0)[order])


def test_identical_neighbourhoods_get_identical_rows():
    two = nx.disjoint_union(nx.house_graph(), nx.house_graph())
    x, hoods, along, grid = setting(two, dtype=torch.float32)
    x = torch.cat([x[:5], x[:5]])
    out = dect(x, hoods, along, grid, 128.0)
    assert torch.equal(out[:5], out[5:])


def test_given_statistics_are_used_and_count_as_constants():
    graph = nx.gnp_random_graph(9, 0.3, seed=1)
    x, hoods, along, grid = setting(graph, directions=3, thresholds=4, dtype=torch.float32)
    numpy = hoods.numpy()
    mean, scale = mean_and_scale(x.numpy(), numpy.node_ptr, numpy.nodes)
    stats = Statistics(torch.from_numpy(mean), torch.from_numpy(scale))
    torch.testing.assert_close(
        dect(x, hoods, along, grid, 128.0, stats=stats), dect(x, hoods, along, grid, 128.0), atol=1e-3, rtol=0
    )
    doubled = Statistics(stats.mean, 2 * stats.scale)
    assert not torch.allclose(dect(x, hoods, along, grid, 128.0, stats=doubled), dect(x, hoods, along, grid, 128.0))
    wide = [tensor.double().requires_grad_() for tensor in (x, along, grid)]
    assert torch.autograd.gradcheck(lambda a, b, c: dect(a, hoods, b, c, 4.0, stats=stats), wide)


def test_chunks_do_not_change_the_result_or_its_gradient(monkeypatch):
    x, hoods, along, grid = setting(nx.gnp_random_graph(25, 0.2, seed=0))
    x.requires_grad_()
    whole = dect(x, hoods, along, grid, 16.0)
    (expected,) = torch.autograd.grad(whole.square().sum(), x)
    monkeypatch.setattr("leap.models.transform.CHUNK_CELLS", 500)
    pieces = dect(x, hoods, along, grid, 16.0)
    (found,) = torch.autograd.grad(pieces.square().sum(), x)
    torch.testing.assert_close(pieces, whole)
    torch.testing.assert_close(found, expected)


def test_the_result_does_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr("leap.models.fused.SERIAL_WORK", 0)
    x, hoods, along, grid = setting(nx.gnp_random_graph(60, 0.1, seed=0), directions=16, dtype=torch.float32)
    results = []
    before = torch.get_num_threads()
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        theta = along.clone().requires_grad_()
        out = dect(x, hoods, theta, grid, 64.0)
        out.square().sum().backward()
        results.append((out.detach(), theta.grad))
    torch.set_num_threads(before)
    for out, gradient in results[1:]:
        assert torch.equal(out, results[0][0])
        assert torch.equal(gradient, results[0][1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: {**a, "directions": a["directions"][:2]}, r"directions must have shape \(3, 5\)"),
        (lambda a: {**a, "x": a["x"][:4]}, "x has 4 rows"),
        (lambda a: {**a, "thresholds": a["thresholds"][:, None]}, "thresholds must have shape"),
        (lambda a: {**a, "scale": 0.0}, "scale must be positive"),
        (lambda a: {**a, "x": a["x"].long()}, "floating point"),
        (lambda a: {**a, "directions": a["directions"].to("meta")}, "directions must hold real numbers on cpu"),
        (lambda a: {**a, "thresholds": a["thresholds"].to("meta")}, "thresholds must hold real numbers on cpu"),
        (lambda a: {**a, "directions": a["directions"] + 0j}, "Got complex"),
    ],
)
def test_shapes_that_do_not_fit_are_named(change, message):
    x, hoods, along, grid = setting(nx.path_graph(6))
    arguments = {"x": x, "neighborhoods": hoods, "directions": along, "thresholds": grid, "scale": 8.0}
    with pytest.raises(InvalidInputError, match=message):
        dect(**change(arguments))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_nodes_give_no_rows_and_gradients_of_zeros(dtype):
    x = torch.zeros(0, 3, dtype=dtype, requires_grad=True)
    directions = torch.eye(3, dtype=dtype, requires_grad=True)
    thresholds = torch.linspace(-1, 1, 4, dtype=dtype, requires_grad=True)
    out = dect(x, khop(np.zeros((2, 0), np.int64), 0), directions, thresholds, 8.0)
    assert out.shape == (0, 3, 4)
    out.sum().backward()
    assert x.grad.shape == (0, 3)
    assert not directions.grad.any()
    assert not thresholds.grad.any()


@pytest.mark.parametrize("step", [-3, -2, -1, 1, 2, 3])
def test_all_paths_agree_on_what_is_constant(step):
    """Nodes at 1 and 1 + step · ε have the scale |step| ε / 2, which counts if it is not below ε · max|x|."""
    x = np.array([[1.0], [1.0 + step * np.finfo(np.float32).eps]], np.float32)
    is_constant = step in (-1, 1, 2)
    hoods = khop([[0], [1]], 2)
    mean, scale = mean_and_scale(x, hoods.node_ptr, hoods.nodes)
    assert (scale == 0).tolist() == [is_constant] * 2
    for dtype in (torch.float32, torch.float64):
        for stats in (None, (torch.from_numpy(mean).to(dtype), torch.from_numpy(scale).to(dtype))):
            directions, thresholds = torch.ones(1, 1, dtype=dtype), torch.tensor([-0.05, 0.05], dtype=dtype)
            found = dect(torch.from_numpy(x).to(dtype), hoods, directions, thresholds, 1e4, stats=stats)
            # Both nodes and their edge at 0, or one node below both thresholds and the rest above.
            expected = [0.0, 1.0] if is_constant else [1.0, 1.0]
            torch.testing.assert_close(found, torch.tensor([[expected]] * 2, dtype=dtype))


@pytest.mark.parametrize("scale", [128.0, 1e4, 1e5, 1e6, 1e7])
def test_thresholds_that_are_nearly_even_are_where_they_were_put(scale):
    hoods, x, along = khop([[], []], 1), torch.zeros(1, 1), torch.ones(1, 1)
    grid = torch.tensor([-1.1, 1e-6, 1.1])
    wanted = dect(x.double(), hoods, along.double(), grid.double(), scale)
    torch.testing.assert_close(dect(x, hoods, along, grid, scale).double(), wanted, rtol=0, atol=3e-5)


def test_thresholds_may_be_of_any_real_type():
    x, hoods, along, _ = setting(nx.path_graph(6))
    grid = torch.tensor([-1.0, -0.5, 0.0, 0.5, 1.0])
    wanted = dect(x.float(), hoods, along.float(), grid, 8.0)
    for kind in (torch.bfloat16, torch.float16, torch.float64):
        torch.testing.assert_close(dect(x.float(), hoods, along.float(), grid.to(kind), 8.0), wanted)
