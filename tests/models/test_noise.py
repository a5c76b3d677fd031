"""Random bits are a function of key and index alone, the same in loops and in torch operations."""

import numpy as np
import pytest
import torch
from scipy import stats

from leap.models import noise
from leap.models.rows import Rows
from leap.store.errors import InvalidInputError

WORD = 2**64
INDICES = np.array([0, 1, 2, 1000, 2**24, 2**31, 2**32, 2**40 + 7, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1], np.uint64)
KEYS = np.array([0, 1, 2**32, 2**63, 2**64 - 1, 0x9E3779B97F4A7C15, 0x61C8864680B583EB], np.uint64)


def splitmix(key: int, index: int) -> int:
    """The definition, in Python's integers."""
    state = (key + 0x9E3779B97F4A7C15 * (index + 1)) % WORD
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % WORD
    return state ^ (state >> 31)


def pairs() -> tuple[np.ndarray, np.ndarray]:
    drawn = np.random.default_rng(0).integers(0, 2**64, (2, 5000), np.uint64)
    return (
        np.concatenate([np.repeat(KEYS, len(INDICES)), drawn[0]]),
        np.concatenate([np.tile(INDICES, len(KEYS)), drawn[1]]),
    )


def test_loops_and_torch_give_the_bits_of_the_definition():
    keys, indices = pairs()
    wanted = [splitmix(int(key), int(index)) for key, index in zip(keys, indices, strict=True)]
    assert noise.random_bits(keys, indices).tolist() == wanted
    met = noise.torch_bits(*(torch.from_numpy(part.view(np.int64)) for part in (keys, indices)))
    assert met.numpy().view(np.uint64).tolist() == wanted


def test_a_key_of_zero_starts_with_the_published_sequence():
    # The first numbers of splitmix64 from the state 0, as in the tests of other implementations.
    found = noise.random_bits(np.zeros(3, np.uint64), np.arange(3, dtype=np.uint64))
    assert [hex(value) for value in found.tolist()] == ["0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4", "0x6c45d188009454f"]


def test_keys_differ_by_seed_epoch_and_step_and_take_arrays():
    single = [int(noise.keys(seed, epoch, step)[0]) for seed in range(4) for epoch in range(4) for step in range(4)]
    assert len(set(single)) == 64
    seeds, steps = np.arange(4), np.array([3, 1, 0, 2])
    together = noise.keys(seeds, 2, steps)
    assert together.tolist() == [int(noise.keys(a, 2, b)[0]) for a, b in zip(seeds, steps, strict=True)]


def test_sites_have_keys_of_their_own_and_evaluation_has_none():
    keys = noise.keys([0, 1, 2], 0, 0)
    found = np.concatenate([keys, *(noise.site(keys, number) for number in range(5))])
    assert len(np.unique(found)) == 18
    assert noise.site(None, 3) is None
    assert noise.site(keys[1:2], 4)[0] == noise.site(keys, 4)[1]


@pytest.mark.parametrize("key", [0, 1, 2**63])
def test_bits_are_spread_evenly_and_neighbours_are_independent(key):
    count = 2**16
    found = noise.random_bits(np.full(count, key, np.uint64), np.arange(count, dtype=np.uint64))
    bytes_of = found.view(np.uint8)
    assert stats.chisquare(np.bincount(bytes_of, minlength=256)).pvalue > 1e-3
    upper = (found >> np.uint64(60)).astype(np.int64)
    assert stats.chisquare(np.bincount(upper[:-1] * 16 + upper[1:], minlength=256)).pvalue > 1e-3
    others = noise.random_bits(np.full(count, key + 1, np.uint64), np.arange(count, dtype=np.uint64))
    across = upper * 16 + (others >> np.uint64(60)).astype(np.int64)
    assert stats.chisquare(np.bincount(across, minlength=256)).pvalue > 1e-3


@pytest.mark.parametrize("drop", [0.1, 0.5, 0.9])
def test_dropout_drops_its_share_and_scales_the_rest(drop):
    rows = Rows.of([300, 200])
    factors = noise.dropout_factors(torch.empty(500, 40), drop, noise.keys([0, 1], 0, 0), rows)
    kept = factors != 0
    assert torch.equal(factors[kept], torch.full_like(factors[kept], 1 / (1 - drop)))
    assert stats.binomtest(int((~kept).sum()), kept.numel(), drop).pvalue > 1e-3


def test_dropout_of_a_network_does_not_depend_on_the_others():
    keys = noise.keys([5, 6, 7], 1, 2)
    together = noise.dropout_factors(torch.empty(11, 3), 0.5, keys, Rows.of([4, 2, 5]))
    alone = noise.dropout_factors(torch.empty(5, 3), 0.5, keys[2:], Rows.of([5]))
    assert torch.equal(together[6:], alone)


def test_signs_are_both_and_do_not_depend_on_other_networks():
    keys = noise.keys([5, 6], 1, 2)
    found = noise.signs(keys, np.array([0, 40, 100]), 5, torch.empty(0, dtype=torch.float64))
    assert found.shape == (100, 5)
    assert found.dtype == torch.float64
    assert set(found.unique().tolist()) == {-1.0, 1.0}
    assert stats.binomtest(int((found > 0).sum()), found.numel()).pvalue > 1e-3
    assert torch.equal(found[40:], noise.signs(keys[1:], np.array([0, 60]), 5, found))
    own = torch.from_numpy(keys.view(np.int64))[0]
    assert torch.equal(found[:40].flatten() < 0, noise.torch_bits(own, torch.arange(200)) < 0)


@pytest.mark.parametrize("ptr", [[0, 40], [0, 50, 40], [1, 2, 3]])
def test_signs_of_rows_that_do_not_fit_are_refused(ptr):
    with pytest.raises(InvalidInputError, match=r"pointers|ptr"):
        noise.signs(noise.keys([5, 6], 1, 2), np.array(ptr), 5, torch.empty(0))


@pytest.mark.parametrize("drop", [-0.1, 1.0, 2.0, float("nan")])
def test_a_share_outside_zero_to_one_is_refused(drop):
    with pytest.raises(InvalidInputError, match=f"but is {drop}"):
        noise.limit_and_scale(drop)
