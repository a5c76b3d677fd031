"""Hand a stored dataset with its encodings and neighbourhoods over to PyG, without Python work per graph."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data, InMemoryDataset

from leap.store import Artifact
from leap.store.attachment import attribute_name, entry_fingerprints
from leap.store.errors import InvalidInputError

Slices = dict[str, Any]


class StoredDataset(InMemoryDataset):  # type: ignore[misc]
    """A dataset of the store as PyG knows it.

    Attributes
    ----------
    folds : list of (train, val, test) tensors of graph numbers, the published cross-validation; empty for node tasks.
    """

    def __init__(self, name: str, data: Data, slices: Slices, folds: list[tuple[torch.Tensor, ...]]) -> None:
        super().__init__(root=None)
        self.name = name
        self.data, self.slices = data, slices
        self.folds = folds

    def __repr__(self) -> str:
        return f"StoredDataset({self.name!r}, graphs={len(self)})"


def to_pyg(
    dataset: Artifact, encodings: Sequence[Artifact] = (), neighborhoods: Sequence[Artifact] = ()
) -> StoredDataset:
    """Return a stored dataset as a PyG `InMemoryDataset`.

    Parameters
    ----------
    dataset : a dataset artifact.
    encodings : artifacts of encodings; each becomes an attribute named after its kind, such as `data.rwpe`.
    neighborhoods : artifacts of neighbourhoods, attached as `AddNeighborhoods` does.

    Raises
    ------
    InvalidInputError
        If an artifact belongs to another dataset, or two would have the same name.

    Examples
    --------
    >>> import tempfile
    >>> from leap.pipeline import Context, encode, extract, to_pyg
    >>> from leap.store import Neighborhoods, Store
    >>> context = Context(store=Store.open(tempfile.mkdtemp()))
    >>> _ = extract("letters-low", hops=1, context=context), encode("letters-low", "rwpe", context=context)
    >>> find = context.store.find
    >>> hoods = find("neighborhoods", "letters-low", hops=1)
    >>> graphs = to_pyg(find("dataset", "letters-low"), [find("rwpe", "letters-low")], [hoods])
    >>> graphs[0].rwpe.shape[1]
    10
    >>> Neighborhoods.from_data(graphs[0], hops=1).num_nodes == graphs[0].num_nodes
    True
    """
    _check(dataset, [*encodings, *neighborhoods])
    graphs = dataset.table("graphs")
    node_ptr = np.append(graphs["node_offset"].to_numpy(), graphs["nodes"].to_numpy().sum()).astype(np.int64)
    data, slices = _graphs(dataset, node_ptr)
    per_node = torch.from_numpy(node_ptr)
    for artifact in encodings:
        data[artifact.kind] = torch.from_numpy(artifact.load("encoding"))
        slices[artifact.kind] = per_node
    edge_index = data.edge_index.numpy()
    for artifact in neighborhoods:
        name = attribute_name(artifact.params["hops"])
        data[name], slices[name] = _attachment(artifact, node_ptr, edge_index, slices["edge_index"].numpy())
    return StoredDataset(dataset.manifest.dataset, data, slices, _folds(dataset))


def _check(dataset: Artifact, others: Sequence[Artifact]) -> None:
    for artifact in (dataset, *others):
        if not isinstance(artifact, Artifact):
            raise InvalidInputError(f"to_pyg takes artifacts, such as store.find(kind, name). Got {artifact!r}.")
    if dataset.kind != "dataset":
        raise InvalidInputError(f"to_pyg starts from a dataset, not from {dataset!r}.")
    names = set()
    for artifact in others:
        if artifact.manifest.source != dataset.manifest.content:
            raise InvalidInputError(f"{artifact!r} was not made from {dataset!r}, so its rows are of other nodes.")
        name = attribute_name(artifact.params["hops"]) if artifact.kind == "neighborhoods" else artifact.kind
        if name in names:
            raise InvalidInputError(f"two artifacts would become the attribute {name!r}. Export one at a time.")
        names.add(name)


def _graphs(dataset: Artifact, node_ptr: NDArray[np.int64]) -> tuple[Data, Slices]:
    """Return graphs, features, labels and masks, with node ids counted from the start of each graph."""
    indptr = _pointers(np.concatenate([np.diff(p["indptr"]) for p in _each(dataset, ["indptr"])]))
    start = np.repeat(node_ptr[:-1], np.diff(node_ptr))
    rows = np.repeat(np.arange(node_ptr[-1]), np.diff(indptr))
    edge_index = np.stack([rows, dataset.load("indices")]) - start[rows]
    data = Data(x=torch.from_numpy(dataset.load("x")), edge_index=torch.from_numpy(edge_index))
    per_node = torch.from_numpy(node_ptr)
    slices: Slices = {"x": per_node, "edge_index": torch.from_numpy(indptr[node_ptr])}
    names = dataset.array_names()
    for name in ("y", "train_mask", "val_mask", "test_mask"):
        if name in names:
            data[name], slices[name] = torch.from_numpy(dataset.load(name)), per_node
    table = dataset.table("graphs")
    targets = [name for name in table.column_names if name.startswith("target_")]
    labels = [table["label"].to_numpy()] if "label" in table.column_names else [table[n].to_numpy() for n in targets]
    if labels:
        y = labels[0] if not targets else np.stack(labels, axis=1)
        data.y, slices["y"] = torch.from_numpy(y.copy()), torch.arange(len(node_ptr))
    return data, slices


def _attachment(
    artifact: Artifact, node_ptr: NDArray[np.int64], edge_index: NDArray[np.int64], entry_ptr: NDArray[np.int64]
) -> tuple[dict[str, torch.Tensor], Slices]:
    """Return what `AddNeighborhoods` would attach to each graph, and where each graph's part begins."""
    hoods = artifact.neighborhoods()
    start = np.repeat(node_ptr[:-1], np.diff(node_ptr)).astype(hoods.nodes.dtype)
    graphs = len(node_ptr) - 1
    fingerprints = _pointers(entry_fingerprints(*edge_index))[entry_ptr]
    parts = {
        "nodes_index": hoods.nodes - start[hoods.nodes],
        "edges_index": hoods.edges - start[hoods.edges],
        "node_counts": np.diff(hoods.node_ptr),
        "edge_counts": np.diff(hoods.edge_ptr),
        "cap": np.full(graphs, artifact.params["cap"] or 0),
        "fingerprint": np.diff(fingerprints),
    }
    begins = {
        "nodes_index": hoods.node_ptr[node_ptr],
        "edges_index": hoods.edge_ptr[node_ptr],
        "node_counts": node_ptr,
        "edge_counts": node_ptr,
        "cap": np.arange(graphs + 1),
        "fingerprint": np.arange(graphs + 1),
    }
    tensors = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in parts.items()}
    return tensors, {name: torch.from_numpy(value) for name, value in begins.items()}


def _each(artifact: Artifact, names: list[str]) -> list[dict[str, NDArray[Any]]]:
    return [artifact.read(part.index, names) for part in artifact.partitions]


def _pointers(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def _folds(dataset: Artifact) -> list[tuple[torch.Tensor, ...]]:
    if "folds.parquet" not in dataset.manifest.files:
        return []
    table = dataset.table("folds")
    graph, fold = table["graph"].to_numpy(), table["fold"].to_numpy()
    part = np.array(table["part"].to_pylist())
    return [
        tuple(torch.from_numpy(graph[(fold == number) & (part == name)]) for name in ("train", "val", "test"))
        for number in np.unique(fold)
    ]
