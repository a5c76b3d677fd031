"""Adam for the networks of a stack: one update of a flat tensor, with a rate and a count of steps for each network."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leap.models.addresses import is_compiled
from leap.models.devices import send
from leap.models.kernels.adam_loops import adam_update
from leap.store.errors import InvalidInputError

BETAS = (0.9, 0.999)
EPS = 1e-8

Moments = dict[str, Tensor]


class Flat(Protocol):
    """What has its parameters in one tensor, network by network."""

    flat: Tensor


class StackAdam:
    """Adam (Kingma and Ba 2015) as `torch.optim.Adam` has it, for each network of a stack on its own.

    On the CPU in float32 a network's bits do not depend on the others.

    Parameters
    ----------
    stack : its `flat` (S, P) is updated in place, and may be another tensor in the next step. Networks that it gains
        or loses are told to `add` and `keep`.
    """

    def __init__(self, stack: Flat) -> None:
        self._stack = stack
        self._averages = torch.zeros(0, stack.flat.shape[1], dtype=stack.flat.dtype, device=stack.flat.device)
        self._squares = self._averages.clone()
        self._steps: NDArray[np.int64] = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, states: Sequence[Moments | None]) -> None:
        """Append networks, each with what `state` returned of it, or None if it has made no step.

        Raises
        ------
        InvalidInputError
            If a state belongs to a network of another size.
        """
        empty = self._averages.new_zeros(self._averages.shape[1])
        for name in ("exp_avg", "exp_avg_sq"):
            for state in states:
                if state is not None and state[name].shape != empty.shape:
                    raise InvalidInputError(
                        f"{name} must have shape {tuple(empty.shape)}, got {tuple(state[name].shape)}."
                    )
        averages = [empty if state is None else state["exp_avg"].to(empty) for state in states]
        squares = [empty if state is None else state["exp_avg_sq"].to(empty) for state in states]
        steps = [0 if state is None else int(state["step"]) for state in states]
        self._averages = torch.cat([self._averages, *(average[None] for average in averages)])
        self._squares = torch.cat([self._squares, *(square[None] for square in squares)])
        self._steps = np.concatenate([self._steps, np.array(steps, np.int64)])

    def keep(self, slots: Sequence[int] | NDArray[np.int64]) -> None:
        """Forget all networks but these, which are numbered in this order from now on."""
        chosen = np.asarray(slots, np.int64)
        places = send(torch.from_numpy(chosen), self._averages.device)
        self._averages, self._squares = self._averages[places], self._squares[places]
        self._steps = self._steps[chosen]

    def state(self, slot: int) -> Moments:
        """Return a copy of what Adam knows of a network."""
        return {
            "step": torch.tensor(int(self._steps[slot])),
            "exp_avg": self._averages[slot].clone(),
            "exp_avg_sq": self._squares[slot].clone(),
        }

    def step(
        self,
        gradients: Tensor,
        rates: Sequence[float] | NDArray[np.float64],
        decays: Sequence[float] | NDArray[np.float64] = (),
    ) -> None:
        """Update the parameters of all networks.

        Parameters
        ----------
        gradients : like the stack's `flat`.
        rates : (S,) of learning.
        decays : (S,) of weights: before the update a network's parameters lose the share rate · decay of themselves,
            as with `torch.optim.AdamW` (Loshchilov and Hutter 2019); none unless given.

        Raises
        ------
        InvalidInputError
            If stack, gradients, rates, decays and moments are not of the same networks.
        """
        flat, speeds = self._stack.flat, np.asarray(rates, np.float64)
        losses = np.asarray(decays, np.float64) if len(decays) else np.zeros_like(speeds)
        is_of_all = speeds.shape == losses.shape == self._steps.shape
        if flat.shape != self._averages.shape or gradients.shape != flat.shape or not is_of_all:
            raise InvalidInputError(
                f"Adam knows networks of shape {tuple(self._averages.shape)}; got parameters {tuple(flat.shape)}, "
                f"gradients {tuple(gradients.shape)}, rates {speeds.shape} and decays {losses.shape}."
            )
        if losses.any():
            kept = torch.from_numpy(1.0 - speeds * losses).to(flat.dtype)
            flat.mul_(send(kept, flat.device)[:, None])
        self._steps += 1
        corrected = speeds / (1.0 - BETAS[0] ** self._steps)
        roots = np.sqrt(1.0 - BETAS[1] ** self._steps)
        if is_compiled(flat, gradients, self._averages) and flat.is_contiguous():
            given = gradients.contiguous()
            addresses = (part.data_ptr() for part in (flat, given, self._averages, self._squares))
            adam_update(*addresses, flat.shape[1], BETAS, EPS, corrected, roots)
            return
        rate, root = (send(torch.from_numpy(part).to(flat.dtype), flat.device)[:, None] for part in (corrected, roots))
        with torch.no_grad():
            self._averages.lerp_(gradients, 1.0 - BETAS[0])
            self._squares.mul_(BETAS[1]).addcmul_(gradients, gradients, value=1.0 - BETAS[1])
            flat.sub_(rate * (self._averages / (self._squares.sqrt() / root + EPS)))
