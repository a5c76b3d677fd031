"""The synthetic dataset of the paper: graphs of three nodes whose label is their number of edges."""

import numpy as np

from leap.pipeline.datasets.generated import GeneratedFamily, GeneratedSource, embedded_card
from leap.pipeline.graphs import RawGraphs

# Edges of the triad with 0, 1, 2 and 3 edges. The points are exchangeable, so it does not matter which are
# chosen.
_EDGES = ((), ((0, 1),), ((0, 1), (1, 2)), ((0, 1), (1, 2), (0, 2)))


def triads(draws: int, seed: int) -> RawGraphs:
    """Draw `draws` times three points uniform in the unit disk, each with 0, 1, 2 and 3 edges.

    Graphs 4i to 4i + 3 hold the same three points of draw i, with 0 to 3 edges, so that classes are balanced
    in every run of the order and features say nothing about the label.
    """
    points = _unit_disk(3 * draws, seed).reshape(draws, 1, 3, 2)
    x = np.ascontiguousarray(np.broadcast_to(points, (draws, 4, 3, 2))).reshape(-1, 2)
    pattern = np.array([(3 * c + a, 3 * c + b) for c, edges in enumerate(_EDGES) for a, b in edges], dtype=np.int64)
    edges = (pattern[None, :, :] + 12 * np.arange(draws, dtype=np.int64)[:, None, None]).reshape(-1, 2).T
    return RawGraphs(
        node_counts=np.full(4 * draws, 3, dtype=np.int64),
        edges=np.ascontiguousarray(edges),
        x=x.astype(np.float32),
        y=np.tile(np.arange(4, dtype=np.int64), draws),
        task="graph-classification",
        feature_source="points in the unit disk",
    )


def _unit_disk(count: int, seed: int) -> np.ndarray:
    """Uniform points by rejection: no sine or cosine, whose last bit differs between machines."""
    rng = np.random.Generator(np.random.PCG64(seed))
    kept = np.empty((0, 2))
    while len(kept) < count:
        square = 2.0 * rng.random((count, 2)) - 1.0
        kept = np.concatenate([kept, square[square[:, 0] ** 2 + square[:, 1] ** 2 <= 1.0]])
    return kept[:count]


FAMILY = GeneratedFamily(
    GeneratedSource(embedded_card("triads", size=(40_000, 120_000)), 1, {"draws": 10_000, "seed": 42}, triads)
)
