"""Products of small matrices: the definition, sum by sum, as the oracle; equal to the last bit."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.models.kernels.lanes import COUNT, SIZE, exponential, load, store, total
from leap.models.kernels.tiles import FULL, HALF, multiply, multiply_series, padded

GUARD = np.float32(777.0)


def by_definition(a, b, start, width):
    """start + Σ a b, one rounded product and one rounded sum after the other."""
    out = np.repeat(start[None, :width], len(a), axis=0)
    for k in range(a.shape[1]):
        out = out + a[:, k, None] * b[k, None, :width]
    return out


@settings(deadline=None)
@given(
    st.integers(0, 21), st.integers(0, 40), st.integers(1, 50), st.booleans(), st.integers(0, 9), st.integers(0, 2**32)
)
def test_a_product_has_the_bits_of_its_definition_and_writes_nothing_else(height, count, width, is_turned, gap, seed):
    draw = np.random.default_rng(seed)
    a = draw.standard_normal((height, count)).astype(np.float32)
    held = np.ascontiguousarray(a.T if is_turned else a)
    steps = (1, height) if is_turned else (count, 1)
    b = draw.standard_normal((count, padded(width))).astype(np.float32)
    start = draw.standard_normal(padded(width)).astype(np.float32)
    out, spare = np.full((height + 1, width + gap), GUARD), np.empty(HALF * FULL, np.float32)
    places = (held.ctypes.data, *steps, b.ctypes.data, padded(width), count, start.ctypes.data)
    multiply(*places, out.ctypes.data, width + gap, height, width, spare.ctypes.data)
    assert out[:height, :width].tobytes() == by_definition(a, b, start, width).tobytes()
    assert (out[height:] == GUARD).all()
    assert (out[:, width:] == GUARD).all()


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 12), st.integers(0, 3), st.integers(0, 2**32))
def test_products_of_series_have_the_bits_of_their_definition(height, width, count, chunks, seed):
    draw = np.random.default_rng(seed)
    a = draw.standard_normal((count, height, 8 * chunks)).astype(np.float32)
    b = draw.standard_normal((count, width, 8 * chunks)).astype(np.float32)
    out, lanes = np.full((height + 1, width + 2), GUARD), np.zeros((height, width, 8), np.float32)
    for n in range(count):
        for t in range(0, 8 * chunks, 8):
            lanes = lanes + a[n, :, None, t : t + 8] * b[n, None, :, t : t + 8]
    while lanes.shape[2] > 1:
        half = lanes.shape[2] // 2
        lanes = lanes[:, :, :half] + lanes[:, :, half:]
    steps = (8 * chunks * height, 8 * chunks), (8 * chunks * width, 8 * chunks)
    places = (a.ctypes.data, *steps[0], b.ctypes.data, *steps[1], count, 8 * chunks)
    multiply_series(*places, out.ctypes.data, width + 2, height, width)
    assert out[:height, :width].tobytes() == lanes[:, :, 0].tobytes()
    assert (out[height:] == GUARD).all()
    assert (out[:, width:] == GUARD).all()


@pytest.mark.parametrize(("width", "wanted"), [(0, 0), (1, 8), (8, 8), (9, 16), (16, 16), (17, 24)])
def test_rows_are_padded_to_half_tiles(width, wanted):
    assert padded(width) == wanted


@numba.njit
def exponentials(x, out):
    source, target = x.ctypes.data, out.ctypes.data
    for i in range(0, SIZE * len(x), SIZE * COUNT):
        store(target + i, exponential(load(source + i)))


@numba.njit
def totals(x):
    return total(load(x.ctypes.data))


def test_exponentials_are_right_to_a_unit_in_the_last_place():
    x = np.concatenate([np.linspace(-87, 0, 400_000), -np.logspace(-40, 1.9, 400_000)]).astype(np.float32)
    out = np.empty_like(x)
    exponentials(x, out)
    wanted = np.exp(x.astype(np.float64))
    assert (np.abs(out - wanted) / np.spacing(wanted.astype(np.float32))).max() < 1.01


def test_exponentials_at_the_ends():
    x = np.array([0.0, -0.0, -87.01, -1e30, -np.inf, np.nan, -1e-45, -87.0], np.float32)
    out = np.empty_like(x)
    exponentials(x, out)
    np.testing.assert_array_equal(out[:7], np.array([1, 1, 0, 0, 0, np.nan, 1], np.float32))
    assert 0 < out[7] < 2e-38


def test_a_total_adds_halves_and_their_halves():
    x = np.array([1e8, 1.5, -3.25, 1e-3, -1e8, 2.5, 7.125, 1e7], np.float32)
    four = x[:4] + x[4:]
    two = four[:2] + four[2:]
    assert totals(x) == two[0] + two[1]
