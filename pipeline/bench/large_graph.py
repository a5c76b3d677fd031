"""Generate a large random graph as Parquet tables, in the form in which one brings own data."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROWS_AT_ONCE = 1 << 18


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
    import pyarrow as pa
    import pyarrow.parquet as pq

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
