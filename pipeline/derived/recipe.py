"""`Recipe`: how one kind of derived artifact is planned and computed, partition by partition.

A recipe is its validated parameters; together with the dataset's content they are the artifact's key. A new kind
is one file with one recipe and one line in the registry.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict

from leap.store import Artifact, Partition
from leap.store.keys import derived_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leap.pipeline.reader import GraphReader

Arrays = Mapping[str, "NDArray[Any]"]


@dataclass(frozen=True)
class Plan:
    """What making an artifact will take.

    Attributes
    ----------
    seconds : rough single-process estimate, to decide whether a cluster is worth starting.
    bytes : rough size of the result on disk, to refuse early when the disk is too small.
    facts : estimates worth recording in the manifest.
    """

    partitions: list[Partition]
    seconds: float
    bytes: float
    facts: dict[str, Any] = field(default_factory=dict)


class Recipe(BaseModel, ABC):
    """Parameters of a derived artifact and the work that they ask for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ClassVar[str]
    algorithm: ClassVar[int]

    @property
    def params(self) -> dict[str, Any]:
        """Parameters as JSON values; they enter the key."""
        return self.model_dump(mode="json")

    def key(self, dataset: Artifact) -> str:
        """Key of the artifact for a dataset."""
        return derived_key(self.kind, dataset.manifest.content, self.params, self.algorithm)

    def requires(self) -> "list[Recipe]":
        """Return other artifacts of the same dataset that the work reads."""
        return []

    def check(self, dataset: Artifact) -> None:
        """Raise InvalidInputError if the dataset cannot have this artifact; called before any work."""
        return None

    @abstractmethod
    def plan(self, reader: "GraphReader", inputs: Mapping[str, Artifact]) -> Plan:
        """Cut the work into partitions; a function of the data and the parameters alone."""

    @abstractmethod
    def compute(
        self, reader: "GraphReader", partition: Partition, inputs: Mapping[str, Artifact]
    ) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays of a partition and statistics about them (JSON values)."""

    def summarize(self, statistics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Combine the partitions' statistics into the manifest's summary: numbers add up by default."""
        total: dict[str, Any] = {}
        for entry in statistics:
            for name, value in entry.items():
                if name.startswith("max_"):
                    total[name] = max(total.get(name, value), value)
                else:
                    total[name] = total.get(name, 0) + value
        return total


def partition_target(dataset: Artifact) -> float:
    """Bytes that a partition of anything derived from the dataset should have."""
    return float(dataset.params["partition_bytes"])
