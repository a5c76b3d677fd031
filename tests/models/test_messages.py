"""Sums over neighbours equal products with a dense matrix, forward and backward."""

import networkx as nx
import numpy as np
import pytest
import torch

from leap.models.messages import gather, gcn_weights, sum_weights


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
