"""Random-walk encodings: exact return probabilities of every node, computed on the ball that a walk can reach."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.models.kernels.border import adjacency_arrays
from leap.models.kernels.compiling import kernel
from leap.store.errors import InvalidInputError

# Consecutive start nodes share the sweeps over the graph where their balls overlap: BLOCK columns together cost about
# as much as BLOCK / SHARING walks one by one, because rows of columns are vectorized and adjacency is read once.
BLOCK = 64
SHARING = 5
# Bound on the columns kept at once: three (reached nodes x columns) matrices.
BLOCK_BYTES = 64 * 2**20


def rwpe(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    steps: int,
    start: int = 0,
    stop: int | None = None,
) -> NDArray[np.float64]:
    """Return probabilities of the random walk, diag((A D^-1)^j) for j = 1 … steps.

    Parameters
    ----------
    indptr, indices : (N + 1,) and (2E,) integer, symmetric CSR adjacency with sorted rows and no loops; any number
        of graphs side by side.
    steps : number of columns, at least 1.
    start, stop : the nodes to encode, all by default.

    Returns
    -------
    (stop - start, steps) float64; zeros for an isolated node, exact zeros in odd columns of a bipartite graph.

    Notes
    -----
    Walks are reversible: with p_a the distribution after a steps from v, the return probability after a + b steps
    is d_v Σ_u p_a(u) p_b(u) / d_u, so that ceil(steps / 2) propagations suffice. Every sum runs over ascending node
    ids whatever ball or block it is evaluated in: column j of a node is bit-identical for any `steps`, `start` and
    `stop`. Columns are kept in blocks of at most
    `BLOCK_BYTES` (one column at least), never as a matrix of N x N.

    Raises
    ------
    InvalidInputError
        For `steps` below 1, a node range outside the graph, or an adjacency that is none.
    """
    indptr, indices = adjacency_arrays(indptr, indices)
    nodes = len(indptr) - 1
    stop = nodes if stop is None else stop
    if steps < 1:
        raise InvalidInputError(f"RWPE needs at least one step, got {steps}. Ask for a dimension of 1 or more.")
    if not 0 <= start <= stop <= nodes:
        raise InvalidInputError(f"the node range {start}…{stop} is not inside the graph's 0…{nodes}.")
    out = np.zeros((stop - start, steps))
    _return_probabilities(
        indptr,
        indices,
        start,
        out,
        np.full(nodes, -1, np.int32),
        np.empty(nodes, indices.dtype),
        np.empty(nodes, indices.dtype),
    )
    return out


@kernel
def _return_probabilities(indptr: Any, indices: Any, start: int, out: Any, level: Any, rank: Any, ball: Any) -> None:
    """Fill `out` for the nodes from `start` on, in blocks where that pays and one by one elsewhere.

    `level` holds hops from the current start nodes, -1 outside their ball; `rank` the place of a node in the sorted
    `ball`.
    """
    rows, steps = out.shape
    for first in range(0, rows, BLOCK):
        last = min(first + BLOCK, rows)
        size, alone = _ball(indptr, indices, start + first, 1, steps // 2, level, ball)
        _forget(level, ball, size)
        size, together = _ball(indptr, indices, start + first, last - first, steps // 2, level, ball)
        if together * BLOCK <= alone * (last - first) * SHARING:
            _sort(ball, size, level, rank)
            _walk_block(indptr, indices, start + first, level, rank, ball[:size], out[first:last])
            _forget(level, ball, size)
            continue
        _forget(level, ball, size)
        for v in range(first, last):
            size, alone = _ball(indptr, indices, start + v, 1, steps // 2, level, ball)
            _sort(ball, size, level, rank)
            _walk_one(indptr, indices, start + v, level, rank, ball, size, out[v])
            _forget(level, ball, size)


@kernel
def _ball(indptr: Any, indices: Any, first: int, width: int, radius: int, level: Any, ball: Any) -> tuple[int, int]:
    """Collect the nodes within `radius` hops of first … first + width; returns their number and sum of degrees."""
    size = 0
    for v in range(first, first + width):
        ball[size] = v
        level[v] = 0
        size += 1
    begin = 0
    volume = 0
    for hop in range(1, radius + 2):
        end = size
        for i in range(begin, end):
            u = ball[i]
            volume += indptr[u + 1] - indptr[u]
            if hop <= radius:
                for e in range(indptr[u], indptr[u + 1]):
                    w = indices[e]
                    if level[w] < 0:
                        level[w] = hop
                        ball[size] = w
                        size += 1
        begin = end
    return size, volume


@kernel
def _forget(level: Any, ball: Any, size: int) -> None:
    """Unmark the ball, so that the next one starts from a clean slate at the price of its own size."""
    for i in range(size):
        level[ball[i]] = -1


@kernel
def _sort(ball: Any, size: int, level: Any, rank: Any) -> None:
    """Sort the ball in place, by Shell sort while it is small and a scan of all marks where it is not."""
    if size * 16 > len(level):
        place = 0
        for u in range(len(level)):
            if level[u] >= 0:
                ball[place] = u
                place += 1
    else:
        gap = 1
        while gap < size // 3:
            gap = 3 * gap + 1
        while gap > 0:
            for i in range(gap, size):
                u = ball[i]
                j = i
                while j >= gap and ball[j - gap] > u:
                    ball[j] = ball[j - gap]
                    j -= gap
                ball[j] = u
            gap //= 3
    for i in range(size):
        rank[ball[i]] = i


@kernel
def _walk_one(indptr: Any, indices: Any, v: int, level: Any, rank: Any, ball: Any, size: int, out: Any) -> None:
    """Propagate the walk from `v` through its ball and read the return probabilities off."""
    steps = len(out)
    before = np.zeros(size)  # p_{a-1} / degree
    scaled = np.zeros(size)  # p_a / degree
    degree = indptr[v + 1] - indptr[v]
    if degree == 0:
        return
    before[rank[v]] = 1.0 / degree
    for a in range(1, (steps + 1) // 2 + 1):
        odd, even = 0.0, 0.0  # walks of 2a - 1 and of 2a steps
        for i in range(size):
            w = ball[i]
            if level[w] <= a and indptr[w + 1] > indptr[w]:
                total = 0.0
                for e in range(indptr[w], indptr[w + 1]):
                    u = indices[e]
                    if 0 <= level[u] < a:
                        total += before[rank[u]]
                share = total * (1.0 / (indptr[w + 1] - indptr[w]))
                odd += before[i] * total
                even += share * total
                scaled[i] = share
        out[2 * a - 2] = odd * degree
        if 2 * a <= steps:
            out[2 * a - 1] = even * degree
        before, scaled = scaled, before


@kernel
def _walk_block(indptr: Any, indices: Any, first: int, level: Any, rank: Any, ball: Any, out: Any) -> None:
    """`_walk_one` for consecutive nodes at once: the same sums in the same order, one column per node."""
    size = len(ball)
    pointer = np.zeros(size + 1, np.int64)  # adjacency inside the ball, by places
    for i in range(size):
        pointer[i + 1] = pointer[i] + indptr[ball[i] + 1] - indptr[ball[i]]
    places = np.empty(pointer[size], indices.dtype)
    filled = 0
    for i in range(size):
        pointer[i] = filled
        for e in range(indptr[ball[i]], indptr[ball[i] + 1]):
            if level[indices[e]] >= 0:
                places[filled] = rank[indices[e]]
                filled += 1
    pointer[size] = filled
    columns = min(len(out), max(1, BLOCK_BYTES // (24 * size)))
    for begin in range(0, len(out), columns):
        end = min(begin + columns, len(out))
        _walk_columns(indptr, first + begin, level, rank, ball, pointer, places, out[begin:end])


@kernel
def _walk_columns(
    indptr: Any, first: int, level: Any, rank: Any, ball: Any, pointer: Any, places: Any, out: Any
) -> None:
    """Propagate one column per start node; `pointer`, `places` are the adjacency inside the ball."""
    width, steps = out.shape
    size = len(ball)
    before = np.zeros((size, width))
    scaled = np.zeros((size, width))
    odd = np.empty(width)
    even = np.empty(width)
    total = np.empty(width)
    for b in range(width):
        v = first + b
        if indptr[v + 1] > indptr[v]:
            before[rank[v], b] = 1.0 / (indptr[v + 1] - indptr[v])
    for a in range(1, (steps + 1) // 2 + 1):
        odd[:] = 0.0
        even[:] = 0.0
        for i in range(size):
            w = ball[i]
            if level[w] > a or indptr[w + 1] == indptr[w]:
                continue
            total[:] = 0.0
            e = pointer[i]
            while e + 8 <= pointer[i + 1]:  # eight sources per pass: `total` is read and written once for all
                s0, s1, s2, s3 = before[places[e]], before[places[e + 1]], before[places[e + 2]], before[places[e + 3]]
                s4, s5, s6 = before[places[e + 4]], before[places[e + 5]], before[places[e + 6]]
                s7 = before[places[e + 7]]
                for b in range(width):
                    total[b] = total[b] + s0[b] + s1[b] + s2[b] + s3[b] + s4[b] + s5[b] + s6[b] + s7[b]
                e += 8
            while e < pointer[i + 1]:
                s0 = before[places[e]]
                for b in range(width):
                    total[b] += s0[b]
                e += 1
            inverse = 1.0 / (indptr[w + 1] - indptr[w])
            for b in range(width):
                share = total[b] * inverse
                odd[b] += before[i, b] * total[b]
                even[b] += share * total[b]
                scaled[i, b] = share
        for b in range(width):
            degree = indptr[first + b + 1] - indptr[first + b]
            out[b, 2 * a - 2] = odd[b] * degree
            if 2 * a <= steps:
                out[b, 2 * a - 1] = even[b] * degree
        before, scaled = scaled, before
