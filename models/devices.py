"""Devices that compute: found by name, and how numbers of the host get to one without waiting for it."""

from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leap.store.errors import InvalidInputError

CPU = torch.device("cpu")


def find_device(name: str, process: int = 0) -> torch.device:
    """Return a device of this machine: auto, cpu, cuda, cuda:N or mps; auto is cuda or mps where there is one.

    Parameters
    ----------
    process : number of the process that asks; processes take turns at the GPUs if no N is given.

    Raises
    ------
    InvalidInputError
        If there is no such device.

    Examples
    --------
    >>> find_device("cpu")
    device(type='cpu')
    """
    gpus, has_mps = count_gpus(), torch.backends.mps.is_available()
    if name == "auto":
        name = "cuda" if gpus else "mps" if has_mps else "cpu"
    kind, colon, number = name.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (colon and not (kind == "cuda" and number.isdecimal())):
        raise InvalidInputError(f"no device is called {name!r}. Give auto, cpu, cuda, cuda:N or mps.")
    if (kind == "cuda" and not gpus) or (kind == "mps" and not has_mps):
        raise InvalidInputError(f"torch {torch.__version__} finds no {kind} device on this machine. Use --device cpu.")
    if kind != "cuda":
        return torch.device(kind)
    if colon and int(number) >= gpus:
        raise InvalidInputError(f"there is no {name}: this machine has cuda:0 to cuda:{gpus - 1}.")
    return torch.device("cuda", int(number) if colon else process % gpus)


def count_gpus() -> int:
    """Return how many CUDA devices torch can use."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def device_processes(name: str) -> int | None:
    """Return how many processes use the devices of this name best: one each; None on the CPU, where cores decide."""
    if find_device(name).type == "cpu":
        return None
    return max(1, count_gpus()) if name in ("auto", "cuda") else 1


def lowered(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """Let linear maps multiply in bfloat16 if the precision says so; sums and results keep 32 bits."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()


def in_full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Let everything compute in the precision of its input."""
    is_lowered = torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if is_lowered else nullcontext()


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


def padded_places(ptr: NDArray[np.int64], rows: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    """Return where rows stand once every group is padded to the longest, and how long that is."""
    longest = int(np.diff(ptr).max(initial=0))
    return rows[0] * longest + rows[1], longest
