"""All layers at once are the layers one after the other, to the last bit."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from leap.models.convolutions import sum_layers
from leap.models.grouped import linear
from leap.models.messages import Weights, gather, gcn_weights, sum_weights
from leap.models.rows import Rows
from leap.store.errors import InvalidInputError

COUNTS, WIDTHS = [5, 0, 9], [3, 7, 16, 2]


def setting(widths=WIDTHS, rows=None, count=14, networks=4):
    """Features, edges, parameters of four networks and rows of three of them."""
    rng = torch.Generator().manual_seed(1)
    edges = torch.randint(0, max(count, 1), (2, 3 * count), generator=rng)
    x = torch.randn(count, widths[0], generator=rng, requires_grad=True)
    maps = [
        (
            torch.randn(networks, after, before, generator=rng, requires_grad=True),
            torch.randn(networks, after, generator=rng, requires_grad=True),
        )
        for before, after in pairwise(widths)
    ]
    return x, edges, maps, Rows.of(COUNTS, [2, 0, 3]) if rows is None else rows


def one_by_one(x, edges, weights, maps, rows):
    for number, (weight, bias) in enumerate(maps, 1):
        x = linear(gather(x, edges, weights), weight, bias, rows, relu=number < len(maps))
    return x


@pytest.mark.parametrize("make_weights", [gcn_weights, sum_weights])
@pytest.mark.parametrize("widths", [WIDTHS, [3, 4], [8, 8, 8, 8, 8, 8]], ids=["three", "one", "five"])
def test_values_and_gradients_are_those_of_the_single_layers(make_weights, widths):
    x, edges, maps, rows = setting(widths)
    weights, inputs = make_weights(edges, len(x)), [x, *(parameter for pair in maps for parameter in pair)]
    found, expected = (layers(x, edges, weights, maps, rows) for layers in (sum_layers, one_by_one))
    assert torch.equal(found, expected)
    upstream = torch.randn(found.shape, generator=torch.Generator().manual_seed(2))
    for one, other in zip(*(torch.autograd.grad(out, inputs, upstream) for out in (found, expected)), strict=True):
        assert torch.equal(one, other)


def test_a_gradient_of_features_that_nobody_wants_is_not_needed():
    x, edges, maps, rows = setting()
    weights = sum_weights(edges, len(x))
    wanted = [parameter for pair in maps for parameter in pair]
    found, expected = (
        torch.autograd.grad(layers(x.detach(), edges, weights, maps, rows).sum(), wanted)
        for layers in (sum_layers, one_by_one)
    )
    assert all(map(torch.equal, found, expected))


def test_no_nodes_are_fine():
    x, edges, maps, rows = setting(rows=Rows.of([0], [1]), count=0)
    out = sum_layers(x, edges, sum_weights(edges, 0), maps, rows)
    assert out.shape == (0, 2)
    out.sum().backward()
    assert not maps[0][0].grad.any()


@pytest.mark.parametrize(
    ("rows", "message"),
    [(Rows.of([5, 9], [1, 1]), "different numbers"), (Rows.of([5, 8], [1, 2]), "14"), (Rows.of([14], [4]), "0…3")],
)
def test_rows_that_do_not_fit_are_refused(rows, message):
    x, edges, maps, _ = setting()
    with pytest.raises(InvalidInputError, match=message):
        sum_layers(x, edges, sum_weights(edges, len(x)), maps, rows)


def test_edges_and_shapes_that_do_not_fit_are_refused():
    x, edges, maps, rows = setting()
    weights = sum_weights(edges, len(x))
    wrong = edges.clone()
    wrong[1, 3] = 14
    with pytest.raises(InvalidInputError, match="edge_index"):
        sum_layers(x, wrong, weights, maps, rows)
    with pytest.raises(InvalidInputError, match="must map 3 columns"):
        sum_layers(x, edges, weights, maps[1:], rows)
    with pytest.raises(InvalidInputError, match="a weight for each edge and node"):
        sum_layers(x, edges, Weights(weights.edges[1:], weights.own), maps, rows)


def test_second_derivatives_are_refused():
    x, edges, maps, rows = setting()
    (found,) = torch.autograd.grad(
        sum_layers(x, edges, sum_weights(edges, len(x)), maps, rows).sum(), x, create_graph=True
    )
    with pytest.raises(InvalidInputError, match="sum_layers in float32"):
        found.square().sum().backward()


def test_a_network_has_the_same_bits_alone():
    x, edges, maps, _ = setting()
    inside = torch.randint(0, 5, (2, 12), generator=torch.Generator().manual_seed(3))
    edges = torch.cat([inside, 5 + torch.randint(0, 9, (2, 20), generator=torch.Generator().manual_seed(4))], dim=1)
    both = sum_layers(x, edges, gcn_weights(edges, 14), maps, Rows.of([5, 9], [2, 3]))
    alone = sum_layers(x[:5], inside, gcn_weights(inside, 5), maps, Rows.of([5], [2]))
    assert torch.equal(both[:5], alone)
    assert np.isfinite(both.detach().numpy()).all()


@pytest.mark.parametrize("change", [torch.Tensor.double, torch.Tensor.half, lambda tensor: tensor.to("meta")])
def test_numbers_that_loops_would_misread_are_refused(change):
    x, edges, maps, rows = setting()
    weights = sum_weights(edges, len(x))
    with pytest.raises(InvalidInputError, match="take float32 on the CPU"):
        sum_layers(change(x), edges, weights, maps, rows)
    with pytest.raises(InvalidInputError, match="take float32 on the CPU"):
        sum_layers(x, edges, weights, [maps[0], (change(maps[1][0]), maps[1][1]), *maps[2:]], rows)


def test_weights_and_edges_that_loops_cannot_read_are_refused():
    x, edges, maps, rows = setting()
    weights = sum_weights(edges, len(x))
    with pytest.raises(InvalidInputError, match="on meta"):
        sum_layers(x, edges, Weights(weights.edges.to("meta"), weights.own), maps, rows)
    for kind in (torch.bool, torch.complex64):
        with pytest.raises(InvalidInputError, match="edge_index must hold integers"):
            sum_layers(x, edges.to(kind), weights, maps, rows)
    with pytest.raises(InvalidInputError, match="at least one layer"):
        sum_layers(x, edges, weights, [], rows)
