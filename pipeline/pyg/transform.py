"""The PyG transform that attaches neighbourhoods to graphs."""

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import BaseTransform

from leap.models import kernels
from leap.store import Neighborhoods
from leap.store.errors import InvalidInputError
from leap.store.graphs.attachment import SHIFTED, attachment, attribute_name, graph_fingerprints


class AddNeighborhoods(BaseTransform):  # type: ignore[misc]
    """Attach the m-hop neighbourhoods of all nodes to a graph or a batch, for one or several m.

    The result survives PyG's batching, `Batch.to_data_list`, the slicing of an `InMemoryDataset` and
    `follow_batch`; `Neighborhoods.from_data(data_or_batch, hops)` rebuilds it. It belongs to the graph as it is at
    this moment: let this be the last transform that touches nodes or edges. `from_data` refuses a graph that changed
    afterwards (a subgraph, permuted nodes, edges added, removed or given a second direction); the order of edges and
    self-loops are free to change, because neighbourhoods ignore them.

    Parameters
    ----------
    hops : one hop count or several, each at least 1.
    cap, seed : bound the size of neighbourhoods by seeded sampling, as in `khop`.

    Raises
    ------
    InvalidInputError
        No hop count, one below 1, a `cap` below 1; at a call, data that is not homogeneous.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from torch_geometric.loader import DataLoader
    >>> from leap.store import Neighborhoods
    >>> transform = AddNeighborhoods(hops=(1, 2))
    >>> transform
    AddNeighborhoods(hops=(1, 2), cap=None, seed=0)
    >>> triangle = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]))
    >>> batch = next(iter(DataLoader([transform(triangle)] * 4, batch_size=4)))
    >>> Neighborhoods.from_data(batch, hops=2)
    Neighborhoods(hops=2, nodes=12, members=36, edges=36, torch.int32 on cpu)
    """

    def __init__(self, hops: int | Iterable[int] = 1, cap: int | None = None, seed: int = 0) -> None:
        self.hops = tuple(map(operator.index, hops if isinstance(hops, Iterable) else (hops,)))
        self.cap = cap
        self.seed = seed
        if not self.hops or min(self.hops) < 1:
            raise InvalidInputError(f"AddNeighborhoods needs hop counts of at least 1, but hops = {hops}.")
        if cap is not None and cap < 1:
            raise InvalidInputError(f"A neighbourhood holds at least its own node, but cap = {cap}.")

    def forward(self, data: Any) -> Any:
        """Return the graph, or the batch, with one more attribute for each hop count."""
        if not isinstance(data, Data):
            raise InvalidInputError(
                f"AddNeighborhoods takes a homogeneous graph (Data) or a batch of such, not a {type(data).__name__}."
            )
        if data.edge_index is None:
            raise InvalidInputError(
                "AddNeighborhoods needs edge_index, which this graph lacks. "
                "Give a graph without edges an empty one, of shape (2, 0)."
            )
        edges, device = data.edge_index.detach().cpu().numpy(), data.edge_index.device
        is_batch = isinstance(data, Batch)
        if is_batch and data.get("ptr") is None:
            raise InvalidInputError(
                "AddNeighborhoods needs to know where the graphs of a Batch begin, and this one has no ptr. "
                "Make it with Batch.from_data_list."
            )
        ptr = data.ptr.cpu().numpy() if is_batch else np.array([0, data.num_nodes])
        csr = kernels.build_csr(edges, int(ptr[-1]))
        # Samples go by the ids of each graph, so that a batch gets what its graphs would get.
        own = np.arange(ptr[-1]) - ptr[:-1].repeat(np.diff(ptr))
        prints = graph_fingerprints(edges, ptr)
        for hops in self.hops:
            arrays = kernels.khop_arrays(
                csr.indptr, csr.indices, hops, cap=self.cap or 0, seed=self.seed, global_ids=own
            )
            parts, begins = attachment(Neighborhoods(*arrays, hops=hops, cap=self.cap), ptr, prints)
            name = attribute_name(hops)
            data[name] = {part: tensor.to(device) for part, tensor in parts.items()}
            if is_batch and hasattr(data, "_slice_dict"):
                shift = torch.from_numpy(ptr[:-1].copy())
                shifts = {part: shift if part in SHIFTED else torch.zeros_like(shift) for part in parts}
                data._slice_dict = {**data._slice_dict, name: begins}
                data._inc_dict = {**data._inc_dict, name: shifts}
        return data

    def __repr__(self) -> str:
        hops = self.hops[0] if len(self.hops) == 1 else self.hops
        return f"{type(self).__name__}(hops={hops}, cap={self.cap}, seed={self.seed})"
