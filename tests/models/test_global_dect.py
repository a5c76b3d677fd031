"""The global classifiers keep to their budgets and see what the local transform sees."""

import networkx as nx
import numpy as np
import pytest
import torch

from leap.models.backbones import GraphBatch
from leap.models.global_dect import SmallGlobalDect
from leap.models.network import DatasetFacts, Network, NetworkConfig
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
