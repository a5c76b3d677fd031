"""`Selection`: which artifacts of a dataset are streamed together, under which names, and how large they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from leap.store.artifact import Artifact
from leap.store.errors import InvalidInputError

ID_BYTES = 4


@dataclass(frozen=True)
class Selection:
    """What of a dataset is read.

    Attributes
    ----------
    neighborhoods : by hops.
    stats : hop counts whose mean and scale are read.
    encodings : by name.
    """

    dataset: Artifact
    neighborhoods: Mapping[int, Artifact]
    stats: frozenset[int]
    encodings: Mapping[str, Artifact]

    @cached_property
    def is_node_task(self) -> bool:
        """Whether labels and masks belong to nodes."""
        return bool(self.dataset.manifest.summary["task"] == "node-classification")

    @cached_property
    def node_columns(self) -> list[str]:
        """Names of the dataset's arrays with a row for each node."""
        optional = ("y", "train_mask", "val_mask", "test_mask") if self.is_node_task else ()
        names = self.dataset.array_names()
        return ["x", *(name for name in optional if name in names)]

    def rows(self) -> list[int]:
        """Rows of each table of a block that holds the whole dataset, in the order of `Block.tables`."""
        summary = self.dataset.manifest.summary
        hoods = [artifact.manifest.summary for artifact in self.neighborhoods.values()]
        return [
            summary["nodes"],
            2 * summary["edges"],
            *(found["memberships"] for found in hoods),
            *(found["edges"] for found in hoods),
        ]

    def nbytes(self) -> int:
        """Bytes that all of it takes in memory, from the manifests alone."""
        summary = self.dataset.manifest.summary
        nodes, features = summary["nodes"], summary["features"]
        total = summary["graphs"] * 32 * (1 + len(self.neighborhoods))
        total += nodes * features * (8 if summary["categorical"] else 4) + 4 * summary["edges"] * ID_BYTES
        for hops, artifact in self.neighborhoods.items():
            found = artifact.manifest.summary
            total += (found["memberships"] + 2 * found["edges"] + 2 * nodes) * ID_BYTES
            total += 4 * nodes * (features + 1) if hops in self.stats else 0
        for artifact in self.encodings.values():
            params = artifact.params
            total += 4 * nodes * (params["dim"] if "dim" in params else params["directions"] * params["thresholds"])
        return int(total)


def select(
    dataset: Artifact,
    neighborhoods: Sequence[Artifact],
    encodings: Sequence[Artifact] | Mapping[str, Artifact],
    with_stats: bool,
) -> Selection:
    """Return what the given artifacts of a dataset are read as.

    Raises
    ------
    InvalidInputError
        If an artifact belongs to another dataset, or two have the same name.
    """
    if dataset.kind != "dataset":
        raise InvalidInputError(f"a stream starts from a dataset, not from {dataset!r}.")
    pairs = encodings.items() if isinstance(encodings, Mapping) else [(a.kind, a) for a in encodings]
    by_hops: dict[int, Artifact] = {}
    by_name: dict[str, Artifact] = {}
    for name, artifact in [*((a.params["hops"], a) for a in neighborhoods), *pairs]:
        if artifact.manifest.source != dataset.manifest.content:
            raise InvalidInputError(f"{artifact!r} was not made from {dataset!r}, so its rows are of other nodes.")
        target: dict[Any, Artifact] = by_hops if isinstance(name, int) else by_name
        if name in target:
            raise InvalidInputError(
                f"a batch cannot hold two {name!r}: {target[name]!r} and {artifact!r}. "
                "Name encodings of one kind with a mapping; give one artifact of neighbourhoods for each hop count."
            )
        target[name] = artifact
    has_stats = with_stats and not dataset.manifest.summary["categorical"]
    return Selection(dataset, by_hops, frozenset(by_hops) if has_stats else frozenset(), by_name)
