"""Sums over neighbours equal products with a dense matrix, forward and backward."""

import networkx as nx
import numpy as np
import pytest
import torch

from leap.models import backbones
from leap.models.backbones import GraphBatch, make_backbone
from leap.models.messages import Sums, gather, gcn_weights, sum_weights
from leap.store.errors import InvalidInputError


def random_graph(seed: int, nodes: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    graph = nx.gnp_random_graph(nodes, 0.25, seed=seed)
    edges = torch.tensor(list(graph.edges), dtype=torch.int64).reshape(-1, 2).T
    adjacency = torch.from_numpy(nx.to_numpy_array(graph))
    return torch.cat([edges, edges.flip(0)], dim=1), adjacency


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gcn_weights_are_the_normalized_adjacency_with_self_loops(seed, dtype):
    edge_index, adjacency = random_graph(seed)
    looped = adjacency + torch.eye(len(adjacency), dtype=torch.float64)
    root = looped.sum(0) ** -0.5
    check(edge_index, gcn_weights(edge_index, len(adjacency)), root[:, None] * looped * root, dtype)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sum_weights_are_the_adjacency_with_self_loops(seed, dtype):
    edge_index, adjacency = random_graph(seed)
    looped = adjacency + torch.eye(len(adjacency), dtype=torch.float64)
    check(edge_index, sum_weights(edge_index, len(adjacency)), looped, dtype)


def check(edge_index, weights, matrix, dtype):
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(len(matrix), 5))).to(dtype).requires_grad_()
    upstream = torch.from_numpy(rng.normal(size=(len(matrix), 5))).to(dtype)
    out = gather(x, edge_index, weights)
    out.backward(upstream)
    torch.testing.assert_close(out.double(), matrix @ x.detach().double(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(x.grad.double(), matrix.T @ upstream.double(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_directed_edges_carry_gradients_backwards(dtype):
    edge_index = torch.tensor([[0, 0, 1], [1, 2, 2]])
    x = torch.ones(3, 2, dtype=dtype, requires_grad=True)
    out = gather(x, edge_index, sum_weights(edge_index, 3))
    assert out[:, 0].tolist() == [1, 2, 3]
    out.sum().backward()
    assert x.grad[:, 0].tolist() == [3, 2, 1]


@pytest.mark.parametrize("columns", [1, 7, 8, 16, 31, 64, 143])
@pytest.mark.parametrize("of", [gcn_weights, sum_weights])
def test_sums_along_sorted_edges_have_the_bits_of_those_along_listed_ones(columns, of):
    generator = torch.Generator().manual_seed(columns)
    edges = torch.randint(50, (2, 700), generator=generator)
    weights, found = of(edges, 50), []
    for operation in (Sums(edges, weights), lambda x: gather(x, edges, weights)):
        x = torch.randn(50, columns, generator=torch.Generator().manual_seed(1)).requires_grad_()
        out = operation(x)
        (out * torch.linspace(-1, 1, columns)).square().sum().backward()
        found.append((out.detach(), x.grad))
    for ours, other in zip(*found, strict=True):
        assert torch.equal(ours, other)


def test_sums_refuse_what_does_not_fit():
    edges = torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(InvalidInputError, match=r"must lie in 0…1, but span 0…2"):
        Sums(edges, sum_weights(edges, 2))
    sums = Sums(edges, sum_weights(edges, 3))
    for wrong in (torch.zeros(2, 4), torch.zeros(3)):
        with pytest.raises(InvalidInputError, match=r"x must have shape \(3, d\)"):
            sums(wrong)
    with pytest.raises(InvalidInputError, match="float64"):
        sums(torch.zeros(3, 4, dtype=torch.float64))


def test_the_sums_of_a_large_graph_are_those_of_its_listed_edges(monkeypatch):
    edges = torch.randint(60, (2, 900), generator=torch.Generator().manual_seed(0))
    x = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
    for name in ("gcn", "gin"):
        backbone, found = make_backbone(name, 4, 3), []
        for many in (900, 901):
            monkeypatch.setattr(backbones, "MANY", many)
            graphs = GraphBatch(edges, torch.tensor([0, 60]), torch.zeros(60, dtype=torch.int64))
            found += [backbone(x, graphs), backbone(x, graphs)]
        assert all(torch.equal(found[0], each) for each in found)
