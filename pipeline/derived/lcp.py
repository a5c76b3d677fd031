"""Local curvature profile: how curved the edges of a node are (Fesser and Weber 2024)."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from leap.models import kernels
from leap.pipeline.derived.recipe import Arrays, EncodingRecipe, Plan, partition_target
from leap.pipeline.partition import cumulative, plan_partitions
from leap.pipeline.reader import GraphReader
from leap.store import Artifact, Partition
from leap.store.errors import InvalidInputError
from leap.store.graphs import StoredEncoding
from leap.store.option import Option

SECONDS_A_PARTITION = 5.0
LARGEST_SECONDS = 3600.0


class LcpRecipe(EncodingRecipe):
    """Minimum, maximum, mean, standard deviation and median of the curvature of a node's edges.

    Of an edge uv, `curvature="forman"` is 4 - d_u - d_v, "augmented" adds 3 for each triangle that it is in, and
    "ollivier" is 1 - W with the Wasserstein distance W of the uniform measures on the neighbours of u and of v, solved
    exactly. An isolated node has zeros. A node depends on what is within two hops alone.
    """

    kind: ClassVar[str] = "lcp"
    algorithm: ClassVar[int] = 1

    curvature: Annotated[
        Literal["forman", "augmented", "ollivier"], Option(help="Curvature of an edge: {choices}.")
    ] = "forman"

    @property
    def columns(self) -> int:
        """Minimum, maximum, mean, standard deviation, median."""
        return 5

    def plan(self, reader: GraphReader, inputs: Mapping[str, Artifact]) -> Plan:
        """Cut by degrees; refuse Ollivier's curvature where it would take more than an hour."""
        seconds = self._seconds(reader)
        target = partition_target(reader.dataset)
        total = float(seconds.sum())
        if self.curvature == "ollivier" and total > LARGEST_SECONDS:
            raise InvalidInputError(
                f"Ollivier's curvature of {reader.dataset.manifest.dataset!r} is estimated at {total / 3600:,.1f} "
                f"hours of one core, for degrees of up to {int(reader.dataset.degrees().max()):,}; the limit is "
                f"{LARGEST_SECONDS / 3600:.0f} hour. Use the curvature augmented or forman."
            )
        cost = 4.0 * self.columns + seconds / SECONDS_A_PARTITION * target
        partitions = plan_partitions(reader.dataset.node_ptr(), cumulative(cost), target, reader.dataset.partitions)
        return Plan(partitions, total, 4.0 * self.columns * len(seconds))

    def _seconds(self, reader: GraphReader) -> NDArray[np.float64]:
        """Rough cost of each node: rows are merged for triangles, and products of degrees are what transport takes."""
        degree = reader.dataset.degrees().astype(np.float64)
        if self.curvature != "ollivier":
            return 1e-7 * (1 + degree) + 1e-9 * degree**2
        seconds = np.zeros(len(degree))
        for part in reader.dataset.partitions:
            rows = reader.dataset.neighbours(np.arange(part.node_lo, part.node_hi))
            here = np.repeat(degree[part.node_lo : part.node_hi], rows.lengths)
            there = degree[rows["ids"]]
            an_edge = here * there * (2e-8 + 1e-10 * (here + there))
            owner = np.repeat(np.arange(part.num_nodes), rows.lengths)
            seconds[part.node_lo : part.node_hi] = np.bincount(owner, an_edge / 2, minlength=part.num_nodes)
        return seconds

    def compute(
        self, reader: GraphReader, partition: Partition, inputs: Mapping[str, Artifact]
    ) -> tuple[Arrays, dict[str, Any]]:
        """Encode the partition's nodes."""
        # Two hops hold the rows of the neighbours, and the edges among what those lead to.
        local = reader.around(partition.node_lo, partition.node_hi, 2)
        start = int(local.sources[0]) if len(local.sources) else 0
        profiles = kernels.curvature_profiles(
            local.indptr, local.indices, self.curvature, start, start + partition.num_nodes
        )
        return StoredEncoding.arrays(profiles.astype(np.float32)), {"nodes": partition.num_nodes}
