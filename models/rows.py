"""`Rows`: which rows of a batch belong to which network of a stack."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leap.models.devices import segments, send
from leap.store.graphs.ragged import pointers


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of n networks, one network's after the other's; all arrays are on the host.

    Parameters
    ----------
    ptr : (n + 1,); network i owns the rows ptr[i] to ptr[i + 1].
    noise : (n,) key of each network's randomness in this step (`leap.models.noise`), or None for no randomness.
    slots : (n,) where each network's parameters stand in the stack; no two are equal.
    """

    ptr: NDArray[np.int64]
    noise: NDArray[np.uint64] | None
    slots: NDArray[np.int64]
    _sent: dict[torch.device, tuple[Tensor, Tensor]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(
        cls,
        counts: Sequence[int] | NDArray[Any],
        slots: Sequence[int] | NDArray[Any] | None = None,
        noise: NDArray[np.uint64] | None = None,
    ) -> Self:
        """Return the rows of networks that own so many each; by default they are all networks of the stack, in order.

        >>> Rows.of([2, 0, 3]).ptr.tolist()
        [0, 2, 2, 5]
        """
        places = np.arange(len(counts), dtype=np.int64) if slots is None else np.asarray(slots, np.int64)
        return cls(pointers(counts), noise, places)

    def __len__(self) -> int:
        return len(self.slots)

    def owners(self, device: torch.device) -> Tensor:
        """Return the slot of each row's network, (N,) int64."""
        if device.type == "cpu":
            return torch.from_numpy(self.slots.repeat(np.diff(self.ptr)))
        return send(torch.from_numpy(self.slots), device)[self.segments(device)[0]]

    def segments(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return which of the n networks each row belongs to, and its place among its rows; made once per device."""
        if device not in self._sent:
            self._sent[device] = segments(self.ptr, device)
        return self._sent[device]

    def times(self, count: int) -> Self:
        """Return rows where each row became `count` consecutive ones."""
        return replace(self, ptr=self.ptr * count)
