"""Arrays of a partition in Zarr v3: written with a checksum of every file, read only if the checksum holds."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import zarr
from numcodecs import blosc
from numpy.typing import NDArray
from zarr.abc.store import ByteRequest, Store
from zarr.codecs import BloscCodec
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import WrapperStore

from leap.store.errors import DamagedArtifactError
from leap.store.location import Location, writing
from leap.store.manifest import FileRecord

# Threads of Blosc place blocks in the order in which they finish; equal arrays must give equal bytes.
blosc.use_threads = False

CHUNK_BYTES = 16 * 2**20
SAMPLE_BYTES = 2**16
WORTHWHILE = 0.8


class _RecordingStore(WrapperStore[Store]):
    """Remembers size and SHA-256 of each value on its way to the disk, so that nothing is read back."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.records: dict[str, FileRecord] = {}

    async def set(self, key: str, value: Buffer) -> None:
        data = value.to_bytes()
        self.records[key] = FileRecord(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        await super().set(key, value)


class _CheckedStore(WrapperStore[Store]):
    """Refuses values whose checksum is not the published one, and absent values that were published.

    Without the second check Zarr would fill in zeros for a chunk that somebody deleted.
    """

    def __init__(self, store: Store, records: Mapping[str, FileRecord], prefix: str, key: str) -> None:
        super().__init__(store)
        self._records, self._prefix, self._key = records, prefix, key

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        value = await super().get(key, prototype, byte_range)
        name = f"{self._prefix}/{key}"
        record = self._records.get(name)
        if record is None:
            return None
        if value is None:
            raise DamagedArtifactError(f"artifact {self._key[:12]}: {name} is missing.", self._key)
        if byte_range is None and hashlib.sha256(value.to_bytes()).hexdigest() != record.sha256:
            raise DamagedArtifactError(
                f"artifact {self._key[:12]}: {name} is damaged; its checksum does not match.", self._key
            )
        return value


def _compressor(array: NDArray[Any]) -> BloscCodec | None:
    """Blosc where a sample of the array shrinks by it; noise, such as real-valued features, is stored as it is."""
    flat = np.ascontiguousarray(array).reshape(-1)
    count = SAMPLE_BYTES // max(1, array.itemsize)
    start = max(0, (flat.size - count) // 2)
    sample = flat[start : start + count].tobytes()
    shuffle = blosc.SHUFFLE
    packed = blosc.compress(sample, b"lz4", 5, shuffle, 0, typesize=array.itemsize) if sample else b""
    if len(packed) > WORTHWHILE * len(sample):
        return None
    return BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=array.itemsize)


def write_group(
    location: Location, path: str, arrays: Mapping[str, NDArray[Any]], attributes: Mapping[str, Any]
) -> dict[str, FileRecord]:
    """Write arrays as one Zarr group at `path`; return a record of every file, by its path below `path`."""
    store = _RecordingStore(location.zarr_store(path, read_only=False))
    with writing(location.url):
        group = zarr.create_group(store, attributes=dict(attributes), overwrite=False, zarr_format=3)
        for name, array in arrays.items():
            rows = array.shape[0] if array.ndim else 1
            row_bytes = max(1, array.nbytes // max(1, rows))
            chunk = max(1, min(rows, CHUNK_BYTES // row_bytes))
            target = group.create_array(
                name,
                shape=array.shape,
                dtype=array.dtype,
                chunks=(chunk, *(max(1, size) for size in array.shape[1:])),
                compressors=_compressor(array),
                filters=None,
            )
            if array.size:
                target[...] = array
    return store.records


def write_root(location: Location, path: str, attributes: Mapping[str, Any]) -> None:
    """Write the metadata of an artifact's outermost group at `path`."""
    zarr.create_group(location.zarr_store(path, read_only=False), attributes=dict(attributes))


def read_array(
    location: Location, path: str, name: str, records: Mapping[str, FileRecord], key: str, prefix: str
) -> NDArray[Any]:
    """Read one array of the group at `path` through Zarr, checking every byte.

    Parameters
    ----------
    records : the artifact's files, by their path below the artifact.
    prefix : path of the group below the artifact.
    """
    store = _CheckedStore(location.zarr_store(path, read_only=True), records, prefix, key)
    try:
        array = zarr.open_group(store, mode="r", zarr_format=3, use_consolidated=False)[name]
    except FileNotFoundError as error:  # the whole folder; the store above tells of single files
        raise DamagedArtifactError(f"artifact {key[:12]}: {prefix} is missing.", key) from error
    assert isinstance(array, zarr.Array)
    return np.asarray(array[...])
