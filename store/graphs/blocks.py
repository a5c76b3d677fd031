"""Graphs side by side in memory, with everything that is stored of them: read by shard, joined, chosen from.

A `Block` numbers the nodes of each graph from zero, so that blocks are joined without touching an id. Nothing here runs
once per graph.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from leap.store.artifact import Artifact
from leap.store.errors import InvalidInputError
from leap.store.graphs.dataset import Shard, StoredGraphs
from leap.store.graphs.ragged import Array, Filling, Ids, Ragged
from leap.store.graphs.stored import StoredEncoding, StoredNeighborhoods

ID_BYTES = 4


@dataclass(frozen=True, eq=False)
class Block:
    """Graphs of the dataset with everything derived of them.

    Attributes
    ----------
    graphs : (G,) int64, numbers in the dataset; ascending as they are read.
    y : labels or targets of the graphs, or None.
    tables : items are graphs. "nodes" has the features, labels and masks, ("encoding", name), and by hop count
        ("mean", hops), ("scale", hops) and how many "members" and "edges" each node has; "entries" has the ids of the
        adjacency (2, 2E); ("members", hops) and ("edges", hops) those of neighbourhoods. Ids are counted from the
        first node of their graph. "edge_attr", where it is read, has the "values" of each entry (2E, columns).
    """

    graphs: Ids
    y: Array | None
    tables: Mapping[Any, Ragged]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        own = self.graphs.nbytes + (0 if self.y is None else self.y.nbytes)
        return own + sum(table.nbytes for table in self.tables.values())

    @cached_property
    def columns(self) -> dict[str, str]:
        """What nodes and graphs have, in words."""
        arrays: dict[Any, Array] = dict(self.tables["nodes"].columns)
        if self.y is not None:
            arrays["y", "of graphs"] = self.y
        if "edge_attr" in self.tables:
            arrays["edge_attr"] = self.tables["edge_attr"]["values"]
        names = [name if isinstance(name, str) else f"{name[0]} {name[1]}" for name in arrays]
        kinds = [f"{array.dtype} of shape {('n', *array.shape[1:])}" for array in arrays.values()]
        return dict(zip(names, kinds, strict=True))

    def take(self, chosen: Ids) -> "Block":
        """Return a block of some of the graphs, by their places in this one: any order, as often as they are named."""
        tables = {name: table.take(chosen) for name, table in self.tables.items()}
        return Block(self.graphs.take(chosen), None if self.y is None else self.y.take(chosen, axis=0), tables)


def concatenate(blocks: Sequence[Block]) -> Block:
    """Return at least one block, all of the same columns but perhaps of different datasets, as one."""
    tables = {name: Ragged.concatenate([block.tables[name] for block in blocks]) for name in blocks[0].tables}
    y = [block.y for block in blocks if block.y is not None]
    return Block(np.concatenate([block.graphs for block in blocks]), np.concatenate(y) if y else None, tables)


def join(blocks: Iterable[Block], rows: Mapping[Any, int]) -> Block:
    """Return blocks as one, each copied when it comes and forgotten: what they take is never needed twice.

    Parameters
    ----------
    rows : for each table, at least as many rows as all blocks have together.
    """
    filling = {name: Filling(size) for name, size in rows.items()}
    graphs, labels = [], []
    for block in blocks:
        for name, table in block.tables.items():
            filling[name].append(table)
        graphs.append(block.graphs)
        labels.append(block.y)
        del block, table  # before the next one is read
    y = [part for part in labels if part is not None]
    tables = {name: filled.finished() for name, filled in filling.items()}
    return Block(np.concatenate(graphs), np.concatenate(y) if y else None, tables)


def join_window(blocks: list[Block]) -> Block:
    """Return several blocks as one, letting go of each as soon as it is copied."""
    if len(blocks) == 1:
        return blocks[0]
    rows = {name: sum(block.tables[name].rows for block in blocks) for name in blocks[0].tables}
    return join((blocks.pop(0) for _ in range(len(blocks))), rows)


@dataclass(frozen=True)
class Selection:
    """Which artifacts of a dataset are streamed together, and under which names.

    Attributes
    ----------
    neighborhoods : by hops.
    has_stats : whether mean and scale of neighbourhoods are read.
    encodings : by name.
    has_edge_attr : whether the attributes of the edges are read.
    """

    dataset: StoredGraphs
    neighborhoods: Mapping[int, StoredNeighborhoods]
    has_stats: bool
    encodings: Mapping[str, StoredEncoding]
    has_edge_attr: bool = False

    @classmethod
    def of(
        cls,
        dataset: Artifact,
        neighborhoods: Sequence[Artifact],
        encodings: Sequence[Artifact] | Mapping[str, Artifact],
        with_stats: bool = True,
        with_edge_attr: bool = False,
    ) -> "Selection":
        """Return what the given artifacts of a dataset are read as.

        Raises
        ------
        InvalidInputError
            If an artifact belongs to another dataset, two have the same name, or the edges have no attributes.
        """
        stored = StoredGraphs.of(dataset)
        if with_edge_attr and not stored.num_edge_features:
            raise InvalidInputError(f"the edges of {stored.manifest.dataset!r} have no attributes that could be read.")
        hoods = [StoredNeighborhoods.of(artifact) for artifact in neighborhoods]
        pairs = encodings.items() if isinstance(encodings, Mapping) else [(a.kind, a) for a in encodings]
        named = [(name, StoredEncoding.of(artifact)) for name, artifact in pairs]
        met: dict[Any, Artifact] = {}
        for name, artifact in [*((hood.hops, hood) for hood in hoods), *named]:
            artifact.check_made_from(stored)
            if name in met:
                raise InvalidInputError(
                    f"there cannot be two {name!r}: {met[name]!r} and {artifact!r}. "
                    "Name encodings of one kind with a mapping; give one artifact of neighbourhoods per hop count."
                )
            met[name] = artifact
        has_stats = with_stats and not stored.is_categorical
        return cls(stored, {hood.hops: hood for hood in hoods}, has_stats, dict(named), with_edge_attr)

    def rows(self) -> dict[Any, int]:
        """Rows of each table of a block that holds the whole dataset."""
        found: dict[Any, int] = {"nodes": self.dataset.num_nodes, "entries": 2 * self.dataset.num_edges}
        found |= {"edge_attr": found["entries"]} if self.has_edge_attr else {}
        for hops, hoods in self.neighborhoods.items():
            found |= {("members", hops): hoods.members, ("edges", hops): hoods.edges}
        return found

    @cached_property
    def nbytes(self) -> int:
        """Bytes that all of it takes in memory, from metadata alone."""
        dataset, rows = self.dataset, self.rows()
        a_node = dataset.num_features * (8 if dataset.is_categorical else 4)
        a_node += sum(4 * int(np.prod(encoding.row_shape)) for encoding in self.encodings.values())
        a_node += len(self.neighborhoods) * (2 * ID_BYTES + (4 * dataset.num_features + 4) * self.has_stats)
        attributes = dataset.num_edge_features * (8 if dataset.has_edge_categories else 4) if self.has_edge_attr else 0
        an_entry = {"nodes": 0, "edge_attr": 0}
        ids = sum(an_entry.get(name, 1 if name[0] == "members" else 2) * count for name, count in rows.items())
        return (
            rows["nodes"] * a_node
            + rows["entries"] * attributes
            + ids * ID_BYTES
            + dataset.num_graphs * 32 * (1 + len(self.neighborhoods))
        )

    def read(self, shard: Shard, graphs: Ids, labels: Array | None) -> Block:
        """Return the given graphs of a shard, by their ascending numbers in the dataset.

        Parameters
        ----------
        labels : of all graphs of the dataset.

        Raises
        ------
        DamagedArtifactError
            If a file is missing or any of its bits differ from what was published.
        """
        (low, high), (first_graph, last_graph) = shard.nodes, shard.graphs
        nodes, neighbours = self.dataset.shard_rows(shard, with_edge_attr=self.has_edge_attr)
        columns: dict[Any, Array] = dict(nodes.columns)
        indices = neighbours["ids"]
        first = nodes.ptr[:-1].repeat(nodes.lengths).astype(indices.dtype)  # node of the shard where its graph begins
        entries = np.empty((2, len(indices)), indices.dtype)
        entries[0] = (np.arange(high - low, dtype=indices.dtype) - first).repeat(neighbours.lengths)
        first += indices.dtype.type(low)
        np.subtract(indices, first.repeat(neighbours.lengths), out=entries[1])
        tables: dict[Any, Ragged] = {"entries": Ragged(neighbours.ptr[nodes.ptr], {"ids": entries}, axis=-1)}
        if self.has_edge_attr:
            tables["edge_attr"] = Ragged(tables["entries"].ptr, {"values": neighbours["edge_attr"]})
        for hops, stored in self.neighborhoods.items():
            hoods, mean, scale = stored.between(low, high, partial(stored.rows, with_stats=self.has_stats))
            hoods = hoods.shifted(-first)
            tables["members", hops] = Ragged(hoods.node_ptr[nodes.ptr], {"ids": hoods.nodes})
            tables["edges", hops] = Ragged(hoods.edge_ptr[nodes.ptr], {"ids": hoods.edges}, axis=-1)
            columns["members", hops] = np.diff(hoods.node_ptr).astype(np.int32)
            columns["edges", hops] = np.diff(hoods.edge_ptr).astype(np.int32)
            if mean is not None and scale is not None:
                columns |= {("mean", hops): mean, ("scale", hops): scale}
        for name, encoding in self.encodings.items():
            columns["encoding", name] = encoding.between(low, high)
        tables["nodes"] = Ragged(nodes.ptr, columns)
        numbers = np.arange(first_graph, last_graph)
        block = Block(numbers, None if labels is None else labels[numbers], tables)
        return block if len(graphs) == len(numbers) else block.take(graphs - first_graph)
