"""Generate many small graphs, about the size and shape of molecules."""

import numpy as np

from leap.pipeline.datasets.source import MemorySource
from leap.pipeline.graphs import RawGraphs

FEWEST_NODES, MOST_NODES = 6, 14
CLOSING_SHARE = 0.25


def small_graphs(graphs: int, features: int = 6, classes: int = 10, seed: int = 0) -> MemorySource:
    """Return random trees of 6 to 14 nodes with a few edges more, standard normal features and random labels."""
    rng = np.random.Generator(np.random.PCG64(seed))
    counts = rng.integers(FEWEST_NODES, MOST_NODES + 1, graphs)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    nodes = np.arange(len(first))
    place = nodes - first
    earlier = first + (rng.random(len(nodes)) * place).astype(np.int64)
    anywhere = first + (rng.random(len(nodes)) * np.repeat(counts, counts)).astype(np.int64)
    closes = rng.random(len(nodes)) < CLOSING_SHARE
    edges = np.concatenate([np.stack([nodes, earlier])[:, place > 0], np.stack([nodes, anywhere])[:, closes]], axis=1)
    x = rng.standard_normal((len(nodes), features), dtype=np.float32)
    y = rng.integers(0, classes, graphs)
    return MemorySource("small-graphs", "generated", RawGraphs(counts, edges, x, y, "graph-classification"))
