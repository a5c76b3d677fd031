"""Content hashes of raw input: every byte of every file, or of arrays in memory."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.datasets.raw_files import cannot_read


def fingerprint_files(root: Path, files: Iterable[Path]) -> list[dict[str, Any]]:
    """Name relative to `root`, size and sha256 of each file, sorted by name.

    Raises
    ------
    MissingRawFilesError
        Where a file has gone.
    InvalidInputError
        Where one is there and cannot be read.
    """
    entries = []
    for path in sorted(files):
        try:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
                size = stream.tell()
        except OSError as error:
            raise cannot_read(path, error) from error
        entries.append({"name": path.relative_to(root).as_posix(), "bytes": size, "sha256": digest})
    return entries


def fingerprint_arrays(arrays: Mapping[str, NDArray[Any] | None]) -> dict[str, Any]:
    """Shape, dtype and sha256 of each array by name; an absent array is None."""
    return {name: None if array is None else _fingerprint_array(array) for name, array in sorted(arrays.items())}


def _fingerprint_array(array: NDArray[Any]) -> dict[str, Any]:
    if array.dtype.hasobject:  # labels of mixed types: their text decides, the type included
        content: Any = "\0".join(f"{type(value).__name__}:{value!r}" for value in array.ravel()).encode()
        dtype = "object"
    else:
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        content = little.reshape(-1).view(np.uint8).data if little.size else b""
        dtype = little.dtype.str
    return {"shape": list(array.shape), "dtype": dtype, "sha256": hashlib.sha256(content).hexdigest()}
