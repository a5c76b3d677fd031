"""Graphs whose nodes carry named attributes to raw graphs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.datasets.attributed_features import Rows, choose_features, feature_matrix, left_out_remarks
from leap.pipeline.datasets.attributed_graph import AttributedGraph
from leap.pipeline.datasets.labels import graph_targets, node_classes, possible_graph_labels
from leap.pipeline.datasets.remarks import unlabelled
from leap.pipeline.datasets.source import SourceOptions
from leap.pipeline.graphs import RawGraphs, Task
from leap.store.errors import InvalidInputError
from leap.store.suggestion import alternatives


def assemble(graphs: Sequence[AttributedGraph], options: SourceOptions) -> RawGraphs:
    """Lay graphs side by side and turn their attributes into features and labels.

    Labels: the graph attribute `options.graph_label` ("y", else "label"); where graphs have none, the node
    attribute `options.node_label` ("y"). Features: the node attributes `options.node_attributes` ("x";
    without one, all numeric attributes that every node has, by name), numbers or equally long lists of
    numbers. Whole numbers throughout are categories; write 1.0 for measurements. What is left out where no
    attributes are named is told in `remarks`.

    Raises
    ------
    InvalidInputError
        No graphs, an edge to an unknown node, an attribute that some nodes or graphs lack or that is no finite
        number.
    """
    if not graphs:
        raise InvalidInputError("there are no graphs: at least one is needed.")
    counts = np.array([len(graph.nodes) for graph in graphs], dtype=np.int64)
    rows = [attributes for graph in graphs for attributes in graph.nodes.values()]
    y, task, label = _labels(graphs, rows, options)
    node_label = label if task == "node-classification" else None
    chosen = options.node_attributes
    names = choose_features(rows, node_label) if chosen is None else list(chosen)
    unused = sorted({name for row in rows for name in row} - set(names) - {label})
    notes: dict[str, Any] = {"node_attributes": names, "label": label}
    if unused:
        notes["unused_node_attributes"] = unused
    remarks = left_out_remarks(graphs, rows, names, unused) if chosen is None else []
    if task == "none":
        common = set(graphs[0].attributes).intersection(*(graph.attributes for graph in graphs[1:]))
        candidates = {name: [graph.attributes[name] for graph in graphs] for name in sorted(common)}
        if possible := possible_graph_labels(candidates):
            notes["possible_graph_labels"] = possible
            remarks.append(unlabelled("attribute", possible))
    return RawGraphs(
        node_counts=counts,
        edges=_edges(graphs, counts),
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
            pairs.extend((number[a], number[b]) for a, b in graph.edges)
        except KeyError as error:
            raise InvalidInputError(
                f"{graph.origin}: an edge names node {error.args[0]!r}, which does not exist."
            ) from error
    return np.ascontiguousarray(np.array(pairs, dtype=np.int64).reshape(-1, 2).T)


def _labels(
    graphs: Sequence[AttributedGraph], rows: Rows, options: SourceOptions
) -> tuple[NDArray[Any] | None, Task, str | None]:
    for name in (options.graph_label,) if options.graph_label else ("y", "label"):
        lacking = [graph.origin for graph in graphs if name not in graph.attributes]
        if not lacking:
            values = [graph.attributes[name] for graph in graphs]
            y, task = graph_targets(values, f"the attribute {name!r}", lambda number: graphs[number].origin)
            return y, task, name
        if len(lacking) < len(graphs):
            raise InvalidInputError(f"{lacking[0]} has no graph attribute {name!r}; every graph needs its label.")
        if options.graph_label:
            known = {known for graph in graphs for known in graph.attributes}
            raise InvalidInputError(f"there is no graph attribute {name!r}.{alternatives(name, known)}")
    name = options.node_label or "y"
    with_label = sum(name in row for row in rows)
    if not with_label and options.node_label is None:
        return None, "none", None
    if not with_label:
        known = {known for row in rows for known in row}
        raise InvalidInputError(f"there is no node attribute {name!r}.{alternatives(name, known)}")
    if with_label < len(rows):
        raise InvalidInputError(
            f"{len(rows) - with_label:,} of {len(rows):,} nodes have no attribute {name!r}; every node needs its label."
        )
    return node_classes([row[name] for row in rows], f"the attribute {name!r}"), "node-classification", name
