"""How numbers of the host get to the device that computes, without waiting for it."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def send(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Return a tensor on another device; the host goes on while it travels to a GPU, from memory that is pinned."""
    if torch.device(device).type != "cuda" or not tensor.is_cpu:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def segments(ptr: NDArray[np.int64], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the number of each row's group and its place inside the group, both (N,) int64.

    Parameters
    ----------
    ptr : (G + 1,) group g has the rows ptr[g] to ptr[g + 1].

    Examples
    --------
    >>> segments(np.array([0, 2, 2, 5]), torch.device("cpu"))
    (tensor([0, 0, 2, 2, 2]), tensor([0, 1, 0, 1, 2]))
    """
    starts = send(torch.from_numpy(ptr), device)
    number = torch.repeat_interleave(starts.diff(), output_size=int(ptr[-1]))
    return number, torch.arange(len(number), device=device) - starts[number]
