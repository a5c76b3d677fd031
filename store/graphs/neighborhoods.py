"""The neighbourhoods of all nodes of a graph or batch, as flat arrays that every layer passes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leap.store import graphs
from leap.store.errors import InvalidInputError
from leap.store.graphs.ragged import Ragged, spread

if TYPE_CHECKING:
    from torch import device as Device


@dataclass(frozen=True, eq=False, repr=False)
class Neighborhoods:
    """The m-hop neighbourhood of every node v = 0…N-1: its members and the edges induced among them.

    Attributes
    ----------
    node_ptr : (N + 1,) int64, the members of v are nodes[node_ptr[v]:node_ptr[v + 1]].
    nodes : (M,) int32 or int64, ids of the graph or batch; v first, then by (hop, ascending id).
    edge_ptr : (N + 1,) int64, the edges of v are edges[:, edge_ptr[v]:edge_ptr[v + 1]].
    edges : (2, K), each undirected edge once, lower id in row 0; by (position of the lower end, upper id).
    hops : m.
    cap : the largest number of members allowed when they were extracted, None without a limit.

    All four are numpy arrays or, after `torch()`, tensors. They may share memory with where they came from:
    treat them as read-only.

    Examples
    --------
    >>> from leap.pipeline import khop
    >>> hoods = khop([[0, 1, 2], [1, 2, 3]], hops=1)
    >>> hoods
    Neighborhoods(hops=1, nodes=4, members=10, edges=6, numpy int32)
    >>> hoods.members(1).tolist(), hoods.edges_of(1).tolist()
    ([1, 0, 2], [[1, 0], [2, 1]])
    >>> hoods.torch().nodes[:4]
    tensor([0, 1, 1, 0], dtype=torch.int32)
    """

    node_ptr: Any
    nodes: Any
    edge_ptr: Any
    edges: Any
    hops: int
    cap: int | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes, which is the number of neighbourhoods."""
        return len(self.node_ptr) - 1

    def __len__(self) -> int:
        return self.num_nodes

    def __repr__(self) -> str:
        cap = "" if self.cap is None else f"cap={self.cap}, "
        kind = f"numpy {self.nodes.dtype}" if self.is_numpy else f"{self.nodes.dtype} on {self.nodes.device}"
        return (
            f"{type(self).__name__}(hops={self.hops}, {cap}nodes={self.num_nodes}, members={len(self.nodes)}, "
            f"edges={self.edges.shape[1]}, {kind})"
        )

    @property
    def is_numpy(self) -> bool:
        """Whether the arrays are numpy's rather than torch's."""
        return all(isinstance(array, np.ndarray) for array in (self.nodes, self.edges, self.node_ptr, self.edge_ptr))

    def members(self, v: int) -> Any:
        """Return the ids of the nodes in the neighbourhood of v, v first."""
        self._check_node(v)
        return self.nodes[self.node_ptr[v] : self.node_ptr[v + 1]]

    def edges_of(self, v: int) -> Any:
        """Return the (2, k) edges in the neighbourhood of v."""
        self._check_node(v)
        return self.edges[:, self.edge_ptr[v] : self.edge_ptr[v + 1]]

    def _check_node(self, v: int) -> None:
        if not 0 <= v < self.num_nodes:
            raise InvalidInputError(f"There is no node {v}: ids lie in 0…{self.num_nodes - 1}.")

    def torch(self) -> Neighborhoods:
        """Return the same neighbourhoods as tensors, arrays on the CPU; they are shared unless they are read-only."""
        if hasattr(self.nodes, "detach"):  # a tensor, known without importing torch
            return self
        return self.numpy().map(graphs.attachment.tensor)

    def numpy(self) -> Neighborhoods:
        """Return the same neighbourhoods as numpy arrays."""
        return self if self.is_numpy else self.map(_as_numpy)

    def to(self, device: Device | str) -> Neighborhoods:
        """Return the same neighbourhoods as tensors on a device."""
        return self.torch().map(lambda tensor: tensor.to(device))

    def map(self, function: Callable[[Any], Any]) -> Neighborhoods:
        """Return the same neighbourhoods with a function of an array applied to all four."""
        names = ("node_ptr", "nodes", "edge_ptr", "edges")
        return replace(self, **{name: function(getattr(self, name)) for name in names})

    def equals(self, other: Neighborhoods) -> bool:
        """Whether both hold the same neighbourhoods, whatever the library, device and width of the ids."""
        mine, theirs = self.numpy(), other.numpy()
        return all(np.array_equal(getattr(mine, f.name), getattr(theirs, f.name)) for f in fields(self))

    def select(self, low: int, high: int, shift: int | None = None) -> Neighborhoods:
        """Return the neighbourhoods of the nodes low…high-1, with `shift` added to their ids.

        By default ids are shifted by -low: a range of whole graphs becomes a batch of its own.

        >>> from leap.pipeline import khop
        >>> two_graphs = khop([[0, 2], [1, 3]], num_nodes=4)
        >>> two_graphs.select(2, 4).nodes.tolist()
        [0, 1, 1, 0]
        """
        if not 0 <= low <= high <= self.num_nodes:
            raise InvalidInputError(f"The range {low}…{high} does not lie in 0…{self.num_nodes}.")
        shift = -low if shift is None else shift
        members, edges = (part.cut(low, high) for part in self._ragged)
        return replace(
            self,
            node_ptr=members.ptr,
            nodes=members["ids"] + shift,
            edge_ptr=edges.ptr,
            edges=edges["ids"] + shift,
        )

    def shifted(self, amounts: NDArray[Any]) -> Neighborhoods:
        """Return the same with amounts[v] added to all ids in the neighbourhood of v, which keep their dtype.

        For numpy arrays. So ids of a dataset become ids of its graphs, and those of graphs ids of a batch.
        """
        by = amounts.astype(self.nodes.dtype, copy=False)
        return self._with(*(part.shift(by) for part in self._ragged))

    @property
    def _ragged(self) -> tuple[Ragged, Ragged]:
        return Ragged(self.node_ptr, {"ids": self.nodes}), Ragged(self.edge_ptr, {"ids": self.edges}, axis=-1)

    def _with(self, members: Ragged, edges: Ragged) -> Neighborhoods:
        return replace(self, node_ptr=members.ptr, nodes=members["ids"], edge_ptr=edges.ptr, edges=edges["ids"])

    def take(self, starts: ArrayLike, stops: ArrayLike) -> Neighborhoods:
        """Return the neighbourhoods of the node ranges starts[i]…stops[i]-1, side by side and numbered anew.

        The ranges are whole graphs, in any order: this collates a batch without a loop over its graphs. For numpy
        arrays.

        >>> from leap.pipeline import khop
        >>> three_graphs = khop([[0, 3], [1, 4]], num_nodes=5)  # nodes 0-1, 2, 3-4
        >>> three_graphs.take([3, 2], [5, 3]).nodes.tolist()
        [0, 1, 1, 0, 2]
        """
        starts, stops = np.asarray(starts, dtype=np.int64), np.asarray(stops, dtype=np.int64)
        if len(starts) and not ((starts >= 0) & (starts <= stops) & (stops <= self.num_nodes)).all():
            raise InvalidInputError(f"The ranges to take do not all lie in 0…{self.num_nodes}.")
        sizes = stops - starts
        rows = spread(starts, sizes)
        shifts = (np.cumsum(sizes) - sizes - starts).repeat(sizes)
        return self._with(*(part.take(rows) for part in self._ragged)).shifted(shifts)

    @classmethod
    def concat(cls, parts: Sequence[Neighborhoods], *, renumber: bool = True) -> Neighborhoods:
        """Return several graphs' or batches' neighbourhoods side by side.

        Needs at least one part; all must have the same hops and cap. Ids are moved up by the nodes before each part,
        unless `renumber` is false: pieces of one numbering keep their ids.
        """
        kinds = {(part.hops, part.cap) for part in parts}
        if len(kinds) != 1:
            raise InvalidInputError(
                f"Neighbourhoods of one (hops, cap) can be joined, but got {sorted(kinds, key=str)}."
            )
        parts = [part.numpy() for part in parts]
        if renumber:
            shifts = np.cumsum([0, *(part.num_nodes for part in parts)])
            parts = [part.select(0, part.num_nodes, int(shift)) for part, shift in zip(parts, shifts, strict=False)]
        members, edges = zip(*(part._ragged for part in parts), strict=True)
        return parts[0]._with(Ragged.concatenate(members), Ragged.concatenate(edges))

    def validate(self) -> None:
        """Check the structure: shapes, pointers, ids in range, v first, edges from lower to upper id.

        Raises
        ------
        InvalidInputError
            The first thing found wrong.
        """
        me = self.numpy()
        if me.hops < 1:
            raise InvalidInputError(f"Neighbourhoods need at least 1 hop, but hops = {me.hops}.")
        if me.nodes.ndim != 1 or me.edges.ndim != 2 or me.edges.shape[0] != 2:
            raise InvalidInputError(
                f"Members must have shape (M,) and edges (2, K), but have {me.nodes.shape} and {me.edges.shape}."
            )
        if len(me.edge_ptr) != len(me.node_ptr):
            raise InvalidInputError(
                f"Both pointers must have length N + 1, but have {len(me.node_ptr)} and {len(me.edge_ptr)}."
            )
        for name, pointers, count in (
            ("node_ptr", me.node_ptr, len(me.nodes)),
            ("edge_ptr", me.edge_ptr, me.edges.shape[1]),
        ):
            if pointers.dtype != np.int64:
                raise InvalidInputError(f"{name} must be int64 of shape (N + 1,), not {pointers.dtype}.")
            check_pointers(name, pointers, count)
        for name, ids in (("nodes", me.nodes), ("edges", me.edges)):
            if ids.dtype not in (np.int32, np.int64):
                raise InvalidInputError(f"{name} must be int32 or int64, not {ids.dtype}.")
            check_ids(name, ids, me.num_nodes)
        if (me.node_ptr[1:] == me.node_ptr[:-1]).any():
            raise InvalidInputError(f"Node {int(np.argmin(np.diff(me.node_ptr)))} is missing from its neighbourhood.")
        wrong = np.flatnonzero(me.nodes[me.node_ptr[:-1]] != np.arange(me.num_nodes))
        if len(wrong):
            raise InvalidInputError(f"Node {wrong[0]} is not the first member of its neighbourhood.")
        if (me.edges[0] >= me.edges[1]).any():
            k = int(np.argmax(me.edges[0] >= me.edges[1]))
            raise InvalidInputError(f"Edge {k} is {me.edges[:, k].tolist()}, but the lower id comes first.")

    @classmethod
    def from_data(cls, data: Any, hops: int, *, check: bool = True) -> Neighborhoods:
        """Rebuild the neighbourhoods that `AddNeighborhoods` attached to a PyG `Data` or `Batch`.

        Parameters
        ----------
        data : a `Data` that went through the transform, or a `Batch` of such.
        hops : one of the hop counts of the transform.
        check : compare with `data.edge_index`, so that a graph changed after the transform is noticed.

        Returns
        -------
        Tensors on the device of the data, with the ids of the batch.

        Raises
        ------
        InvalidInputError
            The data never went through the transform, or its nodes or edges changed afterwards: nodes dropped or
            permuted, edges added, removed or rewired. The order of edges and self-loops do not matter.

        Examples
        --------
        >>> import torch
        >>> from torch_geometric.data import Batch, Data
        >>> from leap.pipeline import AddNeighborhoods
        >>> path = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> path = AddNeighborhoods(hops=1)(path)
        >>> Neighborhoods.from_data(Batch.from_data_list([path, path]), hops=1).members(4)
        tensor([4, 3, 5], dtype=torch.int32)
        """
        return graphs.attachment.read_attachment(data, hops, check)


