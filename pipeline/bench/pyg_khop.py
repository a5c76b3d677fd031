"""The peer of extraction: what one writes with PyG alone, a call for every node."""

import time

import torch
from torch_geometric.utils import k_hop_subgraph

BLOCK_NODES = 1024
TRIAL_NODES = 48


def khop_loop(
    edge_index: torch.Tensor, num_nodes: int, hops: int, first: int = 0, last: int | None = None
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return members and relabelled edges (2, both directions) of each node's neighbourhood.

    Parameters
    ----------
    first, last : only the nodes first to last - 1; default: all.
    """
    return [
        k_hop_subgraph(node, hops, edge_index, relabel_nodes=True, num_nodes=num_nodes)[:2]
        for node in range(first, num_nodes if last is None else last)
    ]


def timed_khop_loop(
    edge_index: torch.Tensor, num_nodes: int, hops: int
) -> tuple[float, list[tuple[torch.Tensor, torch.Tensor]]]:
    """Return the wall time of `khop_loop` over all nodes, and what it found.

    For each block of nodes torch gets as many threads as serve it best at that moment, one or its default, tried on a
    few nodes outside the time. While a machine is busy with something else too, torch's threads mostly wait for each
    other, and the peer would look many times worse than it is.
    """
    default = torch.get_num_threads()
    seconds, found = 0.0, []
    try:
        for first in range(0, num_nodes, BLOCK_NODES):
            last = min(first + BLOCK_NODES, num_nodes)
            trials = {}
            for threads in (default, 1):
                torch.set_num_threads(threads)
                start = time.perf_counter()
                khop_loop(edge_index, num_nodes, hops, first, min(first + TRIAL_NODES, last))
                trials[threads] = time.perf_counter() - start
            torch.set_num_threads(min(trials, key=lambda threads: trials[threads]))
            start = time.perf_counter()
            found += khop_loop(edge_index, num_nodes, hops, first, last)
            seconds += time.perf_counter() - start
    finally:
        torch.set_num_threads(default)
    return seconds, found
