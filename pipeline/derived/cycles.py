"""Cycle encoding: how many simple cycles of each length lead through a node."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from leap.models import kernels
from leap.pipeline.derived.recipe import Arrays, EncodingRecipe, Plan
from leap.pipeline.reader import GraphReader
from leap.store import Artifact, Partition
from leap.store.errors import InvalidInputError
from leap.store.graphs import StoredEncoding
from leap.store.option import Option

LENGTHS = 6  # from 3 to 8
STEPS_A_SECOND = 1.5e8
LARGEST_STEPS = 1e11
SAMPLE = 1024


class CyclesRecipe(EncodingRecipe):
    """Numbers of simple cycles of 3, 4, …, dim + 2 nodes through each node, counted exactly.

    A `dim` above 6 is 6: no longer cycles are counted. A node on no cycle has zeros. Numbers are stored as float32,
    exact up to 2**24. Nothing depends on other components.
    """

    kind: ClassVar[str] = "cycles"
    algorithm: ClassVar[int] = 1
    viewable: ClassVar[bool] = True

    dim: Annotated[int, Field(ge=1, le=1024), Option(help="Dimension.", metavar="K")] = LENGTHS

    @field_validator("dim")
    @classmethod
    def _no_longer_cycles(cls, value: int) -> int:
        return min(value, LENGTHS)

    @property
    def columns(self) -> int:
        """One for each length."""
        return self.dim

    def plan(self, reader: GraphReader, inputs: Mapping[str, Artifact]) -> Plan:
        """Cut between graphs by the work that a sample of nodes shows; refuse too much of it."""
        steps = self._steps(reader)
        plan = self.plan_between_graphs(reader, 1e-7 + steps / STEPS_A_SECOND)
        return Plan(plan.partitions, plan.seconds, plan.bytes, {"estimated_steps": round(float(steps.sum()))})

    def _steps(self, reader: GraphReader) -> NDArray[np.float64]:
        """Expected steps of each node: the mean of a few that are spread evenly over its partition of the dataset."""
        dataset = reader.dataset
        nodes = int(dataset.node_ptr()[-1])
        steps = np.zeros(nodes)
        left = LARGEST_STEPS
        for part in dataset.partitions:
            if not part.num_nodes:
                continue
            count = min(1 + part.num_nodes // 8, 1 + SAMPLE * part.num_nodes // nodes)
            ids = part.node_lo + (np.arange(count) * part.num_nodes) // count
            piece = reader.around_ids(ids.astype(np.int64), (self.dim + 2) // 2)
            budget = int(left * count / part.num_nodes)
            taken = kernels.search_steps(piece.indptr, piece.indices, self.dim + 2, piece.sources, budget)
            if taken > budget:
                raise InvalidInputError(
                    f"cycles of up to {self.dim + 2} nodes are too many in {dataset.manifest.dataset!r}: the search is "
                    f"estimated at more than {LARGEST_STEPS:.0e} steps, the limit, by {count:,} of the nodes "
                    f"{part.node_lo:,} to {part.node_hi - 1:,}. Count shorter ones with a smaller --dim: 1 for "
                    "triangles only."
                )
            steps[part.node_lo : part.node_hi] = taken / count
            left -= taken / count * part.num_nodes
        return steps

    def compute(
        self, reader: GraphReader, partition: Partition, inputs: Mapping[str, Artifact]
    ) -> tuple[Arrays, dict[str, Any]]:
        """Count in the partition's graphs."""
        local = reader.around(partition.node_lo, partition.node_hi, 0)
        counts = kernels.count_cycles(local.indptr, local.indices, self.dim + 2)
        return StoredEncoding.arrays(counts.astype(np.float32)), {"nodes": partition.num_nodes}
