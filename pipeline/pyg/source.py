"""Graphs of PyG as a source: a dataset or list in memory, or processed/*.pt read as tensors only, never as code."""

import pickletools
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leap.pipeline import pyg
from leap.pipeline.datasets.source import Executor, MemorySource, Progress, Source, SourceOptions, fingerprint_files
from leap.pipeline.folds import with_splits
from leap.pipeline.graphs import RawGraphs, Task
from leap.store.errors import InvalidInputError


def from_pyg(
    graphs: Any,
    name: str,
    *,
    node_attributes: str | Sequence[str] | None = None,
    graph_label: str | None = None,
    node_label: str | None = None,
    task: Task | None = None,
    splits: Any = None,
    edge_attributes: str | Sequence[str] | None = None,
) -> Source:
    """Make a source of PyG graphs in memory: a dataset, a list of `Data` or one `Data`; or three of them as a split.

    ``from_pyg({"train": …, "val": …, "test": …}, name)`` has the graphs of all three, and their official split. For
    labels of nodes, its parts are the nodes of those graphs.

    Edges are `edge_index` or the sparse matrix `adj_t`. Features are `x`, else `pos`; whole numbers are
    categories. `y` with one entry per graph is the graph's label (whole numbers, text, or reals that are all 0
    or 1) or its regression targets (reals); several zeros and ones, NaN where one is missing, are several labels. With
    one entry per node, it is the node's label (whole numbers, text) or its targets (reals; NaN for nodes in no mask).
    `train_mask`, `val_mask`, `test_mask`, `edge_attr` and `pos` are kept, and come back with `to_pyg`. A remark names
    whatever else graphs have: it is left out.

    Parameters
    ----------
    name : of the dataset in the store.
    node_attributes : attributes to use as features, side by side, such as ("x", "pos").
    graph_label, node_label : attribute that takes the place of `y`, with an entry per graph or per node.
    task : what the labels are, such as "node-regression" for whole numbers; None: their kind says.
    splits : official splits of a graph task: for each the numbers of the graphs of its three parts, as (train, val,
        test) or by these names, of which "val" may be "valid". Several, or one, such as OGB's `get_idx_split()`.
    edge_attributes : attributes that take the place of `edge_attr`, side by side, such as ("edge_attr", "edge_weight").

    Raises
    ------
    InvalidInputError
        Heterogeneous or temporal graphs, graphs without edges in either form, several labels per graph or node,
        labels that are not finite or fit neither graphs nor nodes, some of the three masks without the others,
        training nodes that are validation or test nodes too, attributes that only some graphs have or that have
        another width or kind there, complex, quantized and meta tensors.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> graph = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([1]))
    >>> from_pyg([graph, graph], "twins").read().task
    'graph-classification'
    """
    at_nodes, at_edges = (
        None if names is None else (names,) if isinstance(names, str) else tuple(names)
        for names in (node_attributes, edge_attributes)
    )
    options = SourceOptions(at_nodes, graph_label, node_label, task, at_edges)
    if isinstance(graphs, Mapping):
        if splits is not None:
            raise InvalidInputError("graphs come in parts, and splits are given too. Give one of both.")
        return MemorySource(name, "pyg", pyg.reading.assemble_parts(graphs, options))
    raw = pyg.reading.assemble(pyg.reading.as_list(graphs), options)
    return MemorySource(name, "pyg", with_splits(raw, splits))


class ProcessedFile(Source):
    """A file that PyG's `InMemoryDataset` saved."""

    def __init__(self, name: str, path: Path, options: SourceOptions) -> None:
        self.name = name
        self._path = path
        self._options = options

    def fingerprint(self) -> dict[str, Any]:
        """Reader, version, options and the file's content."""
        files = fingerprint_files(self._path.parent, [self._path])
        return {"reader": "pyg", "version": _kept_since(self._path), "options": self._options.as_dict(), "files": files}

    def read(self, progress: Progress | None = None, executor: Executor | None = None) -> RawGraphs:
        """Load the file with `weights_only=True`.

        Raises
        ------
        InvalidInputError
            Anything but tensors and plain graphs inside, or as `from_pyg`.
        """
        graphs = pyg.reading.load(self._path)
        if not graphs:
            raise InvalidInputError(
                f"{self._path} holds no graph: what an InMemoryDataset of graphs saved is expected."
            )
        return pyg.reading.assemble(graphs, self._options)


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


def _kept_since(path: Path) -> int:
    """Version of the reader: 3 for files whose names include what older ones left out, so that only those change keys.

    The names of attributes are looked for without running what the file holds.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
            words = {word for _, word, _ in pickletools.genops(archive.read(name)) if isinstance(word, str)}
    except (OSError, ValueError, StopIteration, zipfile.BadZipFile):
        return 2
    return 3 if words & {"edge_attr", "pos"} else 2
