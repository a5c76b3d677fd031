"""Directions and thresholds: what every transform starts from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.models.kernels.directions import random_directions, threshold_grid
from leap.store.errors import InvalidInputError


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32))
def test_directions_are_unit_columns_that_do_not_depend_on_their_number(dim, count, seed):
    directions = random_directions(dim, count, seed)
    assert directions.shape == (dim, count)
    assert directions.dtype == np.float64
    np.testing.assert_allclose(np.linalg.norm(directions, axis=0), 1.0, rtol=1e-14)
    assert np.array_equal(random_directions(dim, count + 3, seed)[:, :count], directions)


def test_directions_of_seed_zero_stay_what_caches_and_models_were_built_from():
    expected = [[0.18881712, 0.16021416], [-0.19839033, -0.81812893], [0.96176368, 0.55226487]]
    np.testing.assert_allclose(random_directions(3, 2), expected, atol=1e-8)
    assert not np.array_equal(random_directions(3, 2, seed=1), random_directions(3, 2))


def test_directions_cover_the_sphere_evenly():
    directions = random_directions(3, 20_000)
    assert np.abs(directions.mean(axis=1)).max() < 0.02
    np.testing.assert_allclose(directions @ directions.T / 20_000, np.eye(3) / 3, atol=0.01)


@given(st.integers(2, 200), st.floats(1e-3, 1e3))
def test_thresholds_are_even_and_exactly_antisymmetric(count, radius):
    grid = threshold_grid(count, radius)
    np.testing.assert_allclose(grid, np.linspace(-radius, radius, count), rtol=1e-12, atol=1e-12 * radius)
    assert np.array_equal(grid, -grid[::-1])
    assert (grid[0], grid[-1]) == (-radius, radius)


def test_a_single_threshold_lies_in_the_middle():
    assert threshold_grid(1, 1.1).tolist() == [0.0]


@pytest.mark.parametrize("arguments", [(0, 4), (3, 0)])
def test_impossible_directions_are_refused(arguments):
    with pytest.raises(InvalidInputError):
        random_directions(*arguments)


@pytest.mark.parametrize("arguments", [(0, 1.0), (4, 0.0), (4, float("nan")), (4, float("inf"))])
def test_impossible_thresholds_are_refused(arguments):
    with pytest.raises(InvalidInputError):
        threshold_grid(*arguments)
