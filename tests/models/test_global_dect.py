"""The global classifiers keep to their budgets and see what the local transform sees."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch

from leap.models.backbones import GraphBatch
from leap.models.global_dect import SmallGlobalDect
from leap.models.network import DatasetFacts, Network, NetworkConfig
from leap.models.transform import graph_dect
from leap.store.errors import InvalidInputError


@pytest.mark.parametrize(("name", "budget"), [("dect-4k", 4000), ("dect-65k", 65000)])
@pytest.mark.parametrize(("features", "classes"), [(2, 15), (1, 2), (38, 2), (56, 2), (300, 18), (3, 100)])
def test_sizes_are_within_five_percent_of_their_names(name, budget, features, classes):
    facts = DatasetFacts(features=features, outputs=classes)
    network = Network(NetworkConfig(backbone=name, encoding="none"), facts)
    assert abs(network.count_parameters()["total"] - budget) <= 0.05 * budget


def batch_of(graphs: list[nx.Graph]) -> GraphBatch:
    joined = nx.disjoint_union_all(graphs)
    edges = torch.tensor(list(joined.edges), dtype=torch.int64).reshape(-1, 2).T
    ptr = torch.tensor(np.cumsum([0, *(len(graph) for graph in graphs)]))
    batch = torch.repeat_interleave(torch.arange(len(graphs)), ptr.diff())
    return GraphBatch(torch.cat([edges, edges.flip(0)], dim=1), ptr, batch)


def test_the_transform_counts_nodes_minus_edges_below_each_threshold():
    graphs = [nx.cycle_graph(5), nx.empty_graph(0), nx.path_graph(4), nx.empty_graph(1), nx.complete_graph(4)]
    batch = batch_of(graphs)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(14, 3)).astype(np.float32))
    model = SmallGlobalDect(3, 2, scale=1e6)
    image = model.transform(x, batch).detach()
    for number, graph in enumerate(graphs):
        points = x[batch.batch == number].numpy().astype(np.float64)
        if not len(points):
            assert torch.equal(image[number], torch.zeros(16, 16))
            continue
        points -= points.mean(0)
        points /= np.linalg.norm(points, axis=1).max() + 1e-6
        heights = points @ model.directions.detach().numpy()
        for i in range(16):
            for j, threshold in enumerate(model.thresholds.tolist()):
                kept = graph.subgraph(np.flatnonzero(heights[:, i] <= threshold).tolist())
                assert image[number, i, j] == kept.number_of_nodes() - kept.number_of_edges()


def drawn(seed=0, dim=3, scale=20.0):
    graphs = [nx.cycle_graph(5), nx.empty_graph(0), nx.path_graph(4), nx.empty_graph(1), nx.complete_graph(4)]
    rng = np.random.default_rng(seed)
    x, directions = rng.normal(size=(14, dim)), rng.normal(size=(dim, 5))
    tensors = [
        torch.from_numpy(array).requires_grad_() for array in (x, directions / np.linalg.norm(directions, axis=0))
    ]
    return batch_of(graphs), *tensors, torch.linspace(-1.1, 1.1, 7, dtype=torch.float64), scale


def test_gradients_of_a_graph_are_finite_differences():
    graphs, x, directions, thresholds, scale = drawn()
    assert torch.autograd.gradcheck(
        lambda x, directions: graph_dect(x, graphs, directions, thresholds, scale, edge_weight=2.0), (x, directions)
    )


def test_compiled_loops_and_double_precision_agree_on_graphs():
    graphs, *exact, thresholds, scale = drawn(seed=1)
    upstream, found = torch.from_numpy(np.random.default_rng(2).normal(size=(5, 5, 7))), []
    for kind in (torch.float32, torch.float64):
        x, directions = (tensor.detach().to(kind).requires_grad_() for tensor in exact)
        out = graph_dect(x, graphs, directions, thresholds.to(kind), scale, edge_weight=1.0)
        out.backward(upstream.to(kind))
        found.append([tensor.double() for tensor in (out, x.grad, directions.grad)])
    for ours, wanted in zip(*found, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", [1e31, 3.0])
def test_what_float32_does_not_hold_on_the_way_is_computed_in_double_precision(scale):
    graphs, x, directions, thresholds, _ = drawn()
    radius = 1e300 if scale == 3.0 else 1.1
    grid = (thresholds / 1.1 * radius).float()  # infinite in float32
    met = graph_dect(x.detach().float(), graphs, directions.detach().float(), grid, scale)
    assert met.dtype == torch.float32
    assert met.isfinite().all()


def test_edges_may_stand_in_any_order():
    graphs, x, directions, thresholds, scale = drawn()
    order = torch.from_numpy(np.random.default_rng(0).permutation(graphs.edge_index.shape[1]))
    shuffled = replace(graphs, edge_index=graphs.edge_index[:, order])
    values = (directions.detach().float(), thresholds.float(), scale)
    met, wanted = (graph_dect(x.detach().float(), each, *values) for each in (shuffled, graphs))
    torch.testing.assert_close(met, wanted)


def test_translation_scaling_and_constant_features_do_no_harm():
    batch = batch_of([nx.cycle_graph(5), nx.path_graph(4)])
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32))
    model = SmallGlobalDect(2, 2, scale=4.0)
    torch.testing.assert_close(model.transform(3 * x + 1, batch), model.transform(x, batch), atol=1e-4, rtol=1e-4)
    flat = torch.full((9, 2), 1e5 / 3, requires_grad=True)
    scores = model(flat, batch)
    scores.sum().backward()
    assert scores.isfinite().all()
    assert flat.grad.isfinite().all()


def test_empty_graphs_score_zero_and_nodes_are_not_classified():
    model = SmallGlobalDect(2, 3)
    assert torch.equal(model(torch.randn(3, 2), batch_of([nx.path_graph(3), nx.empty_graph(0)]))[1], torch.zeros(3))
    facts = DatasetFacts(features=2, outputs=3, task="node-classification")
    with pytest.raises(InvalidInputError, match="whole graphs"):
        Network(NetworkConfig(backbone="dect-4k", encoding="none"), facts)
