"""Extract the m-hop neighbourhoods of many nodes of one graph: their members and induced edges."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leap.models.indices import ragged_arrays
from leap.pipeline.kernels.ball import count_kernel, extract_kernel
from leap.pipeline.kernels.blocks import available_threads, run_in_blocks
from leap.store.errors import InvalidInputError

Ids = NDArray[np.int32] | NDArray[np.int64]
Sources = tuple[int, int] | NDArray[Any] | None

SERIAL_WORK = 200_000
"""Below about this many visited entries, starting a second thread costs more than it saves."""

BUFFER_SIZE = 2**18
"""Entries of the buffers that a thread collects neighbourhoods in (3 MiB with 32-bit ids)."""


class KhopArrays(NamedTuple):
    """Neighbourhoods as flat arrays; the ids are those of the CSR they were taken from.

    Attributes
    ----------
    node_ptr : (S + 1,) int64, the members of source s are nodes[node_ptr[s]:node_ptr[s + 1]].
    nodes : (M,) the source itself first, then by (hop, ascending id).
    edge_ptr : (S + 1,) int64, the induced edges of source s are edges[:, edge_ptr[s]:edge_ptr[s + 1]].
    edges : (2, K) each undirected edge once, lower id in row 0; ordered by (position of the lower end among
        the members, upper id).
    """

    node_ptr: NDArray[np.int64]
    nodes: Ids
    edge_ptr: NDArray[np.int64]
    edges: Ids


def khop_arrays(
    indptr: NDArray[np.int64],
    indices: Ids,
    hops: int,
    sources: Sources = None,
    cap: int = 0,
    seed: int = 0,
    *,
    global_ids: NDArray[np.int64] | None = None,
    threads: int | None = None,
) -> KhopArrays:
    """Extract for each source the nodes within `hops` hops and the edges among them.

    Parameters
    ----------
    indptr, indices : an undirected simple graph with ascending rows, as `build_csr` makes it.
    hops : at least 1.
    sources : all nodes (None), a range (first, after the last), or an array of node ids in any order.
    cap : at most this many members a neighbourhood, 0 for no limit. The source is always kept and nearer hops
        come first; of the hop that overflows a uniform sample without replacement is kept: each of its nodes u
        takes the u-th output of the splitmix64 generator whose state is derived from `seed` and the source,
        and the smallest outputs win. Edges are those among the kept members.
    seed : of the sampling.
    global_ids : (N,) what the nodes are called in the larger graph that this one is a piece of. Sampling goes
        by these, so that a piece gives the sample that the whole would; the result keeps the ids of the piece.
    threads : default `available_threads()`. The result does not depend on it.

    Raises
    ------
    InvalidInputError
        `hops` below 1, a negative `cap`, a source that does not exist, or an adjacency that is none.

    Examples
    --------
    >>> from leap.pipeline.kernels.csr import build_csr
    >>> csr = build_csr([[0, 1, 2, 0], [1, 2, 3, 2]], num_nodes=4)
    >>> node_ptr, nodes, edge_ptr, edges = khop_arrays(csr.indptr, csr.indices, hops=1)
    >>> nodes[node_ptr[3]:node_ptr[4]].tolist(), edges[:, edge_ptr[0]:edge_ptr[1]].T.tolist()
    ([3, 2], [[0, 1], [0, 2], [1, 2]])
    """
    return _Walk(indptr, indices, hops, sources, cap, seed, global_ids, threads).extract()


def count_khop(
    indptr: NDArray[np.int64],
    indices: Ids,
    hops: int,
    sources: Sources = None,
    cap: int = 0,
    seed: int = 0,
    *,
    global_ids: NDArray[np.int64] | None = None,
    threads: int | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count members and induced edges of each neighbourhood without extracting it.

    Parameters and errors as in `khop_arrays`. Returns (members (S,), induced edges (S,)), both int64.
    """
    return _Walk(indptr, indices, hops, sources, cap, seed, global_ids, threads).count()


