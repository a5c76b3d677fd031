"""Batches of any graphs of a block, assembled with array arithmetic: the place of each graph is added to its ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leap.store.blocks import Array, Block, Ids
from leap.store.neighborhoods import Neighborhoods


@dataclass(frozen=True, eq=False)
class ArrayBatch:
    """Graphs of a batch side by side, as numpy arrays.

    The receiver may change them, except for node tasks, whose single batch shares memory with what the stream keeps.

    Attributes
    ----------
    graphs : (g,) int64, numbers of the graphs in the dataset, in the order of the batch.
    ptr : (g + 1,) int64, graph i owns the nodes ptr[i] to ptr[i + 1] of the batch.
    batch : (n,) int64, graph of each node, 0…g-1.
    x : (n, d) float32, or int64 for categorical features.
    edge_index : (2, 2E) int64, both directions of every edge, sorted by source and target.
    y : (g,) int64 labels or (g, t) float32 targets of graphs, (n,) int64 labels of nodes, or None.
    neighborhoods : by hops, with ids of the batch.
    stats : by hops where they are stored, mean (n, d) and scale (n,) float32.
    encodings : by name, (n, …) float32.
    masks : for node tasks {"train", "val", "test"} -> (n, splits) bool, else None.
    """

    graphs: Ids
    ptr: Ids
    batch: Ids
    x: Array
    edge_index: Ids
    y: Array | None
    neighborhoods: dict[int, Neighborhoods]
    stats: dict[int, tuple[Array, Array]]
    encodings: dict[str, Array]
    masks: dict[str, NDArray[np.bool_]] | None

    @property
    def num_graphs(self) -> int:
        """Number of graphs, empty ones included."""
        return len(self.graphs)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all graphs together."""
        return len(self.x)


class HoodNames(NamedTuple):
    """Columns of nodes that belong to the neighbourhoods of one hop count; no statistics: None."""

    hops: int
    cap: int | None
    members: str
    edges: str
    mean: str | None
    scale: str | None


class Collator:
    """Assembles batches of a block's graphs.

    Parameters
    ----------
    hoods : columns of each hop count.
    encodings : names of encodings -> columns of nodes.
    masks : parts -> columns of nodes, or None.
    node_labels : whether labels are of nodes, in the column "y".
    shares : whether a batch of the only graph of a block may share its arrays: a large graph is not copied.
    """

    def __init__(
        self,
        hoods: Sequence[HoodNames],
        encodings: dict[str, str],
        masks: dict[str, str] | None = None,
        node_labels: bool = False,
        shares: bool = False,
    ) -> None:
        self.hoods, self.encodings, self.masks = hoods, encodings, masks
        self.node_labels, self.shares = node_labels, shares

    def assemble(self, block: Block, chosen: Ids) -> ArrayBatch:
        """Return a batch of graphs, given by their places in the block; at least one."""
        nodes = block.nodes
        is_shared = self.shares and len(block.graphs) == 1
        rows, sizes, ends = nodes.locate(chosen)
        if is_shared:
            columns = nodes.columns
        else:
            columns = {name: column.take(rows, axis=0) for name, column in nodes.columns.items()}
        ptr = np.zeros(len(chosen) + 1, np.int64)
        ptr[1:] = ends
        first = ptr[:-1]
        y = columns["y"] if self.node_labels else None if block.y is None else block.y.take(chosen, axis=0)
        hoods, stats = {}, {}
        for hood in self.hoods:
            members, edges = block.members[hood.hops], block.edges[hood.hops]
            moved = first.astype(members.columns["ids"].dtype, copy=False)
            hoods[hood.hops] = Neighborhoods(
                _pointers(columns[hood.members]),
                members.columns["ids"] if is_shared else members.take_ids(chosen, moved),
                _pointers(columns[hood.edges]),
                edges.columns["ids"] if is_shared else edges.take_ids(chosen, moved),
                hood.hops,
                hood.cap,
            )
            if hood.mean is not None and hood.scale is not None:
                stats[hood.hops] = (columns[hood.mean], columns[hood.scale])
        return ArrayBatch(
            block.graphs.take(chosen),
            ptr,
            np.arange(len(chosen)).repeat(sizes),
            columns["x"],
            block.entries.take_ids(chosen, first),
            y,
            hoods,
            stats,
            {name: columns[column] for name, column in self.encodings.items()},
            None if self.masks is None else {part: columns[column] for part, column in self.masks.items()},
        )


def _pointers(counts: Array) -> Ids:
    pointers = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=pointers[1:])
    return pointers
