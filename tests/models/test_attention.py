"""Attention over neighbours equals PyG's layer and a dense softmax, forward and backward."""

import pytest
import torch
from torch_geometric.nn import GATConv

from leap.models.messages import attend
from tests.models.test_messages import random_graph


def with_loops(edge_index, nodes):
    return torch.cat([edge_index, torch.arange(nodes).expand(2, -1)], dim=1)


def operands(nodes, dtype, width=5, steepness=1.0):
    generator = torch.Generator().manual_seed(nodes)
    x = torch.randn(nodes, width, generator=generator).to(dtype).requires_grad_()
    scores = (steepness * torch.randn(nodes, 2, generator=generator)).to(dtype).requires_grad_()
    return x, scores, torch.randn(nodes, width, generator=generator).to(dtype)


def dense(x, scores, edge_index, slope=0.2):
    """Attention by a full matrix of logits; a repeated edge counts as often as it occurs."""
    count = torch.zeros(len(x), len(x), dtype=x.dtype)
    count.index_put_((edge_index[1], edge_index[0]), torch.ones(edge_index.shape[1], dtype=x.dtype), accumulate=True)
    logits = torch.nn.functional.leaky_relu(scores[:, 1, None] + scores[None, :, 0], slope) + count.log()
    return torch.nan_to_num(logits.softmax(1)) @ x


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("steepness", [1.0, 100.0])
def test_attention_is_a_softmax_over_the_edges_of_a_node(seed, dtype, steepness):
    edge_index, adjacency = random_graph(seed)
    edges = with_loops(edge_index, len(adjacency))
    x, scores, upstream = operands(len(adjacency), dtype, steepness=steepness)
    ours = torch.autograd.grad(attend(x, scores, edges), (x, scores), upstream)
    exact_x, exact_scores = x.detach().double().requires_grad_(), scores.detach().double().requires_grad_()
    expected = dense(exact_x, exact_scores, edges)
    theirs = torch.autograd.grad(expected, (exact_x, exact_scores), upstream.double())
    close = {"rtol": 1e-4, "atol": 1e-5} if dtype is torch.float32 else {"rtol": 1e-10, "atol": 1e-12}
    torch.testing.assert_close(attend(x, scores, edges).double(), expected, **close)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.double(), other, **close)


@pytest.mark.parametrize("seed", range(5))
def test_a_layer_is_pygs(seed):
    edge_index, adjacency = random_graph(seed)
    edges = with_loops(edge_index, len(adjacency))
    torch.manual_seed(seed)
    layer = GATConv(5, 7, heads=1, add_self_loops=False)
    x, _, _ = operands(len(adjacency), torch.float32)
    mapped = layer.lin(x)
    scores = mapped @ torch.cat([layer.att_src[0], layer.att_dst[0]]).T
    ours, theirs = attend(mapped, scores, edges) + layer.bias, layer(x, edges)
    torch.testing.assert_close(ours, theirs)
    learned = (x, layer.lin.weight, layer.att_src, layer.att_dst)
    for one, other in zip(
        torch.autograd.grad(ours.square().sum(), learned),
        torch.autograd.grad(theirs.square().sum(), learned),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nodes_without_edges_get_zeros_and_repeated_edges_count_again(dtype):
    edges = torch.tensor([[0, 0, 1], [2, 2, 2]])
    x, scores, upstream = operands(4, dtype)
    out = attend(x, scores, edges)
    assert out[[0, 1, 3]].eq(0).all()
    torch.testing.assert_close(out, dense(x, scores, edges))
    gradients = torch.autograd.grad(out, (x, scores), upstream)
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_gradients_of_torch_operations_hold_by_finite_differences():
    edge_index, adjacency = random_graph(1, nodes=6)
    x, scores, _ = operands(len(adjacency), torch.float64, width=2)
    edges = with_loops(edge_index, len(adjacency))
    assert torch.autograd.gradcheck(lambda x, scores: attend(x, scores, edges), (x, scores))
