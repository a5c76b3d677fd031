"""Second derivatives: right in double precision, refused in words where kernels have none."""

import networkx as nx
import pytest
import torch

from leap.models import dect
from leap.models.messages import attend, gather, sum_weights
from leap.store.errors import InvalidInputError
from tests.models.test_dect import setting


def penalty(loss, inputs):
    """The size of the gradient, as a term to be minimized."""
    return sum(part.square().sum() for part in torch.autograd.grad(loss, inputs, create_graph=True))


@pytest.mark.parametrize("loss", [torch.sum, lambda out: out.square().sum()], ids=["sum", "squares"])
@pytest.mark.parametrize("number", [0, 1, 2], ids=["features", "directions", "thresholds"])
def test_the_kernel_refuses_second_derivatives(loss, number):
    x, hoods, along, grid = setting(nx.path_graph(6), dtype=torch.float32)
    inputs = [x, along, grid]
    inputs[number].requires_grad_()
    value = loss(dect(inputs[0], hoods, *inputs[1:], 8.0))
    with pytest.raises(InvalidInputError, match=r"dect in float32 on the CPU has no second derivative.*\.double"):
        (value + penalty(value, [inputs[number]])).backward()


def test_a_graph_of_the_gradient_alone_is_no_error():
    x, hoods, along, grid = setting(nx.path_graph(6), dtype=torch.float32)
    x.requires_grad_()
    (kept,) = torch.autograd.grad(dect(x, hoods, along, grid, 8.0).sum(), x, create_graph=True)
    (plain,) = torch.autograd.grad(dect(x, hoods, along, grid, 8.0).sum(), x)
    assert torch.equal(kept.detach(), plain)


def test_second_derivatives_in_double_precision_are_right():
    x, hoods, along, grid = setting(nx.gnp_random_graph(5, 0.5, seed=1), dim=2, directions=2, thresholds=3)
    inputs = [tensor.requires_grad_() for tensor in (x, along, grid)]
    assert torch.autograd.gradgradcheck(lambda a, b, c: dect(a, hoods, b, c, 4.0), inputs)


def test_attention_and_sums_over_neighbours_refuse_second_derivatives():
    edges = torch.tensor([[0, 1, 2, 2], [1, 0, 1, 2]])
    x, scores = torch.randn(3, 2, requires_grad=True), torch.randn(3, 2, requires_grad=True)
    with pytest.raises(InvalidInputError, match="attend in float32"):
        penalty(attend(x, scores, edges).sum(), [x, scores]).backward()
    with pytest.raises(InvalidInputError, match="gather in float32"):
        penalty(gather(x, edges, sum_weights(edges, 3)).square().sum(), [x]).backward()
