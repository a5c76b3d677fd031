"""Your own graphs as Parquet tables: edges.parquet, and where wanted nodes.parquet and graphs.parquet."""

import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline import datasets
from leap.pipeline.datasets.labels import (
    binary_targets,
    check_wanted_level,
    graph_targets,
    left_out_for_x,
    node_targets,
    possible_graph_labels,
    truth_values,
    unlabelled,
)
from leap.pipeline.datasets.source import Executor, Progress, Source, SourceOptions, fingerprint_files
from leap.pipeline.graphs import RawGraphs, Task
from leap.store.errors import InvalidInputError
from leap.store.graphs.tasks import is_graph_task, is_node_task
from leap.store.suggestion import alternatives

if TYPE_CHECKING:
    from leap.pipeline.datasets.parquet_columns import Columns

TABLES = ("edges", "nodes", "graphs")
MASKS = ("train", "val", "test")


class ParquetTables(Source):
    """A folder of Parquet tables.

    edges.parquet : source, target and, for several graphs, graph; attributes of the edges are the columns
        `options.edge_attributes`.
    nodes.parquet : optional. id (row numbers without), graph, features, y (node labels or targets), train, val, test
        (truth values, or lists of them, one a split). Features are the columns `options.node_attributes`, else x (a
        number or a list), else x0, x1 …, else every numeric column by name; whole numbers throughout are
        categories. Without this table the nodes are the ids that edges name, in ascending order.
    graphs.parquet : optional. graph and y (a label, or a list: targets, or labels of which null ones are missing), and
        train, val, test as above, which are official splits; it may name graphs without nodes.

    A node is told by its id or, where edges have a graph column, by graph and id together, so that each graph
    may count its nodes from 0.
    """

    def __init__(self, name: str, folder: Path, options: SourceOptions) -> None:
        self.name = name
        self._folder = folder
        self._options = options

    def fingerprint(self) -> dict[str, Any]:
        """Reader, version, options and the content of the tables."""
        paths = [path for table in TABLES if (path := self._folder / f"{table}.parquet").is_file()]
        files = fingerprint_files(self._folder, paths)
        version = 2 if _has_splits(self._folder / "graphs.parquet") else 1  # which older ones left out
        return {"reader": "parquet", "version": version, "options": self._options.as_dict(), "files": files}

    def read(self, progress: Progress | None = None, executor: Executor | None = None) -> RawGraphs:
        """Read the tables.

        Raises
        ------
        InvalidInputError
            No Parquet, missing columns or values, ids that no node has or that two have.
        """
        edges, nodes, graphs = (
            datasets.parquet_columns.Columns.open(self._folder / f"{table}.parquet") for table in TABLES
        )
        if edges is None:
            raise InvalidInputError(f"{self._folder} has no edges.parquet.")
        ids = datasets.parquet_columns.resolve_ids(edges, nodes, graphs)
        x, names = _features(nodes, self._options)
        y, task = _labels(nodes, graphs, self._options)
        masks = _masks(nodes) if is_node_task(task) else _masks(graphs) if is_graph_task(task) else None
        if ids.order is not None:  # nodes of a graph were scattered
            x = None if x is None else x[ids.order]
            y = y[ids.order] if y is not None and is_node_task(task) else y
            if masks is not None and is_node_task(task):
                masks = {part: mask[ids.order] for part, mask in masks.items()}
        notes: dict[str, Any] = {"node_columns": names}
        remarks = _left_out(nodes, names, self._options) if nodes is not None else []
        remarks += binary_targets(y, task, self._options.task)
        if task == "none" and graphs is not None and (possible := _possible_labels(graphs)):
            notes["possible_graph_labels"] = possible
            remarks.append(unlabelled("column", possible))
        edge_attr = None
        if names_at_edges := self._options.edge_attributes:
            edge_attr = edges.features(list(names_at_edges))
            notes["edge_attributes"] = list(names_at_edges)
        if nodes is None:
            notes["nodes"] = "no nodes.parquet: nodes are the ids that edges name"
        return RawGraphs(
            node_counts=ids.counts,
            edges=ids.edges,
            edge_attr=edge_attr,
            x=x,
            y=y,
            task=task,
            masks=masks,
            feature_source="node columns" if names else "none",
            notes=notes,
            remarks=tuple(remarks),
        )


