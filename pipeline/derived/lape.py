"""LaPE: entries of the lowest non-trivial eigenvectors of the normalized Laplacian (paper, section 2.2)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from leap.models import kernels
from leap.pipeline.derived.recipe import Arrays, Plan, Recipe, partition_target
from leap.store import Artifact, Partition
from leap.store.graphs import StoredEncoding

if TYPE_CHECKING:
    from leap.pipeline.reader import GraphReader

DENSE_LIMIT = 512


class LapeRecipe(Recipe):
    """Laplacian encoding of `dim` eigenvectors.

    `drop="components"` leaves out one zero eigenvalue for each component that has an edge; `drop="one"` leaves out
    exactly one, as the published code does.
    """

    kind: ClassVar[str] = "lape"
    algorithm: ClassVar[int] = 2
    viewable: ClassVar[bool] = True

    dim: int = Field(default=10, ge=1, le=1024)
    drop: Literal["components", "one"] = "components"

    def plan(self, reader: "GraphReader", inputs: Mapping[str, Artifact]) -> Plan:
        """Cut between graphs, by the cost of their eigenproblems."""
        import numpy as np

        from leap.pipeline.partition import cumulative, plan_whole_graphs
        from leap.pipeline.reader import all_node_ptr

        node_ptr = all_node_ptr(reader)
        sizes = np.diff(node_ptr)
        # Seconds a node: dense solves grow with the cube of the size, sparse ones roughly linearly.
        a_node = np.where(sizes <= DENSE_LIMIT, 1e-9 * sizes**2.0 + 1e-5, 4e-4)
        per_node = np.repeat(a_node, sizes)
        seconds = float(per_node.sum())
        target = partition_target(reader.dataset)
        cost = np.full(len(per_node), 4.0 * self.dim) + per_node / 2.0 * target
        return Plan(plan_whole_graphs(node_ptr, cumulative(cost), target), seconds, 4.0 * self.dim * len(per_node))

    def compute(
        self, reader: "GraphReader", partition: Partition, inputs: Mapping[str, Artifact]
    ) -> tuple[Arrays, dict[str, Any]]:
        """Solve the eigenproblems of the partition's graphs."""
        import numpy as np

        local = reader.around(partition.node_lo, partition.node_hi, 0)
        node_ptr = reader.node_ptr(partition) - partition.node_lo
        result = kernels.lape(local.indptr, local.indices, node_ptr, self.dim, self.drop)
        arrays = StoredEncoding.arrays(result.vectors.astype(np.float32), result.eigenvalues)
        return arrays, {"graphs": partition.graph_hi - partition.graph_lo, "solver": result.status}

    def summarize(self, statistics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Add up the graphs and merge what the solvers said."""
        merged: dict[str, Any] = {}
        for entry in statistics:
            for name, value in entry["solver"].items():
                if isinstance(value, list):
                    merged[name] = (merged.get(name, []) + value)[:20]
                elif name.startswith("max_"):
                    merged[name] = max(merged.get(name, value), value)
                elif isinstance(value, (int, float)):
                    merged[name] = merged.get(name, 0) + value
                elif isinstance(value, dict):
                    counts = merged.setdefault(name, {})
                    for inner, count in value.items():
                        counts[inner] = counts.get(inner, 0) + count
        return {"graphs": sum(entry["graphs"] for entry in statistics), "solver": merged}
