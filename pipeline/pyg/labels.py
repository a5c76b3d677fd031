"""What `y` of PyG graphs means: labels of graphs, targets of graphs or labels of nodes, by its shape and kind."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.datasets.labels import check_wanted, check_wanted_level, node_targets
from leap.pipeline.graphs import Task
from leap.store.errors import InvalidInputError
from leap.store.graphs.tasks import is_graph_task, is_node_task


def targets(
    columns: list[NDArray[Any]] | None, sizes: NDArray[np.int64], name: str, wanted: Task | None = None
) -> tuple[NDArray[Any] | None, Task]:
    """Turn one array per graph into labels or targets and the task that they set.

    Parameters
    ----------
    wanted : task that was asked for; None: shapes and kinds say.

    Raises
    ------
    InvalidInputError
        Several classes per graph or node, gaps (NaN) in anything but several labels and targets of nodes, two kinds of
        numbers, shapes that fit neither graphs nor nodes, or labels that do not suit the task.
    """
    if columns is None:
        check_wanted_level(wanted)
        return None, "none"
    flat = [np.atleast_1d(column) for column in columns]
    _check_kinds(flat, name)
    are_of_nodes = all(map(_has_rows, flat, sizes))
    if is_node_task(wanted) and not are_of_nodes:
        raise InvalidInputError(f"--task {wanted}: {name!r} has no entry per node. Name another with --node-label.")
    if are_of_nodes and not is_graph_task(wanted) and (wanted or any(len(column) != 1 for column in flat)):
        return _node_labels(flat, name, wanted)
    widths = {column.size for column in flat}
    if len(widths) > 1 or 0 in widths or any(column.size != max(column.shape) for column in flat):
        shapes = ", ".join(str(shape) for shape in sorted({column.shape for column in flat})[:3])
        raise InvalidInputError(
            f"{name!r} fits neither graphs nor nodes: it has the shapes {shapes}. Give (1,) or (1, targets) per graph, "
            "or (nodes,)."
        )
    return _graph_targets(np.stack([column.reshape(-1) for column in flat]), name, wanted)


def label_shape(columns: list[NDArray[Any]], task: Task) -> list[int] | None:
    """Return the shape that labels have in each graph, for nodes after the first axis, unless it is the usual one.

    Usual are one label or target of shape (1,), several labels or targets of shape (1, t), labels of nodes of
    shape (n,), several targets of nodes of shape (n, t).
    """
    shapes = {np.atleast_1d(column).shape for column in columns}
    if is_node_task(task):
        shapes = {shape[1:] for shape in shapes}
    shape = shapes.pop()
    width = int(np.prod(shape))
    usual: tuple[int, ...] = () if width == 1 else (width,)
    if not is_node_task(task):
        usual = (1, *usual)
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


def _node_labels(columns: list[NDArray[Any]], name: str, wanted: Task | None) -> tuple[NDArray[Any], Task]:
    wide = next((column for column in columns if column.size != len(column)), None)
    if wide is not None:
        if all(column.ndim == 2 and column.shape[1] == columns[0].shape[-1] for column in columns):
            several = np.concatenate(columns)
            known = several[np.isfinite(several)] if several.dtype.kind == "f" else np.zeros(0)
            if several.dtype.kind in "biuf" and (wanted == "node-regression" or (np.floor(known) != known).any()):
                return node_targets(several, repr(name), wanted)
        raise InvalidInputError(
            f"{name!r} has shape {wide.shape}, several values per node: nodes with several labels (multi-label) "
            f"are not supported. Keep one column, such as data.{name} = data.{name}[:, 0]; for one-hot labels "
            f"data.{name}.argmax(dim=1); for targets give the task node-regression."
        )
    return node_targets(np.concatenate([column.reshape(-1) for column in columns]), repr(name), wanted)


def _graph_targets(values: NDArray[Any], name: str, wanted: Task | None) -> tuple[NDArray[Any], Task]:
    is_number = values.dtype.kind in "biuf"
    if (is_number and wanted == "graph-multilabel") or (wanted is None and _are_several_labels(values)):
        return values.astype(np.float64), "graph-multilabel"
    if is_number and wanted == "graph-regression":
        return values.astype(np.float64), "graph-regression"
    y, task = _graph_labels(values, name)
    if wanted is not None:
        check_wanted(task, wanted, repr(name))
    return y, task


def _are_several_labels(values: NDArray[Any]) -> bool:
    """Whether values are 0, 1 or missing (NaN), several for each graph or some of them missing."""
    if values.dtype.kind not in "biuf":
        return False
    is_missing = np.isnan(values)
    known = values[~is_missing]
    return bool(len(known) and np.isin(known, (0, 1)).all() and (values.shape[1] > 1 or is_missing.any()))


def _graph_labels(values: NDArray[Any], name: str) -> tuple[NDArray[Any], Task]:
    width = values.shape[1]
    one = f"Keep one of them, such as data.{name} = data.{name}[:, 0]"
    if values.dtype.kind in "US":
        if width > 1:
            raise InvalidInputError(f"{name!r} has {width} texts per graph: one label per graph is supported.")
        return values[:, 0].astype(np.str_), "graph-classification"
    is_real = values.dtype.kind == "f"
    known = values[np.isfinite(values)] if is_real else values
    if width > 1 and not is_real:
        raise InvalidInputError(
            f"{name!r} has {width} whole numbers per graph, such as {values[0].tolist()[:5]}: several classes per "
            f"graph are not supported. {one}, or make them reals (data.{name}.float()) if they are targets of a "
            "regression."
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
