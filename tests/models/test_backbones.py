"""Backbones compute what their definitions say, whatever shares the batch."""

import numpy as np
import pytest
import torch
from torch_geometric.nn import GATConv, GCNConv, GINConv

from leap.models.backbones import GraphBatch, make_backbone
from leap.models.registries import BACKBONES, backbone_traits
from leap.store.errors import InvalidInputError

EDGES = torch.tensor([[0, 1, 2, 4, 5], [1, 2, 0, 5, 6]])


ON_NODES = [
    name for name in BACKBONES if not (backbone_traits(name).looks_at_graphs or backbone_traits(name).needs_edges)
]


def batch_of(edges: torch.Tensor, ptr: list[int]) -> GraphBatch:
    pointers = torch.tensor(ptr)
    batch = torch.repeat_interleave(torch.arange(len(ptr) - 1), pointers.diff())
    return GraphBatch(torch.cat([edges, edges.flip(0)], dim=1), pointers, batch)


@pytest.mark.parametrize("name", ON_NODES)
def test_a_graph_scores_the_same_alone_and_in_a_batch(name):
    torch.manual_seed(0)
    model = make_backbone(name, 3, 4).eval()
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32))
    with torch.no_grad():
        together = model(x, batch_of(EDGES, [0, 3, 3, 4, 7]))
        first = model(x[:3], batch_of(EDGES[:, :3], [0, 3]))
        last = model(x[4:], batch_of(EDGES[:, 3:] - 4, [0, 3]))
    torch.testing.assert_close(together[:3], first, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(together[4:], last, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "layer"), [("gcn", GCNConv), ("gat", GATConv)])
def test_shared_edges_change_nothing(name, layer):
    torch.manual_seed(0)
    model = make_backbone(name, 3, 4)
    x = torch.randn(7, 3)
    batch = batch_of(EDGES, [0, 3, 4, 7])
    plain = x
    for number, ours in enumerate(model.layers):
        reference = layer(ours.lin.in_features, ours.lin.out_features)  # with self-loops and weights of its own
        reference.load_state_dict(ours.state_dict())
        plain = reference(plain.relu() if number else plain, batch.edge_index)
    torch.testing.assert_close(model(x, batch), plain)


@pytest.mark.parametrize(
    ("name", "layer"), [("gcn", GCNConv), ("gat", GATConv), ("gin", lambda a, b: GINConv(torch.nn.Linear(a, b)))]
)
def test_a_seed_gives_the_numbers_of_pygs_layers_under_their_names(name, layer):
    torch.manual_seed(3)
    ours, after = make_backbone(name, 3, 4, hidden=5, layers=3).layers, torch.rand(1)
    torch.manual_seed(3)
    theirs = [layer(a, b) for a, b in ((3, 5), (5, 5), (5, 4))]
    assert torch.equal(after, torch.rand(1))
    for own, wanted in zip(ours, theirs, strict=True):
        assert own.state_dict().keys() == wanted.state_dict().keys()
        assert all(torch.equal(own.state_dict()[key], value) for key, value in wanted.state_dict().items())


@pytest.mark.parametrize("is_training", [False, True])
def test_gps_computes_what_its_layers_do(is_training):
    torch.manual_seed(0)
    model = make_backbone("gps", 3, 4).double().train(is_training)
    for layer in model.layers:
        layer.dropout = layer.mlp[2].p = layer.mlp[4].p = 0.0
    x, batch = torch.randn(7, 3, dtype=torch.float64), batch_of(EDGES, [0, 3, 4, 7])
    plain = model.embed(x)
    for layer in model.layers:
        plain = layer(plain, batch.edge_index, batch.batch)
    torch.testing.assert_close(model(x, batch), model.readout(plain))


def test_nomp_and_mlp_ignore_edges_and_gin_sums_neighbours():
    torch.manual_seed(0)
    nomp, gin = make_backbone("nomp", 3, 4).eval(), make_backbone("gin", 3, 4, layers=1)
    mlp = make_backbone("mlp", 3, 4, layers=2)
    x = torch.randn(7, 3)
    batch, bare = batch_of(EDGES, [0, 3, 4, 7]), batch_of(EDGES[:, :0], [0, 3, 4, 7])
    torch.testing.assert_close(nomp(x, batch), nomp(x, bare))
    torch.testing.assert_close(mlp(x, batch), mlp.layers[1](mlp.layers[0](x).relu()))
    adjacency = torch.eye(7)
    adjacency[batch.edge_index[0], batch.edge_index[1]] = 1
    torch.testing.assert_close(gin(x, batch), gin.layers[0].nn(adjacency @ x))


@pytest.mark.parametrize("name", ON_NODES)
def test_batches_without_nodes_have_scores_of_zero(name):
    model = make_backbone(name, 3, 4).eval()
    nothing = batch_of(EDGES[:, :0], [0, 0, 0])
    assert torch.equal(nothing.pool(model(torch.zeros(0, 3), nothing)), torch.zeros(2, 4))


def test_wrong_names_and_sizes_are_refused():
    with pytest.raises(InvalidInputError, match="no backbone 'gnc'"):
        make_backbone("gnc", 2, 2)
    with pytest.raises(InvalidInputError, match="one layer"):
        make_backbone("nomp", 2, 2, layers=3)
    with pytest.raises(InvalidInputError, match="beside its states"):
        make_backbone("nomp", 2, 2, extra=3)
