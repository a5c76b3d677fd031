"""Peers compute the very thing that they are compared on."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.utils import to_undirected

from benchmarks.graphs import LetterBatch, letter_like
from benchmarks.rivals import (
    BLOCK_NODES,
    PygLeap,
    PygTransform,
    khop_loop,
    stopped_lape_seconds,
    timed_khop_loop,
    torch_dects,
)
from leap.models.kernels import random_directions, threshold_grid
from tests.processes import PATIENCE_SECONDS


def by_definition(batch: LetterBatch, directions: np.ndarray, thresholds: np.ndarray, scale: float) -> np.ndarray:
    """The formula itself, node by node in double precision."""
    graph = nx.Graph(batch.edge_index.T.tolist())
    x = batch.x.double().numpy()

    def curve(height: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(np.clip(scale * (height[:, None] - thresholds), -700, 700)))

    out = np.zeros((len(x), directions.shape[1], len(thresholds)))
    for node in range(len(x)):
        ego = nx.ego_graph(graph, node)
        members = list(ego)
        centred = x[members] - x[members].mean(0)
        heights = dict(zip(members, centred / (np.linalg.norm(centred, axis=1).max() + 1e-6) @ directions, strict=True))
        out[node] += sum(curve(height) for height in heights.values())
        out[node] -= sum(curve(np.maximum(heights[a], heights[b])) for a, b in ego.edges)
    return out


@pytest.fixture(scope="module")
def batch() -> LetterBatch:
    batch = letter_like(60)
    assert len(batch.x) > 2 * BLOCK_NODES  # more than one block
    return batch


@pytest.mark.parametrize("scale", [8.0, 128.0])
def test_every_way_with_torch_gives_the_transform_and_its_gradient(batch: LetterBatch, scale: float) -> None:
    start, grid = random_directions(2, 16), threshold_grid(16, 1.1)
    expected = by_definition(batch, start, grid, scale)
    directions = torch.from_numpy(start).float().requires_grad_()
    upstream = torch.rand(expected.shape, generator=torch.Generator().manual_seed(1))
    thresholds = torch.from_numpy(grid).float()
    gradients = {}
    for name, way in torch_dects(batch, directions, thresholds, scale).items():
        out = way()
        np.testing.assert_allclose(out.detach(), expected, atol=2e-6 * scale, err_msg=name)
        (gradients[name],) = torch.autograd.grad(out, directions, upstream)
    assert len(gradients) == 3
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, gradients["plain"], rtol=1e-3, atol=1e-2, msg=name)


def test_pyg_gives_the_transform_and_learns_directions(batch: LetterBatch) -> None:
    start = random_directions(2, 16)
    peer = PygTransform(torch.from_numpy(start).float())
    out = peer(batch.x, batch.edge_index)
    np.testing.assert_allclose(out.detach(), by_definition(batch, start, threshold_grid(16, 1.1), 128.0), atol=3e-4)
    out.square().sum().backward()
    assert peer.directions.grad is not None
    assert bool(peer.directions.grad.abs().sum() > 0)


def test_pyg_counts_a_lone_node_once() -> None:
    peer = PygTransform(torch.eye(2))
    out = peer(torch.ones(1, 2), torch.zeros(2, 0, dtype=torch.int64))
    torch.testing.assert_close(out[0, 0], torch.sigmoid(128 * peer.grid.flatten()))


def test_pyg_leap_has_as_many_parameters_as_ours(batch: LetterBatch) -> None:
    peer = PygLeap(torch.from_numpy(random_directions(2, 16)).float())
    assert sum(parameter.numel() for parameter in peer.parameters()) == 2570 + 2 * 16
    assert peer(batch.x, batch.edge_index).shape == (len(batch.x), 10)


@pytest.mark.parametrize("hops", [1, 2])
def test_the_peer_finds_the_ego_graphs(hops: int) -> None:
    graph = nx.gnp_random_graph(40, 0.08, seed=3)
    edge_index = to_undirected(torch.tensor(list(graph.edges)).T, num_nodes=40)
    for node, (members, edges) in enumerate(khop_loop(edge_index, 40, hops)):
        ego = nx.ego_graph(graph, node, radius=hops)
        assert set(members.tolist()) == set(ego.nodes)
        assert {frozenset(pair) for pair in members[edges].T.tolist()} == {frozenset(pair) for pair in ego.edges}


def test_the_timed_peer_covers_all_nodes_and_leaves_the_threads_as_they_were() -> None:
    edge_index = to_undirected(torch.stack([torch.arange(9), torch.arange(1, 10)]))
    threads = torch.get_num_threads()
    seconds, found = timed_khop_loop(edge_index, 10, 1)
    assert seconds > 0
    assert [len(members) for members, _ in found] == [2, *[3] * 8, 2]
    assert torch.get_num_threads() == threads


def cycle(length: int) -> np.ndarray:
    nodes = np.arange(length)
    following = (nodes + 1) % length
    return np.stack([np.concatenate([nodes, following]), np.concatenate([following, nodes])])


@pytest.mark.slow
def test_a_peer_that_finishes_in_time_is_timed(tmp_path: Path) -> None:
    seconds, is_stopped = stopped_lape_seconds(cycle(60), 60, 3, PATIENCE_SECONDS, tmp_path)
    assert not is_stopped
    assert seconds > 0


def test_a_peer_that_takes_too_long_is_stopped_there(tmp_path: Path) -> None:
    seconds, is_stopped = stopped_lape_seconds(cycle(300_000), 300_000, 10, 0.0, tmp_path)
    assert is_stopped
    assert seconds >= 0
