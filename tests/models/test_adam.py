"""Adam of a stack: torch's own as the oracle, and bits that depend on a network alone."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from leap.models.adam import StackAdam
from leap.store.errors import InvalidInputError

SIZE, STEPS = 192, 60
RATES = np.array([1e-3, 3e-2, 1e-1, 1e-4, 5e-3, 1e-2, 2e-3])
DECAYS = np.array([0.0, 0.1, 1e-2, 3.0, 0.0, 0.5, 1.0])


def drawn(*shape, seed, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def gradient(step, networks=7, dtype=torch.float32):
    """Gradients of very different sizes."""
    scales = 10.0 ** torch.linspace(-6, 3, SIZE, dtype=torch.float64)
    return drawn(networks, SIZE, seed=100 + step, dtype=dtype) * scales.to(dtype)


def trained(places, steps=range(STEPS), dtype=torch.float32, rates=RATES, decays=None):
    """A stack of the networks at these places and its Adam after these steps."""
    stack = SimpleNamespace(flat=drawn(7, SIZE, seed=1, dtype=dtype)[places].clone())
    adam = StackAdam(stack)
    adam.add([None] * len(places))
    for step in steps:
        adam.step(gradient(step, dtype=dtype)[places], rates[places], () if decays is None else decays[places])
    return stack, adam


@pytest.mark.parametrize("decays", [np.zeros(7), DECAYS], ids=["plain", "decaying"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_network_goes_as_with_torchs_adam(dtype, decays):
    stack, adam = trained(range(7), dtype=dtype, decays=decays)
    for slot, (rate, decay) in enumerate(zip(RATES, decays, strict=True)):
        parameter = drawn(7, SIZE, seed=1, dtype=dtype)[slot].clone().requires_grad_()
        oracle = torch.optim.AdamW([parameter], lr=float(rate), weight_decay=float(decay))
        for step in range(STEPS):
            parameter.grad = gradient(step, dtype=dtype)[slot].clone()
            oracle.step()
        torch.testing.assert_close(stack.flat[slot], parameter.detach(), rtol=1e-6, atol=1e-6)
        known = oracle.state[parameter]
        assert adam.state(slot)["step"] == known["step"] == STEPS
        for name in ("exp_avg", "exp_avg_sq"):
            torch.testing.assert_close(adam.state(slot)[name], known[name], rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("decays", [None, DECAYS], ids=["plain", "decaying"])
def test_the_bits_of_a_network_do_not_depend_on_the_others(decays):
    together, _ = trained(range(7), decays=decays)
    for slot in range(7):
        alone, _ = trained([slot], decays=decays)
        assert torch.equal(alone.flat[0], together.flat[slot])


def test_no_decay_is_what_it_was_without():
    assert torch.equal(trained(range(7), decays=np.zeros(7))[0].flat, trained(range(7))[0].flat)
    assert torch.equal(trained([0, 1], decays=DECAYS)[0].flat[0], trained([0])[0].flat[0])


def test_networks_that_leave_and_come_back_go_on_as_if_alone():
    whole, _ = trained(range(7))
    stack, adam = trained(range(7), range(20))
    kept, moments = stack.flat[4].clone(), adam.state(4)
    chosen = [5, 2]
    stack.flat = stack.flat[chosen]
    adam.keep(chosen)
    for step in range(20, 40):
        adam.step(gradient(step)[chosen], RATES[chosen])
    stack.flat = torch.cat([stack.flat, kept[None], drawn(7, SIZE, seed=1)[3:4]])
    adam.add([moments, None])
    # By now the steps of the four differ: 40, 40, 20 and 0.
    for later in range(20):
        given = [gradient(40 + later)[5], gradient(40 + later)[2], gradient(20 + later)[4], gradient(later)[3]]
        adam.step(torch.stack(given), RATES[[5, 2, 4, 3]])
    assert torch.equal(stack.flat[:2], whole.flat[chosen])
    for place, (slot, count) in {2: (4, 40), 3: (3, 20)}.items():
        alone, its = trained([slot], range(count))
        assert torch.equal(stack.flat[place], alone.flat[0])
        assert int(adam.state(place)["step"]) == int(its.state(0)["step"]) == count


def test_a_state_is_a_copy():
    _, adam = trained([0])
    state = adam.state(0)
    state["exp_avg"].zero_()
    assert adam.state(0)["exp_avg"].any()


def test_what_is_not_finite_stays_in_its_network():
    clean, _ = trained(range(3), [])
    dirty, _ = trained(range(3), [])
    for stack, value in ((clean, 1.0), (dirty, float("nan"))):
        adam = StackAdam(stack)
        adam.add([None] * 3)
        given = gradient(0, 3)
        given[1] = value
        adam.step(given, RATES[:3])
    assert torch.equal(clean.flat[[0, 2]], dirty.flat[[0, 2]])
    assert dirty.flat[1].isnan().all()


def test_a_step_asks_the_device_for_nothing():
    stack = SimpleNamespace(flat=torch.empty(2, SIZE, device="meta"))  # a question would be an error
    adam = StackAdam(stack)
    adam.add([None, None])
    adam.step(torch.empty(2, SIZE, device="meta"), [1e-3, 1e-2], [0.0, 0.1])
    assert int(adam.state(1)["step"]) == 1


def test_what_does_not_fit_is_refused():
    stack, adam = trained(range(2), [])
    for given, rates in ((gradient(0, 3), [1.0, 1.0]), (gradient(0, 2), [1.0]), (gradient(0, 2)[:, 1:], [1.0, 1.0])):
        with pytest.raises(InvalidInputError, match=r"Adam knows networks of shape \(2, 192\)"):
            adam.step(given, rates)
    with pytest.raises(InvalidInputError, match=r"decays \(1,\)"):
        adam.step(gradient(0, 2), [1.0, 1.0], [0.1])
    stack.flat = stack.flat[:1]
    with pytest.raises(InvalidInputError, match=r"got parameters \(1, 192\)"):
        adam.step(gradient(0, 1), [1.0])
    with pytest.raises(InvalidInputError, match=r"exp_avg must have shape \(192,\), got \(3,\)"):
        adam.add([{"step": torch.tensor(1), "exp_avg": torch.zeros(3), "exp_avg_sq": torch.zeros(3)}])


def test_no_networks_are_possible():
    stack, adam = trained([], [])
    adam.step(torch.zeros(0, SIZE), [])
    assert len(adam) == 0
    assert stack.flat.shape == (0, SIZE)
