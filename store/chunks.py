"""Read arrays straight from their chunks, many times quicker than through Zarr for small ones.

Only what `leap.store.arrays` writes is understood: whole rows to a chunk, little endian, at most Blosc. Anything else
is left to Zarr.
"""

import json
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numcodecs import blosc
from numpy.typing import NDArray

_BYTES = ({"name": "bytes"}, {"name": "bytes", "configuration": {"endian": "little"}})


def read_array(read_file: Callable[[str], bytes], files: Collection[str], path: str) -> NDArray[Any] | None:
    """Return the array at a path, None if its layout is not ours.

    Parameters
    ----------
    read_file : returns a file of the artifact, checked; raises KeyError if there is no such file.
    files : names of the artifact's files.
    """
    layout = json.loads(read_file(f"{path}/zarr.json"))
    shape, chunk = layout["shape"], layout["chunk_grid"].get("configuration", {}).get("chunk_shape", [])
    if not _is_plain(layout, shape, chunk):
        return None
    rows, inner = chunk[0], "/".join("0" for _ in shape[1:])
    array = np.empty(shape, np.dtype(layout["data_type"]).newbyteorder("<"))
    buffer = np.empty((rows, *shape[1:]), array.dtype)
    for number, low in enumerate(range(0, shape[0] if array.size else 0, rows)):
        name = f"{path}/c/{number}" + (f"/{inner}" if inner else "")
        target = array[low : low + rows]
        if name not in files:  # Zarr writes no chunk of nothing but its fill value
            target[...] = layout["fill_value"]
            continue
        data = read_file(name)
        whole = target if len(target) == rows else buffer  # the last chunk is stored in full length
        if len(layout["codecs"]) == 2:
            blosc.decompress(data, whole)
        else:
            whole.reshape(-1)[:] = np.frombuffer(data, array.dtype)
        if whole is buffer:
            target[...] = buffer[: len(target)]
    return array


def _is_plain(layout: dict[str, Any], shape: list[int], chunk: list[int]) -> bool:
    codecs = layout["codecs"]
    separator = layout["chunk_key_encoding"]
    return (
        layout["data_type"] in ("bool", "int8", "int32", "int64", "float32", "float64")
        and layout["chunk_grid"]["name"] == "regular"
        and len(shape) > 0
        and chunk[1:] == [max(1, size) for size in shape[1:]]
        and separator == {"name": "default", "configuration": {"separator": "/"}}
        and codecs[0] in _BYTES
        and (len(codecs) == 1 or (len(codecs) == 2 and codecs[1]["name"] == "blosc"))
        and not layout.get("storage_transformers")
    )
