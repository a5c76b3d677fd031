"""Graphs to measure on: romanesque, batches like drawn letters, many like molecules, one large and random."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from leap.models import Statistics, kernels
from leap.pipeline import khop
from leap.pipeline.canonical import canonicalize
from leap.pipeline.datasets import resolve
from leap.pipeline.datasets.source import MemorySource
from leap.pipeline.graphs import RawGraphs
from leap.store import Neighborhoods

ROMANESQUE = "romanesque"
ROWS_AT_ONCE = 1 << 18


def romanesque() -> tuple[Tensor, int]:
    """Return the dataset's `edge_index` (2, 2E) int64 as PyG lists it, sorted, and its number of nodes."""
    graphs = canonicalize(resolve(ROMANESQUE).read())
    rows = np.repeat(np.arange(graphs.num_nodes, dtype=np.int64), np.diff(graphs.indptr))
    return torch.from_numpy(np.stack([rows, graphs.indices.astype(np.int64)])), graphs.num_nodes


@dataclass(frozen=True)
class LetterBatch:
    """Graphs side by side.

    Attributes
    ----------
    x : (N, 2) features.
    edge_index : (2, 2E) both directions of every edge, as PyG lists them.
    neighborhoods, stats : of one hop, as a stream of the store gives them.
    """

    x: Tensor
    edge_index: Tensor
    neighborhoods: Neighborhoods
    stats: Statistics


def letter_like(graphs: int, seed: int = 0) -> LetterBatch:
    """Return strokes of 3 to 8 nodes, each a path with a chord for every three nodes, and standard normal features."""
    rng = np.random.Generator(np.random.PCG64(seed))
    counts = rng.integers(3, 9, graphs)
    first = np.cumsum(counts) - counts
    nodes = np.arange(counts.sum())
    inner = np.setdiff1d(nodes, first)
    chords = np.repeat(np.arange(graphs), counts // 3)
    ends = first[chords] + (rng.random((2, len(chords))) * counts[chords]).astype(np.int64)
    pairs = np.concatenate([np.stack([inner - 1, inner]), ends[:, ends[0] != ends[1]]], axis=1)
    both = np.unique(np.concatenate([pairs, pairs[::-1]], axis=1), axis=1)
    x = rng.standard_normal((len(nodes), 2), dtype=np.float32)
    hoods = khop(both, len(nodes), 1)
    mean, scale = kernels.mean_and_scale(x, hoods.node_ptr, hoods.nodes)
    stats = Statistics(torch.from_numpy(mean), torch.from_numpy(scale))
    return LetterBatch(torch.from_numpy(x), torch.from_numpy(np.ascontiguousarray(both)), hoods, stats)


def small_graphs(graphs: int, features: int = 6, classes: int = 10, seed: int = 0) -> MemorySource:
    """Return random trees of 6 to 14 nodes with a few edges more, standard normal features and random labels."""
    rng = np.random.Generator(np.random.PCG64(seed))
    counts = rng.integers(6, 15, graphs)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    nodes = np.arange(len(first))
    place = nodes - first
    earlier = first + (rng.random(len(nodes)) * place).astype(np.int64)
    anywhere = first + (rng.random(len(nodes)) * np.repeat(counts, counts)).astype(np.int64)
    closes = rng.random(len(nodes)) < 0.25
    edges = np.concatenate([np.stack([nodes, earlier])[:, place > 0], np.stack([nodes, anywhere])[:, closes]], axis=1)
    x = rng.standard_normal((len(nodes), features), dtype=np.float32)
    y = rng.integers(0, classes, graphs)
    return MemorySource("small-graphs", "generated", RawGraphs(counts, edges, x, y, "graph-classification"))


def write_large_graph(folder: Path, nodes: int, edges: int, features: int = 16, seed: int = 0) -> None:
    """Write edges.parquet (source, target) and nodes.parquet (x0, x1, …) of a uniformly random graph.

    Edges join any two nodes: no numbering of the nodes keeps neighbourhoods inside a partition, which is the hardest
    case for whoever extracts them.

    Parameters
    ----------
    nodes, edges : exact counts; an edge is listed once, in either direction and in no order. At most half of all
        pairs.
    features : float32 columns of standard normal values.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    folder.mkdir(parents=True, exist_ok=True)
    source, target = random_edges(rng, nodes, edges)
    pq.write_table(pa.table({"source": source, "target": target}), folder / "edges.parquet")
    schema = pa.schema([(f"x{column}", pa.float32()) for column in range(features)])
    with pq.ParquetWriter(folder / "nodes.parquet", schema) as writer:
        for first in range(0, nodes, ROWS_AT_ONCE):
            block = rng.standard_normal((features, min(ROWS_AT_ONCE, nodes - first)), dtype=np.float32)
            writer.write_table(pa.table(list(block), schema=schema))


def random_edges(rng: np.random.Generator, nodes: int, edges: int) -> NDArray[np.int64]:
    """Draw (2, edges) distinct unordered pairs of different nodes, in random order and direction."""
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < edges:  # a few draws coincide; draw as many again until there are enough
        missing = edges - len(keys)
        low, high = np.sort(rng.integers(0, nodes, (2, missing + missing // 8 + 16)), axis=0)
        keys = np.unique(np.concatenate([keys, (low * nodes + high)[low != high]]))
    pairs = np.stack(np.divmod(rng.permutation(keys)[:edges], nodes))
    flipped = rng.random(edges) < 0.5
    pairs[:, flipped] = pairs[::-1, flipped]
    return pairs
