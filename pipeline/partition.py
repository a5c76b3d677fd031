"""Partition plans: whole graphs gathered to a target cost, and only a graph beyond it cut into node ranges.

A plan is a function of the data and the target alone, never of the number of workers.
"""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.store import Partition
from leap.store.graphs import Graphs

POINTER_BYTES = 8


def cumulative(cost: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
    """Return running totals with a leading zero: the cost of nodes lo to hi is `total[hi] - total[lo]`."""
    return np.concatenate([[0.0], np.cumsum(cost, dtype=np.float64)])


def plan_partitions(
    node_ptr: NDArray[np.int64], total: NDArray[np.float64], target: float, within: list[Partition] | None = None
) -> list[Partition]:
    """Cut a dataset into partitions of about `target` cost.

    Parameters
    ----------
    node_ptr : (G + 1,) first node of each graph.
    total : (N + 1,) running cost over nodes, see `cumulative`.
    within : partitions to subdivide; each new partition lies inside one of them. Default: the whole dataset.
    """
    graphs = len(node_ptr) - 1
    whole = Partition(index=0, graph_lo=0, graph_hi=graphs, node_lo=0, node_hi=int(node_ptr[-1]))
    pieces: list[tuple[int, int, int, int]] = []
    for part in [whole] if within is None else within:
        if part.node_lo > node_ptr[part.graph_lo] or part.node_hi < node_ptr[part.graph_hi]:
            pieces += _cut_nodes(part.graph_lo, part.node_lo, part.node_hi, total, target)
        else:
            pieces += _gather_graphs(part.graph_lo, part.graph_hi, node_ptr, total, target)
    return [
        Partition(index=i, graph_lo=g_lo, graph_hi=g_hi, node_lo=n_lo, node_hi=n_hi)
        for i, (g_lo, g_hi, n_lo, n_hi) in enumerate(pieces)
    ]


def plan_dataset(graphs: Graphs, partition_bytes: int) -> list[Partition]:
    """Cut a dataset by the bytes of its features and adjacency, with what is kept for export."""
    row = graphs.x.itemsize * graphs.x.shape[1] + POINTER_BYTES + _row_bytes(graphs.pos)
    attributes = _row_bytes(graphs.edge_attr) if graphs.plans_edge_attr else 0
    cost = np.diff(graphs.indptr) * (graphs.indices.itemsize + attributes) + row
    return plan_partitions(graphs.node_ptr, cumulative(cost), float(partition_bytes))


def _row_bytes(array: NDArray[Any] | None) -> int:
    return 0 if array is None else array.nbytes // max(1, len(array))


def plan_whole_graphs(node_ptr: NDArray[np.int64], total: NDArray[np.float64], target: float) -> list[Partition]:
    """Cut a dataset between graphs only, for work that needs a graph in one piece."""
    graphs = len(node_ptr) - 1
    pieces: list[tuple[int, int]] = []
    lo = 0
    at_graphs = total[node_ptr]
    while lo < graphs or not pieces:
        hi = max(lo + 1, int(np.searchsorted(at_graphs, at_graphs[lo] + target, side="right")) - 1)
        hi = min(hi, graphs)
        pieces.append((lo, hi))
        lo = hi
    return [
        Partition(index=i, graph_lo=lo, graph_hi=hi, node_lo=int(node_ptr[lo]), node_hi=int(node_ptr[hi]))
        for i, (lo, hi) in enumerate(pieces)
    ]


def _gather_graphs(
    graph_lo: int, graph_hi: int, node_ptr: NDArray[np.int64], total: NDArray[np.float64], target: float
) -> list[tuple[int, int, int, int]]:
    at_graphs = total[node_ptr]
    pieces: list[tuple[int, int, int, int]] = []
    lo = graph_lo
    while lo < graph_hi or not pieces:
        hi = min(int(np.searchsorted(at_graphs, at_graphs[lo] + target, side="right")) - 1, graph_hi)
        if hi <= lo < graph_hi:
            hi = lo + 1
            pieces += _cut_nodes(lo, int(node_ptr[lo]), int(node_ptr[hi]), total, target)
        else:
            pieces.append((lo, hi, int(node_ptr[lo]), int(node_ptr[hi])))
        if hi == lo:
            break
        lo = hi
    return pieces


def _cut_nodes(
    graph: int, node_lo: int, node_hi: int, total: NDArray[np.float64], target: float
) -> list[tuple[int, int, int, int]]:
    cost = total[node_hi] - total[node_lo]
    count = max(1, min(int(np.ceil(cost / target)), node_hi - node_lo))
    marks = total[node_lo] + cost * np.arange(1, count) / count
    inner = np.searchsorted(total[node_lo : node_hi + 1], marks, side="left") + node_lo
    cuts = np.unique(np.concatenate([[node_lo], inner, [node_hi]]))
    return [(graph, graph + 1, int(lo), int(hi)) for lo, hi in itertools.pairwise(cuts)]
