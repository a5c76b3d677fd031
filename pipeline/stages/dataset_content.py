"""The stored form of canonical graphs: arrays of a partition, tables, and the digest that derived keys rest on."""

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leap.pipeline.folds import fold_table
from leap.pipeline.graphs import Graphs
from leap.pipeline.partition import cumulative, plan_partitions
from leap.store import Partition
from leap.store.keys import canonical_json

POINTER_BYTES = 8


def uncompressed_bytes(graphs: Graphs) -> int:
    """Bytes of all arrays of the dataset together."""
    arrays = (graphs.node_ptr, graphs.indptr, graphs.indices, graphs.x, graphs.y, *(graphs.masks or {}).values())
    return sum(array.nbytes for array in arrays if array is not None)


def plan_dataset(graphs: Graphs, partition_bytes: int) -> list[Partition]:
    """Cut the dataset by the bytes of its features and adjacency."""
    row = graphs.x.itemsize * graphs.x.shape[1] + POINTER_BYTES
    cost = np.diff(graphs.indptr) * graphs.indices.itemsize + row
    return plan_partitions(graphs.node_ptr, cumulative(cost), float(partition_bytes))


def partition_arrays(graphs: Graphs, part: Partition) -> dict[str, NDArray[Any]]:
    """Return what a partition of the dataset holds.

    `node_ptr` (first node of each of its graphs, and the end of the last) and `indices` (neighbours) are
    dataset-wide ids; `indptr` starts at zero; `x`, node labels `y` and masks have a row for each own node.
    """
    lo, hi = part.node_lo, part.node_hi
    start, end = graphs.indptr[lo], graphs.indptr[hi]
    arrays: dict[str, NDArray[Any]] = {
        "node_ptr": graphs.node_ptr[part.graph_lo : part.graph_hi + 1],
        "indptr": graphs.indptr[lo : hi + 1] - start,
        "indices": graphs.indices[start:end],
        "x": graphs.x[lo:hi],
    }
    if graphs.task == "node-classification" and graphs.y is not None:
        arrays["y"] = graphs.y[lo:hi]
    if graphs.masks is not None:
        arrays |= {f"{name}_mask": mask[lo:hi] for name, mask in graphs.masks.items()}
    return arrays


def dataset_tables(graphs: Graphs, plan: list[Partition]) -> dict[str, pa.Table]:
    """Return the tables: graphs, partitions and, for graph tasks, the published folds."""
    nodes = np.diff(graphs.node_ptr)
    entries = np.diff(graphs.indptr[graphs.node_ptr])
    columns: dict[str, Any] = {
        "graph": np.arange(graphs.num_graphs, dtype=np.int64),
        "nodes": nodes,
        "edges": entries // 2,
        "node_offset": graphs.node_ptr[:-1],
    }
    tables = {}
    if graphs.y is not None and graphs.task == "graph-classification":
        columns["label"] = graphs.y
    elif graphs.y is not None and graphs.task == "graph-regression":
        columns |= {f"target_{column}": values for column, values in enumerate(graphs.y.T)}
    if graphs.task.startswith("graph"):
        tables["folds"] = fold_table(graphs.y, graphs.task, graphs.num_graphs)
    tables["graphs"] = pa.table(columns)
    tables["partitions"] = pa.Table.from_pylist([part.model_dump() for part in plan])
    return tables


def content_digest(graphs: Graphs, plan: list[Partition], partition_bytes: int) -> str:
    """Digest of everything that derived artifacts can depend on: arrays bit by bit, and the partition plan."""
    sha = hashlib.sha256()
    named: dict[str, NDArray[Any] | None] = {
        "node_ptr": graphs.node_ptr,
        "indptr": graphs.indptr,
        "indices": graphs.indices,
        "x": graphs.x,
        "y": graphs.y,
    }
    named |= dict(graphs.masks or {})
    for name, array in named.items():
        if array is not None:
            sha.update(canonical_json([name, array.dtype.str, list(array.shape)]))
            sha.update(np.ascontiguousarray(array).data)
    facts = [graphs.task, graphs.classes, [part.model_dump() for part in plan], partition_bytes]
    sha.update(canonical_json(facts))
    return sha.hexdigest()
