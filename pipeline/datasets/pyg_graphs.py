"""PyG `Data` objects to raw graphs: what each attribute means, and a sentence for all that cannot be kept."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.datasets.labels import left_out_for_x
from leap.pipeline.datasets.pyg_edges import edge_pairs
from leap.pipeline.datasets.pyg_labels import targets
from leap.pipeline.datasets.source import SourceOptions
from leap.pipeline.graphs import RawGraphs
from leap.store.errors import InvalidInputError
from leap.store.suggestion import alternatives

MASKS = ("train_mask", "val_mask", "test_mask")
STRUCTURE = {"edge_index", "adj_t", "num_nodes", "batch", "ptr"}
"""Attributes that say which nodes and edges there are."""


def assemble_pyg(graphs: Sequence[Any], options: SourceOptions | None = None) -> RawGraphs:
    """Lay PyG graphs side by side; see `from_pyg`."""
    if not graphs:
        raise InvalidInputError("there are no graphs: at least one is needed.")
    options = options or SourceOptions()
    sizes = np.array([_size(graph, number) for number, graph in enumerate(graphs)], dtype=np.int64)
    edges = edge_pairs(graphs, sizes)
    label = options.graph_label or options.node_label or "y"
    y, task = targets(_column(graphs, label, needed=label != "y"), sizes, label)
    _check_level(task, options)
    features = _feature_names(graphs, options)
    x = [_rows(graphs, name, sizes) for name in features]
    masks = _masks(graphs, sizes) if task == "node-classification" else None
    used = {*STRUCTURE, *features, label, *(MASKS if masks else ())}
    left_out = sorted({key for graph in graphs for key in graph.keys()} - used)  # noqa: SIM118, iterates over pairs
    at_nodes = [name for name in left_out if features and _is_per_node(graphs, name, sizes)]
    return RawGraphs(
        node_counts=sizes,
        edges=edges.pairs,
        x=np.concatenate(x, axis=1) if x else None,
        y=y,
        task=task,
        masks=masks,
        feature_source=", ".join(features) or "none",
        notes={"node_attributes": features, "left_out": left_out},
        remarks=tuple(_remarks(left_out, at_nodes, features, edges.weighted)),
    )


def _size(graph: Any, number: int) -> int:
    from torch_geometric.data import Data

    if not isinstance(graph, Data):
        raise InvalidInputError(
            f"graph {number} is a {type(graph).__name__}, not a homogeneous PyG Data. Convert it first (HeteroData has "
            "to_homogeneous()), so that all nodes share their features and all edges are of one kind."
        )
    return int(graph.num_nodes or 0)


def _column(graphs: Sequence[Any], name: str, *, needed: bool = False) -> list[NDArray[Any]] | None:
    """One attribute of every graph as arrays, None if no graph has it."""
    values: list[Any] = [graph.get(name, None) for graph in graphs]
    lacking = [number for number, value in enumerate(values) if value is None]
    if len(lacking) == len(graphs):
        if needed:
            raise InvalidInputError(f"graphs have no attribute {name!r}.{alternatives(name, list(graphs[0].keys()))}")
        return None
    if lacking:
        raise InvalidInputError(
            f"graph {lacking[0]} has no {name!r}, though others have. Give it to all graphs or to none."
        )
    return [_array(value, name, number) for number, value in enumerate(values)]


def _array(value: Any, name: str, number: int) -> NDArray[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            raise InvalidInputError(f"{name!r} of graph {number} is a sparse tensor: give {name}.to_dense().")
        value = value.detach().cpu()
        return np.asarray(value.float() if value.dtype == torch.bfloat16 else value)
    try:
        array = np.asarray(value)
    except ValueError:  # lists of unequal length
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biufUS":
        raise InvalidInputError(f"{name!r} of graph {number} is a {type(value).__name__}: a tensor is needed.")
    return array


def _feature_names(graphs: Sequence[Any], options: SourceOptions) -> list[str]:
    """Attributes that become features: those asked for, else x, else where the nodes are."""
    if options.node_attributes is not None:
        return list(options.node_attributes)
    return next(([name] for name in ("x", "pos") if any(graph.get(name) is not None for graph in graphs)), [])


def _rows(graphs: Sequence[Any], name: str, sizes: NDArray[np.int64]) -> NDArray[Any]:
    """Stack the (n, d) or (n,) arrays that all graphs have under `name`."""
    columns = _column(graphs, name, needed=True) or []
    tables = [column[:, None] if column.ndim == 1 else column for column in columns]
    width = tables[0].shape[1] if tables[0].ndim == 2 else "d"
    for number, (table, size) in enumerate(zip(tables, sizes, strict=True)):
        if table.ndim != 2 or len(table) != size or table.shape[1] != width:
            raise InvalidInputError(
                f"graph {number}: {name!r} must have shape ({size}, {width}), one row per node and as many columns as "
                f"graph 0. Got {columns[number].shape}."
            )
        if (table.dtype.kind in "iu") != (tables[0].dtype.kind in "iu"):
            raise InvalidInputError(
                f"{name!r} of graph 0 is {tables[0].dtype}, of graph {number} {table.dtype}. Whole numbers are "
                "categories and reals measurements: give all graphs the same."
            )
    return np.concatenate(tables)


def _masks(graphs: Sequence[Any], sizes: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]] | None:
    present = [name for name in MASKS if any(graph.get(name) is not None for graph in graphs)]
    if not present:
        return None
    if len(present) < len(MASKS):
        missing = " and ".join(name for name in MASKS if name not in present)
        raise InvalidInputError(
            f"graphs have {' and '.join(present)} but no {missing}. Add {missing} (a part of the training nodes can "
            "be the validation nodes), or remove all masks to get generated ones."
        )
    masks = {name: _rows(graphs, name, sizes) for name in MASKS}
    for name, mask in masks.items():
        if not np.isin(mask, (0, 1)).all():
            odd = mask[~np.isin(mask, (0, 1))][0]
            raise InvalidInputError(f"{name!r} holds {odd}: a mask has a truth value per node, not node numbers.")
    splits = max(mask.shape[1] for mask in masks.values())
    # Some datasets have many training parts and one test part, the same for all.
    shared = {name: np.repeat(mask, splits, axis=1) if mask.shape[1] == 1 else mask for name, mask in masks.items()}
    return {name.removesuffix("_mask"): mask.astype(np.bool_) for name, mask in shared.items()}


def _check_level(task: str, options: SourceOptions) -> None:
    """Refuse labels of nodes that were asked for as those of graphs, and the other way round."""
    is_node_task = task == "node-classification"
    if options.graph_label and is_node_task:
        raise InvalidInputError(f"{options.graph_label!r} has an entry per node, not per graph: --node-label takes it.")
    if options.node_label and not options.graph_label and not is_node_task:
        raise InvalidInputError(f"{options.node_label!r} has an entry per graph, not per node: --graph-label takes it.")


def _remarks(left_out: list[str], at_nodes: list[str], features: list[str], weighted: bool) -> list[str]:
    remarks = [left_out_for_x("attribute", at_nodes, features[0])] if at_nodes else []
    if rest := [name for name in left_out if name not in at_nodes]:
        are = f"attribute {rest[0]!r} is" if len(rest) == 1 else f"attributes {', '.join(rest)} are"
        remarks.append(f"{are} left out: graphs are read as nodes with features, edges without any, and labels.")
    if weighted:
        remarks.append("the values of adj_t are left out: edges have no weights.")
    return remarks


def _is_per_node(graphs: Sequence[Any], name: str, sizes: NDArray[np.int64]) -> bool:
    """Whether an attribute could be a feature. PyG's own `is_node_attr` leaves notes in the graph it is asked about."""
    if name in MASKS or "edge" in name:
        return False
    values = [graph.get(name) for graph in graphs]
    return all(
        hasattr(value, "shape") and tuple(value.shape[:1]) == (size,) for value, size in zip(values, sizes, strict=True)
    )
