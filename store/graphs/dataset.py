"""Canonical graphs and the form in which they are stored: `Graphs` writes it, `StoredGraphs` reads it."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leap import store
from leap.store.errors import InvalidInputError
from leap.store.graphs.ragged import Array, Ids, Ragged, overlap
from leap.store.graphs.stored import Stored
from leap.store.graphs.tasks import Task, is_graph_task, is_node_task, is_regression
from leap.store.keys import canonical_json
from leap.store.manifest import Partition

if TYPE_CHECKING:
    import pyarrow as pa

Fold = Mapping[str, Ids]
"""Numbers of the graphs of each part."""
Masks = dict[str, NDArray[np.bool_]]

PARTS = ("train", "val", "test")
_COLUMN = {"graph-regression": "target", "graph-multilabel": "label"}
LARGEST_CODE = 2**24
"""Categories from here on are refused: networks look embeddings up in a table with a place for each code."""


@dataclass(frozen=True)
class Graphs:
    """Canonical graphs: undirected, coalesced, without self-loops, as one CSR over dataset-wide node ids.

    Attributes
    ----------
    node_ptr : (G + 1,) int64, graph g owns the nodes node_ptr[g] to node_ptr[g + 1].
    indptr : (N + 1,) int64, row pointers of the adjacency.
    indices : (2E,) int32 (int64 from 2**31 nodes on), neighbours, ascending in each row; symmetric.
    x : (N, d) float32, or int64 for categorical features (`is_categorical`).
    y : graph or node labels 0…C-1 (int64), float32 targets (G, t) or (N, t), float32 labels 0 and 1 (G, t) of a
        multi-label task, or None. NaN stands for missing labels, and for targets of nodes outside the masks;
        `NO_LABEL` for their classes.
    classes : the original label of each code, JSON values; None unless a classification task.
    masks : {"train", "val", "test"} -> (N, S) bool for node tasks, one column per split; for graph tasks (G, S), the
        official splits; None without any.
    edge_attr : (2E, …) numbers of each entry of `indices`, or None; whole numbers are categories.
    plans_edge_attr : whether partitions are cut by the size of `edge_attr` too.
    pos : (N, …) where the nodes are, or None.
    remarks : sentences that whoever asked for the dataset should read.
    summary : counts to report: graphs, nodes, edges, empty_graphs, self_loops_dropped, duplicate_edges_merged, …
    """

    node_ptr: Ids
    indptr: Ids
    indices: NDArray[np.int32] | Ids
    x: Array
    y: Array | None
    task: Task
    classes: list[Any] | None
    masks: Masks | None
    feature_source: str
    summary: dict[str, Any]
    edge_attr: Array | None = None
    plans_edge_attr: bool = True
    pos: Array | None = None
    remarks: tuple[str, ...] = ()

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

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays together."""
        return sum(array.nbytes for array in self._named().values())

    @property
    def facts(self) -> dict[str, Any]:
        """What the manifest says of the dataset."""
        return {
            **self.summary,
            "features": int(self.x.shape[1]),
            "categorical": self.is_categorical,
            **({} if self.edge_attr is None else {"edge_features": int(np.prod(self.edge_attr.shape[1:]))}),
            "feature_source": self.feature_source,
            "task": self.task,
            "classes": self.classes,
        }

    def arrays(self, part: Partition) -> dict[str, Array]:
        """Return what a partition of the dataset holds.

        `node_ptr` (first node of each of its graphs, and the end of the last) and `indices` (neighbours) are
        dataset-wide ids; `indptr` starts at zero; `x`, `pos`, node labels `y` and masks have a row per own node,
        `edge_attr` one per neighbour.
        """
        lo, hi = part.node_lo, part.node_hi
        entries = {"indices": self.indices} | ({} if self.edge_attr is None else {"edge_attr": self.edge_attr})
        rows = Ragged(self.indptr, entries).cut(lo, hi)
        arrays: dict[str, Array] = {
            "node_ptr": self.node_ptr[part.graph_lo : part.graph_hi + 1],
            "indptr": rows.ptr,
            **rows.columns,
            "x": self.x[lo:hi],
        }
        of_nodes = {} if self.masks is None or is_graph_task(self.task) else self.masks
        if is_node_task(self.task) and self.y is not None:
            arrays["y"] = self.y[lo:hi]
        if self.pos is not None:
            arrays["pos"] = self.pos[lo:hi]
        return arrays | {_mask(name): mask[lo:hi] for name, mask in of_nodes.items()}

    def tables(self, plan: Sequence[Partition], folds: Sequence[Fold]) -> "dict[str, pa.Table]":
        """Return the tables: graphs, partitions and, for graph tasks, the folds or official splits."""
        columns: dict[str, Any] = {
            "graph": np.arange(self.num_graphs, dtype=np.int64),
            "nodes": np.diff(self.node_ptr),
            "edges": np.diff(self.indptr[self.node_ptr]) // 2,
            "node_offset": self.node_ptr[:-1],
        }
        if self.y is not None and self.task == "graph-classification":
            columns["label"] = self.y
        elif self.y is not None and self.task in _COLUMN:
            columns |= {f"{_COLUMN[self.task]}_{column}": values for column, values in enumerate(self.y.T)}
        tables = {"folds": fold_table(folds)} if is_graph_task(self.task) else {}
        tables["graphs"] = store.tables.make(columns)
        tables["partitions"] = store.tables.from_records([part.model_dump() for part in plan])
        return tables

    def official_folds(self) -> list[Fold]:
        """Return the official splits of a graph task, as ascending graph numbers; none without any."""
        if self.masks is None or not is_graph_task(self.task):
            return []
        splits = self.masks[PARTS[0]].shape[1]
        return [{part: np.flatnonzero(self.masks[part][:, split]) for part in PARTS} for split in range(splits)]

    def digest(self, plan: Sequence[Partition], partition_bytes: int) -> str:
        """Digest of everything that derived artifacts can depend on: arrays bit by bit, and the partition plan."""
        sha = hashlib.sha256()
        for name, array in self._named().items():
            sha.update(canonical_json([name, array.dtype.str, list(array.shape)]))
            sha.update(np.ascontiguousarray(array).data)
        facts = [self.task, self.classes, [part.model_dump() for part in plan], partition_bytes]
        sha.update(canonical_json(facts))
        return sha.hexdigest()

    def _named(self) -> dict[str, Array]:
        named = {"node_ptr": self.node_ptr, "indptr": self.indptr, "indices": self.indices, "x": self.x, "y": self.y}
        named |= (self.masks or {}) | {"edge_attr": self.edge_attr, "pos": self.pos}
        return {name: array for name, array in named.items() if array is not None}


