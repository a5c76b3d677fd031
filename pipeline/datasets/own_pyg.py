"""Own graphs from PyG: a dataset or list in memory, or processed/*.pt read as tensors only, never as code."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.datasets.fingerprint import fingerprint_files
from leap.pipeline.datasets.labels import node_classes
from leap.pipeline.datasets.memory import MemorySource
from leap.pipeline.datasets.source import Executor, Progress, Source, SourceOptions
from leap.pipeline.graphs import RawGraphs, Task
from leap.store.errors import InvalidInputError


def from_pyg(graphs: Any, name: str) -> Source:
    """Make a source of PyG graphs in memory: a dataset, a list of `Data` or one `Data`.

    Integer `x` are categories. `y` with one entry a graph is the graph's label (whole numbers, or reals that
    are all 0 or 1) or its regression targets (reals); with one entry a node, node labels. `train_mask`,
    `val_mask` and `test_mask` are kept. Edge attributes are not used.

    Raises
    ------
    InvalidInputError
        Heterogeneous graphs, labels that fit neither graphs nor nodes, attributes that only some graphs have.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> graph = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([1]))
    >>> from_pyg([graph, graph], "twins").read().task
    'graph-classification'
    """
    return MemorySource(name, "pyg", assemble_pyg(_as_list(graphs)))


class ProcessedFile(Source):
    """A file that PyG's `InMemoryDataset` saved."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path

    def fingerprint(self) -> dict[str, Any]:
        """Reader, version and the file's content."""
        files = fingerprint_files(self._path.parent, [self._path])
        return {"reader": "pyg", "version": 1, "options": {}, "files": files}

    def read(self, progress: Progress | None = None, executor: Executor | None = None) -> RawGraphs:
        """Load the file with `weights_only=True`.

        Raises
        ------
        InvalidInputError
            Anything but tensors and plain graphs inside, or as `from_pyg`.
        """
        graphs = _load(self._path)
        if not graphs:
            raise InvalidInputError(
                f"{self._path} holds no graph: what an InMemoryDataset of graphs saved is expected."
            )
        return assemble_pyg(graphs)


def find_pyg(path: Path, name: str, options: SourceOptions) -> Source | None:
    """Source of a .pt file, or of a folder with processed/*.pt; None for anything else.

    Raises
    ------
    InvalidInputError
        Several such files in one folder.
    """
    if path.is_file():
        return ProcessedFile(name, path) if path.suffix == ".pt" else None
    for folder in (path / "processed", path):
        files = [file for file in sorted(folder.glob("*.pt")) if not file.name.startswith("pre_")]
        if len(files) > 1:
            listed = ", ".join(file.name for file in files)
            raise InvalidInputError(f"{folder} holds several files ({listed}): give the path of one of them.")
        if files:
            return ProcessedFile(name, files[0])
    return None


