"""Attention is the dense one of each sequence; a transformer layer at once is its parts, to the last bit."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from leap.models import grouped, noise
from leap.models.rows import Rows
from leap.models.sequences import encode_sequences, self_attention
from leap.store.errors import InvalidInputError
from tests.models.test_grouped import BOTH, assert_equal_with_gradients, normal, pointers, same_bits

EPS = 1e-5

LENGTHS = [(4, 0, 1, 9, 0), (16, 16), (17, 33, 8), (75,), (), (0, 0)]


@BOTH
@pytest.mark.parametrize("head", [1, 8, 12, 16, 32])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_self_attention_equals_the_dense_one_of_each_sequence(lengths, head, dtype):
    ptr, qkv = pointers(*lengths), normal(sum(lengths), 3 * head, dtype=dtype)
    parts = [
        functional.scaled_dot_product_attention(*(part[None] for part in qkv[a:b].double().split(head, dim=1)))[0]
        for a, b in itertools.pairwise(ptr)
        if b > a
    ]
    wanted = torch.cat(parts) if parts else qkv.double()[:, :head]
    assert_equal_with_gradients(self_attention(qkv, ptr), wanted, [qkv])


@BOTH
def test_dropout_of_attention_is_that_of_the_definition(dtype):
    ptr, head, drop = pointers(4, 0, 1, 9, 20), 12, 0.3
    rows, keys = Rows.of([5, 0, 29]), noise.keys([4, 5, 6], 0, 0)
    qkv = normal(34, 3 * head, dtype=dtype)
    parts = []
    for a, b in itertools.pairwise(ptr):
        network = 0 if a < 5 else 2
        local = np.arange(a, b) - rows.ptr[network]
        places = ((local[:, None] << 24) + np.arange(b - a)).astype(np.uint64).ravel()
        upper = noise.random_bits(np.full(len(places), keys[network]), places) >> np.uint64(32)
        factors = torch.from_numpy(np.where(upper < drop * 2**32, 0.0, 1 / (1 - drop)).reshape(b - a, b - a))
        query, key, value = qkv[a:b].double().split(head, dim=1)
        parts.append(((query @ key.T / math.sqrt(head)).softmax(1) * factors) @ value)
    assert_equal_with_gradients(self_attention(qkv, ptr, drop=drop, keys=keys, rows=rows), torch.cat(parts), [qkv])


@BOTH
def test_attention_between_networks_is_refused(dtype):
    qkv, keys = normal(5, 6, dtype=dtype), noise.keys([1, 2], 0, 0)
    for counts in ([3, 2], [0, 5], [5, 0]):
        assert self_attention(qkv, pointers(1, 2, 0, 2), drop=0.5, keys=keys, rows=Rows.of(counts)).shape == (5, 2)
    with pytest.raises(InvalidInputError, match="rows of two networks"):
        self_attention(qkv, pointers(1, 2, 0, 2), drop=0.5, keys=keys, rows=Rows.of([2, 3]))
    with pytest.raises(InvalidInputError, match=r"keys must be uint64 of shape \(1,\)"):
        self_attention(qkv, pointers(5), drop=0.5, keys=keys)
    with pytest.raises(InvalidInputError, match=r"rows\.ptr must rise from 0 to 5"):
        self_attention(qkv, pointers(5), drop=0.5, keys=keys, rows=Rows.of([2, 2]))


@BOTH
def test_attention_without_rows_has_one_network(dtype):
    qkv, key = normal(5, 6, dtype=dtype), noise.keys(1, 0, 0)
    wanted = self_attention(qkv, pointers(3, 2), drop=0.5, keys=key, rows=Rows.of([5]))
    assert same_bits(self_attention(qkv, pointers(3, 2), drop=0.5, keys=key), wanted)
    assert not same_bits(self_attention(qkv, pointers(3, 2)), wanted)


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
    seen = self_attention(grouped.linear(x, in_weight, in_bias, rows), ptr, drop=drop, keys=keys[0], rows=rows)
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


@pytest.mark.parametrize("number", [0, 1, 6, 12])
@pytest.mark.parametrize("change", [torch.Tensor.double, torch.Tensor.half, lambda tensor: tensor.to("meta")])
def test_numbers_that_loops_would_misread_are_refused(number, change):
    x, ptr, rows, parameters = setting()
    tensors = [x, *parameters]
    tensors[number] = change(tensors[number])
    with pytest.raises(InvalidInputError, match="take float32 on the CPU"):
        encode_sequences(tensors[0], ptr, rows, tensors[1:], EPS, 0.0, noise.sites(None, 0, 4))


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_keys_of_another_type_are_refused(kind):
    x, ptr, rows, parameters = setting()
    with pytest.raises(InvalidInputError, match="keys must be uint64"):
        encode_sequences(x, ptr, rows, parameters, EPS, 0.5, np.zeros((4, 3), kind))
