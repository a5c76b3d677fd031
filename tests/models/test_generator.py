"""Dropout by compiled draws: torch's own, to the last bit."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from leap.models import generator
from leap.models.generator import LEAST, borrowed_generator, dropout
from leap.models.kernels.mersenne import WORDS, fill_factors


def drawn(function, share, before=0):
    with borrowed_generator(3):
        torch.randint(9, (before,))
        sizes = (LEAST, LEAST + 1, 3 * LEAST - 1)
        found = [function(torch.full((size,), 1.5), share) for size in sizes]
        return [*found, torch.randn(5), torch.rand(3), torch.default_generator.get_state()]


@pytest.mark.parametrize("share", [0.1, 0.2, 1 / 3, 0.5, 0.9])
@pytest.mark.parametrize("before", [0, 1, 623, 624, 625])
def test_dropout_is_torchs_to_the_last_bit_and_leaves_the_generator_where_torch_does(share, before):
    expected = drawn(functional.dropout, share, before)
    for ours, other in zip(drawn(dropout, share, before), expected, strict=True):
        assert torch.equal(ours, other)


def test_dropout_has_torchs_gradient():
    gradients = []
    for function in (dropout, functional.dropout):
        x = torch.randn(LEAST, generator=torch.Generator().manual_seed(0)).requires_grad_()
        with borrowed_generator(1):
            function(x, 0.4).square().sum().backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_nothing_or_all_is_dropped_as_torch_does(share):
    x = torch.randn(LEAST)
    assert torch.equal(dropout(x, share), functional.dropout(x, share))


def test_a_torch_that_draws_otherwise_is_left_alone(monkeypatch):
    monkeypatch.setattr(generator, "_draws_are_known", lambda: False)
    monkeypatch.setattr(generator, "_factors", None)
    assert dropout(torch.ones(LEAST), 0.5).unique().tolist() == [0.0, 2.0]


@pytest.mark.parametrize("position", [-5, 0, 1, 623, 624, 2**40])
@pytest.mark.parametrize("count", [0, 1, 311, 312, 313, 1000])
def test_the_twister_is_numpys_wherever_it_stands(position, count):
    numpys = np.random.MT19937(7)
    state = numpys.state
    state["state"]["pos"] = min(max(position, 0), WORDS)
    numpys.state = state
    words = numpys.random_raw(2 * count).astype(np.uint64)
    expected = (((words[::2] << np.uint64(32)) | words[1::2]) & np.uint64(2**53 - 1)) < np.uint64(2**51)
    own, out = state["state"]["key"].astype(np.uint32), np.empty(count, np.float32)
    after = fill_factors(own, position, 2**51, 3.0, out)
    np.testing.assert_array_equal(out, np.where(expected, 3.0, 0.0))
    np.testing.assert_array_equal(own, numpys.state["state"]["key"])
    assert after == numpys.state["state"]["pos"]
