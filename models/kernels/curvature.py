"""Curvature of edges, and its profile at every node: Forman's, with triangles, or Ollivier's."""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leap.models.kernels.border import graphs_arrays
from leap.models.kernels.compiling import kernel
from leap.store.errors import InvalidInputError

Curvature = Literal["forman", "augmented", "ollivier"]
FAR = np.int64(2**62)


def curvature_profiles(
    indptr: ArrayLike, indices: ArrayLike, curvature: Curvature = "forman", start: int = 0, stop: int | None = None
) -> NDArray[np.float64]:
    """Minimum, maximum, mean, standard deviation and median of the curvature of each node's edges.

    Parameters
    ----------
    indptr, indices : (N + 1,) and (2E,) integer, symmetric CSR adjacency with sorted rows and no loops; any number of
        graphs side by side.
    curvature : of an edge uv, "forman" is 4 - d_u - d_v; "augmented" adds 3 for each triangle that it is in;
        "ollivier" is 1 - W, where W is the least mean length of the ways that take the neighbours of u to those of v,
        each of them equally heavy (the Wasserstein distance of the two uniform measures).
    start, stop : the nodes to encode, all by default.

    Returns
    -------
    (stop - start, 5) float64, zeros for an isolated node. The deviation divides by the number of edges. A row depends
    on the nodes within two hops alone, bit by bit. Ollivier's W is a fraction of whole numbers, solved exactly.

    Raises
    ------
    InvalidInputError
        For another curvature, a node range outside the graph, or an adjacency that is none.
    """
    if curvature not in get_args(Curvature):
        raise InvalidInputError(f"curvature is {', '.join(get_args(Curvature)[:-1])} or ollivier, got {curvature!r}.")
    nodes = max(np.size(indptr) - 1, 0)
    starts, neighbors, _ = graphs_arrays(indptr, indices, np.array([0, nodes]))
    stop = nodes if stop is None else stop
    if not 0 <= start <= stop <= nodes:
        raise InvalidInputError(f"the node range {start}…{stop} is not inside the graph's 0…{nodes}.")
    values = np.zeros(starts[stop] - starts[start])
    if curvature == "ollivier":
        _ollivier(starts, neighbors, start, stop, values)
    else:
        _forman(starts, neighbors, start, stop, 3 * (curvature == "augmented"), values)
    out = np.zeros((stop - start, 5))
    _summarize(starts, start, values, out)
    return out


@kernel
def _forman(indptr: Any, indices: Any, start: int, stop: int, triangle: int, values: Any) -> None:
    first = indptr[start]
    for v in range(start, stop):
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            found = 4 - (indptr[v + 1] - indptr[v]) - (indptr[u + 1] - indptr[u])
            if triangle:
                found += triangle * _common(indptr, indices, u, v)
            values[e - first] = found


@kernel
def _common(indptr: Any, indices: Any, u: int, v: int) -> int:
    """Number of neighbours that two rows share; the shorter is looked up in the longer where that is quicker."""
    if indptr[u + 1] - indptr[u] > indptr[v + 1] - indptr[v]:
        u, v = v, u
    count = 0
    if 8 * (indptr[u + 1] - indptr[u]) < indptr[v + 1] - indptr[v]:
        for e in range(indptr[u], indptr[u + 1]):
            at = _place(indptr, indices, v, indices[e])
            if at < indptr[v + 1] and indices[at] == indices[e]:
                count += 1
        return count
    e, f = indptr[u], indptr[v]
    while e < indptr[u + 1] and f < indptr[v + 1]:
        if indices[e] == indices[f]:
            count += 1
        step = indices[e] - indices[f]
        if step <= 0:
            e += 1
        if step >= 0:
            f += 1
    return count


