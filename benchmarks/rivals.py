"""What one writes without LEAP: loops over PyG's functions, and the transform by vectorized torch operations.

``python -m benchmarks.rivals EDGES.npy NODES DIM`` runs PyG's LaPE, in a process that can be stopped.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE
from torch_geometric.utils import k_hop_subgraph, scatter

from benchmarks.graphs import LetterBatch
from benchmarks.measuring import seconds_of
from leap.models import kernels
from leap.models.kernels.normalization import MARGIN
from leap.models.transform import plain_dect
from leap.store.errors import WorkFailedError

LOOP_NODES, TRIAL_NODES = 1024, 48
BLOCK_NODES = 128
"""Neighbourhoods whose sigmoids, some 160,000, stay in a processor's cache."""
READY = "ready"


def khop_loop(
    edge_index: Tensor, num_nodes: int, hops: int, first: int = 0, last: int | None = None
) -> list[tuple[Tensor, Tensor]]:
    """Return members and relabelled edges (2, both directions) of each node's neighbourhood.

    Parameters
    ----------
    first, last : only the nodes first to last - 1; default: all.
    """
    return [
        k_hop_subgraph(node, hops, edge_index, relabel_nodes=True, num_nodes=num_nodes)[:2]
        for node in range(first, num_nodes if last is None else last)
    ]


def timed_khop_loop(edge_index: Tensor, num_nodes: int, hops: int) -> tuple[float, list[tuple[Tensor, Tensor]]]:
    """Return the wall time of `khop_loop` over all nodes, and what it found.

    For each block of nodes torch gets as many threads as serve it best at that moment, one or its default, tried on a
    few nodes outside the time. While a machine is busy with something else too, torch's threads mostly wait for each
    other, and the peer would look many times worse than it is.
    """
    default = torch.get_num_threads()
    seconds, found = 0.0, []
    try:
        for first in range(0, num_nodes, LOOP_NODES):
            last = min(first + LOOP_NODES, num_nodes)
            trials = {}
            for threads in (default, 1):
                torch.set_num_threads(threads)
                end = min(first + TRIAL_NODES, last)
                trials[threads] = seconds_of(partial(khop_loop, edge_index, num_nodes, hops, first, end))
            torch.set_num_threads(min(trials, key=lambda threads: trials[threads]))
            start = time.perf_counter()
            found += khop_loop(edge_index, num_nodes, hops, first, last)
            seconds += time.perf_counter() - start
    finally:
        torch.set_num_threads(default)
    return seconds, found


class PygTransform(nn.Module):
    """The differentiable Euler characteristic transform of 1-hop neighbourhoods, every sigmoid evaluated.

    Parameters
    ----------
    directions : (d, D) to start from; they are learned, and nothing keeps them on the sphere.
    """

    grid: Tensor

    def __init__(self, directions: Tensor, thresholds: int = 16, scale: float = 128.0, radius: float = 1.1) -> None:
        super().__init__()
        self.directions = nn.Parameter(directions.detach().clone())
        self.register_buffer(
            "grid", torch.from_numpy(kernels.threshold_grid(thresholds, radius)).float()[:, None, None]
        )
        self.scale = scale

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return (N, D, T) for features (N, d) and edges as PyG lists them."""
        found = khop_loop(edge_index, len(x), 1)
        hoods = Batch.from_data_list([Data(x=x[members], edge_index=edges) for members, edges in found])
        owner = hoods.batch
        centred = hoods.x - scatter(hoods.x, owner, reduce="mean")[owner]
        extent = scatter(centred.norm(dim=1), owner, reduce="max")[owner]
        heights = centred / (extent + MARGIN)[:, None] @ self.directions
        # Each edge once: PyG lists both directions of all of them.
        edges = hoods.edge_index[:, hoods.edge_index[0] < hoods.edge_index[1]]
        tops = torch.maximum(heights[edges[0]], heights[edges[1]])
        curves = x.new_zeros(len(self.grid), len(x), heights.shape[1])
        curves = curves.index_add(1, owner, torch.sigmoid(self.scale * (self.grid - heights)))
        curves = curves.index_add(1, owner[edges[0]], torch.sigmoid(self.scale * (self.grid - tops)), alpha=-1)
        return curves.permute(1, 2, 0)


class PygLeap(nn.Module):
    """The transform followed by one linear map to `out_channels` numbers."""

    def __init__(self, directions: Tensor, out_channels: int = 10) -> None:
        super().__init__()
        self.transform = PygTransform(directions)
        self.linear = nn.Linear(directions.shape[1] * len(self.transform.grid), out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return (N, out_channels)."""
        out: Tensor = self.linear(self.transform(x, edge_index).flatten(1))
        return out


