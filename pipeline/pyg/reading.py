"""PyG `Data` objects to raw graphs: what each attribute means, and a sentence for all that cannot be kept."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Batch, Data
from torch_geometric.data.data import BaseData, DataEdgeAttr, DataTensorAttr
from torch_geometric.data.separate import separate
from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

from leap.pipeline.datasets.labels import check_codes, left_out_for_x
from leap.pipeline.datasets.source import SourceOptions
from leap.pipeline.graphs import RawGraphs
from leap.pipeline.pyg.edges import edge_pairs
from leap.pipeline.pyg.labels import label_shape, targets
from leap.pipeline.pyg.tensors import plain_array
from leap.store.errors import InvalidInputError
from leap.store.graphs.tasks import is_node_task
from leap.store.suggestion import alternatives

MASKS = ("train_mask", "val_mask", "test_mask")
STRUCTURE = {"edge_index", "adj_t", "num_nodes", "batch", "ptr"}
"""Attributes that say which nodes and edges there are."""


def assemble(graphs: Sequence[Any], options: SourceOptions | None = None) -> RawGraphs:
    """Lay PyG graphs side by side; see `from_pyg`."""
    if not graphs:
        raise InvalidInputError("there are no graphs: at least one is needed.")
    options = options or SourceOptions()
    sizes = node_counts(graphs)
    edges = edge_pairs(graphs, sizes)
    label = options.graph_label or options.node_label or "y"
    columns = _column(graphs, label, needed=label != "y")
    y, task = targets(columns, sizes, label, options.task)
    _check_level(task, options)
    features = _feature_names(graphs, options)
    x = _features(graphs, features, sizes)
    masks, shapes, overlap = _masks(graphs, sizes) if is_node_task(task) else (None, {}, [])
    if columns is not None and (shape := label_shape(columns, task)) is not None:
        shapes["y"] = shape
    pos = _kept_rows(graphs, "pos", sizes)
    if pos is not None and features == ["pos"] and pos.ndim == 2 and pos.dtype in (np.float32, np.int64):
        pos = None  # the features are the very same
    at_edges = ("edge_attr",) if options.edge_attributes is None else options.edge_attributes
    if options.edge_attributes and not edges.has_index:
        raise InvalidInputError(
            f"{options.edge_attributes[0]!r} cannot be kept: its rows would follow edge_index, and the graphs have "
            "adj_t alone."
        )
    kept = {"pos", *at_edges} if edges.has_index else {"pos"}  # whose rows follow edge_index
    used = {*STRUCTURE, *kept, *features, label, *(MASKS if masks else ())}
    left_out = sorted({key for graph in graphs for key in graph.keys()} - used)  # noqa: SIM118, iterates over pairs
    at_nodes = [name for name in left_out if features and _is_per_node(graphs, name, sizes)]
    notes: dict[str, Any] = {"node_attributes": features, "left_out": left_out}
    return RawGraphs(
        node_counts=sizes,
        edges=edges.pairs,
        x=x,
        y=y,
        task=task,
        masks=masks,
        edge_attr=_edge_attributes(graphs, options, edges.counts) if edges.has_index else None,
        pos=pos,
        feature_source=", ".join(features) or "none",
        notes=notes | ({"shapes": shapes} if shapes else {}),
        remarks=(*_remarks(left_out, at_nodes, features, edges.weighted), *overlap),
    )


def assemble_parts(parts: Mapping[str, Any], options: SourceOptions | None = None) -> RawGraphs:
    """Lay the parts of an official split side by side, training graphs first; see `from_pyg`."""
    if set(parts) != {"train", "val", "test"}:
        raise InvalidInputError(f"parts must be train, val and test. Got {', '.join(map(str, parts)) or 'none'}.")
    lists = {part: as_list(parts[part]) for part in ("train", "val", "test")}
    for part, graphs in lists.items():
        if not graphs:
            raise InvalidInputError(f"the part {part} has no graphs: each needs some.")
    raw = assemble([graph for graphs in lists.values() for graph in graphs], options)
    if raw.masks is not None:
        raise InvalidInputError(
            "graphs have train_mask, val_mask and test_mask, and come in parts too. Give one of both."
        )
    if raw.task == "none" or raw.y is None:
        return replace(raw, remarks=(*raw.remarks, "the parts are left out: graphs have no labels."))
    owner = np.repeat(np.arange(len(lists)), [len(graphs) for graphs in lists.values()])
    owner = np.repeat(owner, raw.node_counts) if is_node_task(raw.task) else owner
    has_label = (
        ~np.isnan(raw.y.reshape(len(raw.y), -1)).any(axis=1)
        if is_node_task(raw.task) and raw.y.dtype.kind == "f"
        else True
    )
    return replace(raw, masks={part: ((owner == code) & has_label)[:, None] for code, part in enumerate(lists)})


def node_counts(graphs: Sequence[Any]) -> NDArray[np.int64]:
    """Return the number of nodes of each graph."""
    return np.array([_size(graph, number) for number, graph in enumerate(graphs)], dtype=np.int64)


def _size(graph: Any, number: int) -> int:
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
    return [plain_array(value, name, number) for number, value in enumerate(values)]


def _feature_names(graphs: Sequence[Any], options: SourceOptions) -> list[str]:
    """Attributes that become features: those asked for, else x, else where the nodes are."""
    if options.node_attributes is not None:
        return list(options.node_attributes)
    return next(([name] for name in ("x", "pos") if any(graph.get(name) is not None for graph in graphs)), [])


def _features(graphs: Sequence[Any], names: Sequence[str], sizes: NDArray[np.int64]) -> NDArray[Any] | None:
    tables = [_rows(graphs, name, sizes) for name in names]
    for name, table in zip(names, tables, strict=True):
        for column in range(table.shape[1]) if table.dtype.kind in "iu" else ():
            check_codes(table[:, column], f"column {column} of {name!r}")
    return np.concatenate(tables, axis=1) if tables else None


def _edge_attributes(graphs: Sequence[Any], options: SourceOptions, counts: NDArray[np.int64]) -> NDArray[Any] | None:
    """Return `edge_attr` as it is, or the columns of the attributes that were asked for side by side."""
    if options.edge_attributes is None:
        return _kept_rows(graphs, "edge_attr", counts)
    tables = []
    for name in options.edge_attributes:
        _column(graphs, name, needed=True)
        rows = _kept_rows(graphs, name, counts)
        assert rows is not None
        tables.append(rows.reshape(len(rows), int(np.prod(rows.shape[1:]))))
    return np.concatenate(tables, axis=1) if tables else None


def _kept_rows(graphs: Sequence[Any], name: str, sizes: NDArray[np.int64]) -> NDArray[Any] | None:
    """Stack an attribute with a row per node or edge, as it is; None if no graph has it.

    Raises
    ------
    InvalidInputError
        Rows that do not fit, or rows of another shape or type in some graph.
    """
    columns = _column(graphs, name)
    if columns is None:
        return None
    for number, (column, size) in enumerate(zip(columns, sizes, strict=True)):
        if column.ndim == 0 or len(column) != size or column.dtype.kind not in "biuf":
            raise InvalidInputError(
                f"graph {number}: {name!r} must be numbers with {size} rows, one per "
                f"{'node' if name == 'pos' else 'entry of edge_index'}. Got {column.dtype} of shape {column.shape}."
            )
        if (column.shape[1:], column.dtype) != (columns[0].shape[1:], columns[0].dtype):
            raise InvalidInputError(
                f"{name!r} of graph 0 is {columns[0].dtype} of shape {columns[0].shape}, of graph {number} "
                f"{column.dtype} of shape {column.shape}. Give all graphs the same."
            )
    return np.concatenate(columns)


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


def _masks(
    graphs: Sequence[Any], sizes: NDArray[np.int64]
) -> tuple[dict[str, NDArray[np.bool_]] | None, dict[str, list[int]], list[str]]:
    """Return the masks, the shapes of those that to_pyg would give another, and remarks."""
    present = [name for name in MASKS if any(graph.get(name) is not None for graph in graphs)]
    if not present:
        return None, {}, []
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
    if any(mask.shape[1] not in (1, splits) for mask in masks.values()):
        counts = ", ".join(f"{mask.shape[1]} of {name}" for name, mask in masks.items())
        raise InvalidInputError(f"masks have different numbers of splits: {counts}. Give each one column, or as many.")
    shapes = {}
    for name in MASKS:
        shape = list(np.shape(graphs[0][name])[1:])
        if shape != ([splits] if splits > 1 else []):
            shapes[name] = shape
    # Some datasets have many training parts and one test part, the same for all.
    shared = {name: np.repeat(mask, splits, axis=1) if mask.shape[1] == 1 else mask for name, mask in masks.items()}
    parts = {name.removesuffix("_mask"): mask.astype(np.bool_) for name, mask in shared.items()}
    return parts, shapes, _overlaps(parts)


def _overlaps(masks: dict[str, NDArray[np.bool_]]) -> list[str]:
    """Refuse training nodes that are judged too; tell of validation nodes that are test nodes."""
    remarks = []
    for one, other in (("train", "val"), ("train", "test"), ("val", "test")):
        both = masks[one] & masks[other]
        if not both.any():
            continue
        node, split = np.argwhere(both)[0]
        share = f"{one}_mask and {other}_mask share {int(both.sum(axis=0).max()):,} nodes, such as node {node}"
        share += f" in split {split}" if both.shape[1] > 1 else ""
        if one == "train":
            raise InvalidInputError(f"{share}: a node that is trained on cannot be judged. Make the masks disjoint.")
        remarks.append(f"{share}: the result is chosen on nodes that it is judged by.")
    return remarks


def _check_level(task: str, options: SourceOptions) -> None:
    """Refuse labels of nodes that were asked for as those of graphs, and the other way round."""
    if options.graph_label and is_node_task(task):
        raise InvalidInputError(f"{options.graph_label!r} has an entry per node, not per graph: --node-label takes it.")
    if options.node_label and not options.graph_label and not is_node_task(task):
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


def load(path: Path) -> list[Any]:
    """Return the graphs of a file that PyG saved, read as tensors and plain graphs only."""
    # Leaving `safe_globals` forgets what it was given, also what PyG itself had registered: add only what is new.
    # The last three are there for heterogeneous graphs, to be refused by name.
    plain = [DataEdgeAttr, DataTensorAttr, GlobalStorage, BaseStorage, EdgeStorage, NodeStorage]
    known = torch.serialization.get_safe_globals()
    try:
        with torch.serialization.safe_globals([kind for kind in plain if kind not in known]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged files make the restricted unpickler raise almost anything
        # Torch's own words would advise to run the code.
        code = re.search(r"GLOBAL (\S+)", str(error))
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        said = "it holds more than those" if said.startswith("Weights only load failed") else said
        reason = f"it needs the code of {code[1]}" if code else said
        raise InvalidInputError(
            f"{path} cannot be read as tensors and plain graphs ({reason}). Files that need code to run are never "
            "opened; save the dataset again with a current PyG, or pass it to leap.pipeline.from_pyg."
        ) from error
    if not isinstance(content, tuple):
        return as_list(content)
    data, slices = content[0], content[1] if len(content) > 1 else None
    kind: Any = next((item for item in content[2:] if isinstance(item, type) and issubclass(item, BaseData)), Data)
    if isinstance(data, dict) and issubclass(kind, Data):
        data = kind.from_dict(data)
    if not isinstance(data, Data) or not (slices is None or isinstance(slices, dict)):
        met = kind.__name__ if isinstance(data, dict) else type(data).__name__
        raise InvalidInputError(f"{path} holds {met}, not the homogeneous graphs (Data) of an InMemoryDataset.")
    if not slices:
        return [data]
    count = min(len(bounds) for bounds in slices.values()) - 1
    return [separate(data.__class__, data, i, slices, decrement=False) for i in range(count)]


def as_list(graphs: Any) -> list[Any]:
    """Return the graphs of a dataset, list, loader, `Batch` or `Data`."""
    # A Batch and a HeteroData can be iterated too, but not over graphs.
    several = [graphs] if isinstance(graphs, BaseData | Batch) else graphs
    if not isinstance(several, Iterable) or isinstance(several, dict | str):
        raise InvalidInputError(f"a PyG dataset, a list of Data or a Data is needed. Got {type(graphs).__name__}.")
    return [graph for item in several for graph in (item.to_data_list() if isinstance(item, Batch) else [item])]