@kernel
def _place(indptr: Any, indices: Any, v: int, wanted: int) -> int:
    """First entry of a row that is not below the one wanted."""
    low, high = indptr[v], indptr[v + 1]
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _ollivier(indptr: Any, indices: Any, start: int, stop: int, values: Any) -> None:
    first = indptr[start]
    mark = np.full(len(indptr) - 1, -1, np.int64)
    for v in range(start, stop):
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if start <= u < v:  # known from the other end
                values[e - first] = values[_place(indptr, indices, u, v) - first]
                continue
            here, there = indptr[v + 1] - indptr[v], indptr[u + 1] - indptr[u]
            lengths = _lengths(indptr, indices, v, u, mark)
            shared, rest = here, there
            while rest:
                shared, rest = rest, shared % rest
            # Whole units: each neighbour of v has d_u / gcd of them, each neighbour of u takes d_v / gcd.
            cost = _transport(lengths, there // shared, here // shared)
            values[e - first] = 1.0 - cost / (here * there // shared)


@kernel
def _lengths(indptr: Any, indices: Any, v: int, u: int, mark: Any) -> Any:
    """Distances between the neighbours of v (rows) and of u (columns): at most 3, by the edge vu."""
    lengths = np.full((indptr[v + 1] - indptr[v], indptr[u + 1] - indptr[u]), 3, np.int64)
    for i in range(lengths.shape[0]):
        x = indices[indptr[v] + i]
        for e in range(indptr[x], indptr[x + 1]):
            mark[indices[e]] = x
        for j in range(lengths.shape[1]):
            y = indices[indptr[u] + j]
            if x == y:
                lengths[i, j] = 0
            elif mark[y] == x:
                lengths[i, j] = 1
            else:
                for e in range(indptr[y], indptr[y + 1]):
                    if mark[indices[e]] == x:
                        lengths[i, j] = 2
                        break
        for e in range(indptr[x], indptr[x + 1]):
            mark[indices[e]] = -1
    return lengths


@kernel
def _transport(lengths: Any, supply: int, demand: int) -> int:
    """Least cost of taking `supply` units from each row to the columns, which take `demand` units each.

    The primal-dual method in whole numbers. Lengths are distances of a graph, so what a row and a column share at
    distance 0 stays where it is.
    """
    rows, columns = lengths.shape
    left = np.full(rows + columns, supply, np.int64)  # row i is node i, column j is node rows + j
    left[rows:] = demand
    flow = np.zeros((rows, columns), np.int64)
    potential = np.zeros(rows + columns, np.int64)
    waiting = rows * supply
    for i in range(rows):
        for j in range(columns):
            if lengths[i, j] == 0:
                flow[i, j] = min(left[i], left[rows + j])
                left[i] -= flow[i, j]
                left[rows + j] -= flow[i, j]
                waiting -= flow[i, j]
    while waiting > 0:
        _raise_potentials(lengths, left, flow, potential)
        waiting -= _push(lengths, left, flow, potential)
    cost = 0
    for i in range(rows):
        for j in range(columns):
            cost += flow[i, j] * lengths[i, j]
    return cost


@kernel
def _raise_potentials(lengths: Any, left: Any, flow: Any, potential: Any) -> None:
    """Add distances from rows with units left, up to the nearest columns that take some: ways there cost nothing."""
    rows, columns = lengths.shape
    size = rows + columns
    distance = np.full(size, FAR, np.int64)
    for i in range(rows):
        if left[i] > 0:
            distance[i] = 0
    is_done = np.zeros(size, np.bool_)
    queue = np.empty(size, np.int64)
    is_reached = False
    level = np.int64(0)
    while not is_reached:
        begin, end = 0, 0
        for at in range(size):
            if not is_done[at] and distance[at] == level:
                is_done[at] = True
                queue[end] = at
                end += 1
        while begin < end:  # distances are small whole numbers: all nodes of one, then those of the next
            at = queue[begin]
            begin += 1
            if at < rows:
                for j in range(columns):
                    way = level + lengths[at, j] + potential[at] - potential[rows + j]
                    if not is_done[rows + j] and way < distance[rows + j]:
                        distance[rows + j] = way
                        if way == level:
                            is_done[rows + j] = True
                            queue[end] = rows + j
                            end += 1
                continue
            is_reached = is_reached or left[at] > 0
            for i in range(rows):
                if not is_done[i] and flow[i, at - rows] > 0:  # what is in use costs nothing, either way
                    distance[i] = level
                    is_done[i] = True
                    queue[end] = i
                    end += 1
        if not is_reached:
            level = FAR
            for at in range(size):
                if not is_done[at]:
                    level = min(level, distance[at])
    for at in range(size):
        potential[at] += min(distance[at], level)


@kernel
def _push(lengths: Any, left: Any, flow: Any, potential: Any) -> int:
    """Push units along ways that cost nothing, as far as a search finds them; returns how many, at least one."""
    rows, columns = lengths.shape
    arc = np.zeros(rows + columns, np.int64)
    is_seen = np.zeros(rows + columns, np.bool_)
    path = np.empty(rows + columns, np.int64)
    pushed = 0
    for source in range(rows):
        depth = 0
        while left[source] > 0 and not (depth == 0 and is_seen[source]):
            if depth == 0:
                path[0] = source
                is_seen[source] = True
                depth = 1
            at = path[depth - 1]
            if at >= rows and left[at] > 0:
                moved = min(left[source], left[at])
                for k in range(2, depth, 2):
                    moved = min(moved, flow[path[k], path[k - 1] - rows])
                for k in range(1, depth):
                    if k % 2:
                        flow[path[k - 1], path[k] - rows] += moved
                    else:
                        flow[path[k], path[k - 1] - rows] -= moved
                left[source] -= moved
                left[at] -= moved
                pushed += moved
                for k in range(depth):
                    is_seen[path[k]] = False
                depth = 0
                continue
            following = -1
            if at < rows:
                while arc[at] < columns:
                    j = arc[at]
                    if not is_seen[rows + j] and lengths[at, j] + potential[at] == potential[rows + j]:
                        following = rows + j
                        break
                    arc[at] += 1
            else:
                while arc[at] < rows:
                    if not is_seen[arc[at]] and flow[arc[at], at - rows] > 0:
                        following = arc[at]
                        break
                    arc[at] += 1
            if following >= 0:
                is_seen[following] = True
                path[depth] = following
                depth += 1
            else:
                depth -= 1
    return pushed


@kernel
def _summarize(indptr: Any, start: int, values: Any, out: Any) -> None:
    for row in range(len(out)):
        low, high = indptr[start + row] - indptr[start], indptr[start + row + 1] - indptr[start]
        degree = high - low
        if degree == 0:
            continue
        found = np.sort(values[low:high])
        mean = found.sum() / degree
        spread = 0.0
        for k in range(degree):
            spread += (found[k] - mean) ** 2
        out[row, 0] = found[0]
        out[row, 1] = found[-1]
        out[row, 2] = mean
        out[row, 3] = np.sqrt(spread / degree)
        out[row, 4] = (found[(degree - 1) // 2] + found[degree // 2]) / 2
