"""The feature store: content-addressed, immutable artifacts in Zarr v3 and Parquet.

Importing this package needs neither torch nor PyG, and reads no arrays until asked to.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from leap.store.artifact import Artifact
from leap.store.build import Build, PartitionWriter
from leap.store.errors import LeapError
from leap.store.manifest import Manifest, Partition
from leap.store.neighborhoods import Neighborhoods
from leap.store.store import Store

if TYPE_CHECKING:
    from leap.store.stream import ArrayBatch, GraphStream

__all__ = [
    "ArrayBatch",
    "Artifact",
    "Build",
    "GraphStream",
    "LeapError",
    "Manifest",
    "Neighborhoods",
    "Partition",
    "PartitionWriter",
    "Store",
]


def __getattr__(name: str) -> Any:
    # Commands that read no batches do not pay for importing the stream.
    if name not in ("ArrayBatch", "GraphStream"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("leap.store.stream"), name)