def fold_table(folds: Sequence[Fold]) -> "pa.Table":
    """Folds as a table: graph (int64), fold (int8), part (dictionary of train, val, test).

    One row per graph and fold, ordered by fold, then part, then as the fold orders them; no rows without folds.
    """
    members = [fold[part] for fold in folds for part in PARTS]
    sizes = np.array([len(part) for part in members], dtype=np.int64)
    numbers = np.repeat(np.repeat(np.arange(len(folds), dtype=np.int8), len(PARTS)), sizes)
    codes = np.repeat(np.tile(np.arange(len(PARTS), dtype=np.int8), len(folds)), sizes)
    graphs = np.concatenate([np.empty(0, np.int64), *members])
    return store.tables.make({"graph": graphs, "fold": numbers, "part": store.tables.coded(codes, PARTS)})


class Shard(NamedTuple):
    """Whole graphs that lie together: those of one partition, or one graph that was cut into several.

    Attributes
    ----------
    partitions : numbers of its partitions.
    graphs, nodes : (from, to).
    """

    partitions: tuple[int, ...]
    graphs: tuple[int, int]
    nodes: tuple[int, int]


class ShardRows(NamedTuple):
    """What a shard holds.

    Attributes
    ----------
    nodes : items are graphs, rows are nodes; columns "x" and, for node tasks, "y" and each part of the masks.
    neighbours : items are nodes, rows are the entries of the adjacency, "ids" of the neighbours are dataset-wide; with
        "edge_attr", the columns of the edges' attributes, where they are wanted.
    """

    nodes: Ragged
    neighbours: Ragged


