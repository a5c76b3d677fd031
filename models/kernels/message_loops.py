"""Loops over the edges of graphs: weighted sums over neighbours and attention to them, forward and backward."""

from typing import Any

import numpy as np

from leap.models.kernels.border import lie_inside
from leap.models.kernels.compiling import kernel
from leap.models.kernels.lanes import SIZE, array_at
from leap.models.kernels.tiles import sum_rows


@kernel
def sum_along_edges(source: Any, target: Any, edges: int, own: int, x: int, rows: int, columns: int, out: int) -> bool:
    """Fill own[v] · x[v] plus the weighted rows of the sources of v; False where an edge joins other than the rows.

    Float32 arrays are given by address, which costs a tenth of converting tensors.
    """
    if not (lie_inside(source, rows) and lie_inside(target, rows)):
        return False
    given, made = array_at(x, (rows, columns)), array_at(out, (rows, columns))
    along, kept = array_at(edges, source.shape), array_at(own, (rows,))
    for v in range(rows):
        for i in range(columns):
            made[v, i] = kept[v] * given[v, i]
    for e in range(len(source)):
        u, v, weight = source[e], target[e], along[e]
        for i in range(columns):
            made[v, i] += weight * given[u, i]
    return True


@kernel
def sort_by(ends: Any, rows: int) -> Any:
    """Return pointers (rows + 1,) and the order (E,) of edges by one of their ends, which lie inside; ties stay."""
    ptr, order = np.zeros(rows + 1, np.int64), np.empty(len(ends), np.int64)
    for e in range(len(ends)):
        ptr[ends[e] + 1] += 1
    for v in range(rows):
        ptr[v + 1] += ptr[v]
    place = ptr.copy()
    for e in range(len(ends)):
        order[place[ends[e]]] = e
        place[ends[e]] += 1
    return ptr, order


@kernel
def sum_along_rows(ptr: Any, ids: Any, edges: Any, own: Any, x: int, columns: int, out: int) -> None:
    """Fill own[v] · x[v] plus the weighted rows ids[ptr[v]:ptr[v + 1]]; what `sum_along_edges` does to sorted edges.

    Parameters
    ----------
    ptr, ids : int64 and int32, which were checked.
    x, out : addresses of as many rows as there are pointers but one.
    """
    for v in range(len(ptr) - 1):
        ids_at, edges_at, line = ids.ctypes.data, edges.ctypes.data, SIZE * v * columns
        sum_rows(ptr[v], ptr[v + 1], ids_at, edges_at, own[v], x + line, x, columns, out + line)


@kernel(error_model="numpy")
def attend_forward(
    source: Any, target: Any, x: Any, scores: Any, slope: float, weights: Any, is_low: Any, out: Any
) -> bool:
    """Fill the weight of every edge, whether it lies on the flat side of the leaky ReLU, and the weighted sums.

    Returns False where an edge joins other than the rows.
    """
    if not (lie_inside(source, len(x)) and lie_inside(target, len(x))):
        return False
    highest, total = np.full(len(x), -np.inf, np.float32), np.zeros(len(x))
    for e in range(len(source)):
        logit = scores[source[e], 0] + scores[target[e], 1]
        is_low[e] = not logit > 0.0
        weights[e] = np.float32(slope) * logit if is_low[e] else logit
        highest[target[e]] = max(highest[target[e]], weights[e])
    for e in range(len(source)):
        weights[e] = np.exp(weights[e] - highest[target[e]])
        total[target[e]] += weights[e]
    for e in range(len(source)):
        u, v = source[e], target[e]
        weights[e] /= total[v]
        for i in range(x.shape[1]):
            out[v, i] += weights[e] * x[u, i]
    return True


@kernel(error_model="numpy")
def attend_backward(
    source: Any,
    target: Any,
    x: Any,
    slope: float,
    weights: Any,
    is_low: Any,
    upstream: Any,
    on_x: Any,
    on_scores: Any,
) -> None:
    """Add the gradients of x and scores."""
    wanted, mean = np.empty(len(source)), np.zeros(len(x))
    for e in range(len(source)):
        u, v, along = source[e], target[e], 0.0
        for i in range(x.shape[1]):
            along += upstream[v, i] * x[u, i]
            on_x[u, i] += weights[e] * upstream[v, i]
        wanted[e] = along
        mean[v] += weights[e] * along
    for e in range(len(source)):
        u, v = source[e], target[e]
        change = weights[e] * (wanted[e] - mean[v]) * (slope if is_low[e] else 1.0)
        on_scores[u, 0] += change
        on_scores[v, 1] += change


@kernel
def add_messages(source: Any, target: Any, along: int, x: int, rows: int, columns: int, is_on: Any, out: int) -> bool:
    """Fill x[v] plus the ReLU of x[u] + along[e] of all edges e from u to v, and which entries the ReLU lets through.

    Returns False where an edge joins other than the rows. Float32 arrays are given by address.
    """
    if not (lie_inside(source, rows) and lie_inside(target, rows)):
        return False
    given, made = array_at(x, (rows, columns)), array_at(out, (rows, columns))
    beside = array_at(along, (len(source), columns))
    for v in range(rows):
        for i in range(columns):
            made[v, i] = given[v, i]
    for e in range(len(source)):
        u, v = source[e], target[e]
        for i in range(columns):
            message = given[u, i] + beside[e, i]
            is_through = not message <= np.float32(0.0)  # also what is no number, as torch has it
            is_on[e, i] = is_through
            made[v, i] += message if is_through else np.float32(0.0)
    return True


@kernel
def add_messages_backward(
    source: Any, target: Any, is_on: Any, upstream: int, rows: int, columns: int, on_x: int, on_along: int
) -> bool:
    """Fill the gradients of x and of what stands along the edges; False where an edge joins other than the rows."""
    if not (lie_inside(source, rows) and lie_inside(target, rows)):
        return False
    given, on_rows = array_at(upstream, (rows, columns)), array_at(on_x, (rows, columns))
    on_edges = array_at(on_along, (len(source), columns))
    for v in range(rows):
        for i in range(columns):
            on_rows[v, i] = given[v, i]
    for e in range(len(source)):
        u, v = source[e], target[e]
        for i in range(columns):
            gradient = given[v, i] if is_on[e, i] else np.float32(0.0)
            on_edges[e, i] = gradient
            on_rows[u, i] += gradient
    return True
