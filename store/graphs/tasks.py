"""What can be learned of a dataset, and what each task means for labels."""

from typing import Literal

Task = Literal[
    "graph-classification", "graph-regression", "graph-multilabel", "node-classification", "node-regression", "none"
]
NO_LABEL = -1
"""Code of nodes without a class; no mask has them."""


def is_graph_task(task: str | None) -> bool:
    """Whether labels and official splits belong to graphs."""
    return task in ("graph-classification", "graph-regression", "graph-multilabel")


def is_node_task(task: str | None) -> bool:
    """Whether labels and masks belong to nodes."""
    return task in ("node-classification", "node-regression")


def is_classification(task: str | None) -> bool:
    """Whether each item belongs to one of several classes."""
    return task in ("graph-classification", "node-classification")


def is_regression(task: str | None) -> bool:
    """Whether labels are real numbers."""
    return task in ("graph-regression", "node-regression")
