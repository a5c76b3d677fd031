"""`Recipe`: how one kind of derived artifact is planned and computed, partition by partition.

A recipe is its validated parameters; together with the dataset's content and the keys of the artifacts that it reads
they are the artifact's key. A new kind is one file with one recipe and one line in the registry.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict

from leap.store import Artifact, Partition
from leap.store.request import COLUMNS, Request

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
    # Whether the first columns do not depend on `dim`, so that a smaller one is answered by a view of a larger one.
    viewable: ClassVar[bool] = False

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Hold recipes to what the store takes for granted: `dim` counts columns, and the first ones are the same."""
        if cls.viewable != (COLUMNS in cls.model_fields):
            raise TypeError(
                f"{cls.__name__} has viewable = {cls.viewable} and the fields {', '.join(cls.model_fields) or 'none'}. "
                f"A recipe has a field {COLUMNS!r} if and only if it is viewable; call the field something else if its "
                "first columns depend on it."
            )

    @property
    def params(self) -> dict[str, Any]:
        """Parameters as JSON values; they enter the key."""
        return self.model_dump(mode="json")

    def request(self, dataset: Artifact) -> Request:
        """Return what is asked of the store: parameters and algorithm, of this recipe and of those that it reads."""
        inputs = {needed.kind: needed.key(dataset) for needed in self.requires()}
        return Request(self.kind, dataset.manifest.content, self.params, self.algorithm, inputs)

    def key(self, dataset: Artifact) -> str:
        """Key of the artifact for a dataset."""
        return self.request(dataset).key

    def covers(self, other: "Recipe") -> bool:
        """Whether the artifact of this recipe answers another one too, itself or as a view."""
        if not (self.viewable and self.kind == other.kind):
            return self == other
        mine, theirs = self.params, other.params
        return bool(mine.pop(COLUMNS) >= theirs.pop(COLUMNS)) and mine == theirs

    def requires(self) -> "list[Recipe]":
        """Return other artifacts of the same dataset that the work reads."""
        return []

    def check(self, dataset: Artifact) -> None:
        """Raise InvalidInputError if the dataset cannot have this artifact; called before any work."""
        return None

    def check_budget(self, dataset: Artifact, plan: Plan, budget: float) -> None:
        """Raise an error if the result may explode and is expected to have more bytes than the budget."""
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
