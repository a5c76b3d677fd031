"""Edges of PyG graphs, from `edge_index` or from the transposed adjacency matrix `adj_t`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from leap.pipeline.pyg.tensors import plain_array
from leap.store.errors import InvalidInputError

Pairs = NDArray[np.int64]


class Edges(NamedTuple):
    """Edges of all graphs.

    Attributes
    ----------
    pairs : (2, E), source and target, dataset-wide node ids.
    counts : (G,) entries of each graph.
    weighted : whether a matrix had values other than 1.
    has_index : whether all edges come from `edge_index`, whose order edge attributes follow.
    """

    pairs: Pairs
    counts: NDArray[np.int64]
    weighted: bool
    has_index: bool


def edge_pairs(graphs: Sequence[Any], sizes: NDArray[np.int64]) -> Edges:
    """Read the edges of all graphs.

    Raises
    ------
    InvalidInputError
        No graph has edges in either form, ids out of range, other shapes, two forms that disagree.
    """
    pieces, weighted, found, has_index = [np.zeros((2, 0), dtype=np.int64)], False, False, True
    for number, (graph, first) in enumerate(zip(graphs, np.cumsum(sizes) - sizes, strict=True)):
        size = int(sizes[number])
        index, matrix = graph.get("edge_index", None), graph.get("adj_t", None)
        found |= index is not None or matrix is not None
        has_index &= index is not None
        pairs = None if index is None else _from_index(index, size, number)
        if matrix is not None:
            transposed, has_weights = _from_matrix(matrix, size, number)
            weighted |= has_weights
            if pairs is not None and not np.array_equal(_undirected(pairs, size), _undirected(transposed, size)):
                raise InvalidInputError(
                    f"graph {number} has edge_index and adj_t with different edges: remove the one that is not meant."
                )
            pairs = transposed if pairs is None else pairs
        pieces.append(np.zeros((2, 0), dtype=np.int64) if pairs is None else pairs + first)
    if len(graphs) and not found:
        raise InvalidInputError(
            f"no graph has edge_index or adj_t (graph 0 has {', '.join(sorted(graphs[0].keys())) or 'nothing'}). Make "
            "edges first, as the transforms FaceToEdge, KNNGraph and RadiusGraph do; graphs that are meant to have "
            "none need an edge_index of shape (2, 0)."
        )
    counts = np.array([piece.shape[1] for piece in pieces[1:]], dtype=np.int64)
    return Edges(np.concatenate(pieces, axis=1), counts, weighted, has_index)


def _from_index(index: Any, size: int, number: int) -> Pairs:
    pairs = plain_array(index, "edge_index", number)
    if pairs.ndim != 2 or pairs.shape[0] != 2 or (pairs.size and pairs.dtype.kind not in "iu"):
        raise InvalidInputError(
            f"edge_index of graph {number} must be whole numbers of shape (2, edges). Got {pairs.dtype} of shape "
            f"{pairs.shape}."
        )
    return _in_range(pairs.astype(np.int64), size, number, "edge_index")


def _from_matrix(matrix: Any, size: int, number: int) -> tuple[Pairs, bool]:
    """Entry (i, j) of adj_t is the edge from j to i. Torch does not check the pointers of a matrix, so this does."""
    if hasattr(matrix, "coo"):  # torch_sparse.SparseTensor
        row, col, values = matrix.coo()
        shape = tuple(matrix.sizes())
    elif isinstance(matrix, torch.Tensor) and matrix.layout == torch.sparse_coo:
        (row, col), values, shape = matrix._indices(), matrix._values(), tuple(matrix.shape)
    elif isinstance(matrix, torch.Tensor) and matrix.layout == torch.sparse_csr:
        col = matrix.col_indices()
        row = _expanded(matrix.crow_indices(), len(col), size, number)
        values, shape = matrix.values(), tuple(matrix.shape)
    elif isinstance(matrix, torch.Tensor) and matrix.layout == torch.sparse_csc:
        row = matrix.row_indices()
        col = _expanded(matrix.ccol_indices(), len(row), size, number)
        values, shape = matrix.values(), tuple(matrix.shape)
    else:
        met = f"{type(matrix).__name__} ({getattr(matrix, 'layout', 'no layout')})"
        raise InvalidInputError(
            f"adj_t of graph {number} is a {met}: a sparse CSR, CSC or COO matrix is needed, as the transform "
            "ToSparseTensor makes."
        )
    if shape[:2] != (size, size):
        raise InvalidInputError(f"adj_t of graph {number} must have shape ({size}, {size}). Got {shape}.")
    pairs = np.stack([np.asarray(col.cpu(), dtype=np.int64), np.asarray(row.cpu(), dtype=np.int64)])
    return _in_range(pairs, size, number, "adj_t"), values is not None and bool((values != 1).any())


def _expanded(pointers: Any, entries: int, size: int, number: int) -> Any:
    """Row (CSR) or column (CSC) of each entry."""
    pointers = pointers.cpu()
    counts = torch.diff(pointers)
    if len(pointers) != size + 1 or (int(pointers[0]), int(pointers[-1])) != (0, entries) or bool((counts < 0).any()):
        raise InvalidInputError(
            f"adj_t of graph {number} has pointers {pointers[:5].tolist()}… that do not fit its {size} nodes and "
            f"{entries} entries: build the matrix again, such as with ToSparseTensor."
        )
    return torch.arange(size).repeat_interleave(counts)


def _in_range(pairs: Pairs, size: int, number: int, name: str) -> Pairs:
    if pairs.size and (pairs.min() < 0 or pairs.max() >= size):
        met = pairs.min() if pairs.min() < 0 else pairs.max()
        raise InvalidInputError(f"graph {number} has {size} nodes, but {name} names node {met}.")
    return pairs


def _undirected(pairs: Pairs, size: int) -> NDArray[np.int64]:
    return np.unique(pairs.min(axis=0) * size + pairs.max(axis=0))