class StoredGraphs(Stored):
    """A stored dataset: graphs, features, labels, folds and masks."""

    KIND, NOUN = "dataset", "a dataset"

    @property
    def task(self) -> Task:
        """What is to be learned."""
        task: Task = self.manifest.summary["task"]
        return task

    @cached_property
    def is_node_task(self) -> bool:
        """Whether labels and masks belong to nodes."""
        return is_node_task(self.task)

    @property
    def is_categorical(self) -> bool:
        """Whether features are codes rather than measurements."""
        return bool(self.manifest.summary["categorical"])

    @property
    def num_graphs(self) -> int:
        """Number of graphs, empty ones included."""
        return int(self.manifest.summary["graphs"])

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all graphs together."""
        return int(self.manifest.summary["nodes"])

    @property
    def num_edges(self) -> int:
        """Number of undirected edges of all graphs together."""
        return int(self.manifest.summary["edges"])

    @property
    def num_features(self) -> int:
        """Columns of the features."""
        return int(self.manifest.summary["features"])

    @property
    def classes(self) -> list[Any] | None:
        """Original label of each code; None unless a classification task."""
        classes: list[Any] | None = self.manifest.summary.get("classes")
        return classes

    # Graphs

    @cached_property
    def shards(self) -> list[Shard]:
        """Runs of whole graphs, in their order."""
        groups: list[list[Partition]] = []
        for part in self.partitions:
            if part.graph_hi == part.graph_lo:
                continue
            if groups and part.graph_lo < groups[-1][-1].graph_hi:
                groups[-1].append(part)
            else:
                groups.append([part])
        return [
            Shard(
                tuple(part.index for part in group),
                (group[0].graph_lo, group[-1].graph_hi),
                (group[0].node_lo, group[-1].node_hi),
            )
            for group in groups
        ]

    @cached_property
    def graph_ranges(self) -> Ids:
        """First graph of each shard, and the end of the last."""
        return np.array([0, *(shard.graphs[1] for shard in self.shards)], np.int64)

    def node_ptr(self, low: int = 0, high: int | None = None) -> Ids:
        """Return the first node of each of the graphs low…high-1, all by default, and the end of the last."""
        end = self.num_graphs if high is None else high
        pieces: list[Ids] = []
        for shard, begin, stop in overlap(self.graph_ranges, low, end):
            # The pieces of a cut graph all name the whole graph.
            piece = self._array(self.shards[shard].partitions[0], "node_ptr")[begin : stop + 1]
            pieces.append(piece[1:] if pieces else piece)
        return np.concatenate(pieces) if pieces else np.zeros(1, np.int64)

    def neighbours(self, ids: Ids) -> Ragged:
        """Return the neighbours of ascending nodes as the column "ids", dataset-wide."""
        found = []
        for part, local in self._runs(ids):
            rows = self._neighbours(part)
            found.append(rows if len(local) == len(rows) else rows.take(local))
        return Ragged.concatenate(found) if found else self._neighbours(0).take(ids)

    def _neighbours(self, partition: int) -> Ragged:
        return Ragged(self._array(partition, "indptr"), {"ids": self._array(partition, "indices")})

    def degrees(self, partition: int | None = None) -> Ids:
        """Return the degree of every node of the dataset, or of one partition."""
        chosen = [part.index for part in self.partitions] if partition is None else [partition]
        return np.concatenate([np.diff(self._array(part, "indptr")) for part in chosen])

    def entries(self, partition: int) -> int:
        """Entries of the adjacency that a partition holds."""
        return int(self._array(partition, "indptr")[-1])

    def features(self, ids: Ids | None = None) -> Array:
        """Return the features of ascending nodes, of all by default."""
        if ids is None:
            return self.load("x")
        found = []
        for part, local in self._runs(ids):
            rows = self._array(part, "x")
            found.append(rows if len(local) == len(rows) else rows[local])
        return found[0] if len(found) == 1 else np.concatenate(found) if found else self._array(0, "x")[:0]

    def _runs(self, ids: Ids) -> Iterator[tuple[int, Ids]]:
        """Split ascending ids into runs that one partition owns, counted from its first node."""
        bounds = np.searchsorted(ids, self.node_ranges)
        for part in np.flatnonzero(np.diff(bounds)).tolist():
            yield part, ids[bounds[part] : bounds[part + 1]] - self.node_ranges[part]

    def _array(self, partition: int, name: str) -> Array:
        return self.read(partition, [name])[name]

    def shard_rows(self, shard: Shard, *, with_edge_attr: bool = False) -> ShardRows:
        """Return what belongs to the nodes of a shard.

        Parameters
        ----------
        with_edge_attr : read the attributes of the edges too.

        Raises
        ------
        DamagedArtifactError
            If a file is missing or any of its bits differ from what was published.
        """
        columns = self._node_columns
        of_edges = {"ids": "indices"} | ({"edge_attr": "edge_attr"} if with_edge_attr else {})
        names = ["node_ptr", "indptr", *of_edges.values(), *columns.values()]
        parts = [self.read(part, names) for part in shard.partitions]
        for part in parts if with_edge_attr else ():
            part["edge_attr"] = _edge_columns(part["edge_attr"])
        neighbours = [Ragged(part["indptr"], {name: part[at] for name, at in of_edges.items()}) for part in parts]
        nodes = {
            name: parts[0][array] if len(parts) == 1 else np.concatenate([part[array] for part in parts])
            for name, array in columns.items()
        }
        return ShardRows(Ragged(parts[0]["node_ptr"] - shard.nodes[0], nodes), Ragged.concatenate(neighbours))

    @property
    def _node_columns(self) -> dict[str, str]:
        """Arrays with a row per node, by what they are: "x", "y" or a part of the masks."""
        optional = {"y": "y"} | {part: _mask(part) for part in PARTS} if self.is_node_task else {}
        return {"x": "x"} | {name: array for name, array in optional.items() if self.has(array)}

    # Labels

    @cached_property
    def _label_columns(self) -> list[str]:
        if self.task == "graph-classification":
            return ["label"]
        return [f"{_COLUMN[self.task]}_{column}" for column in range(self.num_targets)] if self.task in _COLUMN else []

    @property
    def num_targets(self) -> int:
        """Columns of the targets of a regression or the labels of a multi-label task, else 0."""
        has_several = is_regression(self.task) or self.task == "graph-multilabel"
        return int(self.manifest.summary.get("targets", 0)) if has_several else 0

    def labels(self) -> Array | None:
        """Return (G,) or (N,) int64 labels, (G, t) or (N, t) float32 targets or labels with NaN; None without any."""
        if self.is_node_task:
            return self.load("y") if self.has("y") else None
        if not self._label_columns:
            return None
        table = self.table("graphs", self._label_columns)
        columns = [table[name].to_numpy() for name in self._label_columns]
        if self.task == "graph-classification":
            return np.array(columns[0], dtype=np.int64)
        return np.stack(columns, axis=1).astype(np.float32)

    def label_shape(self) -> tuple[int, ...]:
        """Shape of the labels of one graph or, after the axis of nodes, of nodes, as they came."""
        width = max(1, self.num_targets)
        usual = () if width == 1 else (width,)
        if not self.is_node_task:
            usual = (1, *usual)
        return tuple(self._shapes.get("y", usual))

    def mask_shape(self, part: str) -> tuple[int, ...]:
        """Shape of a mask after the axis of nodes, as it came."""
        return tuple(self._shapes.get(_mask(part), (self.num_masks,) if self.num_masks > 1 else ()))

    @property
    def _shapes(self) -> dict[str, list[int]]:
        shapes: dict[str, list[int]] = self.manifest.summary.get("notes", {}).get("shapes", {})
        return shapes

    def edge_attr(self) -> Array | None:
        """Return (2E, …) attributes of all entries of the adjacency, None without any."""
        return self.load("edge_attr") if self.has("edge_attr") else None

    @cached_property
    def num_edge_features(self) -> int:
        """Columns of the edges' attributes, 0 without any."""
        return int(np.prod(self.shape("edge_attr")[1:])) if self.has("edge_attr") else 0

    @cached_property
    def has_edge_categories(self) -> bool:
        """Whether the edges' attributes are codes rather than measurements."""
        return self.has("edge_attr") and np.issubdtype(self.dtype("edge_attr"), np.integer)

    def edge_codes(self) -> tuple[tuple[int, ...], ...] | None:
        """Return the distinct values of each column of the edges' attributes, ascending; None for measurements.

        Raises
        ------
        InvalidInputError
            If codes are negative or too large, or measurements are no finite float32 numbers.
        """
        if self.has_edge_categories:
            return self._codes("edge_attr", self.num_edge_features, "attributes of the edges")
        for part in self.partitions if self.num_edge_features else ():
            values = _edge_columns(self._array(part.index, "edge_attr"))
            if not np.isfinite(values).all():
                row, column = np.argwhere(~np.isfinite(values))[0]
                raise InvalidInputError(
                    f"column {column} of the attributes of the edges of {self.manifest.dataset!r} holds "
                    f"{values[row, column]}; what a network is to see must be finite float32 numbers. Repair them, or "
                    "choose a network that does without."
                )
        return None

    def pos(self) -> Array | None:
        """Return (N, …) where the nodes are, None where that is not known."""
        if self.has("pos"):
            return self.load("pos")
        return self.features() if self.manifest.summary["feature_source"] == "pos" else None

    def masks(self) -> Masks | None:
        """Return {"train", "val", "test"} -> (N, splits), None for datasets without masks."""
        if not self.has(_mask(PARTS[0])):
            return None
        return {part: self.load(_mask(part)) for part in PARTS}

    @property
    def num_masks(self) -> int:
        """Columns of the masks, 0 without any."""
        return self.shape(_mask(PARTS[0]))[1] if self.has(_mask(PARTS[0])) else 0

    @property
    def has_official_splits(self) -> bool:
        """Whether the data itself says what is trained on and what is tested."""
        summary = self.manifest.summary
        return summary.get("official_splits", 0) > 0 or (self.num_masks > 0 and summary.get("masks") != "generated")

    def folds(self) -> list[Fold]:
        """Return the numbers of the graphs of each part; none for node tasks.

        They are the official splits where the data has some, else the published cross-validation.
        """
        if "folds.parquet" not in self.manifest.files:
            return []
        table = self.table("folds")
        graph, fold, part = table["graph"].to_numpy(), table["fold"].to_numpy(), table["part"].combine_chunks()
        names, codes = part.dictionary.to_pylist(), part.indices.to_numpy()
        return [
            {name: graph[(fold == number) & (codes == names.index(name))] for name in PARTS}
            for number in np.unique(fold)
        ]

    def codes(self) -> tuple[tuple[int, ...], ...]:
        """Return the distinct values of each column of categorical features, ascending.

        Raises
        ------
        InvalidInputError
            If codes are negative, or larger than a table of them can be.
        """
        return self._codes("x", self.num_features, "categorical features")

    def _codes(self, name: str, columns: int, noun: str) -> tuple[tuple[int, ...], ...]:
        met: list[set[int]] = [set() for _ in range(columns)]
        for part in self.partitions:
            rows = self._array(part.index, name)
            rows = rows.reshape(len(rows), columns)
            for column, values in enumerate(met):
                values.update(np.unique(rows[:, column]).tolist())
        for column, values in enumerate(met):
            odd = next((value for value in sorted(values, reverse=True) if not 0 <= value < LARGEST_CODE), None)
            if odd is not None:
                raise InvalidInputError(
                    f"column {column} of the {noun} of {self.manifest.dataset!r} holds {odd}; codes must "
                    f"lie in 0…{LARGEST_CODE - 1:,}. Number the categories from zero, or store measurements as reals."
                )
        return tuple(tuple(sorted(values)) for values in met)


def _edge_columns(attributes: Array) -> Array:
    """Return attributes of any shape as networks take them: (entries, columns) int64 categories, or float32."""
    kind = np.int64 if np.issubdtype(attributes.dtype, np.integer) else np.float32
    width = int(np.prod(attributes.shape[1:]))
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(attributes.reshape(len(attributes), width), dtype=kind)


def _mask(part: str) -> str:
    return f"{part}_mask"
