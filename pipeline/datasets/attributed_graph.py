"""`AttributedGraph`: one graph whose nodes carry named attributes, as NetworkX and node-link files hold them."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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


def node_of_row(graphs: Sequence[AttributedGraph], row: int) -> tuple[str, Hashable]:
    """Origin of the graph and id of the node that has this row, counted through all graphs."""
    for graph in graphs:
        if row < len(graph.nodes):
            return graph.origin, list(graph.nodes)[row]
        row -= len(graph.nodes)
    raise IndexError(row)
