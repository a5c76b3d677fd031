"""Static Euler characteristic transforms of every neighbourhood: the DECT of LEAP-F and the exact ℓ-ECT."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, field_validator, model_validator

from leap.models import kernels
from leap.pipeline.derived.neighborhoods import Cap, CapSeed, Hops, NeighborhoodsRecipe
from leap.pipeline.derived.recipe import Arrays, EncodingRecipe, Plan, Recipe, partition_target
from leap.pipeline.partition import cumulative, plan_partitions
from leap.pipeline.reader import GraphReader
from leap.store import Artifact, Neighborhoods, Partition
from leap.store.errors import InvalidInputError
from leap.store.graphs import StoredEncoding, StoredNeighborhoods
from leap.store.graphs.stored import HoodRows
from leap.store.option import Option

CELLS_A_SECOND = 5e6
Operands = tuple[Any, Any, Any, Any, Any, Any, Any, Any, Any]


class TransformRecipe(EncodingRecipe):
    """What both transforms share: neighbourhoods, directions and thresholds.

    Directions are unit vectors, `directions` of them drawn with `direction_seed`, or exactly those of
    `direction_values` (a list of vectors, one for each direction, scaled to length one; or the path of a .npy file with
    an array (features, directions)).
    """

    hops: Hops = 1
    cap: Cap = None
    cap_seed: CapSeed = 0
    directions: Annotated[int, Field(ge=1, le=4096), Option(help="Number of directions.", metavar="N")] = 16
    direction_seed: Annotated[int | None, Field(ge=0), Option(help="Seed of the directions.", metavar="SEED")] = 0
    direction_values: Annotated[
        tuple[tuple[FiniteFloat, ...], ...] | None,
        Option(
            help="Directions from a .npy array (features, directions) instead.",
            flags=("--directions-file",),
            metavar="FILE",
        ),
    ] = None
    thresholds: Annotated[int, Field(ge=1, le=4096), Option(help="Number of thresholds.", metavar="N")] = 16
    radius: Annotated[FiniteFloat, Field(gt=0), Option(help="Thresholds span [-radius, radius].")] = 1.1

    @model_validator(mode="before")
    @classmethod
    def _values_replace_the_seed(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        values = dict(values)
        if values.get("cap") is None:
            values.pop("cap_seed", None)
        if values.get("direction_values") is not None:
            if isinstance(values["direction_values"], str | Path):
                values["direction_values"] = _read_directions(Path(values["direction_values"]))
            values["direction_seed"] = None
            values["directions"] = len(values["direction_values"])
        return values

    @field_validator("direction_values")
    @classmethod
    def _directions_point_somewhere(cls, values: Any) -> Any:
        if values is not None and not all(any(vector) for vector in values):
            raise ValueError("a direction has length zero; give vectors that point somewhere")
        return values

    @property
    def columns(self) -> int:
        """One for each direction and threshold."""
        return self.directions * self.thresholds

    def requires(self) -> list[Recipe]:
        """Return the neighbourhoods that are transformed."""
        return [NeighborhoodsRecipe(hops=self.hops, cap=self.cap, cap_seed=self.cap_seed)]

    def check(self, dataset: Artifact) -> None:
        """Refuse categorical features and directions of another dimension."""
        summary = dataset.manifest.summary
        if summary["categorical"]:
            raise InvalidInputError(
                f"the features of {dataset.manifest.dataset!r} are categorical, and {self.kind} needs coordinates. "
                "Their embedding is learned in training; encode with rwpe or lape instead."
            )
        if self.direction_values is not None:
            widths = {len(vector) for vector in self.direction_values}
            if widths != {summary["features"]}:
                raise InvalidInputError(
                    f"directions have {sorted(widths)} coordinates, and the features of "
                    f"{dataset.manifest.dataset!r} have {summary['features']}. Give vectors of that length."
                )

    def direction_matrix(self, dim: int) -> NDArray[np.float64]:
        """Return the directions as unit columns (dim, directions)."""
        if self.direction_values is None:
            return kernels.random_directions(dim, self.directions, self.direction_seed or 0)
        matrix = np.array(self.direction_values, dtype=np.float64).T
        length: NDArray[np.float64] = np.linalg.norm(matrix, axis=0)
        return matrix / length

    def plan(self, reader: GraphReader, inputs: Mapping[str, Artifact]) -> Plan:
        """Cut by the size of the result and the neighbourhoods' share of the work."""
        cell = 4.0 * self.columns
        nodes = reader.dataset.partitions[-1].node_hi
        partitions = plan_partitions(
            reader.dataset.node_ptr(),
            cumulative(np.full(nodes, cell)),
            partition_target(reader.dataset),
            reader.dataset.partitions,
        )
        summary = inputs["neighborhoods"].manifest.summary
        work = (summary["memberships"] + summary["edges"]) * self.directions + nodes * cell / 4
        return Plan(partitions, work / CELLS_A_SECOND / 8, cell * nodes)

    def _operands(self, reader: GraphReader, partition: Partition, neighborhoods: Artifact) -> Operands:
        """Return what both kernels take: features, neighbourhoods over them, means, scales, directions, thresholds."""
        x, hoods, mean, scale = self._normalized(reader, partition, neighborhoods)
        indices = (hoods.node_ptr, hoods.nodes, hoods.edge_ptr, hoods.edges)
        grid = kernels.threshold_grid(self.thresholds, self.radius)
        return x, *indices, mean, scale, self.direction_matrix(x.shape[1]), grid

    def _normalized(
        self, reader: GraphReader, partition: Partition, neighborhoods: Artifact
    ) -> tuple[NDArray[Any], Neighborhoods, NDArray[Any] | None, NDArray[Any] | None]:
        """Return member features, neighbourhoods over them, means and scales of the partition's nodes."""
        stored = StoredNeighborhoods.of(neighborhoods)

        def rows(part: int) -> HoodRows:  # parts that are smaller than their input come one after the other
            return reader.remember((stored.path, part), lambda: stored.rows(part))

        hoods, mean, scale = stored.between(partition.node_lo, partition.node_hi, rows)
        ids = np.unique(hoods.nodes)
        local = replace(
            hoods,
            nodes=np.searchsorted(ids, hoods.nodes).astype(hoods.nodes.dtype),
            edges=np.searchsorted(ids, hoods.edges).astype(hoods.edges.dtype),
        )
        return reader.features(ids.astype(np.int64)), local, mean, scale


