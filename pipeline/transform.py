"""The PyG transform that attaches neighbourhoods to graphs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import BaseTransform

from leap.pipeline.neighborhoods import khop
from leap.store.errors import InvalidInputError
from leap.store.graphs.attachment import attachment, attribute_name, fingerprint


class AddNeighborhoods(BaseTransform):  # type: ignore[misc]
    """Attach the m-hop neighbourhoods of all nodes to a graph, for one or several m.

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
        No hop count, one below 1, a `cap` below 1; at a call, data that is no single homogeneous graph.

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

    def __init__(self, hops: int | Sequence[int] = 1, cap: int | None = None, seed: int = 0) -> None:
        self.hops = tuple(hops) if isinstance(hops, Sequence) else (int(hops),)
        self.cap = cap
        self.seed = seed
        if not self.hops or min(self.hops) < 1:
            raise InvalidInputError(f"AddNeighborhoods needs hop counts of at least 1, but hops = {hops}.")
        if cap is not None and cap < 1:
            raise InvalidInputError(f"A neighbourhood holds at least its own node, but cap = {cap}.")

    def forward(self, data: Any) -> Any:
        """Return the graph with one more attribute for each hop count."""
        if not isinstance(data, Data) or isinstance(data, Batch):
            raise InvalidInputError(
                f"AddNeighborhoods takes one homogeneous graph (Data), not a {type(data).__name__}. "
                "Apply it to each graph before batching."
            )
        if data.edge_index is None:
            raise InvalidInputError(
                "AddNeighborhoods needs edge_index, which this graph lacks. "
                "Give a graph without edges an empty one, of shape (2, 0)."
            )
        for hops in self.hops:
            hoods = khop(data.edge_index, data.num_nodes, hops, cap=self.cap, seed=self.seed)
            prints = np.array([fingerprint(data.edge_index)])
            parts = attachment(hoods, np.array([0, hoods.num_nodes]), prints).parts
            data[attribute_name(hops)] = {name: part.to(data.edge_index.device) for name, part in parts.items()}
        return data

    def __repr__(self) -> str:
        hops = self.hops[0] if len(self.hops) == 1 else self.hops
        return f"{type(self).__name__}(hops={hops}, cap={self.cap}, seed={self.seed})"