def find_parquet(path: Path, name: str, options: SourceOptions) -> Source | None:
    """Source of a folder with edges.parquet, None for anything else."""
    return ParquetTables(name, path, options) if (path / "edges.parquet").is_file() else None


def _features(nodes: "Columns | None", options: SourceOptions) -> tuple[NDArray[Any] | None, list[str]]:
    if nodes is None:
        if options.node_attributes:
            raise InvalidInputError("without nodes.parquet there are no node columns to use as features.")
        return None, []
    if options.node_attributes is not None:
        names = list(options.node_attributes)
    elif "x" in nodes:
        names = ["x"]
    elif numbered := [name for name in nodes.names if re.fullmatch(r"x_?\d+", name)]:
        names = sorted(numbered, key=lambda name: int(name.lstrip("x_")))
    else:
        names = sorted(name for name in nodes.names if name not in _reserved(options) and nodes.is_numeric(name))
    return (nodes.features(names), names) if names else (None, [])


def _reserved(options: SourceOptions) -> set[str]:
    return {"id", "graph", options.node_label or "y", *MASKS}


def _left_out(nodes: "Columns", taken: list[str], options: SourceOptions) -> list[str]:
    left_out = sorted(set(nodes.names) - set(taken) - _reserved(options))
    if options.node_attributes is not None or not left_out:
        return []
    if any(nodes.is_numeric(name) for name in left_out):  # otherwise all numeric ones were taken
        return [left_out_for_x("column", left_out, taken[0])]
    if len(left_out) == 1:
        return [f"node column {left_out[0]!r} is left out: it holds {nodes.kind(left_out[0])}, not numbers."]
    listed = ", ".join(f"{name} ({nodes.kind(name)})" for name in left_out)
    return [f"node columns {listed} are left out: they do not hold numbers."]


def _possible_labels(graphs: "Columns") -> list[str]:
    candidates = {}
    for name in graphs.names:
        if name != "graph":
            with contextlib.suppress(InvalidInputError):  # gaps, or a type that is no label
                candidates[name] = graphs.values(name).tolist()
    return possible_graph_labels(candidates)


def _labels(
    nodes: "Columns | None", graphs: "Columns | None", options: SourceOptions
) -> tuple[NDArray[Any] | None, Task]:
    wanted = options.task
    if graphs is not None and (options.graph_label or not is_node_task(wanted)):
        names = (options.graph_label,) if options.graph_label else ("y", "label")
        if name := next((name for name in names if name in graphs), None):
            values = graphs.values(name, with_gaps=True).tolist()
            return graph_targets(values, f"column {name!r} of {graphs.path}", wanted=wanted)
    if options.graph_label:
        raise InvalidInputError(_no_column(options.graph_label, "graphs.parquet", graphs))
    name = options.node_label or "y"
    if nodes is not None and name in nodes and not is_graph_task(wanted):
        return node_targets(nodes.values(name), f"column {name!r} of {nodes.path}", wanted)
    if options.node_label:
        raise InvalidInputError(_no_column(options.node_label, "nodes.parquet", nodes))
    check_wanted_level(wanted)
    return None, "none"


def _no_column(name: str, table: str, columns: "Columns | None") -> str:
    found = " There is no such table." if columns is None else alternatives(name, columns.names)
    return f"no column {name!r} in {table}.{found}"


def _masks(table: "Columns | None") -> dict[str, NDArray[np.bool_]] | None:
    present = [part for part in MASKS if table is not None and part in table]
    if table is None or not present:
        return None
    if len(present) < len(MASKS):
        if table.path.name == "graphs.parquet":
            return None  # columns of these names may mean anything there
        raise InvalidInputError(f"{table.path} has {' and '.join(present)} but needs train, val and test together.")
    return {
        part: truth_values(table.values(part).reshape(table.rows, -1), f"column {part!r} of {table.path}")
        for part in MASKS
    }


def _has_splits(path: Path) -> bool:
    """Whether a table has the columns of splits, by its footer: opening it as Parquet would need a large library."""
    try:
        with path.open("rb") as stream:
            stream.seek(-8, os.SEEK_END)
            length = int.from_bytes(stream.read(4), "little")
            stream.seek(-8 - length, os.SEEK_END)
            footer = stream.read(length)
    except OSError:
        return False
    return all(bytes([len(name)]) + name.encode() in footer for name in MASKS)
