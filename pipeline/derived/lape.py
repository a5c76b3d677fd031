"""LaPE: entries of the lowest non-trivial eigenvectors of the normalized Laplacian (paper, section 2.2)."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from leap.models import kernels
from leap.pipeline.derived.recipe import Arrays, EncodingRecipe, Plan
from leap.pipeline.reader import GraphReader
from leap.store import Artifact, Partition
from leap.store.graphs import StoredEncoding
from leap.store.option import Option

DENSE_LIMIT = 512


class LapeRecipe(EncodingRecipe):
    """Laplacian encoding of `dim` eigenvectors.

    `drop="components"` leaves out one zero eigenvalue for each component that has an edge; `drop="one"` leaves out
    exactly one, as the published code does.
    """

    kind: ClassVar[str] = "lape"
    algorithm: ClassVar[int] = 2
    viewable: ClassVar[bool] = True
    random_signs: ClassVar[bool] = True

    dim: Annotated[int, Field(ge=1, le=1024), Option(help="Dimension.", metavar="K")] = 10
    drop: Annotated[
        Literal["components", "one"],
        Option(help="Leave out one zero eigenvalue of each component, or only one: {choices}."),
    ] = "components"

    @property
    def columns(self) -> int:
        """One for each eigenvector."""
        return self.dim

    def plan(self, reader: GraphReader, inputs: Mapping[str, Artifact]) -> Plan:
        """Cut between graphs, by the cost of their eigenproblems."""
        sizes = np.diff(reader.dataset.node_ptr())
        # Seconds a node: dense solves grow with the cube of the size, sparse ones roughly linearly.
        a_node = np.where(sizes <= DENSE_LIMIT, 1e-9 * sizes**2.0 + 1e-5, 4e-4)
        return self.plan_between_graphs(reader, np.repeat(a_node, sizes))

    def compute(
        self, reader: GraphReader, partition: Partition, inputs: Mapping[str, Artifact]
    ) -> tuple[Arrays, dict[str, Any]]:
        """Solve the eigenproblems of the partition's graphs."""
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
