"""Generate a batch of small graphs, about the size and shape of drawn letters, with their neighbourhoods."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from leap.models import Statistics
from leap.models.kernels.normalization import mean_and_scale
from leap.pipeline.neighborhoods import khop
from leap.store import Neighborhoods

FEWEST_NODES, MOST_NODES = 3, 8
NODES_A_CHORD = 3


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
    counts = rng.integers(FEWEST_NODES, MOST_NODES + 1, graphs)
    first = np.cumsum(counts) - counts
    nodes = np.arange(counts.sum())
    inner = np.setdiff1d(nodes, first)
    chords = np.repeat(np.arange(graphs), counts // NODES_A_CHORD)
    ends = first[chords] + (rng.random((2, len(chords))) * counts[chords]).astype(np.int64)
    pairs = np.concatenate([np.stack([inner - 1, inner]), ends[:, ends[0] != ends[1]]], axis=1)
    both = np.unique(np.concatenate([pairs, pairs[::-1]], axis=1), axis=1)
    x = rng.standard_normal((len(nodes), 2), dtype=np.float32)
    hoods = khop(both, len(nodes), 1)
    mean, scale = mean_and_scale(x, hoods.node_ptr, hoods.nodes)
    stats = Statistics(torch.from_numpy(mean), torch.from_numpy(scale))
    return LetterBatch(torch.from_numpy(x), torch.from_numpy(np.ascontiguousarray(both)), hoods, stats)
