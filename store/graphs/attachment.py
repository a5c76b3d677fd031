"""The form in which neighbourhoods travel on PyG objects: one dictionary of tensors per hop count.

PyG concatenates each tensor of the dictionary when it batches graphs; it adds the number of preceding nodes to those
whose name contains "index", and cannot do that to pointers, hence counts. A dictionary, unlike a tensor of the right
length, is never taken for a node or edge attribute, so that no operation cuts it up: a subgraph keeps it whole, and the
fingerprint of the graph tells.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leap.store.errors import InvalidInputError
from leap.store.graphs.dataset import StoredGraphs
from leap.store.graphs.neighborhoods import Neighborhoods
from leap.store.graphs.ragged import Ids

SHIFTED = ("nodes_index", "edges_index")
"""Tensors to which PyG adds the nodes that precede a graph in a batch."""


def attribute_name(hops: int) -> str:
    """Return the name of the attribute that holds the neighbourhoods of this many hops."""
    return f"khop{hops}"


def tensor(array: NDArray[Any]) -> Tensor:
    """Return an array as a tensor that shares its memory, unless it is read-only."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())


class Attachment(NamedTuple):
    """What is attached to graphs side by side.

    Attributes
    ----------
    parts : the dictionary that becomes the attribute `attribute_name(hops)`.
    begins : where the part of each graph begins in each tensor, and the last one's end.
    """

    parts: dict[str, Tensor]
    begins: dict[str, Tensor]

    def of(self, graph: int) -> dict[str, Tensor]:
        """Return the dictionary of one graph, whose tensors share memory with the whole."""
        return {n: part[..., self.begins[n][graph] : self.begins[n][graph + 1]] for n, part in self.parts.items()}


def attachment(neighborhoods: Neighborhoods, ptr: Ids, fingerprints: Ids) -> Attachment:
    """Return neighbourhoods of graphs side by side in the form that PyG carries along.

    Parameters
    ----------
    neighborhoods : of all nodes; ids as the dictionary shall have them.
    ptr : (g + 1,) first node of each graph, and the end of the last.
    fingerprints : (g,) of the graphs, see `graph_fingerprints`.
    """
    hoods, each = neighborhoods.numpy(), np.arange(len(ptr))
    arrays: dict[str, tuple[NDArray[Any], Ids]] = {
        "nodes_index": (hoods.nodes, hoods.node_ptr[ptr]),
        "edges_index": (hoods.edges, hoods.edge_ptr[ptr]),
        "node_counts": (np.diff(hoods.node_ptr), ptr),
        "edge_counts": (np.diff(hoods.edge_ptr), ptr),
        "cap": (np.full(len(ptr) - 1, hoods.cap or 0), each),
        "fingerprint": (fingerprints, each),
    }
    parts = {name: tensor(np.ascontiguousarray(array)) for name, (array, _) in arrays.items()}
    return Attachment(parts, {name: tensor(begins) for name, (_, begins) in arrays.items()})


def read_attachment(data: Any, hops: int, check: bool = True) -> Neighborhoods:
    """Return what is attached to a `Data` or `Batch`; see `Neighborhoods.from_data`."""
    parts = data.to_dict().get(attribute_name(hops))
    if not isinstance(parts, dict):
        raise InvalidInputError(
            f"This {type(data).__name__} carries no {hops}-hop neighbourhoods. "
            f"Apply leap.pipeline.AddNeighborhoods(hops={hops}) to it, or to each graph before batching."
        )
    nodes, edges = parts["nodes_index"], parts["edges_index"]
    node_ptr, edge_ptr = _pointers(parts["node_counts"]), _pointers(parts["edge_counts"])
    if check:
        _check_counts(data, hops, node=(node_ptr, nodes), edge=(edge_ptr, edges))
        own, expected = nodes[node_ptr[:-1]], torch.arange(len(node_ptr) - 1, dtype=nodes.dtype, device=nodes.device)
        if not torch.equal(own, expected):
            raise _changed(hops, "its nodes are not numbered as they were")
        batch, ptr = (data["batch"], data["ptr"]) if "ptr" in data and "batch" in data else (None, None)
        if fingerprint(data.edge_index, batch, ptr) != int(parts["fingerprint"].sum()):
            raise _changed(hops, "its edges are not what they were")
    caps = parts["cap"].tolist()
    return Neighborhoods(node_ptr, nodes, edge_ptr, edges, hops, None if 0 in caps else max(caps))


