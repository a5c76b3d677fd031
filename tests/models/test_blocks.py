"""Layers made blocks compute what the modules of torch and PyG do, and the plain network stays as it was."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GINConv

from leap.models import noise
from leap.models.backbones import GraphBatch, make_backbone
from leap.models.layers import BatchNorm
from leap.models.network import Network
from leap.models.network_config import DatasetFacts, NetworkConfig, can_stack
from leap.models.rows import Rows
from leap.store.errors import InvalidInputError
from tests.models.test_backbones import EDGES, batch_of

CONVOLUTIONS = {"gcn": GCNConv, "gat": GATConv, "gin": lambda a, b: GINConv(nn.Linear(a, b))}
NORMS = {"none": nn.Identity, "layer": nn.LayerNorm, "batch": nn.BatchNorm1d}
HIDDEN, LAYERS = 6, 3
BATCH = batch_of(EDGES, [0, 3, 4, 7])


class Oracle(nn.Module):
    """The same from torch's and PyG's modules, one after the other."""

    def __init__(self, name: str, norm: str, residual: bool, feed_forward: bool, dropout: float) -> None:
        super().__init__()
        self.residual, self.drop = residual, nn.Dropout(dropout)
        self.embed, self.readout = nn.Linear(3, HIDDEN), nn.Linear(HIDDEN, 4)
        self.layers = nn.ModuleList(CONVOLUTIONS[name](HIDDEN, HIDDEN) for _ in range(LAYERS))
        self.maps = nn.ModuleList(nn.Linear(HIDDEN, HIDDEN) for _ in range(LAYERS if feed_forward else 0))
        self.norms = nn.ModuleList(NORMS[norm](HIDDEN) for _ in range(LAYERS + 1))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = self.drop(self.embed(x).relu())
        for number, layer in enumerate(self.layers):
            seen = self.drop(layer(self.norms[number](x), edge_index).relu())
            seen = self.drop(self.maps[number](seen)) if len(self.maps) else seen
            x = x + seen if self.residual else seen
        return self.readout(self.norms[-1](x))


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize(
    ("norm", "residual", "feed_forward"),
    [each for each in product(NORMS, (False, True), (False, True)) if each != ("none", False, False)],
)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_blocks_compute_what_modules_do(name, norm, residual, feed_forward, is_training):
    torch.manual_seed(0)
    chosen = {"norm": norm, "residual": residual, "feed_forward": feed_forward, "dropout": 0.3}
    ours = make_backbone(name, 3, 4, HIDDEN, LAYERS, **chosen).train(is_training)
    oracle = Oracle(name, **chosen).train(is_training)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.normal_(std=0.5)
    oracle.load_state_dict(ours.state_dict(), strict=True)
    x = torch.randn(7, 3)
    found = []
    for model, edges in ((ours, BATCH), (oracle, BATCH.edge_index)):
        given = x.clone().requires_grad_()
        torch.manual_seed(1)  # of the dropout
        scores = model(given, edges)
        scores.square().sum().backward()
        found.append((scores, given.grad, *(parameter.grad for _, parameter in sorted(model.named_parameters()))))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
    for key, buffer in oracle.named_buffers():
        if "running" in key:
            torch.testing.assert_close(ours.state_dict()[key], buffer)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_gradients_are_finite_differences(name):
    torch.manual_seed(0)
    model = make_backbone(name, 3, 2, 4, 2, norm="layer", residual=True, feed_forward=True).double()
    x = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda given: model(given, BATCH), (x,))


def test_a_stack_drops_the_share_that_is_asked_for_and_keeps_the_mean():
    backbone = make_backbone("gat", 3, 2, 64, 2, dropout=0.25)
    rows = Rows.of([3000], noise=noise.keys(1, 2, 3))
    drop = backbone._drop(0, rows)
    factors = noise.dropout_factors(torch.ones(3000, 64), drop.share, drop.keys, rows)
    assert factors.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert float((factors == 0).float().mean()) == pytest.approx(0.25, abs=0.005)
    others = noise.dropout_factors(factors, drop.share, backbone._drop(1, rows).keys, rows)
    assert not torch.equal(factors, others)


def test_nothing_is_dropped_where_nothing_is_trained():
    x, rows = torch.randn(7, 3), Rows.of([7])
    for name in CONVOLUTIONS:
        backbone = make_backbone(name, 3, 4, dropout=0.5).eval()
        assert torch.equal(backbone(x, BATCH), backbone(x, BATCH))
        assert backbone.train()._drop(0, rows).share == 0.0


@pytest.mark.parametrize("name", ["gcn", "gat", "gin"])
def test_options_at_their_defaults_leave_the_plain_network(name):
    facts = DatasetFacts(features=3, outputs=4)
    states = []
    for chosen in ({}, {"norm": "none", "residual": False, "feed_forward": False, "dropout": 0.0}):
        torch.manual_seed(5)
        states.append(Network(NetworkConfig(backbone=name, encoding="none", **chosen), facts).state_dict())
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


@pytest.mark.parametrize("rows", [0, 1])
def test_a_batch_of_fewer_than_two_rows_gets_the_running_statistics(rows):
    norm, oracle = BatchNorm(3).train(), nn.BatchNorm1d(3)
    norm(torch.randn(50, 3))
    oracle.load_state_dict(norm.state_dict())
    x = torch.randn(rows, 3)
    before = norm.running_mean.clone()
    torch.testing.assert_close(norm(x), oracle.eval()(x))
    assert torch.equal(norm.running_mean, before)


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_batches_without_nodes_pass_through_norms(norm):
    model = make_backbone("gcn", 3, 4, norm=norm).train()
    nothing = batch_of(EDGES[:, :0], [0, 0, 0])
    assert model(torch.zeros(0, 3), nothing).shape == (0, 4)


def test_what_a_backbone_drops_can_be_chosen():
    assert make_backbone("nomp", 3, 4, dropout=0.4).encoder.dropout.p == 0.4
    assert make_backbone("gps", 3, 4, dropout=0.4).layers[0].dropout == 0.4
    assert make_backbone("nomp", 3, 4).encoder.dropout.p == make_backbone("gps", 3, 4).layers[0].dropout == 0.1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"backbone": "nomp", "norm": "layer"}, "nomp has no such layers; leave norm, residual and feed_forward out"),
        ({"backbone": "gps", "residual": True}, "gps has no such layers"),
        ({"backbone": "dect-4k", "feed_forward": True}, "dect-4k has no such layers"),
        ({"backbone": "dect-4k", "dropout": 0.1}, "what dect-4k drops cannot be chosen; leave dropout out"),
        ({"dropout": 1.0}, "dropout is 1.0: input should be less than 1"),
        ({"dropout": -0.1}, "dropout is -0.1: input should be greater than or equal to 0"),
        ({"dropout": float("nan")}, "dropout is nan: input should be a finite number"),
        ({"norm": "group"}, "norm is 'group'. Choose from none, layer, batch"),
    ],
)
def test_what_means_nothing_is_refused(values, message):
    with pytest.raises(InvalidInputError, match=message):
        NetworkConfig.of(values)


def test_networks_with_batch_normalization_are_trained_alone():
    stacked = {norm: can_stack(NetworkConfig(encoding="none", norm=norm), is_node_task=False) for norm in NORMS}
    assert stacked == {"none": True, "layer": True, "batch": False}


def test_random_places_of_a_network_are_all_different():
    config = NetworkConfig(encoding="lape+leap-l", projection="attention", hops=(1, 2), layers=7, dropout=0.1)
    network = Network(config, DatasetFacts(features=3, outputs=2))
    noisy = [module for module in network.modules() if hasattr(module, "first_site")]
    used = np.concatenate([np.arange(each.first_site, each.first_site + each.sites) for each in noisy])
    assert len(np.unique(used)) == len(used)
    assert network.backbone.sites == 15


def test_a_graph_scores_the_same_alone_and_in_a_batch():
    torch.manual_seed(0)
    model = make_backbone("gcn", 3, 4, norm="batch", residual=True, feed_forward=True).eval()
    x = torch.randn(7, 3)
    alone = GraphBatch(
        *(BATCH.edge_index[:, (BATCH.edge_index < 3).all(0)], torch.tensor([0, 3]), torch.zeros(3).long())
    )
    torch.testing.assert_close(model(x, BATCH)[:3], model(x[:3], alone))


def test_gps_takes_a_batch_of_one_node():
    model = make_backbone("gps", 3, 4).train()
    out = model(torch.randn(1, 3), batch_of(EDGES[:, :0], [0, 1]))
    out.sum().backward()
    assert out.isfinite().all()
