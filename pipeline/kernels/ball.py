"""Compiled loops that walk the m-hop balls of a graph; `khop` is their Python side."""

from functools import cache
from typing import Any

import numpy as np
from numba import njit, types

from leap.pipeline.kernels.compile import array_of, compile_kernel


@cache
def count_kernel(index_type: np.dtype[Any]) -> Any:
    """Return `_count` compiled for graphs with this type of ids."""
    counts = array_of(np.int64, readonly=False)
    return compile_kernel(_count, *_argument_types(index_type), counts, counts)


@cache
def extract_kernel(index_type: np.dtype[Any]) -> Any:
    """Return `_extract` compiled for graphs with this type of ids."""
    counts, ids = array_of(np.int64, readonly=False), array_of(index_type, readonly=False)
    buffers = (ids, types.int64, ids, ids, types.int64)
    return compile_kernel(_extract, *_argument_types(index_type), counts, counts, *buffers)


def _argument_types(index_type: np.dtype[Any]) -> tuple[Any, ...]:
    """Types of indptr … global_ids (inputs), low, high (the block), and marks, queue, keys (scratch)."""
    pointers, ids, own = array_of(np.int64), array_of(index_type), array_of(index_type, readonly=False)
    inputs = (pointers, ids, pointers, types.int64, types.int64, types.uint64, pointers)
    return (*inputs, types.int64, types.int64, own, own, array_of(np.uint64, readonly=False))


def _count(  # type: ignore[no-untyped-def]
    indptr, indices, sources, hops, cap, seed, global_ids, low, high, marks, queue, keys, members, induced
):
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


def _extract(  # type: ignore[no-untyped-def]
    indptr,
    indices,
    sources,
    hops,
    cap,
    seed,
    global_ids,
    low,
    high,
    marks,
    queue,
    keys,
    members,
    induced,
    nodes,
    node_end,
    lower,
    upper,
    edge_end,
):
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


@njit(nogil=True)
def _unmark(queue, size, marks):  # type: ignore[no-untyped-def]
    for p in range(size):  # the same source comes again, with the same stamp
        marks[queue[p]] = 0


@njit(nogil=True)
def _upper_part(indptr, indices, u):  # type: ignore[no-untyped-def]
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


@njit(nogil=True)
def _ball(  # type: ignore[no-untyped-def]
    indptr, indices, source, hops, cap, seed, global_ids, marks, stamp, queue, keys, ordered
):
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


GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@njit(nogil=True)
def _mix(state):  # type: ignore[no-untyped-def]
    """Return the output that splitmix64 gives in this state; a bijection of 64-bit numbers."""
    z = state + GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(nogil=True)
def _name(v, global_ids):  # type: ignore[no-untyped-def]
    return global_ids[v] if len(global_ids) > 0 else np.int64(v)


@njit(nogil=True)
def _keep_smallest(queue, begin, end, room, state, global_ids, marks, keys):  # type: ignore[no-untyped-def]
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


@njit(nogil=True)
def _sort(queue, begin, end):  # type: ignore[no-untyped-def]
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
