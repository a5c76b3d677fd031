"""`DenseRecipe`: what an encoding shares with others that need a dense matrix of every component."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.models import kernels
from leap.pipeline.derived.recipe import Arrays, EncodingRecipe, Plan
from leap.pipeline.reader import GraphReader
from leap.store import Artifact, Partition
from leap.store.graphs import StoredEncoding

LARGEST = 2048  # nodes of a component, the kernels' limit too


class DenseRecipe(EncodingRecipe):
    """An encoding that is exact, for graphs whose components have at most 2,048 nodes."""

    def plan(self, reader: GraphReader, inputs: Mapping[str, Artifact]) -> Plan:
        """Cut between graphs, by the cube of their sizes; refuse components that are too large."""
        node_ptr = reader.dataset.node_ptr()
        sizes = np.diff(node_ptr)
        for graph in np.flatnonzero(sizes > LARGEST).tolist():
            piece = reader.around(int(node_ptr[graph]), int(node_ptr[graph + 1]), 0)
            where = f"graph {graph} of {reader.dataset.manifest.dataset!r}"
            kernels.small_components(piece.indptr, piece.indices, largest=LARGEST, where=where)
        a_node = 5e-10 * np.minimum(sizes, LARGEST) ** 2.0 + 1e-5
        return self.plan_between_graphs(reader, np.repeat(a_node, sizes))

    def compute(
        self, reader: GraphReader, partition: Partition, inputs: Mapping[str, Artifact]
    ) -> tuple[Arrays, dict[str, Any]]:
        """Encode the partition's graphs."""
        local = reader.around(partition.node_lo, partition.node_hi, 0)
        encoding = self.encode(local.indptr, local.indices)
        return StoredEncoding.arrays(encoding.astype(np.float32)), {"nodes": partition.num_nodes}

    @abstractmethod
    def encode(self, indptr: NDArray[np.int64], indices: NDArray[Any]) -> NDArray[np.float64]:
        """Return the columns of each node of some whole graphs side by side."""
