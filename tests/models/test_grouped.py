"""Grouped operations: dense torch functions as oracles, and bits that depend on a network's own rows alone."""

import contextlib
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.nn import functional

from leap.models import noise
from leap.models.grouped import add_bias, layer_norm, linear, pool
from leap.models.rows import Rows
from leap.models.sequences import self_attention
from leap.store.errors import InvalidInputError

SIZES = [(12, 16), (16, 48), (16, 64), (64, 16), (16, 15), (8, 8), (16, 8), (1, 1), (3, 33), (33, 7), (20, 24)]


def stacked(networks: int, *shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Parameters of a stack as views into a flat tensor with room on both sides, as stacks have them."""
    generator = torch.Generator().manual_seed(seed)
    flat = torch.randn(networks, int(np.prod(shape)) + 37, generator=generator, dtype=dtype)
    return flat[:, 5 : 5 + int(np.prod(shape))].view(networks, *shape).requires_grad_()


def normal(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype).requires_grad_()


def gradients(out: torch.Tensor, inputs: list[torch.Tensor], seed: int = 9) -> list[torch.Tensor]:
    """Gradients for a random upstream that is a function of a row's own place and width only."""
    upstream = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed))
    return list(torch.autograd.grad(out, inputs, upstream.to(out.dtype)))


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether tensors are equal, not-a-number included."""
    return a.shape == b.shape and a.dtype == b.dtype and a.detach().numpy().tobytes() == b.detach().numpy().tobytes()


def dense_linear(x, weight, bias, rows, relu=False, factors=None):
    parts = []
    for i, slot in enumerate(rows.slots):
        own = x[rows.ptr[i] : rows.ptr[i + 1]]
        parts.append(functional.linear(own, weight[slot], None if bias is None else bias[slot]))
    out = torch.cat(parts)
    out = out.relu() if relu else out
    return out if factors is None else out * factors


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("drop", [0.0, 0.3])
@pytest.mark.parametrize("size", SIZES)
def test_linear_equals_the_dense_map_of_each_network(size, drop, relu, dtype):
    inside, outside = size
    keys = noise.keys([3, 4, 5, 6], 0, 0)
    rows = Rows.of([7, 0, 21, 75], slots=[4, 0, 1, 3], noise=keys)
    x, weight = normal(103, inside, dtype=dtype), stacked(5, outside, inside, dtype=dtype)
    bias = stacked(5, outside, seed=2, dtype=dtype)
    factors = noise.dropout_factors(x.new_empty(103, outside), drop, keys, rows) if drop else None
    wanted = dense_linear(x.double(), weight.double(), bias.double(), rows, relu, factors)
    met = linear(x, weight, bias, rows, relu=relu, drop=drop, keys=keys)
    assert met.dtype == dtype
    near = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {}
    torch.testing.assert_close(met.double(), wanted, **near)
    inputs = [x, weight, bias]
    for own, oracle in zip(gradients(met, inputs), gradients(wanted, inputs), strict=True):
        torch.testing.assert_close(own, oracle, **near)


def test_linear_without_bias():
    rows, x, weight = Rows.of([3, 2]), normal(5, 4), stacked(2, 6, 4)
    met, wanted = linear(x, weight, None, rows), dense_linear(x, weight, None, rows)
    torch.testing.assert_close(met, wanted)
    for own, oracle in zip(gradients(met, [x, weight]), gradients(wanted, [x, weight]), strict=True):
        torch.testing.assert_close(own, oracle)


def test_absent_and_empty_networks_get_zero_gradients():
    rows = Rows.of([3, 0], slots=[2, 0])
    x, weight, bias = normal(3, 4), stacked(4, 16, 4), stacked(4, 16)
    for found in gradients(linear(x, weight, bias, rows), [weight, bias]):
        assert not found[[0, 1, 3]].any()
        assert found[2].all()


@pytest.mark.parametrize("counts", [[], [0], [0, 0, 0]])
def test_no_rows_are_fine(counts):
    x, weight, bias = normal(0, 4), stacked(3, 6, 4), stacked(3, 6)
    out = linear(x, weight, bias, Rows.of(counts), relu=True, drop=0.5, keys=noise.keys([1] * len(counts), 0, 0))
    assert out.shape == (0, 6)
    assert [found.abs().sum() for found in gradients(out, [x, weight, bias])] == [0, 0, 0]


def test_linear_in_double_precision_has_right_gradients():
    double = torch.float64
    rows, keys = Rows.of([3, 0, 2], slots=[1, 0, 3]), noise.keys([1, 2, 3], 0, 0)
    inputs = [normal(5, 4, dtype=double), stacked(4, 3, 4, dtype=double), stacked(4, 3, seed=4, dtype=double)]
    assert torch.autograd.gradcheck(lambda *args: linear(*args, rows, drop=0.4, keys=keys), inputs)
    assert torch.autograd.gradcheck(lambda *args: linear(*args, Rows.of([5], slots=[2])), inputs)


def alone_and_together(counts, place, inside, outside, relu, drop):
    """Results and gradients of one network: with the others of a stack, and in a stack of one."""
    networks = len(counts)
    keys = noise.keys(np.arange(networks), 0, 0)
    slots = np.random.default_rng(networks).permutation(networks + 2)[:networks]
    rows = Rows.of(counts, slots=slots)
    total = int(rows.ptr[-1])
    x, weight, bias = normal(total, inside), stacked(networks + 2, outside, inside), stacked(networks + 2, outside)
    upstream = torch.randn(total, outside, generator=torch.Generator().manual_seed(5))
    out = linear(x, weight, bias, rows, relu=relu, drop=drop, keys=keys)
    on_x, on_weight, on_bias = torch.autograd.grad(out, [x, weight, bias], upstream)
    own, slot = slice(rows.ptr[place], rows.ptr[place + 1]), slots[place]
    together = [out[own], on_x[own], on_weight[slot], on_bias[slot]]
    parts = [part.detach().clone().requires_grad_() for part in (x[own], weight[slot][None], bias[slot][None])]
    single = linear(*parts, Rows.of([counts[place]]), relu=relu, drop=drop, keys=keys[place : place + 1])
    found = torch.autograd.grad(single, parts, upstream[own])
    return together, [single, found[0], found[1][0], found[2][0]]


@pytest.mark.parametrize("relu_and_drop", [(False, 0.0), (True, 0.3)])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("networks", [2, 5, 25])
def test_linear_of_a_network_has_the_same_bits_alone_and_in_any_stack(networks, size, relu_and_drop):
    counts = np.random.default_rng(networks).integers(0, 90, networks)
    counts[[0, -1]] = 75
    for place in {0, networks // 2, networks - 1}:
        for a, b in zip(*alone_and_together(counts, place, *size, *relu_and_drop), strict=True):
            assert same_bits(a, b)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("spoilt", ["x", "weight", "bias"])
def test_what_is_not_finite_stays_in_its_network(value, spoilt):
    rows, keys = Rows.of([9, 10, 11]), noise.keys([1, 2, 3], 0, 0)
    results = []
    for change in (False, True):
        x, weight, bias = normal(30, 16), stacked(3, 15, 16), stacked(3, 15)
        with torch.no_grad():
            {"x": x[10:19:3], "weight": weight[1], "bias": bias[1]}[spoilt].fill_(value if change else 0.0)
        out = linear(x, weight, bias, rows, relu=True, drop=0.2, keys=keys)
        results.append([out, *gradients(out, [x, weight, bias])])
    for clean, dirty in zip(*results, strict=True):
        others = [0, 2] if len(clean) == 3 else [*range(9), *range(19, 30)]
        assert same_bits(clean[others], dirty[others])
    assert not results[1][0].isfinite().all() or value == -float("inf")


def test_relu_keeps_what_is_not_a_number():
    x, weight = torch.tensor([[float("nan")], [-1.0], [2.0], [0.0]], requires_grad=True), torch.ones(1, 1, 1)
    out = linear(x, weight, None, Rows.of([4]), relu=True)
    wanted = x.relu()
    torch.testing.assert_close(out, wanted, equal_nan=True)
    (met,), (oracle,) = gradients(out, [x]), gradients(wanted, [x])
    torch.testing.assert_close(met, oracle)


def test_without_keys_nothing_is_dropped():
    rows, x, weight = Rows.of([30]), normal(30, 4), stacked(1, 6, 4)
    assert same_bits(linear(x, weight, None, rows, drop=0.5), linear(x, weight, None, rows))


def test_other_memory_layouts_give_the_same_bits():
    rows = Rows.of([20, 30])
    x, weight, bias = normal(50, 12), stacked(2, 16, 12), stacked(2, 16)
    turned = weight.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
    wide = torch.cat([x.detach(), x.detach()], 1)[:, :12].requires_grad_()
    sparse = torch.stack([bias.detach(), bias.detach()], 2)[:, :, 0].requires_grad_()
    wanted, met = linear(x, weight, bias, rows), linear(wide, turned, sparse, rows)
    assert same_bits(wanted, met)
    for a, b in zip(gradients(wanted, [x, weight, bias]), gradients(met, [wide, turned, sparse]), strict=True):
        assert same_bits(a.contiguous(), b.contiguous())


def test_only_wanted_gradients_are_computed():
    rows = Rows.of([20, 30])
    x, weight, bias = normal(50, 12), stacked(2, 16, 12), stacked(2, 16)
    every = gradients(linear(x, weight, bias, rows), [x, weight, bias])
    for number in range(3):
        inputs = [part.detach().requires_grad_(i == number) for i, part in enumerate((x, weight, bias))]
        (found,) = gradients(linear(*inputs, rows), [inputs[number]])
        assert same_bits(found, every[number])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (Rows.of([3, 3]), "rise from 0 to 5"),
        (Rows.of([3, 1]), "rise from 0 to 5"),
        (Rows(np.array([1, 3, 5]), None, np.arange(2)), "rise from 0 to 5"),
        (Rows(np.array([0, 7, 5]), None, np.arange(2)), "falls from 7 to 5"),
        (Rows(np.array([0, 5]), None, np.arange(2)), "one more, not 2"),
        (Rows(np.array([], np.int64), None, np.arange(2)), "one more, not 0"),
        (Rows.of([3, 2], slots=[0, 4]), "different numbers in 0…3"),
        (Rows.of([3, 2], slots=[-1, 0]), "different numbers in 0…3"),
        (Rows.of([3, 2], slots=[1, 1]), "different numbers in 0…3"),
        (Rows(np.array([0.0, 3.0, 5.0]), None, np.arange(2)), "must hold int64"),
        (Rows(np.array([0, 3, 5], np.int32), None, np.arange(2)), "must hold int64"),
        (Rows(np.array([0, 3, 5]), None, np.arange(2)[None]), "must hold int64"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows, message, dtype):
    with pytest.raises(InvalidInputError, match=message):
        linear(normal(5, 4, dtype=dtype), stacked(4, 6, 4, dtype=dtype), None, rows)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((5, 4), (6, 4), None), r"weight must have shape \(S, C, K\), got \(6, 4\)"),
        (((5, 3), (2, 6, 4), None), r"x must have shape \(N, 4\), got \(5, 3\)"),
        (((5,), (2, 6, 4), None), r"x must have shape \(N, 4\), got \(5,\)"),
        (((5, 4), (2, 6, 4), (2, 5)), r"bias must have shape \(2, 6\), got \(2, 5\)"),
        (((5, 4), (2, 6, 4), (1, 6)), r"bias must have shape \(2, 6\), got \(1, 6\)"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes, message):
    x, weight, bias = (None if shape is None else torch.zeros(shape) for shape in shapes)
    with pytest.raises(InvalidInputError, match=message):
        linear(x, weight, bias, Rows.of([3, 2]))


def test_keys_that_do_not_fit_are_refused():
    for keys in (noise.keys([1], 0, 0), np.array([1, 2])):
        with pytest.raises(InvalidInputError, match=r"keys must be uint64 of shape \(2,\)"):
            linear(normal(5, 4), stacked(2, 6, 4), None, Rows.of([3, 2]), drop=0.5, keys=keys)


def test_second_derivatives_are_refused():
    rows, x, weight, bias = Rows.of([3, 2]), normal(5, 4), stacked(2, 6, 4), stacked(2, 6)
    for number in range(3):
        inputs = [x, weight, bias]
        (found,) = torch.autograd.grad(linear(x, weight, bias, rows).sum(), inputs[number], create_graph=True)
        with pytest.raises(InvalidInputError, match="linear in float32 on the CPU has no second derivative"):
            found.square().sum().backward()


def test_shapes_are_known_on_the_meta_device():
    with torch.device("meta"):
        x, weight, bias = torch.empty(5, 4), torch.empty(2, 6, 4), torch.empty(2, 6)
    keys = noise.keys([1, 2], 0, 0)
    out = linear(x, weight, bias, Rows.of([3, 2]), relu=True, drop=0.5, keys=keys)
    assert out.device.type == "meta"
    assert out.shape == (5, 6)


def pointers(*lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def near(dtype):
    return {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {}


def assert_equal_with_gradients(met, wanted, inputs):
    torch.testing.assert_close(met, wanted.to(met.dtype), **near(met.dtype))
    for own, oracle in zip(gradients(met, inputs), gradients(wanted, inputs), strict=True):
        torch.testing.assert_close(own, oracle, **near(met.dtype))


BOTH = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
WIDTHS = [1, 3, 8, 15, 16, 32]


@BOTH
@pytest.mark.parametrize("columns", WIDTHS)
def test_each_network_adds_its_own_bias(columns, dtype):
    rows = Rows.of([7, 0, 21], slots=[4, 0, 1])
    x, bias = normal(28, columns, dtype=dtype), stacked(5, columns, dtype=dtype)
    wanted = x.double() + bias.double()[np.repeat(rows.slots, np.diff(rows.ptr))]
    assert_equal_with_gradients(add_bias(x, bias, rows), wanted, [x, bias])


@BOTH
@pytest.mark.parametrize("with_residual", [False, True])
@pytest.mark.parametrize("columns", WIDTHS)
def test_layer_norm_equals_the_dense_one_of_each_network(columns, with_residual, dtype):
    rows = Rows.of([7, 0, 21], slots=[4, 0, 1])
    x, residual = normal(28, columns, dtype=dtype), normal(28, columns, seed=3, dtype=dtype)
    weight, bias = stacked(5, columns, dtype=dtype), stacked(5, columns, seed=2, dtype=dtype)
    total = (x + residual if with_residual else x).double()
    parts = [
        functional.layer_norm(total[a:b], (columns,), weight[slot].double(), bias[slot].double(), 1e-5)
        for a, b, slot in zip(rows.ptr[:-1], rows.ptr[1:], rows.slots, strict=True)
    ]
    met = layer_norm(x, weight, bias, rows, 1e-5, residual if with_residual else None)
    inputs = [x, weight, bias, residual] if with_residual else [x, weight, bias]
    assert_equal_with_gradients(met, torch.cat(parts), inputs)


@BOTH
@pytest.mark.parametrize("columns", WIDTHS)
def test_pool_sums_the_rows_of_each_graph(columns, dtype):
    ptr, x = pointers(3, 0, 1, 20, 0), normal(24, columns, dtype=dtype)
    groups = torch.from_numpy(np.repeat(np.arange(5), np.diff(ptr)))
    wanted = torch.zeros(5, columns, dtype=torch.float64).index_add(0, groups, x.double())
    assert_equal_with_gradients(pool(x, ptr), wanted, [x])
    assert same_bits(pool(x, ptr), pool(x, torch.from_numpy(ptr)))


@BOTH
def test_pool_sums_single_numbers(dtype):
    ptr, x = pointers(3, 0, 1), normal(4, dtype=dtype)
    assert_equal_with_gradients(pool(x, ptr), torch.stack([x[:3].double().sum(), torch.tensor(0.0), x[3]]), [x])


def test_other_operations_in_double_precision_have_right_gradients():
    double, rows, keys = torch.float64, Rows.of([3, 0, 4], slots=[1, 0, 3]), noise.keys([1, 2, 3], 0, 0)
    x, residual = normal(7, 3, dtype=double), normal(7, 3, seed=2, dtype=double)
    weight, bias = stacked(4, 3, dtype=double), stacked(4, 3, seed=4, dtype=double)
    check = torch.autograd.gradcheck
    assert check(lambda *args: add_bias(*args, rows), [x, bias])
    assert check(lambda a, b, c, d: layer_norm(a, b, c, rows, 1e-5, d), [x, weight, bias, residual])
    assert check(lambda a: pool(a, pointers(2, 0, 5)), [x])
    assert check(lambda a: self_attention(a, pointers(2, 0, 1, 4), drop=0.4, keys=keys, rows=rows), [x])


class Stack:
    """A batch of networks of random sizes, each with sequences of its own, and all operations one after the other."""

    columns, head = 12, 16

    def __init__(self, counts, seed=0):
        networks = len(counts)
        draw = np.random.default_rng(seed)
        self.rows = Rows.of(counts, slots=draw.permutation(networks + 2)[:networks])
        self.keys = noise.keys(np.arange(networks), 0, 0)
        self.lengths = [self.cut(draw, int(count)) for count in counts]
        spaces = {"inside": (48, 12), "middle": (48,), "scale": (16,), "shift": (16,), "last": (16,), "map": (7, 16)}
        self.parameters = {
            name: stacked(networks + 2, *shape, seed=number).detach()
            for number, (name, shape) in enumerate(spaces.items())
        }
        self.x = normal(int(self.rows.ptr[-1]), self.columns).detach()
        generator = torch.Generator().manual_seed(5)
        self.upstream = [torch.randn(len(own), 7, generator=generator) for own in self.lengths]

    @staticmethod
    def cut(draw, count):
        cuts = np.sort(draw.integers(0, count + 1, max(count // 5, 1)))
        return np.diff(np.concatenate([[0], cuts, [count]])).tolist()

    def run(self, places, spoil=None):
        """Return, for each network, result and gradients of a batch of the networks at these places."""
        own = [slice(self.rows.ptr[place], self.rows.ptr[place + 1]) for place in places]
        x = torch.cat([self.x[part] for part in own])
        slots = self.rows.slots[places]
        # A batch of one gets a stack of one, others the whole stack.
        chosen = slots if len(places) == 1 else np.arange(len(self.rows) + 2)
        parameters = [parameter[chosen].clone() for parameter in self.parameters.values()]
        rows = Rows.of([part.stop - part.start for part in own], slots=[0] if len(places) == 1 else slots)
        ptr, keys = pointers(*(length for place in places for length in self.lengths[place])), self.keys[places]
        if spoil is not None:
            spoil(x, parameters, rows)
        inputs = [part.requires_grad_() for part in (x, *parameters)]
        inside, middle, scale, shift, last, mapping = inputs[1:]
        hidden = linear(x, inside, middle, rows, relu=True, drop=0.1, keys=noise.site(keys, 0))
        mixed = self_attention(hidden, ptr, drop=0.1, keys=noise.site(keys, 1), rows=rows)
        normed = layer_norm(mixed, scale, shift, rows, 1e-5, residual=hidden[:, :16])
        out = pool(linear(add_bias(normed, last, rows), mapping, None, rows), ptr)
        found = torch.autograd.grad(out, inputs, torch.cat([self.upstream[place] for place in places]))
        graphs = pointers(*(len(self.lengths[place]) for place in places))
        for i, slot in enumerate(rows.slots):
            own_rows = slice(rows.ptr[i], rows.ptr[i + 1])
            yield [out[graphs[i] : graphs[i + 1]], found[0][own_rows], *(part[slot] for part in found[1:])]


@pytest.mark.parametrize("networks", [2, 5, 25])
def test_a_network_has_the_same_bits_alone_and_in_any_stack(networks):
    counts = np.random.default_rng(networks).integers(0, 60, networks)
    counts[:2] = 75, 0
    stack = Stack(counts)
    together = list(stack.run(np.arange(networks)))
    turned = list(stack.run(np.arange(networks)[::-1].copy()))[::-1]
    for place in range(networks):
        (alone,) = stack.run(np.array([place]))
        for a, b, c in zip(together[place], turned[place], alone, strict=True):
            assert same_bits(a, b)
            assert same_bits(a, c)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("number", range(7))
def test_what_is_not_finite_stays_in_its_network_in_all_operations(number, value):
    stack = Stack([20, 30, 25])

    def spoil(x, parameters, rows):
        (x[rows.ptr[1] : rows.ptr[2]] if number == 0 else parameters[number - 1][rows.slots[1]]).view(-1)[::7] = value

    clean, dirty = list(stack.run(np.arange(3))), list(stack.run(np.arange(3), spoil))
    for place in (0, 2):
        assert all(same_bits(a, b) for a, b in zip(clean[place], dirty[place], strict=True))
    assert not all(same_bits(a, b) for a, b in zip(clean[1], dirty[1], strict=True))


@BOTH
@pytest.mark.parametrize(
    ("ptr", "message"),
    [
        (np.array([0, 3, 4]), "ptr must rise from 0 to 5"),
        (np.array([0, 7, 5]), "falls from 7 to 5"),
        (np.array([0, 2**63 - 1, -2, 5]), "falls from 9223372036854775807 to -2"),
        (np.array([1, 5]), "ptr must rise from 0 to 5"),
        (np.array([], np.int64), r"ptr must have shape"),
        (np.array([0, 3, 5], np.int32), "ptr must hold int64"),
        (torch.tensor([0.0, 5.0]), "ptr must hold int64"),
    ],
)
def test_sequences_that_do_not_fit_are_refused(ptr, message, dtype):
    for call in (pool, self_attention):
        with pytest.raises(InvalidInputError, match=message):
            call(normal(5, 6, dtype=dtype), ptr)


def test_operands_of_other_operations_that_do_not_fit_are_refused():
    x, rows = normal(5, 4), Rows.of([3, 2])
    with pytest.raises(InvalidInputError, match=r"bias must have shape \(S, 4\), got \(2, 3\)"):
        add_bias(x, torch.zeros(2, 3), rows)
    with pytest.raises(InvalidInputError, match=r"bias must have shape \(S, 4\), got \(3, 4\)"):
        layer_norm(x, torch.zeros(2, 4), torch.zeros(3, 4), rows, 1e-5)
    with pytest.raises(InvalidInputError, match=r"residual must have shape \(5, 4\), got \(5, 3\)"):
        layer_norm(x, torch.zeros(2, 4), torch.zeros(2, 4), rows, 1e-5, torch.zeros(5, 3))
    with pytest.raises(InvalidInputError, match="different numbers in 0…1"):
        layer_norm(x, torch.zeros(2, 4), torch.zeros(2, 4), Rows.of([3, 2], slots=[0, 2]), 1e-5)
    with pytest.raises(InvalidInputError, match="different numbers in 0…1"):
        add_bias(x, torch.zeros(2, 4), Rows.of([3, 2], slots=[0, 0]))
    with pytest.raises(InvalidInputError, match=r"qkv must have shape \(N, 3 h\), got \(5, 4\)"):
        self_attention(x, pointers(5))


def test_other_operations_refuse_second_derivatives():
    rows, x, weight, bias = Rows.of([3, 2]), normal(5, 6), stacked(2, 6), stacked(2, 6)
    for out in (layer_norm(x, weight, bias, rows, 1e-5), self_attention(x, pointers(5))):
        (found,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        with pytest.raises(InvalidInputError, match="in float32 on the CPU has no second derivative"):
            found.square().sum().backward()
    for out in (add_bias(x, bias, rows), pool(x, pointers(5))):
        (found,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="differentiate twice"):
            found.square().sum().backward()


def test_shapes_of_other_operations_are_known_on_the_meta_device():
    with torch.device("meta"):
        x, weight = torch.empty(5, 6), torch.empty(2, 6)
    rows, keys, ptr = Rows.of([3, 2]), noise.keys([1, 2], 0, 0), pointers(2, 1, 2)
    assert add_bias(x, weight, rows).shape == (5, 6)
    assert layer_norm(x, weight, weight, rows, 1e-5, x).shape == (5, 6)
    assert pool(x, ptr).shape == (3, 6)
    assert self_attention(x, ptr, drop=0.5, keys=keys, rows=rows).shape == (5, 2)


@pytest.mark.parametrize(
    "change", [lambda: torch.device("meta"), lambda: default_dtype(torch.float64)], ids=["device", "type"]
)
def test_torchs_defaults_change_nothing(change):
    rows, keys, ptr = Rows.of([3, 2], slots=[2, 0]), noise.keys([1, 2], 0, 0), pointers(2, 1, 2)
    x, weight, bias, upstream = normal(5, 6), stacked(3, 6, 6), stacked(3, 6), normal(3, 2).detach()

    def run():
        hidden = linear(x, weight, bias, rows, relu=True, drop=0.5, keys=keys)
        normed = add_bias(layer_norm(hidden, bias, bias, rows, 1e-5, residual=x), bias, rows)
        out = pool(self_attention(normed, ptr), ptr)
        return [out, *torch.autograd.grad(out, [x, weight, bias], upstream)]

    plain = run()
    with change():
        met = run()
    assert all(same_bits(a, b) for a, b in zip(plain, met, strict=True))


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def test_layer_norm_of_wide_rows_uses_no_memory_that_was_freed():
    """Large arrays are given back to the system, so that a stale address is a crash, which a child process can have."""
    code = """
import torch
from leap.models.grouped import layer_norm
from leap.models.rows import Rows
x, weight, bias = torch.randn(5, 300_001), torch.randn(2, 300_001), torch.randn(2, 300_001)
wanted = torch.nn.functional.layer_norm(x, (300_001,))
met, owner = layer_norm(x, weight, bias, Rows.of([2, 3]), 1e-5), [0, 0, 1, 1, 1]
torch.testing.assert_close(met, wanted * weight[owner] + bias[owner], rtol=1e-3, atol=1e-3)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("size", [1e20, 1e25, 1e37])
def test_a_variance_beyond_float32_is_no_number(size):
    x = torch.tensor([[1.0, -1.0, 0.5], [1.0, 2.0, 4.0]]) * torch.tensor([[size], [1.0]])
    met = layer_norm(x, torch.ones(1, 3), torch.zeros(1, 3), Rows.of([2]), 1e-5)
    assert met[0].isnan().all()
    torch.testing.assert_close(met[1], functional.layer_norm(x[1], (3,)))