def _as_numpy(array: Any) -> NDArray[Any]:
    return np.asarray(array.cpu().numpy() if hasattr(array, "cpu") else array)


def check_pointers(name: str, pointers: NDArray[Any], count: int) -> None:
    """Refuse pointers that do not rise from 0 to `count`, naming the place and the value met."""
    if pointers.ndim != 1 or len(pointers) == 0:
        raise InvalidInputError(f"{name} must have shape (N + 1,), not {pointers.shape}.")
    where = f"{name} must rise from 0 to {count}, the number of entries"
    if pointers[0] != 0 or pointers[-1] != count:
        raise InvalidInputError(f"{where}, but goes from {pointers[0]} to {pointers[-1]}.")
    falls = np.flatnonzero(pointers[1:] < pointers[:-1])
    if len(falls):
        v = int(falls[0])
        raise InvalidInputError(f"{where}, but falls from {pointers[v]} to {pointers[v + 1]} at {v}.")


def check_ids(name: str, ids: NDArray[Any], rows: int) -> None:
    """Refuse ids outside 0…rows-1, naming their span."""
    if ids.size and not (ids.min() >= 0 and ids.max() < rows):
        raise InvalidInputError(f"{name} must lie in 0…{rows - 1}, but span {ids.min()}…{ids.max()}.")
