"""RWPE: probabilities that a random walk is back at its node after 1, 2, …, dim steps (paper, section 2.2)."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from leap.models import kernels
from leap.pipeline.derived.recipe import Arrays, EncodingRecipe, Plan, partition_target
from leap.pipeline.partition import cumulative, plan_partitions
from leap.pipeline.reader import GraphReader
from leap.store import Artifact, Partition
from leap.store.graphs import StoredEncoding
from leap.store.option import Option

STEPS_A_SECOND = 3e8
SECONDS_A_PARTITION = 5.0


class RwpeRecipe(EncodingRecipe):
    """Random-walk encoding of `dim` steps."""

    kind: ClassVar[str] = "rwpe"
    algorithm: ClassVar[int] = 1
    viewable: ClassVar[bool] = True

    dim: Annotated[int, Field(ge=1, le=1024), Option(help="Dimension.", metavar="K")] = 10

    @property
    def columns(self) -> int:
        """One for each step."""
        return self.dim

    def plan(self, reader: GraphReader, inputs: Mapping[str, Artifact]) -> Plan:
        """Cut by the work of walking: nodes of dense or large graphs cost more."""
        node_ptr, degree = reader.dataset.node_ptr(), reader.dataset.degrees()
        entries = cumulative(degree)[node_ptr]
        graph_entries = np.repeat(np.diff(entries), np.diff(node_ptr))
        half = (self.dim + 1) // 2
        # A walk of `half` steps touches a ball that grows with the degree and never exceeds the graph.
        touched = np.minimum((degree + 1.0) ** min(half, 4), graph_entries) * half
        seconds = touched / STEPS_A_SECOND
        target = partition_target(reader.dataset)
        cost = 4.0 * self.dim + seconds / SECONDS_A_PARTITION * target
        partitions = plan_partitions(node_ptr, cumulative(cost), target, reader.dataset.partitions)
        return Plan(partitions, float(seconds.sum()), 4.0 * self.dim * len(degree))

    def compute(
        self, reader: GraphReader, partition: Partition, inputs: Mapping[str, Artifact]
    ) -> tuple[Arrays, dict[str, Any]]:
        """Walk from the partition's nodes."""
        # Half of the steps suffice, from either end of the walk; one hop more makes the outermost degrees right.
        local = reader.around(partition.node_lo, partition.node_hi, (self.dim + 1) // 2 + 1)
        start = int(local.sources[0]) if len(local.sources) else 0
        encoding = kernels.rwpe(local.indptr, local.indices, self.dim, start, start + partition.num_nodes)
        return StoredEncoding.arrays(encoding.astype(np.float32)), {"nodes": partition.num_nodes}
