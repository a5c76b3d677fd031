"""Hand a stored dataset with its encodings and neighbourhoods over to PyG, without Python work per graph."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data, InMemoryDataset

from leap.store import Artifact
from leap.store.graphs import StoredGraphs
from leap.store.graphs.attachment import attachment, attribute_name, stored_fingerprints, tensor
from leap.store.graphs.blocks import Selection
from leap.store.graphs.ragged import Ids

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

    Graphs have `x`, `edge_index` (both directions of every edge), and `y`, masks, `edge_attr` and `pos` where the
    dataset has them, in the shapes in which they came from PyG. Labels are 0…C-1, and -1 for nodes without
    one.

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
    chosen = Selection.of(dataset, neighborhoods, encodings)
    stored, node_ptr = chosen.dataset, chosen.dataset.node_ptr()
    data, slices = _graphs(stored, node_ptr)
    for name, encoding in chosen.encodings.items():
        data[name], slices[name] = tensor(encoding.values()), tensor(node_ptr)
    start = node_ptr[:-1].repeat(np.diff(node_ptr))
    prints = stored_fingerprints(stored) if chosen.neighborhoods else node_ptr[1:]
    for hops, hoods in chosen.neighborhoods.items():
        name = attribute_name(hops)
        data[name], slices[name] = attachment(hoods.neighborhoods().shifted(-start), node_ptr, prints)
    folds = [tuple(map(tensor, fold.values())) for fold in stored.folds()]
    return StoredDataset(dataset.manifest.dataset, data, slices, folds)


def _graphs(stored: StoredGraphs, node_ptr: Ids) -> tuple[Data, Slices]:
    """Return graphs, features, labels and masks, with node ids counted from the start of each graph."""
    rows = stored.neighbours(np.arange(node_ptr[-1]))
    start = node_ptr[:-1].repeat(np.diff(node_ptr))
    source = (np.arange(node_ptr[-1]) - start).repeat(rows.lengths)
    data = Data(x=tensor(stored.features()), edge_index=tensor(np.stack([source, rows.shift(-start)["ids"]])))
    per_node, each = tensor(node_ptr), torch.arange(len(node_ptr))
    slices: Slices = {"x": per_node, "edge_index": tensor(rows.ptr[node_ptr])}
    if (edge_attr := stored.edge_attr()) is not None:
        data.edge_attr, slices["edge_attr"] = tensor(edge_attr), slices["edge_index"]
    if (pos := stored.pos()) is not None:
        data.pos, slices["pos"] = tensor(pos), per_node
    if (labels := stored.labels()) is not None:
        shape = stored.label_shape()
        if stored.is_node_task:
            data.y, slices["y"] = tensor(labels.reshape(len(labels), *shape)), per_node
        else:
            data.y, slices["y"] = tensor(labels.reshape(len(each[1:]) * shape[0], *shape[1:])), each * shape[0]
    for part, mask in (stored.masks() or {}).items():
        name, shape = f"{part}_mask", stored.mask_shape(part)
        # A mask that came once for all splits was repeated.
        columns = mask if int(np.prod(shape)) == mask.shape[1] else mask[:, :1]
        data[name], slices[name] = tensor(columns.reshape(len(mask), *shape)), per_node
    return data, slices
