"""`RawGraphs`: graphs as a reader found them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.store.graphs import Task as Task


@dataclass(frozen=True)
class RawGraphs:
    """Graphs as a reader hands them over, before any clean-up.

    Attributes
    ----------
    node_counts : (G,) int64, nodes of each graph; zero is allowed. Nodes are numbered through the dataset.
    edges : (2, E) integer, dataset-wide node ids; may hold both directions, repeats and self-loops.
    x : (N, d) float (finite) or integer (categorical) features, or None where the data has none.
    y : labels as found: (G,) of any comparable type for graph classification, (G,) or (G, t) float for graph
        regression, (N,) for node classification, None without a task.
    masks : for node tasks, {"train", "val", "test"} -> (N, S) bool, one column a split; else None.
    edge_attr : (E, …) numbers of each entry of `edges`, or None; kept for export.
    pos : (N, …) where the nodes are, or None; kept for export.
    feature_source : where the features come from, such as "attributes+labels", "degree" or "given".
    notes : anything worth reporting that canonicalization cannot know, JSON values only.
    remarks : sentences that whoever asked for the dataset should read, such as what was left out.
    """

    node_counts: NDArray[np.int64]
    edges: NDArray[np.int64]
    x: NDArray[Any] | None
    y: NDArray[Any] | None
    task: Task
    masks: dict[str, NDArray[np.bool_]] | None = None
    edge_attr: NDArray[Any] | None = None
    pos: NDArray[Any] | None = None
    feature_source: str = "given"
    notes: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
