"""What `y` of PyG graphs means: labels of graphs, targets of graphs or labels of nodes, by its shape and kind."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.datasets.labels import node_classes
from leap.pipeline.graphs import Task
from leap.store.errors import InvalidInputError


def targets(
    columns: list[NDArray[Any]] | None, sizes: NDArray[np.int64], name: str
) -> tuple[NDArray[Any] | None, Task]:
    """Turn one array per graph into labels or targets and the task that they set.

    Raises
    ------
    InvalidInputError
        Several labels per graph or node, gaps (NaN), two kinds of numbers, or shapes that fit neither graphs
        nor nodes.
    """
    if columns is None:
        return None, "none"
    flat = [np.atleast_1d(column) for column in columns]
    _check_kinds(flat, name)
    if any(len(column) != 1 for column in flat) and all(map(_has_rows, flat, sizes)):
        return _node_labels(flat, name), "node-classification"
    widths = {column.size for column in flat}
    if len(widths) > 1 or 0 in widths or any(column.size != max(column.shape) for column in flat):
        shapes = ", ".join(str(shape) for shape in sorted({column.shape for column in flat})[:3])
        raise InvalidInputError(
            f"{name!r} fits neither graphs nor nodes: it has the shapes {shapes}. Give (1,) or (1, targets) per graph, "
            "or (nodes,)."
        )
    return _graph_targets(np.stack([column.reshape(-1) for column in flat]), name)


def label_shape(columns: list[NDArray[Any]], task: Task) -> list[int] | None:
    """Return the shape that labels have in each graph, for nodes after the first axis, unless it is the usual one.

    Usual are one label or target of shape (1,), several targets of shape (1, t), labels of nodes of shape (n,).
    """
    shapes = {np.atleast_1d(column).shape for column in columns}
    if task == "node-classification":
        shapes = {shape[1:] for shape in shapes}
    shape = shapes.pop()
    width = int(np.prod(shape))
    usual: tuple[int, ...] = () if task == "node-classification" else (1,) if width == 1 else (1, width)
    return None if shapes or shape == usual else list(shape)


def _has_rows(column: NDArray[Any], size: int) -> bool:
    return len(column) == int(size)


def _check_kinds(columns: list[NDArray[Any]], name: str) -> None:
    """Refuse numbers of two kinds: joined, whole numbers would become reals and labels targets."""
    kinds = ["whole" if column.dtype.kind in "iub" else column.dtype.kind for column in columns]
    if (other := next((i for i, kind in enumerate(kinds) if kind != kinds[0]), None)) is not None:
        raise InvalidInputError(
            f"{name!r} of graph 0 is {columns[0].dtype}, of graph {other} {columns[other].dtype}. Whole numbers and "
            "text are labels, reals are targets: give all graphs the same."
        )


def _node_labels(columns: list[NDArray[Any]], name: str) -> NDArray[Any]:
    wide = next((column for column in columns if column.size != len(column)), None)
    if wide is not None:
        raise InvalidInputError(
            f"{name!r} has shape {wide.shape}, several values per node: nodes with several labels (multi-label) or "
            f"targets are not supported. Keep one column, such as data.{name} = data.{name}[:, 0]; for one-hot labels "
            f"data.{name}.argmax(dim=1)."
        )
    return node_classes(np.concatenate([column.reshape(-1) for column in columns]), repr(name))


def _graph_targets(values: NDArray[Any], name: str) -> tuple[NDArray[Any], Task]:
    width = values.shape[1]
    one = f"Keep one of them, such as data.{name} = data.{name}[:, 0]"
    if values.dtype.kind in "US":
        if width > 1:
            raise InvalidInputError(f"{name!r} has {width} texts per graph: one label per graph is supported.")
        return values[:, 0].astype(np.str_), "graph-classification"
    is_real = values.dtype.kind == "f"
    known = values[np.isfinite(values)] if is_real else values
    if width > 1 and np.isin(known, (0, 1)).all():
        raise InvalidInputError(
            f"{name!r} has {width} values per graph that are all 0 or 1: several labels per graph (multi-label) are "
            f"not supported. {one}."
        )
    if width > 1 and not is_real:
        raise InvalidInputError(
            f"{name!r} has {width} whole numbers per graph, such as {values[0].tolist()[:5]}: several labels per graph "
            f"are not supported. {one}, or make them reals (data.{name}.float()) if they are targets of a regression."
        )
    if known.size < values.size:
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise InvalidInputError(
            f"{name!r} of graph {row} is {values[row, column]} in column {column}: labels and targets must be finite. "
            "Leave such graphs out."
        )
    if width == 1 and (not is_real or np.isin(values, (0, 1)).all()):
        return values[:, 0].astype(np.int64), "graph-classification"
    return values.astype(np.float64), "graph-regression"
