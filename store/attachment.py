"""The form in which neighbourhoods travel on a PyG `Data`: one dictionary of tensors for each hop count.

PyG concatenates each tensor of the dictionary when it batches graphs; it adds the number of preceding nodes to those
whose name contains "index", and cannot do that to pointers, hence counts. A dictionary, unlike a tensor of the right
length, is never taken for a node or edge attribute, so that no operation cuts it up: a subgraph keeps it whole, and the
fingerprint of the graph tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leap.store.errors import InvalidInputError

if TYPE_CHECKING:
    from torch import Tensor

    from leap.store.neighborhoods import Neighborhoods


def attribute_name(hops: int) -> str:
    """Return the name of the attribute that holds the neighbourhoods of this many hops."""
    return f"khop{hops}"


def write_attachment(data: Any, neighborhoods: Neighborhoods) -> None:
    """Attach the neighbourhoods of a single graph to its `Data`."""
    import torch

    hoods = neighborhoods.torch()
    data[attribute_name(hoods.hops)] = {
        "nodes_index": hoods.nodes,
        "edges_index": hoods.edges,
        "node_counts": hoods.node_ptr[1:] - hoods.node_ptr[:-1],
        "edge_counts": hoods.edge_ptr[1:] - hoods.edge_ptr[:-1],
        "cap": torch.tensor([hoods.cap or 0]),
        "fingerprint": torch.tensor([fingerprint(data.edge_index)]),
    }


def read_attachment(data: Any, hops: int, check: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor, int | None]:
    """Return node_ptr, nodes, edge_ptr, edges and cap of a `Data` or `Batch`; see `Neighborhoods.from_data`."""
    import torch

    parts = data.to_dict().get(attribute_name(hops))
    if not isinstance(parts, dict):
        raise InvalidInputError(
            f"This {type(data).__name__} carries no {hops}-hop neighbourhoods. "
            f"Apply leap.pipeline.AddNeighborhoods(hops={hops}) to each graph before batching."
        )
    nodes, edges = parts["nodes_index"], parts["edges_index"]
    node_ptr, edge_ptr = _pointers(parts["node_counts"]), _pointers(parts["edge_counts"])
    if check:
        _check_counts(data, hops, node=(node_ptr, nodes), edge=(edge_ptr, edges))
        own, expected = nodes[node_ptr[:-1]], torch.arange(len(node_ptr) - 1, dtype=nodes.dtype, device=nodes.device)
        if not torch.equal(own, expected):
            raise _changed(hops, "its nodes are not numbered as they were")
        if fingerprint(data.edge_index, *_numbering(data)) != int(parts["fingerprint"].sum()):
            raise _changed(hops, "its edges are not what they were")
    caps = parts["cap"].tolist()
    return node_ptr, nodes, edge_ptr, edges, None if 0 in caps else max(caps)


def fingerprint(edge_index: Tensor, batch: Tensor | None = None, ptr: Tensor | None = None) -> int:
    """Return one 64-bit number for the entries of an edge list, whatever their order and without self-loops.

    It is a sum over the entries, of ids counted from the start of their graph: a batch has the sum of its graphs'.
    """
    source, target = _array(edge_index)
    if batch is not None and ptr is not None:
        start = _array(ptr)[_array(batch)[source]]
        source, target = source - start, target - start
    return int(entry_fingerprints(source, target).sum())


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


def _numbering(data: Any) -> tuple[Tensor | None, Tensor | None]:
    """The graph of each node and the first node of each graph, for a batch."""
    return (data["batch"], data["ptr"]) if "ptr" in data and "batch" in data else (None, None)


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