class DectRecipe(TransformRecipe):
    """The differentiable transform with fixed directions, as LEAP-F uses it (paper, section 3.1)."""

    kind: ClassVar[str] = "dect"
    algorithm: ClassVar[int] = 2

    scale: Annotated[FiniteFloat, Field(gt=0), Option(help="Steepness of the sigmoid.")] = 128.0
    edge_weight: Annotated[FiniteFloat, Field(ge=0), Option(help="Weight of an edge; 2 is the published code's.")] = 1.0

    def compute(
        self, reader: GraphReader, partition: Partition, inputs: Mapping[str, Artifact]
    ) -> tuple[Arrays, dict[str, Any]]:
        """Transform the partition's neighbourhoods: `encoding` (n, directions, thresholds)."""
        operands = self._operands(reader, partition, inputs["neighborhoods"])
        encoding = kernels.dect_forward(*operands, self.scale, self.edge_weight)
        return StoredEncoding.arrays(encoding), {"nodes": partition.num_nodes}


class LectRecipe(TransformRecipe):
    """The exact transform of the earlier work, by counting (paper, section 2.3).

    `complex="edges"` subtracts the edges, `complex="points"` counts nodes only, as that work did.
    """

    kind: ClassVar[str] = "lect"
    algorithm: ClassVar[int] = 1

    complex: Annotated[Literal["points", "edges"], Option(help="What is counted: {choices}.")] = "points"

    def compute(
        self, reader: GraphReader, partition: Partition, inputs: Mapping[str, Artifact]
    ) -> tuple[Arrays, dict[str, Any]]:
        """Count in the partition's neighbourhoods: `encoding` (n, directions, thresholds)."""
        operands = self._operands(reader, partition, inputs["neighborhoods"])
        encoding = kernels.ect_forward(*operands, self.complex)
        return StoredEncoding.arrays(encoding), {"nodes": partition.num_nodes}


def _read_directions(path: Path) -> tuple[tuple[float, ...], ...]:
    try:
        matrix = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"--directions-file {str(path)!r} is not a readable .npy array ({error})") from error
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
        raise InvalidInputError(
            f"--directions-file holds {matrix.dtype} values of shape {matrix.shape}; it must hold numbers of shape "
            "(features, directions)"
        )
    return tuple(tuple(float(value) for value in column) for column in matrix.T)
