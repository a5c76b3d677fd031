"""Channels of series, mixed for several networks at once: torch's convolution as the oracle."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from leap.models.channels import mix_channels, project_curves
from leap.models.grouped import linear
from leap.models.rows import Rows
from leap.store.errors import InvalidInputError
from tests.models.test_grouped import gradients, normal, same_bits, stacked

SIZES = [(16, 8, 16), (8, 8, 16), (16, 1, 16), (3, 5, 7), (1, 1, 1), (5, 13, 20), (4, 4, 8)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_channels_are_mixed_as_by_a_convolution_of_width_one(size, relu, dtype):
    channels, width, steps = size
    rows = Rows.of([7, 0, 21], slots=[4, 0, 1])
    x = normal(28, channels, steps, dtype=dtype)
    weight, bias = stacked(5, width, channels, dtype=dtype), stacked(5, width, seed=2, dtype=dtype)
    parts = [
        functional.conv1d(x[a:b].double(), weight[slot][:, :, None].double(), bias[slot].double())
        for a, b, slot in zip(rows.ptr[:-1], rows.ptr[1:], rows.slots, strict=True)
    ]
    wanted = torch.cat(parts).relu() if relu else torch.cat(parts)
    met, near = mix_channels(x, weight, bias, rows, relu=relu), {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(met.double(), wanted, **near)
    inputs = [x, weight, bias]
    for own, oracle in zip(gradients(met, inputs), gradients(wanted, inputs), strict=True):
        torch.testing.assert_close(own, oracle, **near)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("networks", [2, 5, 25])
def test_a_network_mixes_to_the_same_bits_alone_and_in_any_stack(networks, size):
    channels, width, steps = size
    counts = np.random.default_rng(networks).integers(0, 30, networks)
    rows = Rows.of(counts, slots=np.random.default_rng(1).permutation(networks + 1)[:networks])
    x, weight = normal(int(rows.ptr[-1]), channels, steps), stacked(networks + 1, width, channels)
    bias, upstream = stacked(networks + 1, width), normal(int(rows.ptr[-1]), width, steps, seed=7).detach()
    out = mix_channels(x, weight, bias, rows, relu=True)
    together = torch.autograd.grad(out, [x, weight, bias], upstream)
    for i, slot in enumerate(rows.slots):
        own = slice(rows.ptr[i], rows.ptr[i + 1])
        parts = [part.detach().clone().requires_grad_() for part in (x[own], weight[slot][None], bias[slot][None])]
        alone = mix_channels(*parts, Rows.of([counts[i]]), relu=True)
        found = torch.autograd.grad(alone, parts, upstream[own])
        assert same_bits(alone, out[own])
        assert same_bits(found[0], together[0][own])
        assert same_bits(found[1][0], together[1][slot])
        assert same_bits(found[2][0], together[2][slot])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_in_its_network(value):
    rows, results = Rows.of([4, 5, 3]), []
    for filling in (1.0, value):
        x, weight, bias = normal(12, 3, 10), stacked(3, 4, 3), stacked(3, 4)
        with torch.no_grad():
            x[5, 1, ::3] = filling
        out = mix_channels(x, weight, bias, rows, relu=True)
        results.append([out, *gradients(out, [x, weight, bias])])
    for clean, dirty in zip(*results, strict=True):
        others = [0, 2] if len(clean) == 3 else [*range(4), *range(9, 12)]
        assert same_bits(clean[others], dirty[others])
    assert not results[1][0].isfinite().all()


def test_what_does_not_fit_is_refused():
    weight, bias = stacked(2, 4, 3), stacked(2, 4)
    for shape in ((5, 2, 7), (5, 3)):
        with pytest.raises(InvalidInputError, match=r"x must have shape \(N, 3, T\)"):
            mix_channels(normal(*shape), weight, bias, Rows.of([5, 0]))
    with pytest.raises(InvalidInputError, match=r"bias \(2, 4\)"):
        mix_channels(normal(5, 3, 7), weight, stacked(2, 3), Rows.of([5, 0]))
    with pytest.raises(InvalidInputError, match="rise from 0 to 5"):
        mix_channels(normal(5, 3, 7), weight, bias, Rows.of([4, 0]))
    with pytest.raises(InvalidInputError, match="different numbers"):
        mix_channels(normal(5, 3, 7), weight, bias, Rows.of([4, 1], slots=[0, 2]))


def test_second_derivatives_are_refused():
    x, weight, bias = normal(5, 3, 7), stacked(2, 4, 3), stacked(2, 4)
    (found,) = torch.autograd.grad(mix_channels(x, weight, bias, Rows.of([2, 3])).sum(), x, create_graph=True)
    with pytest.raises(InvalidInputError, match="mix_channels in float32"):
        found.square().sum().backward()


def projection(channels=16, hidden=8, steps=16, state=16, out=10):
    """Parameters of four networks' projections."""
    shapes = [(hidden, channels, 1), (hidden,), (hidden, hidden, 1), (hidden,), (channels, hidden, 1), (channels,)]
    shapes += [(state, steps), (state,), (out, state), (out,)]
    return [stacked(4, *shape, seed=number) for number, shape in enumerate(shapes)]


