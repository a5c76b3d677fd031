"""The two containers that graphs travel in: `RawGraphs` as a reader found them, `Graphs` in canonical form."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Task = Literal["graph-classification", "graph-regression", "node-classification", "none"]


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
    feature_source: str = "given"
    notes: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Graphs:
    """Canonical graphs: undirected, coalesced, without self-loops, as one CSR over dataset-wide node ids.

    Attributes
    ----------
    node_ptr : (G + 1,) int64, graph g owns the nodes node_ptr[g] to node_ptr[g + 1].
    indptr : (N + 1,) int64, row pointers of the adjacency.
    indices : (2E,) int32 (int64 from 2**31 nodes on), neighbours, ascending in each row; symmetric.
    x : (N, d) float32, or int64 for categorical features (`is_categorical`).
    y : graph or node labels 0…C-1 (int64), float32 targets (G, t), or None.
    classes : the original label of each code, JSON values; None unless a classification task.
    masks : as in `RawGraphs`.
    summary : counts to report: graphs, nodes, edges, empty_graphs, self_loops_dropped, duplicate_edges_merged, …
    """

    node_ptr: NDArray[np.int64]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32] | NDArray[np.int64]
    x: NDArray[Any]
    y: NDArray[Any] | None
    task: Task
    classes: list[Any] | None
    masks: dict[str, NDArray[np.bool_]] | None
    feature_source: str
    summary: dict[str, Any]

    @property
    def num_graphs(self) -> int:
        """Number of graphs, empty ones included."""
        return len(self.node_ptr) - 1

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all graphs together."""
        return len(self.indptr) - 1

    @property
    def is_categorical(self) -> bool:
        """Whether features are codes rather than measurements."""
        return bool(np.issubdtype(self.x.dtype, np.integer))
