"""Extract the m-hop neighbourhoods of many nodes of one graph: their members and induced edges."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leap.models.kernels.border import Ids, Sources, adjacency_arrays, source_ids
from leap.models.kernels.compiling import kernel, read_only
from leap.models.kernels.threads import available_threads, share_among
from leap.store.errors import InvalidInputError

SERIAL_WORK = 200_000
"""Below about this many visited entries, starting a second thread costs more than it saves."""

BUFFER_SIZE = 2**18
"""Entries of the buffers that a thread collects neighbourhoods in (3 MiB with 32-bit ids)."""


GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the step of splitmix64


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
    cap : at most this many members per neighbourhood, 0 for no limit. The source is always kept and nearer hops
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
    >>> from leap.models.kernels import build_csr
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
        indptr, ids = adjacency_arrays(indptr, indices)
        if indices.dtype == np.int64:  # and so is the result
            ids = read_only(indices, np.int64)
        self.num_nodes = len(indptr) - 1
        names = read_only(np.empty(0) if global_ids is None else global_ids, np.int64)
        if global_ids is not None and names.shape != (self.num_nodes,):
            raise InvalidInputError(f"There must be {self.num_nodes} global ids, but they have shape {names.shape}.")
        self.sources = source_ids(sources, self.num_nodes)
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

        def new_worker() -> Callable[[int, int], object]:
            scratch = self.scratch()
            return lambda low, high: _count(*self.arguments, low, high, *scratch, members, induced)

        share_among(new_worker, len(self.sources), self.threads)
        return members, induced

    def extract(self) -> KhopArrays:
        node_ptr, edge_ptr = (np.zeros(len(self.sources) + 1, dtype=np.int64) for _ in range(2))
        pieces: list[_Piece] = []

        def new_worker() -> Callable[[int, int], object]:
            return _Collector(self, node_ptr[1:], edge_ptr[1:], pieces)

        share_among(new_worker, len(self.sources), self.threads)
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
        self.inputs, self.scratch, self.index_type = walk.arguments, walk.scratch(), walk.index_type
        self.counts = (members, induced)
        self.pieces = pieces
        self._renew(BUFFER_SIZE)

    def _renew(self, size: int) -> None:
        self.nodes, self.lower, self.upper = (np.empty(size, dtype=self.index_type) for _ in range(3))
        self.node_end = self.edge_end = 0

    def __call__(self, low: int, high: int) -> None:
        while low < high:
            done, node_end, edge_end = _extract(
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


@kernel
def _count(
    indptr: Any, indices: Any, sources: Any, hops: int, cap: int, seed: Any, global_ids: Any, low: int, high: int,
    marks: Any, queue: Any, keys: Any, members: Any, induced: Any,
) -> None:  # fmt: skip
    """Count the members and induced edges of each neighbourhood in the block."""
    for s in range(low, high):
        stamp = s + 1
        size = _ball(indptr, indices, sources[s], hops, cap, seed, global_ids, marks, stamp, queue, keys, False)
        edges = 0
        for p in range(size):
            u = queue[p]
            for t in range(_upper_part(indptr, indices, u), indptr[u + 1]):
                w = indices[t]
                edges += (w > u) & (marks[w] == stamp)
        members[s] = size
        induced[s] = edges


@kernel
def _extract(
    indptr: Any, indices: Any, sources: Any, hops: int, cap: int, seed: Any, global_ids: Any, low: int, high: int,
    marks: Any, queue: Any, keys: Any, members: Any, induced: Any,
    nodes: Any, node_end: int, lower: Any, upper: Any, edge_end: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Append the neighbourhoods of the block to the buffers `nodes`, `lower`, `upper` until one does not fit.

    Writes their sizes to `members` and `induced`. Returns (source to go on with, end of nodes, end of edges).
    """
    for s in range(low, high):
        stamp = s + 1
        size = _ball(indptr, indices, sources[s], hops, cap, seed, global_ids, marks, stamp, queue, keys, True)
        if node_end + size > len(nodes):
            _unmark(queue, size, marks)
            return s, node_end, edge_end
        k = edge_end
        for p in range(size):
            u = queue[p]
            nodes[node_end + p] = u
            start = _upper_part(indptr, indices, u)
            stop = indptr[u + 1]
            if k + stop - start > len(lower):
                _unmark(queue, size, marks)
                return s, node_end, edge_end
            for t in range(start, stop):
                w = indices[t]
                lower[k] = u  # always written, kept by advancing k: no branch to mispredict
                upper[k] = w
                k += (w > u) & (marks[w] == stamp)
        members[s] = size
        induced[s] = k - edge_end
        node_end += size
        edge_end = k
    return high, node_end, edge_end