def part_by_part(x, rows, parameters):
    weights, biases = [each.squeeze(-1) for each in parameters[:6:2]], parameters[1:6:2]
    for weight, bias in zip(weights[:2], biases[:2], strict=True):
        x = mix_channels(x, weight, bias, rows, relu=True)
    x = mix_channels(x, weights[2].mean(-2, keepdim=True), biases[2].mean(-1, keepdim=True), rows).squeeze(1)
    return linear(linear(x, *parameters[6:8], rows, relu=True), *parameters[8:], rows)


@pytest.mark.parametrize("size", [{}, {"channels": 3, "hidden": 5, "steps": 7, "state": 9, "out": 2}])
def test_a_projection_at_once_is_its_parts_to_the_last_bit(size):
    rows, parameters = Rows.of([7, 0, 21], slots=[3, 0, 1]), projection(**size)
    x = normal(28, size.get("channels", 16), size.get("steps", 16))
    whole, parts = project_curves(x, parameters[:6], parameters[6:], rows), part_by_part(x, rows, parameters)
    assert same_bits(whole, parts)
    inputs = [x, *parameters]
    for one, other in zip(gradients(whole, inputs), gradients(parts, inputs), strict=True):
        assert same_bits(one, other)


def test_a_projection_is_that_of_torchs_modules():
    rows, parameters, x = Rows.of([7, 0, 21], slots=[3, 0, 1]), projection(), normal(28, 16, 16)
    whole, parts = project_curves(x, parameters[:6], parameters[6:], rows), []
    for a, b, slot in zip(rows.ptr[:-1], rows.ptr[1:], rows.slots, strict=True):
        own = [parameter[slot].double() for parameter in parameters]
        hidden = functional.conv1d(x[a:b].double(), *own[:2]).relu()
        means = functional.conv1d(functional.conv1d(hidden, *own[2:4]).relu(), *own[4:6]).mean(1)
        parts.append(functional.linear(functional.linear(means, *own[6:8]).relu(), *own[8:]))
    wanted, inputs, near = torch.cat(parts), [x, *parameters], {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(whole.double(), wanted, **near)
    for own, oracle in zip(gradients(whole, inputs), gradients(wanted, inputs), strict=True):
        torch.testing.assert_close(own, oracle, **near)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_in_a_projection_stays_in_its_network(value):
    rows, results = Rows.of([4, 5, 3, 0]), []
    for filling in (1.0, value):
        x, parameters = normal(12, 16, 16), projection()
        with torch.no_grad():
            x[5, 1, ::3] = filling
        out = project_curves(x, parameters[:6], parameters[6:], rows)
        results.append([out, *gradients(out, [x, *parameters])])
    for clean, dirty in zip(*results, strict=True):
        others = [0, 2] if len(clean) == 4 else [*range(4), *range(9, 12)]
        assert same_bits(clean[others], dirty[others])
    assert not results[1][0][5].isfinite().all()


def test_a_projection_that_does_not_fit_is_refused():
    parameters = projection()
    with pytest.raises(InvalidInputError, match=r"must have shape \(4, 8, 3, 1\)"):
        project_curves(normal(5, 3, 16), parameters[:6], parameters[6:], Rows.of([5]))
    with pytest.raises(InvalidInputError, match=r"must have shape \(4, 16, 7\)"):
        project_curves(normal(5, 16, 7), parameters[:6], parameters[6:], Rows.of([5]))
    with pytest.raises(InvalidInputError, match="rise from 0 to 5"):
        project_curves(normal(5, 16, 16), parameters[:6], parameters[6:], Rows.of([4]))
    with pytest.raises(InvalidInputError, match="different numbers"):
        project_curves(normal(5, 16, 16), parameters[:6], parameters[6:], Rows.of([5], slots=[4]))


def test_second_derivatives_of_a_projection_are_refused():
    x, parameters = normal(5, 16, 16), projection()
    out = project_curves(x, parameters[:6], parameters[6:], Rows.of([5]))
    (found,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    with pytest.raises(InvalidInputError, match="project_curves in float32"):
        found.square().sum().backward()


@pytest.mark.parametrize("number", range(11))
@pytest.mark.parametrize("change", [torch.Tensor.double, torch.Tensor.half, lambda tensor: tensor.to("meta")])
def test_numbers_that_loops_would_misread_are_refused(number, change):
    tensors = [normal(5, 16, 16), *projection()]
    tensors[number] = change(tensors[number])
    with pytest.raises(InvalidInputError, match="take float32 on the CPU"):
        project_curves(tensors[0], tensors[1:7], tensors[7:], Rows.of([5]))