def fingerprint(edge_index: Tensor, batch: Tensor | None = None, ptr: Tensor | None = None) -> int:
    """Return one 64-bit number for the entries of an edge list, whatever their order and without self-loops.

    It is a sum over the entries, of ids counted from the start of their graph: a batch has the sum of its graphs'.
    """
    source, target = _array(edge_index)
    if batch is not None and ptr is not None:
        start = _array(ptr)[_array(batch)[source]]
        source, target = source - start, target - start
    return int(entry_fingerprints(source, target).sum())


def graph_fingerprints(edge_index: NDArray[Any], ptr: Ids) -> Ids:
    """Return the fingerprint of each graph of a batch, given its (2, E) edges and the first node of each graph."""
    source, target = np.asarray(edge_index, dtype=np.int64)
    graph = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))[source]
    found = np.zeros(len(ptr) - 1, np.int64)
    np.add.at(found, graph, entry_fingerprints(source - ptr[graph], target - ptr[graph]))
    return found


def stored_fingerprints(dataset: StoredGraphs) -> Ids:
    """Return the fingerprint of each graph of a stored dataset."""
    ptr = dataset.node_ptr()
    rows = dataset.neighbours(np.arange(ptr[-1]))
    source = np.arange(ptr[-1]).repeat(rows.lengths)
    return graph_fingerprints(np.stack([source, rows["ids"]]), ptr)


def entry_fingerprints(source: Any, target: Any) -> Any:
    """Return the number that each entry, an array or tensor of int64 ids at a time, adds to the fingerprint."""
    # Multiply, fold and multiply again (64 bits, wrapping around), which leaves no linear relation between the
    # terms: swapping the ends of two edges changes the sum.
    mixed = (source * 0x1E3779B97F4A7C15) ^ (target * 0x3F58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> 31)) * 0x14D049BB133111EB
    return (mixed ^ (mixed >> 29)) * (source != target)


def _array(tensor: Tensor) -> Any:
    """Return the tensor as int64 and, on the CPU, as a numpy array, whose operations start ten times quicker."""
    tensor = tensor.detach().long()
    return tensor.numpy() if tensor.device.type == "cpu" else tensor


def _pointers(counts: Tensor) -> Tensor:
    pointers = counts.new_zeros(len(counts) + 1)
    pointers[1:] = counts.cumsum(0)
    return pointers


def _check_counts(data: Any, hops: int, **kinds: tuple[Tensor, Tensor]) -> None:
    """Compare the numbers of nodes, members and edges; `kinds` has the pointers and ids of each kind."""
    if data.edge_index is None:
        raise InvalidInputError(
            f"This {type(data).__name__} has no edge_index to compare its {hops}-hop neighbourhoods with. Keep it "
            "(ToSparseTensor(remove_edge_index=False)), or pass check=False."
        )
    num_nodes = data.num_nodes
    for kind, (pointers, ids) in kinds.items():
        if len(pointers) - 1 != num_nodes:
            raise _changed(hops, f"it has {num_nodes} nodes and had {len(pointers) - 1}")
        if int(pointers[-1]) != ids.shape[-1]:
            raise _changed(hops, f"its neighbourhoods hold {ids.shape[-1]} {kind}s and should hold {int(pointers[-1])}")


def _changed(hops: int, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"The graph changed after its {hops}-hop neighbourhoods were extracted: {what}. Apply AddNeighborhoods after "
        "every transform that drops, adds or renumbers nodes or edges."
    )
