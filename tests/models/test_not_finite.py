"""What is not a number, infinite or huge: the kernels agree with torch about where it shows, and never crash."""

import itertools

import networkx as nx
import numpy as np
import pytest
import torch

from leap.models import LEAP, dect
from leap.models.kernels.directions import random_directions, threshold_grid
from leap.models.kernels.normalization import mean_and_scale
from leap.models.kernels.transforms import dect_forward, ect_forward
from leap.pipeline import khop
from leap.store.errors import InvalidInputError

NAN, INF = float("nan"), float("inf")
NODES, DIM, COUNT = 12, 3, 4
PLACES = {
    "features": lambda a: a["x"][3],
    "direction": lambda a: a["directions"][:, 2],
    "threshold": lambda a: a["thresholds"][len(a["thresholds"]) // 2 :][:1],
    "mean": lambda a: a["stats"][0][2],
    "scale": lambda a: a["stats"][1][5:6],
}


def setting(thresholds=16, *, uneven=False, given_stats=False):
    graph = nx.gnp_random_graph(NODES, 0.25, seed=1)
    hoods = khop(np.array(graph.edges).T, NODES)
    x = torch.randn(NODES, DIM, generator=torch.Generator().manual_seed(1))
    grid = torch.from_numpy(threshold_grid(thresholds, 1.1)).float()
    mean, scale = mean_and_scale(x.numpy(), hoods.node_ptr, hoods.nodes)
    return {
        "x": x,
        "hoods": hoods,
        "directions": torch.from_numpy(random_directions(DIM, COUNT, 1)).float(),
        "thresholds": grid.sign() * grid.abs() ** 1.5 if uneven else grid,
        "stats": [torch.from_numpy(mean), torch.from_numpy(scale)] if given_stats else None,
        "upstream": torch.randn(NODES, COUNT, thresholds, generator=torch.Generator().manual_seed(0)),
    }


def value_and_gradients(arguments, s, dtype):
    inputs = [arguments[name].detach().to(dtype).requires_grad_() for name in ("x", "directions", "thresholds")]
    stats = None if arguments["stats"] is None else tuple(part.to(dtype) for part in arguments["stats"])
    out = dect(inputs[0], arguments["hoods"], *inputs[1:], s, stats=stats)
    return out.detach(), torch.autograd.grad(out, inputs, arguments["upstream"].to(dtype))


def cases():
    for value, place, given in itertools.product([NAN, INF, -INF], PLACES, [False, True]):
        if place in ("mean", "scale") and not given:
            continue
        if place == "direction" and value in (INF, -INF):
            continue  # ∞ - ∞ or ∞ · 0, depending on where features are counted from
        yield pytest.param(value, place, given, id=f"{value} in {place}, {'given' if given else 'own'} statistics")


@pytest.mark.parametrize(("value", "place", "given_stats"), list(cases()))
def test_the_kernel_gives_no_number_exactly_where_double_precision_gives_none(value, place, given_stats):
    for thresholds, uneven, s in itertools.product([1, 16, 40], [False, True], [2.0, 128.0]):
        arguments = setting(thresholds, uneven=uneven, given_stats=given_stats)
        PLACES[place](arguments)[:1] = value
        ours, mine = value_and_gradients(arguments, s, torch.float32)
        reference, theirs = value_and_gradients(arguments, s, torch.float64)
        torch.testing.assert_close(ours.double(), reference, atol=5e-6 * (1 + s / 8), rtol=1e-5, equal_nan=True)
        for own, other in zip(mine, theirs, strict=True):
            assert torch.equal(own.isnan(), other.isnan())


def test_no_number_stays_in_the_neighbourhoods_of_its_node():
    arguments = setting()
    arguments["x"][3, 1] = NAN
    hoods = arguments["hoods"]
    touched = torch.tensor([3 in hoods.members(v) for v in range(NODES)])
    for dtype in (torch.float32, torch.float64):
        out, _ = value_and_gradients(arguments, 128.0, dtype)
        assert out[touched].isnan().all()
        assert out[~touched].isfinite().all()


@pytest.mark.parametrize("thresholds", [16, 40])
@pytest.mark.parametrize("uneven", [False, True])
def test_a_gradient_that_is_no_number_comes_through_outside_the_window_too(thresholds, uneven):
    arguments = setting(thresholds, uneven=uneven, given_stats=True)
    arguments["upstream"][4, 1, 0] = NAN
    _, mine = value_and_gradients(arguments, 512.0, torch.float32)
    _, theirs = value_and_gradients(arguments, 512.0, torch.float64)
    for own, other in zip(mine, theirs, strict=True):
        assert other.isnan().any()
        assert torch.equal(own.isnan(), other.isnan())


@pytest.mark.parametrize("value", [1e38, -1e38, 3e38, 1e-38])
@pytest.mark.parametrize("place", ["features", "threshold", "mean", "scale"])
def test_huge_and_tiny_numbers_agree_with_double_precision(value, place):
    for thresholds, s in itertools.product([2, 16, 40], [2.0, 128.0]):
        arguments = setting(thresholds, given_stats=place in ("mean", "scale"))
        PLACES[place](arguments)[:1] = value
        ours, _ = value_and_gradients(arguments, s, torch.float32)
        reference, _ = value_and_gradients(arguments, s, torch.float64)
        torch.testing.assert_close(ours.double(), reference, atol=5e-6 * (1 + s / 8), rtol=1e-5)


@pytest.mark.parametrize("s", [1e-30, 0.05, 1.0, 1e9, 1e20, 1e38, 1e300])
@pytest.mark.parametrize("length", [1.0, 30.0])
def test_any_steepness_and_length_of_directions_agrees_with_double_precision(s, length):
    arguments = setting(16)
    arguments["directions"] *= length
    ours, mine = value_and_gradients(arguments, s, torch.float32)
    reference, theirs = value_and_gradients(arguments, s, torch.float64)
    if s < 1e3:
        torch.testing.assert_close(ours.double(), reference, atol=1e-5, rtol=1e-5)
    assert ours.isfinite().all()
    assert [g.isnan().any() for g in mine] == [g.isnan().any() for g in theirs]


def test_an_encoder_gives_no_number_instead_of_ending_python():
    encoder = LEAP(2, 4)
    hoods = khop([[0, 1, 2], [1, 2, 3]])
    for value in (NAN, INF):
        x = torch.randn(4, 2)
        x[0, 0] = value
        x.requires_grad_()
        out = encoder(x, hoods)
        assert out[0].isnan().all()
        out.sum().backward()
        assert x.grad[0].isnan().all()


@pytest.mark.parametrize("number", [NAN, INF, -INF, 0.0, -1.0])
def test_a_steepness_that_means_nothing_is_refused_with_its_value(number):
    arguments = setting()
    with pytest.raises(InvalidInputError, match=f"Got {number}"):
        value_and_gradients(arguments, number, torch.float32)
    with pytest.raises(InvalidInputError, match=f"Got {number}"):
        LEAP(2, 4, scale=number)


@pytest.mark.parametrize("weight", [NAN, INF])
def test_an_edge_weight_that_is_not_finite_is_refused_with_its_value(weight):
    a = setting()
    with pytest.raises(InvalidInputError, match=f"edge_weight must be finite. Got {weight}"):
        dect(a["x"], a["hoods"], a["directions"], a["thresholds"], 8.0, edge_weight=weight)


def operands(x):
    hoods = khop([[0, 1, 2], [1, 2, 3]])
    mean, scale = mean_and_scale(x, hoods.node_ptr, hoods.nodes)
    arrays = (hoods.node_ptr, hoods.nodes, hoods.edge_ptr, hoods.edges)
    return x, *arrays, mean, scale, np.eye(2), np.array([-0.5, 0.1, 1.5])


def test_statistics_are_no_numbers_where_features_are_none_and_nowhere_else():
    x = np.full((4, 2), 0.1, np.float32)
    x[0] = NAN
    _, *_, mean, scale, _, _ = operands(x)
    assert np.isnan(mean[:2]).all()
    assert np.isnan(scale[:2]).all()
    assert scale[2:].tolist() == [0.0, 0.0]  # constant all the same
    x[0], x[1] = INF, 1.0
    assert np.isnan(operands(x)[6][:2]).all()


def test_cached_transforms_show_what_is_not_a_number_and_count_none_of_it():
    x = np.array([[NAN, 0.0], [1.0, 0.0], [2.0, 0.0], [4.0, 1.0]], np.float32)
    soft = dect_forward(*operands(x), 128.0)
    assert np.isnan(soft[:2]).all()
    assert np.isfinite(soft[2:]).all()
    assert ect_forward(*operands(x))[:2].tolist() == np.zeros((2, 2, 3)).tolist()


@pytest.mark.parametrize("grid", [[NAN], [0.0, NAN], [-INF, 0.0], [0.0, INF], [1.0, 0.0], []])
def test_thresholds_of_cached_transforms_are_finite_and_ascend(grid):
    *others, _ = operands(np.ones((4, 2)))
    for call in (lambda g: ect_forward(*others, g), lambda g: dect_forward(*others, g, 8.0)):
        with pytest.raises(InvalidInputError, match="thresholds must ascend, be finite"):
            call(np.array(grid))


@pytest.mark.parametrize(("low", "scale"), [(-1e20, 1.0), (-1e17, 1.0), (-1e14, 128.0), (-1e9, 3.0)])
def test_a_threshold_far_away_spoils_no_other(low, scale):
    hoods, x = khop([[0, 1, 2], [1, 2, 3]]), torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    directions, grid = torch.eye(2), torch.tensor([low, 0.5])
    expected = dect(x.double(), hoods, directions.double(), grid.double(), scale)
    torch.testing.assert_close(dect(x, hoods, directions, grid, scale).double(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [1.0, 500.0, 1e4])
def test_half_precision_is_as_good_as_its_numbers(kind, size):
    hoods, x = khop([[0, 1, 2, 3], [1, 2, 3, 0]]), size * torch.tensor([[0.0, 0.0], [1, 0], [1, 1], [0, 2]])
    arguments = (torch.eye(2, dtype=kind), torch.linspace(-1, 1, 5).to(kind))
    out = dect(x.to(kind), hoods, *arguments, 128.0)
    expected = dect(x.to(kind).double(), hoods, *(value.double() for value in arguments), 128.0)
    assert out.dtype == kind
    torch.testing.assert_close(out.double(), expected, rtol=0.01, atol=0.01)
