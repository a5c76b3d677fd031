"""Grouped operations: dense torch functions as oracles, and bits that depend on a network's own rows alone."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from leap.models import noise
from leap.models.grouped import linear
from leap.models.rows import Rows
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
    wanted, met = linear(x, weight, bias, rows), linear(wide, turned, bias, rows)
    assert same_bits(wanted, met)
    for a, b in zip(gradients(wanted, [x, weight, bias]), gradients(met, [wide, turned, bias]), strict=True):
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
