"""Neighbourhoods of a graph in memory, from numpy or torch edges."""

from typing import Any

import numpy as np

from leap.models import kernels
from leap.store.errors import InvalidInputError
from leap.store.graphs.neighborhoods import Neighborhoods


def khop(
    edge_index: Any, num_nodes: int | None = None, hops: int = 1, *, cap: int | None = None, seed: int = 0
) -> Neighborhoods:
    """Extract the m-hop neighbourhood of every node: all nodes within `hops` hops and the edges among them.

    Parameters
    ----------
    edge_index : (2, E) integer ids, anything numpy understands or a torch tensor. The graph is made undirected
        and simple first: either or both directions, repeated entries and self-loops give the same result.
    num_nodes : default: the largest id + 1, so that isolated nodes at the end need it.
    hops : at least 1.
    cap : at most this many members a neighbourhood. The node itself is always kept, nearer hops come first, and of
        the hop that overflows a uniform sample without replacement is kept, drawn with (`seed`, id of the node).

    Returns
    -------
    Neighborhoods of numpy arrays; of tensors on the device of `edge_index` if that is a tensor.

    Raises
    ------
    InvalidInputError
        Wrong shape or type, ids that are negative or not below `num_nodes`, `hops` or `cap` below 1.

    Examples
    --------
    >>> hoods = khop([[0, 1, 2], [1, 2, 3]], num_nodes=5, hops=2)
    >>> [hoods.members(v).tolist() for v in range(5)]
    [[0, 1, 2], [1, 0, 2, 3], [2, 1, 3, 0], [3, 2, 1], [4]]

    With tensors, as in PyG:

    >>> import torch
    >>> khop(torch.tensor([[0, 1], [1, 0]])).edges
    tensor([[0, 0],
            [1, 1]], dtype=torch.int32)
    """
    if cap is not None and cap < 1:
        raise InvalidInputError(f"A neighbourhood holds at least its own node, but cap = {cap}.")
    # A tensor is recognized without importing torch: whoever passes one has imported it.
    device = getattr(edge_index, "device", None) if hasattr(edge_index, "detach") else None
    entries = edge_index.detach().cpu().numpy() if device is not None else np.asarray(edge_index)
    if num_nodes is None:
        countable = entries.size and np.issubdtype(entries.dtype, np.integer)
        num_nodes = int(entries.max()) + 1 if countable else 0
    csr = kernels.build_csr(entries, num_nodes)
    arrays = kernels.khop_arrays(csr.indptr, csr.indices, hops, cap=cap or 0, seed=seed)
    hoods = Neighborhoods(*arrays, hops=hops, cap=cap)
    return hoods if device is None else hoods.to(device)
