"""Own graphs from PyG: a dataset or list in memory, or processed/*.pt read as tensors only, never as code."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from leap.pipeline.datasets.pyg_graphs import assemble_pyg
from leap.pipeline.datasets.source import Executor, MemorySource, Progress, Source, SourceOptions, fingerprint_files
from leap.pipeline.graphs import RawGraphs
from leap.store.errors import InvalidInputError


def from_pyg(
    graphs: Any,
    name: str,
    *,
    node_attributes: str | Sequence[str] | None = None,
    graph_label: str | None = None,
    node_label: str | None = None,
) -> Source:
    """Make a source of PyG graphs in memory: a dataset, a list of `Data` or one `Data`.

    Edges are `edge_index` or the sparse matrix `adj_t`. Features are `x`, else `pos`; whole numbers are
    categories. `y` with one entry per graph is the graph's label (whole numbers, text, or reals that are all 0
    or 1) or its regression targets (reals); with one entry per node, node labels. `train_mask`, `val_mask` and
    `test_mask` are kept. A remark names whatever else graphs have, such as edge attributes: it is left out.

    Parameters
    ----------
    name : of the dataset in the store.
    node_attributes : attributes to use as features, side by side, such as ("x", "pos").
    graph_label, node_label : attribute that takes the place of `y`, with an entry per graph or per node.

    Raises
    ------
    InvalidInputError
        Heterogeneous or temporal graphs, graphs without edges in either form, several labels per graph or node,
        labels that are not finite or fit neither graphs nor nodes, some of the three masks without the others,
        attributes that only some graphs have or that have another width or kind there.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> graph = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([1]))
    >>> from_pyg([graph, graph], "twins").read().task
    'graph-classification'
    """
    names = (node_attributes,) if isinstance(node_attributes, str) else node_attributes
    options = SourceOptions(None if names is None else tuple(names), graph_label, node_label)
    return MemorySource(name, "pyg", assemble_pyg(_as_list(graphs), options))


class ProcessedFile(Source):
    """A file that PyG's `InMemoryDataset` saved."""

    def __init__(self, name: str, path: Path, options: SourceOptions) -> None:
        self.name = name
        self._path = path
        self._options = options

    def fingerprint(self) -> dict[str, Any]:
        """Reader, version, options and the file's content."""
        files = fingerprint_files(self._path.parent, [self._path])
        return {"reader": "pyg", "version": 2, "options": self._options.as_dict(), "files": files}

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
        return assemble_pyg(graphs, self._options)


def find_pyg(path: Path, name: str, options: SourceOptions) -> Source | None:
    """Source of a .pt file, or of a folder with processed/*.pt; None for anything else.

    Raises
    ------
    InvalidInputError
        Several such files in one folder.
    """
    if path.is_file():
        return ProcessedFile(name, path, options) if path.suffix == ".pt" else None
    for folder in (path / "processed", path):
        files = [file for file in sorted(folder.glob("*.pt")) if not file.name.startswith("pre_")]
        if len(files) > 1:
            listed = ", ".join(file.name for file in files)
            raise InvalidInputError(f"{folder} holds several files ({listed}): give the path of one of them.")
        if files:
            return ProcessedFile(name, files[0], options)
    return None


def _load(path: Path) -> list[Any]:
    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import BaseData, DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.separate import separate
    from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

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
        return _as_list(content)
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


def _as_list(graphs: Any) -> list[Any]:
    from torch_geometric.data import Batch
    from torch_geometric.data.data import BaseData

    # A Batch and a HeteroData can be iterated too, but not over graphs.
    several = [graphs] if isinstance(graphs, BaseData | Batch) else graphs
    if not isinstance(several, Iterable) or isinstance(several, dict | str):
        raise InvalidInputError(f"a PyG dataset, a list of Data or a Data is needed. Got {type(graphs).__name__}.")
    return [graph for item in several for graph in (item.to_data_list() if isinstance(item, Batch) else [item])]
