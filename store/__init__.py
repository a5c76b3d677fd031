"""The feature store: content-addressed, immutable artifacts in Zarr v3 and Parquet.

Importing this package needs neither torch nor PyG, and reads no arrays until asked to.
"""

from leap.store.artifact import Artifact
from leap.store.build import Build, PartitionWriter
from leap.store.errors import LeapError
from leap.store.manifest import Manifest, Partition
from leap.store.neighborhoods import Neighborhoods
from leap.store.store import Store

__all__ = [
    "Artifact",
    "Build",
    "LeapError",
    "Manifest",
    "Neighborhoods",
    "Partition",
    "PartitionWriter",
    "Store",
]
