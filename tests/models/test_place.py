"""A node's place in its neighbourhood is what the definition says, with its gradients."""

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.models import LEAP, place
from leap.models.kernels.normalization import mean_and_scale
from leap.models.transform import Statistics
from leap.pipeline import khop
from leap.store.errors import InvalidInputError
from tests.strategies import simple_graphs


def setting(seed=0, nodes=9, dim=3):
    graph = nx.gnp_random_graph(nodes, 0.3, seed=seed)
    edges = np.array(graph.edges, dtype=np.int64).reshape(-1, 2).T
    x = torch.from_numpy(np.random.default_rng(seed).normal(size=(nodes, dim)))
    return x, khop(edges, nodes)


@settings(max_examples=40, deadline=None)
@given(simple_graphs(), st.integers(1, 2), st.integers(0, 5))
def test_a_place_is_position_width_and_size(graph, hops, seed):
    x = np.random.default_rng(seed).normal(size=(graph.num_nodes, 2)) + 100
    met = place(torch.from_numpy(x.astype(np.float32)), khop(graph.edge_index, graph.num_nodes, hops)).numpy()
    oracle = graph.to_networkx()
    for v in range(graph.num_nodes):
        members = x[list(nx.ego_graph(oracle, v, radius=hops))]
        width = np.linalg.norm(members - members.mean(0), axis=1).max()
        wanted = [*(x[v] - members.mean(0)) / (width + 1e-6), np.log(1 + width), np.log(1 + len(members))]
        np.testing.assert_allclose(met[v], wanted, atol=2e-4)


def test_gradients_are_finite_differences():
    x, hoods = setting()
    assert torch.autograd.gradcheck(lambda x: place(x, hoods), (x.requires_grad_(),))


def test_the_compiled_path_has_the_gradients_of_double_precision():
    exact, hoods = setting(seed=3, nodes=30)
    upstream = torch.from_numpy(np.random.default_rng(1).normal(size=(30, 5)))
    single, exact = exact.float().requires_grad_(), exact.requires_grad_()
    for x in (single, exact):
        place(x, hoods).backward(upstream.to(x.dtype))
    torch.testing.assert_close(single.grad.double(), exact.grad, rtol=1e-4, atol=1e-5)


def test_given_statistics_give_the_same_and_count_as_constants():
    x, hoods = setting()
    x = x.float().requires_grad_()
    stats = Statistics(*map(torch.from_numpy, mean_and_scale(x.detach().numpy(), hoods.node_ptr, hoods.nodes)))
    met = place(x, hoods, stats)
    torch.testing.assert_close(met, place(x, hoods))
    met[:, -2:].sum().backward()
    assert x.grad is None or not x.grad.any()


def test_a_constant_neighbourhood_has_no_width_and_its_nodes_no_position():
    met = place(torch.full((3, 2), 7.3), khop([[0], [1]], 3))
    assert not met[:, :3].any()
    assert met[:, 3].tolist() == pytest.approx(np.log([3, 3, 2]))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_neighbourhoods(value):
    x, hoods = torch.zeros(5, 2), khop([[0, 1, 3], [1, 2, 4]], 5)
    x[:, 0] = torch.arange(5)
    clean, x[0, 1] = place(x, hoods), value
    met = place(x, hoods)
    assert not met[:2].isfinite().all(dim=1).any()
    assert torch.equal(met[2:], clean[2:])


def test_shapes_that_do_not_fit_are_named():
    x, hoods = setting()
    with pytest.raises(InvalidInputError, match="x has 8 rows"):
        place(x[:8], hoods)
    with pytest.raises(InvalidInputError, match=r"stats mean must have shape \(9, 3\)"):
        place(x, hoods, (x[:, :2], x[:, 0]))
    with pytest.raises(InvalidInputError, match="floating point"):
        place(x.long(), hoods)


def test_second_derivatives_are_refused():
    x, hoods = setting()
    x = x.float().requires_grad_()
    (found,) = torch.autograd.grad(place(x, hoods).square().sum(), x, create_graph=True)
    with pytest.raises(InvalidInputError, match="no second derivative"):
        found.sum().backward()


@pytest.mark.parametrize("hops", [(1,), (1, 2)])
def test_an_encoder_puts_places_beside_its_encoding(hops):
    x, _ = setting()
    hoods = [khop([[0, 1, 2], [1, 2, 3]], 9, count) for count in hops]
    torch.manual_seed(4)
    plain = LEAP(3, 10, hops=hops, seed=1)
    placed = LEAP(3, 10, hops=hops, place=True, seed=1)
    met = placed(x.float(), hoods)
    assert met.shape == (9, placed.columns) == (9, 10 + 5 * len(hops))
    assert torch.equal(met[:, :10], plain(x.float(), hoods))
    assert torch.equal(met[:, 10:], torch.cat([place(x.float(), hood) for hood in hoods], dim=1))
