"""`dect` where neighbourhoods have many edges, each of which counts with the higher of its ends."""

import networkx as nx
import numpy as np
import pytest
import torch

from leap.models import dect
from leap.models.kernels import dect_forward, mean_and_scale
from leap.models.kernels.directions import random_directions, threshold_grid
from leap.models.transform import Statistics
from leap.pipeline import khop
from leap.store import Neighborhoods

GRAPHS = {
    "complete": nx.complete_graph(9),
    "random": nx.gnp_random_graph(40, 0.4, seed=1),
    "with sparse parts": nx.disjoint_union(nx.complete_graph(12), nx.path_graph(9)),
}


def setting(graph, *, equal=False, cap=None):
    """Features of a graph; `equal` ones are the same for many nodes, so that no one of them is the farthest."""
    edges = np.array(graph.edges, dtype=np.int64).T
    hoods = khop(edges, len(graph), 1, cap=cap)
    x = torch.randn(len(graph), 3, generator=torch.Generator().manual_seed(0))
    x = x.round() if equal else x
    along = torch.from_numpy(random_directions(3, 8)).float()
    return x, hoods, along, torch.from_numpy(threshold_grid(16, 1.1)).float()


def value_and_gradients(case, dtype, scale=16.0, edge_weight=1.0, given=False):
    x, hoods, along, grid = case
    x, along, grid = (each.to(dtype).clone().requires_grad_() for each in (x, along, grid))
    stats = None
    if given:
        numbers = mean_and_scale(x.detach().numpy(), hoods.node_ptr, hoods.nodes)
        stats = Statistics(*(torch.from_numpy(each).to(dtype) for each in numbers))
    out = dect(x, hoods, along, grid, scale, edge_weight=edge_weight, stats=stats)
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    (out * weights.to(dtype)).sum().backward()
    return out.detach(), x.grad, along.grad, grid.grad


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("equal", "given"), [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize("edge_weight", [1.0, 2.0, -0.3, "of each"])
def test_values_and_gradients_are_those_of_double_precision(name, equal, edge_weight, given):
    case = setting(GRAPHS[name], equal=equal)
    if edge_weight == "of each":
        edge_weight = torch.randn(case[1].edges.shape[1], generator=torch.Generator().manual_seed(2))
    ours = value_and_gradients(case, torch.float32, edge_weight=edge_weight, given=given)
    exact = value_and_gradients(case, torch.float64, edge_weight=edge_weight, given=given)
    for own, other in zip(ours, exact, strict=True):
        largest = max(1.0, float(other.abs().max()))
        torch.testing.assert_close(own.double(), other, rtol=0, atol=2e-5 * largest)


def test_values_differ_from_those_edge_by_edge_by_rounding_alone():
    x, hoods, along, grid = setting(GRAPHS["random"])
    stats = mean_and_scale(x.numpy(), hoods.node_ptr, hoods.nodes)
    arrays = (hoods.node_ptr, hoods.nodes, hoods.edge_ptr, hoods.edges)
    each = dect_forward(x.numpy(), *arrays, *stats, along.numpy(), grid.numpy(), 128.0)
    ours = dect(x, hoods, along, grid, 128.0, stats=Statistics(*map(torch.from_numpy, stats)))
    np.testing.assert_allclose(ours.numpy(), each, rtol=0, atol=1e-6 * np.abs(each).max())


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_no_number_is_where_double_precision_has_none(value):
    case = setting(GRAPHS["with sparse parts"])
    case[0][3, 1] = value
    for own, other in zip(
        value_and_gradients(case, torch.float32), value_and_gradients(case, torch.float64), strict=True
    ):
        assert torch.equal(own.isnan(), other.isnan())


def test_edges_between_others_than_the_members_count_as_they_are():
    graph = nx.complete_graph(9)
    x, hoods, along, grid = setting(graph)
    alien = np.array([[0, 1, 2], [6, 7, 8]], hoods.nodes.dtype)
    ends = np.concatenate([[0], np.full(len(graph), 3 + hoods.edges.shape[1] // 9)]).cumsum()
    edges = np.concatenate([part for v in range(9) for part in (hoods.edges[:, 36 * v : 36 * v + 36], alien)], axis=1)
    members = np.concatenate([np.arange(v, v + 6) % 9 for v in range(9)]).astype(hoods.nodes.dtype)
    given = Neighborhoods(np.arange(10) * 6, members, ends, edges, hops=1)
    case = (x, given, along, grid)
    for own, other in zip(
        value_and_gradients(case, torch.float32), value_and_gradients(case, torch.float64), strict=True
    ):
        torch.testing.assert_close(own.double(), other, rtol=0, atol=2e-5 * max(1.0, float(other.abs().max())))


def test_bits_do_not_depend_on_threads(monkeypatch):
    case, found = setting(nx.gnp_random_graph(200, 0.3, seed=2)), []
    monkeypatch.setattr("leap.models.fused.SERIAL_WORK", 0)
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(dect(*case, 128.0))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)
