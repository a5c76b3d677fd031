"""The peer of extraction: what one writes with PyG alone, a call for every node."""

import time

import torch
from torch_geometric.utils import k_hop_subgraph

TRIAL_NODES = 256


def khop_loop(
    edge_index: torch.Tensor, num_nodes: int, hops: int, nodes: int | None = None
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return members and relabelled edges (2, both directions) of each node's neighbourhood.

    Parameters
    ----------
    nodes : only so many nodes, the first ones; default: all.
    """
    found = []
    for node in range(num_nodes if nodes is None else nodes):
        members, edges, _, _ = k_hop_subgraph(node, hops, edge_index, relabel_nodes=True, num_nodes=num_nodes)
        found.append((members, edges))
    return found


def timed_khop_loop(
    edge_index: torch.Tensor, num_nodes: int, hops: int
) -> tuple[float, list[tuple[torch.Tensor, torch.Tensor]]]:
    """Return the wall time of `khop_loop` over all nodes, and what it found.

    Torch gets as many threads as serve it best, one or its default, tried on a few nodes first: on a machine that is
    busy with something else, its threads wait for each other most of the time, and the peer would look worse than it
    is.
    """
    default = torch.get_num_threads()
    few = min(TRIAL_NODES, num_nodes)
    try:
        trials = {}
        for threads in (default, 1):
            torch.set_num_threads(threads)
            khop_loop(edge_index, num_nodes, hops, few // 8)
            start = time.perf_counter()
            khop_loop(edge_index, num_nodes, hops, few)
            trials[threads] = time.perf_counter() - start
        torch.set_num_threads(min(trials, key=lambda threads: trials[threads]))
        start = time.perf_counter()
        found = khop_loop(edge_index, num_nodes, hops)
        return time.perf_counter() - start, found
    finally:
        torch.set_num_threads(default)