def _load(path: Path) -> list[Any]:
    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.separate import separate
    from torch_geometric.data.storage import GlobalStorage

    # Leaving `safe_globals` forgets what it was given, also what PyG itself had registered: add only what is new.
    plain = [DataEdgeAttr, DataTensorAttr, GlobalStorage]
    known = torch.serialization.get_safe_globals()
    try:
        with torch.serialization.safe_globals([kind for kind in plain if kind not in known]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged files make the restricted unpickler raise almost anything
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InvalidInputError(
            f"{path} cannot be read as tensors and plain graphs ({reason}). Files that need code to run are never "
            "opened; save the dataset again with a current PyG, or pass it to leap.pipeline.from_pyg."
        ) from error
    if not isinstance(content, tuple):
        return _as_list(content)
    data, slices = content[0], content[1] if len(content) > 1 else None
    kind: Any = next((item for item in content[2:] if isinstance(item, type) and issubclass(item, Data)), Data)
    if isinstance(data, dict):
        data = kind.from_dict(data)
    if not isinstance(data, Data) or not (slices is None or isinstance(slices, dict)):
        raise InvalidInputError(f"{path} holds {type(data).__name__}, not the graphs of an InMemoryDataset.")
    if not slices:
        return [data]
    count = min(len(bounds) for bounds in slices.values()) - 1
    return [separate(data.__class__, data, i, slices, decrement=False) for i in range(count)]


def _as_list(graphs: Any) -> list[Any]:
    from torch_geometric.data import Batch, Data

    if isinstance(graphs, Batch):
        return list(graphs.to_data_list())
    if isinstance(graphs, Data):
        return [graphs]
    if not isinstance(graphs, Iterable):
        raise InvalidInputError(f"a PyG dataset, a list of Data or a Data is needed. Got {type(graphs).__name__}.")
    return list(graphs)


def assemble_pyg(graphs: list[Any]) -> RawGraphs:
    """Lay PyG graphs side by side; see `from_pyg`."""
    if not graphs:
        raise InvalidInputError("there are no graphs: at least one is needed.")
    sizes = np.array([_size(graph, number) for number, graph in enumerate(graphs)], dtype=np.int64)
    edges = []
    for number, (graph, first) in enumerate(zip(graphs, np.cumsum(sizes) - sizes, strict=True)):
        index = graph.edge_index
        pairs = np.zeros((2, 0), np.int64) if index is None else index.detach().cpu().numpy()
        if pairs.size and (pairs.min() < 0 or pairs.max() >= sizes[number]):
            met = pairs.min() if pairs.min() < 0 else pairs.max()
            raise InvalidInputError(f"graph {number} has {sizes[number]} nodes, but edge_index names node {met}.")
        edges.append(pairs + first)
    y, task = _targets(_column(graphs, "y"), sizes)
    return RawGraphs(
        node_counts=sizes,
        edges=np.concatenate(edges, axis=1),
        x=_rows(_column(graphs, "x"), "x", sizes),
        y=y,
        task=task,
        masks=_masks(graphs, sizes) if task == "node-classification" else None,
        feature_source="x",
        notes={"edge_attr": "not used"} if any("edge_attr" in graph for graph in graphs) else {},
    )


def _size(graph: Any, number: int) -> int:
    from torch_geometric.data import Data

    if not isinstance(graph, Data):
        raise InvalidInputError(f"graph {number} is a {type(graph).__name__}, not a homogeneous PyG Data.")
    return int(graph.num_nodes or 0)


def _column(graphs: list[Any], name: str) -> list[NDArray[Any]] | None:
    """One attribute of every graph as arrays, None if no graph has it."""
    values: list[Any] = [graph.get(name, None) for graph in graphs]
    lacking = [number for number, value in enumerate(values) if value is None]
    if len(lacking) == len(graphs):
        return None
    if lacking:
        raise InvalidInputError(f"graph {lacking[0]} has no {name!r}, though others have.")
    return [np.asarray(value.detach().cpu() if hasattr(value, "detach") else value) for value in values]


def _rows(columns: list[NDArray[Any]] | None, name: str, sizes: NDArray[np.int64]) -> NDArray[Any] | None:
    """Stack (n, d) or (n,) arrays of all graphs."""
    if columns is None:
        return None
    tables = [column[:, None] if column.ndim == 1 else column for column in columns]
    for number, (table, size) in enumerate(zip(tables, sizes, strict=True)):
        if table.ndim != 2 or len(table) != size or table.shape[1] != tables[0].shape[1]:
            expected = f"({size}, {tables[0].shape[-1]})"
            raise InvalidInputError(
                f"graph {number}: {name!r} must have shape {expected}. Got {columns[number].shape}."
            )
    return np.concatenate(tables)


def _targets(columns: list[NDArray[Any]] | None, sizes: NDArray[np.int64]) -> tuple[NDArray[Any] | None, Task]:
    if columns is None:
        return None, "none"
    flat = [np.atleast_1d(column) for column in columns]
    if any(len(column) != 1 for column in flat) and all(
        column.size == size for column, size in zip(flat, sizes, strict=True)
    ):
        return node_classes(np.concatenate([column.reshape(-1) for column in flat]), "'y'"), "node-classification"
    widths = {column.size for column in flat}
    if len(widths) > 1:
        raise InvalidInputError(f"'y' fits neither graphs nor nodes: it has {sorted(widths)} entries a graph.")
    values = np.stack([column.reshape(-1) for column in flat])
    if values.shape[1] == 1 and (values.dtype.kind in "iub" or np.isin(values, (0.0, 1.0)).all()):
        return values[:, 0].astype(np.int64), "graph-classification"
    return values.astype(np.float64), "graph-regression"


def _masks(graphs: list[Any], sizes: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]] | None:
    masks = {part: _rows(_column(graphs, f"{part}_mask"), f"{part}_mask", sizes) for part in ("train", "val", "test")}
    found = {part: mask.astype(np.bool_) for part, mask in masks.items() if mask is not None}
    return found if len(found) == 3 else None
