"""A transformer layer at once is its parts one after the other, to the last bit."""

import numpy as np
import pytest
import torch

from leap.models import grouped, noise
from leap.models.rows import Rows
from leap.models.sequences import encode_sequences
from leap.store.errors import InvalidInputError

EPS = 1e-5


def setting(head=16, feed=24, rows=None, count=14):
    """Rows of three of four networks, in sequences of which one is empty, and parameters."""
    rng = torch.Generator().manual_seed(1)
    shapes = [(3 * head, head), (3 * head,), (head, head), (head,), (feed, head), (feed,), (head, feed), (head,)]
    parameters = [(torch.randn(4, *shape, generator=rng) / 4).requires_grad_() for shape in [*shapes, *[(head,)] * 4]]
    x = torch.randn(count, head, generator=rng, requires_grad=True)
    rows = Rows.of([5, 0, 9], [2, 0, 3], noise.keys(np.arange(3), 1, 2)) if rows is None else rows
    return x, np.array([0, 3, 5, 5, 6, count]), rows, parameters


def part_by_part(x, ptr, rows, parameters, eps, drop, keys):
    in_weight, in_bias, out_weight, out_bias, *maps, scale, shift, last_scale, last_shift = parameters
    keys = [own if len(own) else None for own in keys]
    seen = grouped.self_attention(grouped.linear(x, in_weight, in_bias, rows), ptr, drop=drop, keys=keys[0], rows=rows)
    seen = grouped.linear(seen, out_weight, out_bias, rows, drop=drop, keys=keys[1])
    x = grouped.layer_norm(x, scale, shift, rows, eps, residual=seen)
    wide = grouped.linear(x, *maps[:2], rows, relu=True, drop=drop, keys=keys[2])
    wide = grouped.linear(wide, *maps[2:], rows, drop=drop, keys=keys[3])
    return grouped.layer_norm(x, last_scale, last_shift, rows, eps, residual=wide)


@pytest.mark.parametrize("drop", [0.0, 0.3])
@pytest.mark.parametrize(("head", "feed"), [(16, 64), (5, 7), (8, 9)])
def test_values_and_gradients_are_those_of_the_parts(head, feed, drop):
    x, ptr, rows, parameters = setting(head, feed)
    keys = noise.sites(rows.noise if drop else None, 3, 4)
    found, expected = (layer(x, ptr, rows, parameters, EPS, drop, keys) for layer in (encode_sequences, part_by_part))
    assert torch.equal(found, expected)
    upstream = torch.randn(found.shape, generator=torch.Generator().manual_seed(2))
    inputs = [x, *parameters]
    for one, other in zip(*(torch.autograd.grad(out, inputs, upstream) for out in (found, expected)), strict=True):
        assert torch.equal(one, other)


def test_keys_of_several_sites_are_those_of_each():
    keys = noise.keys(np.arange(3), 1, 2)
    assert np.array_equal(noise.sites(keys, 5, 4), [noise.site(keys, number) for number in range(5, 9)])
    assert noise.sites(None, 5, 4).shape == (4, 0)


def test_no_rows_are_fine():
    x, _, rows, parameters = setting(rows=Rows.of([0], [1]), count=0)
    out = encode_sequences(x, np.array([0, 0]), rows, parameters, EPS, 0.0, noise.sites(None, 0, 4))
    out.sum().backward()
    assert not parameters[0].grad.any()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (Rows.of([5, 9], [1, 1]), "different numbers"),
        (Rows.of([5, 8], [1, 2]), "14"),
        (Rows.of([4, 10], [1, 2]), "rows of two networks"),
        (Rows(np.array([0, 5, 14]), None, np.array([1])), "as many pointers"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows, message):
    x, ptr, _, parameters = setting()
    with pytest.raises(InvalidInputError, match=message):
        encode_sequences(x, ptr, rows, parameters, EPS, 0.0, noise.sites(None, 0, 4))


def test_parameters_of_other_shapes_are_refused():
    x, ptr, rows, parameters = setting()
    with pytest.raises(InvalidInputError, match=r"must have shape \(4, 16\)"):
        encode_sequences(x, ptr, rows, [*parameters[:-1], parameters[-1][:, 1:]], EPS, 0.0, noise.sites(None, 0, 4))


def test_second_derivatives_are_refused():
    x, ptr, rows, parameters = setting()
    out = encode_sequences(x, ptr, rows, parameters, EPS, 0.0, noise.sites(None, 0, 4))
    (found,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    with pytest.raises(InvalidInputError, match="encode_sequences in float32"):
        found.square().sum().backward()
