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
    y : labels as found, None without a task. Graph classification: (G,) of any comparable type. Graph regression: (G,)
        or (G, t) float. Graph multi-label: (G, t) float, 0 and 1, NaN where a label is missing. Node classification:
        (N,) of any comparable type, or whole numbers as reals with NaN. Node regression: (N,) or (N, t) float. NaN only
        for nodes in no mask.
    masks : {"train", "val", "test"} -> bool, one column per split, or None. For node tasks (N, S). For graph tasks
        (G, S), the official splits: their parts share no graph, may leave graphs out, and none is empty.
    edge_attr : (E, …) numbers of each entry of `edges`, or None: whole numbers are categories, reals measurements.
    plans_edge_attr : whether partitions are cut by the size of `edge_attr` too; not by readers that once left it out,
        so that partitions, and with them the order of batches, stay what they were.
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
    plans_edge_attr: bool = True
    pos: NDArray[Any] | None = None
    feature_source: str = "given"
    notes: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