@kernel
def _unmark(queue: Any, size: int, marks: Any) -> None:
    for p in range(size):  # the same source comes again, with the same stamp
        marks[queue[p]] = 0


@kernel
def _upper_part(indptr: Any, indices: Any, u: int) -> int:
    """Return a position in row u before which all neighbours are below u; short rows are taken whole."""
    low = indptr[u]
    high = indptr[u + 1]
    while high - low > 8:
        middle = (low + high) >> 1
        if indices[middle] < u:
            low = middle
        else:
            high = middle
    return low


@kernel
def _ball(
    indptr: Any, indices: Any, source: int, hops: int, cap: int, seed: Any, global_ids: Any,
    marks: Any, stamp: int, queue: Any, keys: Any, ordered: bool,
) -> int:  # fmt: skip
    """Put the members into `queue` and return their number; they, and no others, are marked `stamp` then.

    Members come by hop; within a hop by ascending id if `ordered`. Stamps are positive and used once. The queue
    has room for one entry more than there are nodes, since an entry is written before it is known to be new.
    """
    queue[0] = source
    marks[source] = stamp
    begin = 0
    end = 1
    for hop in range(hops):
        if end == cap:
            break
        tail = end
        for p in range(begin, end):
            u = queue[p]
            for t in range(indptr[u], indptr[u + 1]):
                w = indices[t]
                queue[tail] = w
                tail += marks[w] != stamp
                marks[w] = stamp
        overflows = 0 < cap < tail
        if overflows:
            state = _mix(_mix(seed) + np.uint64(_name(source, global_ids)))
            _keep_smallest(queue, end, tail, cap - end, state, global_ids, marks, keys)
            tail = cap
        if ordered and (hop > 0 or overflows):  # a row of the adjacency is sorted already
            _sort(queue, end, tail)
        begin = end
        end = tail
        if begin == end:
            break
    return end


@kernel
def _mix(state: Any) -> Any:
    """Return the output that splitmix64 gives in this state; a bijection of 64-bit numbers."""
    z = state + GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _name(v: Any, global_ids: Any) -> Any:
    return global_ids[v] if len(global_ids) > 0 else np.int64(v)


@kernel
def _keep_smallest(
    queue: Any, begin: int, end: int, room: int, state: Any, global_ids: Any, marks: Any, keys: Any
) -> None:
    """Keep of queue[begin:end] the `room` candidates with the smallest keys, in front; unmark the others.

    keys[:room] is a max-heap that moves in step with queue[begin:begin + room]. The key of candidate u is the
    u-th output of the generator that starts at `state`; the outputs of splitmix64 are all different.
    """
    for p in range(begin, end):
        u = queue[p]
        key = _mix(state + np.uint64(_name(u, global_ids)) * GOLDEN)
        i = p - begin
        if i < room:  # grow the heap: sift up
            while i > 0 and keys[(i - 1) >> 1] < key:
                parent = (i - 1) >> 1
                keys[i] = keys[parent]
                queue[begin + i] = queue[begin + parent]
                i = parent
        elif key < keys[0]:  # replace the largest: sift down
            marks[queue[begin]] = 0
            i = 0
            while 2 * i + 1 < room:
                child = 2 * i + 1
                if child + 1 < room and keys[child + 1] > keys[child]:
                    child += 1
                if keys[child] < key:
                    break
                keys[i] = keys[child]
                queue[begin + i] = queue[begin + child]
                i = child
        else:
            marks[u] = 0
            continue
        keys[i] = key
        queue[begin + i] = u


@kernel
def _sort(queue: Any, begin: int, end: int) -> None:
    """Sort queue[begin:end] ascending by Shell's method: hops are short, and numba's own sort compiles slowly."""
    gap = 1
    while 3 * gap < end - begin:
        gap = 3 * gap + 1
    while gap > 0:
        for p in range(begin + gap, end):
            u = queue[p]
            i = p
            while i >= begin + gap and queue[i - gap] > u:
                queue[i] = queue[i - gap]
                i -= gap
            queue[i] = u
        gap //= 3