def torch_dects(
    batch: LetterBatch, directions: Tensor, thresholds: Tensor, scale: float
) -> dict[str, Callable[[], Tensor]]:
    """Return several ways to the same transform (N, D, T), with every index known beforehand.

    Which is best depends on machine and size. The thresholds ascend.
    """
    x, stats, hoods = batch.x, batch.stats, batch.neighborhoods.torch()
    nodes, (lower, upper) = hoods.nodes.long(), hoods.edges.long()
    every = torch.arange(len(hoods))
    owner, edge_owner = (torch.repeat_interleave(every, ptr.diff()) for ptr in (hoods.node_ptr, hoods.edge_ptr))
    steepness = scale / (stats.scale + MARGIN)

    def heights() -> tuple[Tensor, Tensor]:
        """Heights of members and edges, multiplied by the scale while they are small."""
        height, offset = x @ directions, stats.mean @ directions
        tops = torch.maximum(height[lower], height[upper])
        members = (height[nodes] - offset[owner]) * steepness[owner, None]
        return members, (tops - offset[edge_owner]) * steepness[edge_owner, None]

    def whole() -> Tensor:
        return curves(*heights(), owner, edge_owner, len(hoods))

    def blocks() -> Tensor:
        members, tops = heights()
        pieces = zip(torch.split(members, sizes), torch.split(tops, edge_sizes), local, edge_local, counts, strict=True)
        return torch.cat([curves(*piece) for piece in pieces])

    def curves(members: Tensor, tops: Tensor, owner: Tensor, edge_owner: Tensor, count: int) -> Tensor:
        grid = scale * thresholds
        out = members.new_zeros(count, members.shape[1], len(grid))
        out.index_add_(0, owner, (grid - members[:, :, None]).sigmoid_())
        return out.index_add_(0, edge_owner, (grid - tops[:, :, None]).sigmoid_(), alpha=-1)

    bounds = [*range(0, len(hoods), BLOCK_NODES), len(hoods)]
    counts = [hi - lo for lo, hi in pairwise(bounds)]
    sizes, edge_sizes = hoods.node_ptr[bounds].diff().tolist(), hoods.edge_ptr[bounds].diff().tolist()
    local = [part - lo for part, lo in zip(torch.split(owner, sizes), bounds, strict=False)]
    edge_local = [part - lo for part, lo in zip(torch.split(edge_owner, edge_sizes), bounds, strict=False)]
    return {
        "plain": lambda: plain_dect(x, hoods, directions, thresholds, scale, stats, 1.0),
        "whole": whole,
        "blocks": blocks,
    }


def stopped_lape_seconds(
    edge_index: NDArray[np.int64], num_nodes: int, dim: int, limit: float, folder: Path
) -> tuple[float, bool]:
    """Time PyG's `AddLaplacianEigenvectorPE`, and stop it after `limit` seconds.

    Parameters
    ----------
    edge_index : (2, 2E) both directions of every edge; PyG is told that the graph is undirected.
    folder : where the edges are put for the other process.

    Returns
    -------
    (seconds, whether it was stopped); starting the process and its imports are not counted.
    """
    path = folder / "edges.npy"
    np.save(path, edge_index)
    command = [sys.executable, "-m", "benchmarks.rivals", str(path), str(num_nodes), str(dim)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline().strip() != READY:
                raise WorkFailedError("PyG's AddLaplacianEigenvectorPE could not be started; its error is above.")
            start = time.perf_counter()
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                return time.perf_counter() - start, True
            seconds = time.perf_counter() - start
            if process.returncode != 0:
                raise WorkFailedError(f"PyG's AddLaplacianEigenvectorPE failed after {seconds:.1f} s; see above.")
            return seconds, False
        finally:
            process.kill()


def main(path: str, num_nodes: str, dim: str) -> None:
    """Say that everything is loaded, then run PyG's transform."""
    # Imported by the transform when it runs; loading it is not what is measured.
    import scipy.sparse.linalg  # noqa: F401

    data = Data(edge_index=torch.from_numpy(np.load(path)), num_nodes=int(num_nodes))
    print(READY, flush=True)
    AddLaplacianEigenvectorPE(k=int(dim), is_undirected=True)(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
