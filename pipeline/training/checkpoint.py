"""Checkpoints: everything that training needs to go on as if it had never stopped, safe to load."""

import io
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from leap.store.disk import replacing
from leap.store.errors import DamagedCheckpointWarning


def save(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint; a reader sees the old one or the new one, never a part."""
    buffer = io.BytesIO()  # torch, writing itself, would not say that the disk is full
    torch.save(content, buffer)
    with replacing(path) as partial:
        partial.write_bytes(buffer.getbuffer())


def load(path: Path, fingerprint: str) -> dict[str, Any] | None:
    """Return a checkpoint of the run with this fingerprint; None if there is none that can be read.

    Only tensors and plain values are read: a checkpoint cannot run code.

    Warns
    -----
    DamagedCheckpointWarning
        If the file is there and cannot be read.
    """
    if not path.is_file():
        return None
    try:
        with zipfile.ZipFile(path) as archive:  # torch itself compares no checksums
            damaged = archive.testzip()
        if damaged is not None:
            raise zipfile.BadZipFile(damaged)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a damaged file
        message = f"the checkpoint {path} cannot be read ({type(error).__name__}) and counts as missing"
        warnings.warn(message, DamagedCheckpointWarning, stacklevel=2)
        return None
    return content if isinstance(content, dict) and content.get("fingerprint") == fingerprint else None
