"""Checkpoints: everything that training needs to go on as if it had never stopped, safe to load."""

import os
from pathlib import Path
from typing import Any

import torch

from leap.store.errors import WorkFailedError

BEST, LAST = "best.pt", "last.pt"


def save(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint; a reader sees the old one or the new one, never a part."""
    partial = path.with_suffix(".partial")
    torch.save(content, partial)
    os.replace(partial, path)


def load(path: Path, fingerprint: str) -> dict[str, Any] | None:
    """Return a checkpoint of the run with this fingerprint; None if there is none.

    Only tensors and plain values are read: a checkpoint cannot run code.

    Raises
    ------
    WorkFailedError
        If the file is damaged.
    """
    if not path.is_file():
        return None
    try:
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a damaged file
        raise WorkFailedError(
            f"the checkpoint {path} cannot be read ({type(error).__name__}). Train again with --force."
        ) from error
    return content if content.get("fingerprint") == fingerprint else None
