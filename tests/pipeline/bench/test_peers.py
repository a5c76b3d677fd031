"""Peers compute the very thing that they are compared on."""

import networkx as nx
import numpy as np
import pytest
import torch

from leap.models.kernels.directions import random_directions, threshold_grid
from leap.pipeline.bench.letter_like import LetterBatch, letter_like
from leap.pipeline.bench.pyg_leap import PygLeap, PygTransform
from leap.pipeline.bench.torch_dect import BLOCK_NODES, Operands, torch_dects


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
    for name, way in torch_dects(
        Operands(batch.x, batch.neighborhoods, directions, thresholds, scale, batch.stats)
    ).items():
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
