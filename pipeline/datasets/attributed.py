"""Graphs whose nodes and edges carry named attributes, as NetworkX and node-link files hold them, to raw graphs."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.datasets.labels import (
    CODES_END,
    LARGEST_CODE,
    binary_targets,
    check_wanted_level,
    graph_targets,
    left_out_for_x,
    node_targets,
    possible_graph_labels,
    unlabelled,
)
from leap.pipeline.datasets.source import SourceOptions
from leap.pipeline.graphs import RawGraphs, Task
from leap.store.errors import InvalidInputError
from leap.store.graphs.tasks import is_graph_task, is_node_task
from leap.store.suggestion import alternatives

REMARKS_AT_MOST = 4
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class AttributedGraph:
    """One graph with attributes.

    Attributes
    ----------
    origin : where it comes from, for messages: a file, or "graph 3".
    nodes : attributes of each node by its id, in order.
    edges : pairs of ids, with the attributes of the edge.
    attributes : of the graph itself.
    """

    origin: str
    nodes: Mapping[Hashable, Mapping[str, Any]]
    edges: Sequence[tuple[Hashable, Hashable, Mapping[str, Any]]]
    attributes: Mapping[str, Any]


def assemble(graphs: Sequence[AttributedGraph], options: SourceOptions) -> RawGraphs:
    """Lay graphs side by side and turn their attributes into features and labels.

    Labels: the graph attribute `options.graph_label` ("y", else "label"); where graphs have none, the node
    attribute `options.node_label` ("y"). Features: the node attributes `options.node_attributes` ("x";
    without one, all numeric attributes that every node has, by name), numbers or equally long lists of
    numbers. Whole numbers throughout are categories; write 1.0 for measurements. What is left out where no
    attributes are named is told in `remarks`. Attributes of edges: `options.edge_attributes`, in the same forms.

    Raises
    ------
    InvalidInputError
        No graphs, an edge to an unknown node, an attribute that some nodes, edges or graphs lack or that is no
        finite number.
    """
    if not graphs:
        raise InvalidInputError("there are no graphs: at least one is needed.")
    counts = np.array([len(graph.nodes) for graph in graphs], dtype=np.int64)
    rows = [attributes for graph in graphs for attributes in graph.nodes.values()]
    y, task, label = _labels(graphs, rows, options)
    node_label = label if is_node_task(task) else None
    chosen = options.node_attributes
    names = choose_features(rows, node_label) if chosen is None else list(chosen)
    unused = sorted({name for row in rows for name in row} - set(names) - {label})
    notes: dict[str, Any] = {"node_attributes": names, "label": label}
    if unused:
        notes["unused_node_attributes"] = unused
    remarks = left_out_remarks(graphs, rows, names, unused) if chosen is None else []
    remarks += binary_targets(y, task, options.task)
    if task == "none":
        common = set(graphs[0].attributes).intersection(*(graph.attributes for graph in graphs[1:]))
        candidates = {name: [graph.attributes[name] for graph in graphs] for name in sorted(common)}
        if possible := possible_graph_labels(candidates):
            notes["possible_graph_labels"] = possible
            remarks.append(unlabelled("attribute", possible))
    edge_attr = None
    if options.edge_attributes is not None:
        at_edges = [attributes for graph in graphs for _, _, attributes in graph.edges]
        edge_attr = feature_matrix(graphs, at_edges, options.edge_attributes, "edge")
        notes["edge_attributes"] = list(options.edge_attributes)
    return RawGraphs(
        node_counts=counts,
        edges=_edges(graphs, counts),
        edge_attr=edge_attr,
        x=feature_matrix(graphs, rows, names) if names else None,
        y=y,
        task=task,
        feature_source="node attributes" if names else "none",
        notes=notes,
        remarks=tuple(remarks),
    )


def _edges(graphs: Sequence[AttributedGraph], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    pairs: list[tuple[int, int]] = []
    for graph, first in zip(graphs, (np.cumsum(counts) - counts).tolist(), strict=True):
        number = {node: first + i for i, node in enumerate(graph.nodes)}
        try:
            pairs.extend((number[a], number[b]) for a, b, _ in graph.edges)
        except KeyError as error:
            raise InvalidInputError(
                f"{graph.origin}: an edge names node {error.args[0]!r}, which does not exist."
            ) from error
    return np.ascontiguousarray(np.array(pairs, dtype=np.int64).reshape(-1, 2).T)


def _labels(
    graphs: Sequence[AttributedGraph], rows: Rows, options: SourceOptions
) -> tuple[NDArray[Any] | None, Task, str | None]:
    wanted = options.task
    of_graphs = (options.graph_label,) if options.graph_label else () if is_node_task(wanted) else ("y", "label")
    for name in of_graphs:
        lacking = [graph.origin for graph in graphs if name not in graph.attributes]
        if not lacking:
            values = [graph.attributes[name] for graph in graphs]
            y, task = graph_targets(values, f"the attribute {name!r}", lambda number: graphs[number].origin, wanted)
            return y, task, name
        if len(lacking) < len(graphs):
            raise InvalidInputError(f"{lacking[0]} has no graph attribute {name!r}; every graph needs its label.")
        if options.graph_label:
            known = {known for graph in graphs for known in graph.attributes}
            raise InvalidInputError(f"there is no graph attribute {name!r}.{alternatives(name, known)}")
    name = options.node_label or "y"
    with_label = sum(name in row for row in rows)
    if is_graph_task(wanted) or (not with_label and options.node_label is None):
        check_wanted_level(wanted)
        return None, "none", None
    if not with_label:
        known = {known for row in rows for known in row}
        raise InvalidInputError(f"there is no node attribute {name!r}.{alternatives(name, known)}")
    if with_label < len(rows):
        raise InvalidInputError(
            f"{len(rows) - with_label:,} of {len(rows):,} nodes have no attribute {name!r}; every node needs its label."
        )
    return *node_targets([row[name] for row in rows], f"the attribute {name!r}", wanted), name


def choose_features(rows: Rows, label: str | None) -> list[str]:
    """Return the attributes to use where none are named: "x", else all numeric ones that every node has, by name.

    Parameters
    ----------
    rows : attributes of every node.
    label : the attribute that is the node's label and so no feature.
    """
    if any("x" in row for row in rows) and label != "x":
        return ["x"]
    common = set(rows[0]).intersection(*rows[1:]) if rows else set()
    return sorted(name for name in common - {label} if all(_numbers(row[name]) for row in rows))


def left_out_remarks(
    graphs: Sequence[AttributedGraph], rows: Rows, taken: Sequence[str], left_out: Sequence[str]
) -> list[str]:
    """Return a sentence for every attribute that was not chosen, and why; many share the last one."""
    if not left_out:
        return []
    if list(taken) == ["x"]:
        return [left_out_for_x("attribute", left_out, "x")]
    told, rest = left_out[:REMARKS_AT_MOST], left_out[REMARKS_AT_MOST:]
    remarks = [f"node attribute {name!r} is left out: {_objection(graphs, rows, name)}" for name in told]
    return [*remarks, f"also left out: {', '.join(rest)}."] if rest else remarks


def _objection(graphs: Sequence[AttributedGraph], rows: Rows, name: str) -> str:
    for at, row in enumerate(rows):
        if name in row and _numbers(row[name]) is None:
            value = row[name]
            kind = "text" if isinstance(value, str) else "no number"
            return f"it is {kind} ({value!r:.40} at {_node(graphs, at)})."
    lacking = [at for at, row in enumerate(rows) if name not in row]
    count = f"{len(lacking):,} of {len(rows):,} nodes lack{'s' if len(lacking) == 1 else ''} it"
    first = f"{'' if len(lacking) == 1 else 'the first is '}{_node(graphs, lacking[0])}"
    return f"{count}, {first}. Name it with --node-attribute to make that an error."


def feature_matrix(
    graphs: Sequence[AttributedGraph], rows: Rows, names: Sequence[str], owner: Literal["node", "edge"] = "node"
) -> NDArray[Any]:
    """Return the attributes of all nodes or edges side by side: int64 if all are whole numbers, else float64.

    Raises
    ------
    InvalidInputError
        No attribute, one that is unknown, that some nodes or edges lack, or that is no finite number or list of equal
        length.
    """
    where = _where if owner == "node" else _where_edge
    if not names:
        raise InvalidInputError(f"no {owner} attribute is named. Name at least one.")
    blocks = []
    for name in names:
        values = [_numbers(row.get(name)) for row in rows]
        if rows and not any(name in row for row in rows):
            known = {known for row in rows for known in row}
            raise InvalidInputError(f"there is no {owner} attribute {name!r}.{alternatives(name, known)}")
        width = len(values[0] or ()) if values else 1
        for at, numbers in enumerate(values):
            if numbers is None or len(numbers) != width:
                met = repr(rows[at][name]) if name in rows[at] else "missing"
                raise InvalidInputError(
                    f"{where(graphs, at)}: the attribute {name!r} is {met}; it must be "
                    f"{'a number' if width == 1 else f'a list of {width} numbers' if width else 'a number or a list'}, "
                    f"as for every {owner}."
                )
        block = np.array(values) if values else np.empty((0, width))
        if block.dtype.kind in "iuO":  # the last holds whole numbers of more than 64 bits
            _check_codes(graphs, rows, name, block, where)
        else:
            with np.errstate(over="ignore"):
                finite = np.isfinite(block.astype(np.float32)).all(axis=1)
            if not finite.all():
                at = int(np.argmin(finite))
                raise InvalidInputError(
                    f"{where(graphs, at)}: the attribute {name!r} is {rows[at][name]!r:.60}; "
                    f"{'features' if owner == 'node' else 'attributes'} must be finite float32 numbers. Repair or "
                    "remove it."
                )
        blocks.append(block)
    whole = all(np.issubdtype(block.dtype, np.integer) for block in blocks)
    return np.concatenate(blocks, axis=1).astype(np.int64 if whole else np.float64)


def _check_codes(
    graphs: Sequence[AttributedGraph],
    rows: Rows,
    name: str,
    block: NDArray[Any],
    where: Callable[[Sequence[AttributedGraph], int], str],
) -> None:
    large = (block >= LARGEST_CODE).any(axis=1)
    if large.any():
        at = int(np.argmax(large))
        raise InvalidInputError(f"{where(graphs, at)}: the attribute {name!r} is {rows[at][name]!r:.60}. {CODES_END}")


def _numbers(value: Any) -> list[Any] | None:
    """Return a number or numbers as a list, None for anything else."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    values = list(value) if isinstance(value, list | tuple) else [value]
    return values if values and all(isinstance(item, bool | int | float) for item in values) else None


def _node(graphs: Sequence[AttributedGraph], row: int) -> str:
    origin, node = node_of_row(graphs, row)
    return f"node {node!r} of {origin}"


def _where(graphs: Sequence[AttributedGraph], row: int) -> str:
    origin, node = node_of_row(graphs, row)
    return f"{origin}, node {node!r}"


def _where_edge(graphs: Sequence[AttributedGraph], row: int) -> str:
    for graph in graphs:
        if row < len(graph.edges):
            a, b, _ = graph.edges[row]
            return f"{graph.origin}, edge {a!r}-{b!r}"
        row -= len(graph.edges)
    raise IndexError(row)


def node_of_row(graphs: Sequence[AttributedGraph], row: int) -> tuple[str, Hashable]:
    """Origin of the graph and id of the node that has this row, counted through all graphs."""
    for graph in graphs:
        if row < len(graph.nodes):
            return graph.origin, list(graph.nodes)[row]
        row -= len(graph.nodes)
    raise IndexError(row)
