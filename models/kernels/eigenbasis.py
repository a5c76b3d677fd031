"""A basis that depends only on the eigenspaces: the rule for repeated eigenvalues, signs and several components.

Inside a cluster of equal eigenvalues with projector P, vectors are the columns of P in the order of a greedy pivoted
Gram-Schmidt: the next pivot is the lowest node whose residual column is, up to PIVOT_SLACK, the longest, and the
residual column, normalized, is the next vector. Its entry at the pivot is therefore positive, which fixes the sign of
simple eigenvalues as well. An eigenspace that spans several components is the direct sum of theirs; the next vector
comes from the component whose next pivot is the longest (the lowest pivot node among equals).
"""

from typing import Any

import numpy as np

from leap.models.kernels.compiling import kernel

RELATIVE_GAP = 1e-9
SMALLEST_SCALE = 1e-3
PIVOT_SLACK = 1e-6


def same_eigenvalue(value: float) -> float:
    """Distance up to which the next higher eigenvalue counts as equal to `value`; such steps chain to a cluster."""
    return RELATIVE_GAP * max(value, SMALLEST_SCALE)


@kernel
def cluster_end(values: Any, begin: int) -> int:
    """First index after `begin` whose eigenvalue is not chained to it; `values` (m,) ascend."""
    end = begin + 1
    while end < len(values) and values[end] - values[end - 1] <= RELATIVE_GAP * max(values[end - 1], SMALLEST_SCALE):
        end += 1
    return end


@kernel
def canonical_basis(
    values: Any, vectors: Any, out_values: Any, out_vectors: Any, out_lengths: Any, out_pivots: Any
) -> None:
    """Replace the eigenvectors of one connected graph by the canonical ones.

    Parameters
    ----------
    values : (m,) ascending; the first is the trivial zero and a cluster of its own. The last cluster that is written
        must be whole.
    vectors : (n, m) orthonormal columns.
    out_values, out_lengths, out_pivots : (k,) with k <= m: eigenvalue (the lowest of its cluster), length of the
        residual column at its pivot, pivot row.
    out_vectors : (n, k).
    """
    n = len(vectors)
    keep = len(out_values)
    residual = np.empty(n)
    done = 0
    begin = 0
    while done < keep and begin < len(values):
        end = 1 if begin == 0 else cluster_end(values, begin)
        size = end - begin
        chosen = np.zeros((size, min(size, keep - done)))  # coefficients of the new vectors in the old ones
        for v in range(n):
            residual[v] = 0.0
            for j in range(begin, end):
                residual[v] += vectors[v, j] ** 2
        for k in range(chosen.shape[1]):
            longest = 0.0
            for v in range(n):
                longest = max(longest, residual[v])
            pivot = 0
            # The last node ends the search even where rounding or NaN left no residual to be found.
            while pivot < n - 1 and residual[pivot] < longest * (1.0 - PIVOT_SLACK) ** 2:
                pivot += 1
            for j in range(size):
                chosen[j, k] = vectors[pivot, begin + j]
            for _ in range(2):  # the second round restores orthogonality where the first one cancelled
                for i in range(k):
                    overlap = 0.0
                    for j in range(size):
                        overlap += chosen[j, i] * chosen[j, k]
                    for j in range(size):
                        chosen[j, k] -= overlap * chosen[j, i]
            square = 0.0
            for j in range(size):
                square += chosen[j, k] ** 2
            length = np.sqrt(square)
            for j in range(size):
                chosen[j, k] /= length
            for v in range(n):
                entry = 0.0
                for j in range(size):
                    entry += vectors[v, begin + j] * chosen[j, k]
                out_vectors[v, done] = entry
                residual[v] -= entry * entry
            out_values[done] = values[begin]
            out_lengths[done] = length
            out_pivots[done] = pivot
            done += 1
        begin = end


@kernel
def canonical_bases(
    values: Any,
    vectors: Any,
    column_starts: Any,
    entry_starts: Any,
    keep: int,
    out_values: Any,
    out_entries: Any,
    out_lengths: Any,
    out_pivots: Any,
) -> None:
    """`canonical_basis` for a stack of graphs of equal size, written to their places in the flat outputs."""
    n = vectors.shape[1]
    for g in range(len(values)):
        c, e = column_starts[g], entry_starts[g]
        canonical_basis(
            values[g],
            vectors[g],
            out_values[c : c + keep],
            out_entries[e : e + n * keep].reshape(n, keep),
            out_lengths[c : c + keep],
            out_pivots[c : c + keep],
        )


@kernel
def merge_components(
    order: Any,
    graph_ptr: Any,
    drop_all_trivial: bool,
    column_component: Any,
    column_ptr: Any,
    entry_ptr: Any,
    values: Any,
    entries: Any,
    lengths: Any,
    pivots: Any,
    member_ptr: Any,
    members: Any,
    out_vectors: Any,
    out_values: Any,
) -> None:
    """Interleave the components' canonical vectors into the columns of every graph.

    Parameters
    ----------
    order : (K,) columns of all components by (graph, eigenvalue, component, place in the component).
    graph_ptr : (G + 1,) ranges of `order`, one per graph.
    drop_all_trivial : drop the zero eigenvalue of each component with an edge; otherwise the first column only.
    column_component, column_ptr, entry_ptr : component of a column; ranges of columns and of entries by component.
    values, lengths, pivots : (K,) as `canonical_basis` gives them, pivots as node ids of the dataset.
    entries : flat (nodes x columns) matrices, one a component.
    member_ptr, members : nodes of each component, ascending.
    out_vectors, out_values : (N, dim) zeros and (G, dim) NaN, to be filled.
    """
    dim = out_vectors.shape[1]
    next_column = column_ptr[:-1].copy()
    for g in range(len(graph_ptr) - 1):
        begin, stop = graph_ptr[g], graph_ptr[g + 1]
        done = 0 if drop_all_trivial else -1  # -1: the first vector goes nowhere
        zero = True
        while begin < stop and done < dim:
            end = begin
            if zero:  # trivial columns are the first of components with several nodes, whatever their value
                while end < stop and values[order[end]] == 0.0:
                    end += 1
                zero = False
                if drop_all_trivial:
                    for i in range(begin, end):
                        next_column[column_component[order[i]]] += 1
                    begin = end
                    continue
            else:
                end = begin + 1
                while end < stop:
                    low = values[order[end - 1]]
                    if values[order[end]] - low > RELATIVE_GAP * max(low, SMALLEST_SCALE):
                        break
                    end += 1
            for _ in range(end - begin):
                if done == dim:
                    break
                longest = 0.0
                for i in range(begin, end):
                    k = order[i]
                    if next_column[column_component[k]] == k and lengths[k] > longest:
                        longest = lengths[k]
                best = -1
                for i in range(begin, end):
                    k = order[i]
                    is_head = next_column[column_component[k]] == k
                    if (
                        is_head
                        and lengths[k] >= longest * (1.0 - PIVOT_SLACK)
                        and (best < 0 or pivots[k] < pivots[best])
                    ):
                        best = k
                if best < 0:  # lengths that are no numbers
                    break
                c = column_component[best]
                next_column[c] += 1
                if done >= 0:
                    width = column_ptr[c + 1] - column_ptr[c]
                    place = entry_ptr[c] + best - column_ptr[c]
                    for i in range(member_ptr[c], member_ptr[c + 1]):
                        out_vectors[members[i], done] = entries[place]
                        place += width
                    out_values[g, done] = values[order[begin]]
                done += 1
            begin = end