class _Walk:
    """The validated arguments of one call, and what it does with them."""

    def __init__(
        self,
        indptr: NDArray[np.int64],
        indices: Ids,
        hops: int,
        sources: Sources,
        cap: int,
        seed: int,
        global_ids: NDArray[np.int64] | None,
        threads: int | None,
    ) -> None:
        if hops < 1:
            raise InvalidInputError(f"Neighbourhoods need at least 1 hop, but hops = {hops}.")
        if cap < 0:
            raise InvalidInputError(f"A cap must be positive, or 0 for none, but is {cap}.")
        indptr, ids = ragged_arrays(indptr, indices, max(len(indptr) - 1, 0), ("indptr", "indices"))
        if indices.dtype == np.int64:  # and so is the result
            ids = np.ascontiguousarray(indices)
        self.num_nodes = len(indptr) - 1
        names = _contiguous([] if global_ids is None else global_ids, np.int64)
        if global_ids is not None and names.shape != (self.num_nodes,):
            raise InvalidInputError(f"There must be {self.num_nodes} global ids, but they have shape {names.shape}.")
        self.sources = _source_ids(sources, self.num_nodes)
        self.index_type = ids.dtype
        self.cap = min(cap, self.num_nodes)
        self.arguments = (
            indptr,
            ids,
            self.sources,
            min(hops, max(self.num_nodes, 1)),
            self.cap,
            np.uint64(seed % 2**64),
            names,
        )
        degree = max(len(ids) / max(self.num_nodes, 1), 1.0)
        small = len(self.sources) * degree ** min(hops + 1, 3) < SERIAL_WORK
        self.threads = 1 if small else threads or available_threads()

    def count(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        members, induced = (np.empty(len(self.sources), dtype=np.int64) for _ in range(2))
        kernel = count_kernel(self.index_type)

        def new_worker() -> Callable[[int, int], object]:
            scratch = self.scratch()
            return lambda low, high: kernel(*self.arguments, low, high, *scratch, members, induced)

        run_in_blocks(new_worker, len(self.sources), self.threads)
        return members, induced

    def extract(self) -> KhopArrays:
        node_ptr, edge_ptr = (np.zeros(len(self.sources) + 1, dtype=np.int64) for _ in range(2))
        pieces: list[_Piece] = []

        def new_worker() -> Callable[[int, int], object]:
            return _Collector(self, node_ptr[1:], edge_ptr[1:], pieces)

        run_in_blocks(new_worker, len(self.sources), self.threads)
        np.cumsum(node_ptr, out=node_ptr)
        np.cumsum(edge_ptr, out=edge_ptr)
        nodes = np.empty(node_ptr[-1], dtype=self.index_type)
        edges = np.empty((2, edge_ptr[-1]), dtype=self.index_type)
        while pieces:  # a piece is let go as soon as it is copied, which keeps the peak near the result's size
            low, high, some_nodes, lower, upper = pieces.pop()
            nodes[node_ptr[low] : node_ptr[high]] = some_nodes
            edges[0, edge_ptr[low] : edge_ptr[high]] = lower
            edges[1, edge_ptr[low] : edge_ptr[high]] = upper
        return KhopArrays(node_ptr, nodes, edge_ptr, edges)

    def scratch(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.uint64]]:
        """Return marks, queue and keys for one thread."""
        marks = np.zeros(self.num_nodes, dtype=self.index_type)
        queue = np.empty(self.num_nodes + 1, dtype=self.index_type)
        return marks, queue, np.empty(self.cap, dtype=np.uint64)


_Piece = tuple[int, int, NDArray[Any], NDArray[Any], NDArray[Any]]
"""First source, source after the last, their nodes, lower and upper ends of their edges."""


class _Collector:
    """Collects the neighbourhoods of the blocks of one thread in buffers that are replaced when full."""

    def __init__(
        self, walk: _Walk, members: NDArray[np.int64], induced: NDArray[np.int64], pieces: list[_Piece]
    ) -> None:
        self.kernel = extract_kernel(walk.index_type)
        self.inputs, self.scratch, self.index_type = walk.arguments, walk.scratch(), walk.index_type
        self.counts = (members, induced)
        self.pieces = pieces
        self._renew(BUFFER_SIZE)

    def _renew(self, size: int) -> None:
        self.nodes, self.lower, self.upper = (np.empty(size, dtype=self.index_type) for _ in range(3))
        self.node_end = self.edge_end = 0

    def __call__(self, low: int, high: int) -> None:
        while low < high:
            done, node_end, edge_end = self.kernel(
                *self.inputs,
                low,
                high,
                *self.scratch,
                *self.counts,
                self.nodes,
                self.node_end,
                self.lower,
                self.upper,
                self.edge_end,
            )
            if done > low:
                nodes, edges = slice(self.node_end, node_end), slice(self.edge_end, edge_end)
                self.pieces.append((low, done, self.nodes[nodes], self.lower[edges], self.upper[edges]))
                self.node_end, self.edge_end = node_end, edge_end
            if done < high:  # full; and too small for even one neighbourhood if it was empty
                self._renew(BUFFER_SIZE if node_end else 2 * len(self.nodes))
            low = done


def _contiguous(array: ArrayLike, dtype: Any) -> NDArray[Any]:
    return np.ascontiguousarray(array, dtype=dtype)


def _source_ids(sources: Sources, num_nodes: int) -> NDArray[np.int64]:
    if sources is None:
        return np.arange(num_nodes, dtype=np.int64)
    if isinstance(sources, tuple):
        first, last = sources
        if not 0 <= first <= last <= num_nodes:
            raise InvalidInputError(f"The range of sources {first}…{last} does not lie in 0…{num_nodes}.")
        return np.arange(first, last, dtype=np.int64)
    ids = _contiguous(sources, np.int64)
    if ids.ndim != 1:
        raise InvalidInputError(f"Sources must have shape (S,), but have shape {ids.shape}.")
    if len(ids) and (ids.min() < 0 or ids.max() >= num_nodes):
        wrong = ids[(ids < 0) | (ids >= num_nodes)][0]
        raise InvalidInputError(f"Source {wrong} does not exist: ids must lie in 0…{num_nodes - 1}.")
    return ids
