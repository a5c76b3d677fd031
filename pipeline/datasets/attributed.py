"""Graphs whose nodes carry named attributes, as NetworkX and node-link files hold them, to raw graphs."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.datasets.labels import graph_targets, node_classes
from leap.pipeline.datasets.source import SourceOptions
from leap.pipeline.graphs import RawGraphs, Task
from leap.store.errors import InvalidInputError


@dataclass(frozen=True)
class AttributedGraph:
    """One graph with attributes.

    Attributes
    ----------
    origin : where it comes from, for messages: a file, or "graph 3".
    nodes : attributes of each node by its id, in order.
    edges : pairs of ids.
    attributes : of the graph itself.
    """

    origin: str
    nodes: Mapping[Hashable, Mapping[str, Any]]
    edges: Sequence[tuple[Hashable, Hashable]]
    attributes: Mapping[str, Any]


def assemble(graphs: Sequence[AttributedGraph], options: SourceOptions) -> RawGraphs:
    """Lay graphs side by side and turn their attributes into features and labels.

    Labels: the graph attribute `options.graph_label` ("y", else "label"); where graphs have none, the node
    attribute `options.node_label` ("y"). Features: the node attributes `options.node_attributes` ("x";
    without one, all numeric attributes that every node has, by name), numbers or equally long lists of
    numbers. Whole numbers throughout are categories; write 1.0 for measurements.

    Raises
    ------
    InvalidInputError
        No graphs, an edge to an unknown node, an attribute that some nodes or graphs lack or that is no
        number.
    """
    if not graphs:
        raise InvalidInputError("there are no graphs.")
    counts = np.array([len(graph.nodes) for graph in graphs], dtype=np.int64)
    rows = [attributes for graph in graphs for attributes in graph.nodes.values()]
    y, task, label = _labels(graphs, rows, options)
    names = _feature_names(rows, options, label if task == "node-classification" else None)
    unused = sorted({name for row in rows for name in row} - set(names) - {label})
    notes: dict[str, Any] = {"node_attributes": names, "label": label}
    if unused:
        notes["unused_node_attributes"] = unused
    return RawGraphs(
        node_counts=counts,
        edges=_edges(graphs, counts),
        x=_features(graphs, rows, names) if names else None,
        y=y,
        task=task,
        feature_source="node attributes" if names else "none",
        notes=notes,
    )


def _edges(graphs: Sequence[AttributedGraph], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    pairs: list[tuple[int, int]] = []
    for graph, first in zip(graphs, (np.cumsum(counts) - counts).tolist(), strict=True):
        number = {node: first + i for i, node in enumerate(graph.nodes)}
        try:
            pairs.extend((number[a], number[b]) for a, b in graph.edges)
        except KeyError as error:
            raise InvalidInputError(
                f"{graph.origin}: an edge names node {error.args[0]!r}, which does not exist."
            ) from error
    return np.ascontiguousarray(np.array(pairs, dtype=np.int64).reshape(-1, 2).T)


def _labels(
    graphs: Sequence[AttributedGraph], rows: list[Mapping[str, Any]], options: SourceOptions
) -> tuple[NDArray[Any] | None, Task, str | None]:
    for name in (options.graph_label,) if options.graph_label else ("y", "label"):
        lacking = [graph.origin for graph in graphs if name not in graph.attributes]
        if not lacking:
            y, task = graph_targets([graph.attributes[name] for graph in graphs], f"the attribute {name!r}")
            return y, task, name
        if options.graph_label or len(lacking) < len(graphs):
            raise InvalidInputError(f"{lacking[0]} has no graph attribute {name!r}; every graph needs its label.")
    name = options.node_label or "y"
    with_label = sum(name in row for row in rows)
    if not with_label and options.node_label is None:
        return None, "none", None
    if with_label < len(rows):
        raise InvalidInputError(
            f"{len(rows) - with_label:,} of {len(rows):,} nodes have no attribute {name!r}; every node needs its label."
        )
    return node_classes([row[name] for row in rows], f"the attribute {name!r}"), "node-classification", name


def _feature_names(rows: list[Mapping[str, Any]], options: SourceOptions, label: str | None) -> list[str]:
    if options.node_attributes is not None:
        return list(options.node_attributes)
    if any("x" in row for row in rows) and label != "x":
        return ["x"]
    common = set(rows[0]).intersection(*rows[1:]) if rows else set()
    return sorted(name for name in common - {label} if all(_numbers(row[name]) for row in rows))


def _numbers(value: Any) -> list[Any] | None:
    """Return a number or numbers as a list, None for anything else."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    values = list(value) if isinstance(value, list | tuple) else [value]
    return values if values and all(isinstance(item, bool | int | float) for item in values) else None


def _features(graphs: Sequence[AttributedGraph], rows: list[Mapping[str, Any]], names: list[str]) -> NDArray[Any]:
    blocks = []
    for name in names:
        values = [_numbers(row.get(name)) for row in rows]
        width = len(values[0] or ())
        for at, numbers in enumerate(values):
            if numbers is None or len(numbers) != width:
                graph, node = _whose(graphs, at)
                met = repr(rows[at][name]) if name in rows[at] else "missing"
                raise InvalidInputError(
                    f"{graph}, node {node!r}: the attribute {name!r} is {met}; it must be "
                    f"{'a number' if width == 1 else f'a list of {width} numbers' if width else 'a number or a list'}, "
                    "as for every node."
                )
        blocks.append(np.array(values))
    whole = all(np.issubdtype(block.dtype, np.integer) for block in blocks)
    return np.concatenate(blocks, axis=1).astype(np.int64 if whole else np.float64)


def _whose(graphs: Sequence[AttributedGraph], row: int) -> tuple[str, Hashable]:
    for graph in graphs:
        if row < len(graph.nodes):
            return graph.origin, list(graph.nodes)[row]
        row -= len(graph.nodes)
    raise IndexError(row)
