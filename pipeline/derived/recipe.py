"""`Recipe`: how one kind of derived artifact is planned and computed, partition by partition.

A recipe is its validated parameters; together with the dataset's content and the keys of the artifacts that it reads
they are the artifact's key. Its fields are the options of `leap encode`. A new encoding is one file with one recipe,
and one line in `leap.models.registries`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.partition import cumulative, plan_whole_graphs
from leap.pipeline.reader import GraphReader
from leap.store import Artifact, Partition
from leap.store.errors import InvalidInputError, WorkFailedError
from leap.store.graphs import StoredEncoding
from leap.store.option import Options, validated
from leap.store.request import COLUMNS, Request

Arrays = Mapping[str, NDArray[Any]]
SECONDS_A_PARTITION = 2.0


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


class Recipe(Options, ABC):
    """Parameters of a derived artifact, as fields, and the work that they ask for.

    Attributes
    ----------
    kind : name of the artifacts.
    algorithm : raised when the same parameters give other bytes.
    viewable : whether the first columns do not depend on the field `dim`, so that a smaller one is answered by a view
        of a larger one.
    """

    kind: ClassVar[str]
    algorithm: ClassVar[int]
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

    @classmethod
    def of_options(cls, options: Mapping[str, Any]) -> Self:
        """Return the recipe that options of a training ask for, by name; what is no option keeps its default.

        A field FIELD takes the option KIND_FIELD, such as `lape_drop`, else FIELD. Of several values it takes the
        first.
        """
        values = {}
        for name in cls.model_fields:
            for option in (name, f"{cls.kind}_{name}"):
                if option in options:
                    value = options[option]
                    values[name] = value[0] if isinstance(value, list | tuple) else value
        return validated(cls, **values)

    @classmethod
    def follows(cls, option: str) -> bool:
        """Whether `of_options` looks at an option."""
        return option.removeprefix(f"{cls.kind}_") in cls.model_fields

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
    def plan(self, reader: GraphReader, inputs: Mapping[str, Artifact]) -> Plan:
        """Cut the work into partitions; a function of the data and the parameters alone."""

    @abstractmethod
    def compute(
        self, reader: GraphReader, partition: Partition, inputs: Mapping[str, Artifact]
    ) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays of a partition and statistics about them (JSON values)."""

    def check_result(self, partition: Partition, arrays: Arrays) -> None:
        """Raise WorkFailedError if what was computed for a partition cannot be stored."""
        return None

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


class EncodingRecipe(Recipe):
    """What gives every node some columns, and can be put beside the features of a network.

    Batches carry it under its kind.

    Attributes
    ----------
    random_signs : whether signs of columns mean nothing, so that training draws them anew for each graph.
    """

    random_signs: ClassVar[bool] = False

    @property
    @abstractmethod
    def columns(self) -> int:
        """Columns of each node, flattened."""

    def check_result(self, partition: Partition, arrays: Arrays) -> None:
        """Raise WorkFailedError unless each node of the partition has finite numbers in `columns` columns."""
        try:
            StoredEncoding.check(arrays, partition.num_nodes, self.columns)
        except InvalidInputError as error:
            raise WorkFailedError(
                f"{type(self).__name__} computed a wrong {self.kind} of the nodes {partition.node_lo:,} to "
                f"{partition.node_hi - 1:,}: {error} Correct its 'compute' or 'columns'."
            ) from error

    def plan_between_graphs(self, reader: GraphReader, seconds_per_node: float | NDArray[Any]) -> Plan:
        """Cut between graphs, for work that needs a graph in one piece.

        Parameters
        ----------
        seconds_per_node : rough cost of a node; one number, or one for each node of the dataset.
        """
        node_ptr = reader.dataset.node_ptr()
        per_node = np.broadcast_to(np.asarray(seconds_per_node, dtype=np.float64), int(node_ptr[-1]))
        target = partition_target(reader.dataset)
        cost = 4.0 * self.columns + per_node / SECONDS_A_PARTITION * target
        partitions = plan_whole_graphs(node_ptr, cumulative(cost), target)
        return Plan(partitions, float(per_node.sum()), 4.0 * self.columns * len(per_node))


def partition_target(dataset: Artifact) -> float:
    """Bytes that a partition of anything derived from the dataset should have."""
    return float(dataset.params["partition_bytes"])
