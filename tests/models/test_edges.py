"""What networks do with attributes of edges: messages that see them, and transforms that weigh edges by them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.nn import GINEConv

from leap.models import LEAP, dect, edge_weights
from leap.models.backbones import GraphBatch, make_backbone
from leap.models.encodings import NodeData
from leap.models.messages import sum_messages
from leap.models.network import Network
from leap.models.network_config import DatasetFacts, NetworkConfig
from leap.models.transform import graph_dect
from leap.pipeline import khop
from leap.store.errors import InvalidInputError

EDGES = torch.tensor([[0, 1, 2, 4, 5], [1, 2, 0, 5, 6]])
BOTH = torch.cat([EDGES, EDGES.flip(0)], dim=1)


def batch_of(edge_attr, edges=BOTH, ptr=(0, 3, 4, 7), **rest):
    pointers = torch.tensor(ptr)
    owner = torch.repeat_interleave(torch.arange(len(ptr) - 1), pointers.diff())
    return GraphBatch(edges, pointers, owner, edge_attr=edge_attr, **rest)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gine_computes_what_pygs_layers_do(dtype):
    torch.manual_seed(0)
    model = make_backbone("gine", 3, 4, layers=3, edge_channels=2).to(dtype)
    x, attributes = (torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in ((7, 3), (10, 2)))
    plain = x
    for number, ours in enumerate(model.layers):
        reference = GINEConv(torch.nn.Linear(ours.nn.in_features, ours.nn.out_features), edge_dim=2).to(dtype)
        reference.load_state_dict(ours.state_dict())
        plain = reference(plain.relu() if number else plain, BOTH, attributes)
    out = model(x, batch_of(attributes))
    torch.testing.assert_close(out, plain, rtol=1e-5, atol=1e-5)
    upstream = torch.randn(7, 4, dtype=dtype)
    found, wanted = (torch.autograd.grad(each, [x, attributes], upstream) for each in (out, plain))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_seed_gives_the_numbers_of_pygs_layers():
    torch.manual_seed(3)
    ours, after = make_backbone("gine", 3, 4, hidden=5, layers=2, edge_channels=6).layers, torch.rand(1)
    torch.manual_seed(3)
    theirs = [GINEConv(torch.nn.Linear(a, b), edge_dim=6) for a, b in ((3, 5), (5, 4))]
    assert torch.equal(after, torch.rand(1))
    for own, wanted in zip(ours, theirs, strict=True):
        assert own.state_dict().keys() == wanted.state_dict().keys()
        assert all(torch.equal(own.state_dict()[key], value) for key, value in wanted.state_dict().items())


@pytest.mark.parametrize("is_training", [False, True])
def test_gps_with_attributes_computes_what_its_layers_do(is_training):
    torch.manual_seed(0)
    model = make_backbone("gps", 3, 4, edge_channels=2).double().train(is_training)
    for layer in model.layers:
        layer.dropout = layer.mlp[2].p = layer.mlp[4].p = 0.0
    x, batch = torch.randn(7, 3, dtype=torch.float64), batch_of(torch.randn(10, 2, dtype=torch.float64))
    plain = model.embed(x)
    for layer in model.layers:
        plain = layer(plain, batch.edge_index, batch.batch, edge_attr=batch.edge_attr)
    torch.testing.assert_close(model(x, batch), model.readout(plain))


def test_messages_have_the_gradients_of_finite_differences():
    torch.manual_seed(1)
    x, along = (torch.randn(n, 3, dtype=torch.float64, requires_grad=True) for n in (7, 10))
    assert torch.autograd.gradcheck(lambda x, along: sum_messages(x, BOTH, along), (x, along))
    narrow = [each.detach().float().requires_grad_() for each in (x, along)]
    upstream = torch.randn(7, 3, dtype=torch.float64)
    wide = torch.autograd.grad(sum_messages(x, BOTH, along), [x, along], upstream)
    compiled = torch.autograd.grad(sum_messages(narrow[0], BOTH, narrow[1]), narrow, upstream.float())
    for one, other in zip(wide, compiled, strict=True):
        torch.testing.assert_close(one.float(), other)


def test_messages_that_are_no_number_are_none_in_both_paths():
    x, along = torch.ones(2, 1), torch.tensor([[float("nan")], [-5.0]])
    edges = torch.tensor([[0, 1], [1, 0]])
    found = [sum_messages(x.to(kind), edges, along.to(kind)).float() for kind in (torch.float32, torch.float64)]
    assert torch.equal(found[0].isnan(), torch.tensor([[False], [True]]))
    torch.testing.assert_close(*found, equal_nan=True)


def test_messages_keep_a_byte_per_entry_for_the_way_back():
    x, along = torch.randn(7, 8, requires_grad=True), torch.randn(10, 8, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        out = sum_messages(x, BOTH, along)
    assert all(not tensor.is_floating_point() for tensor in kept)
    assert out.grad_fn.is_on.nbytes == 10 * 8


@pytest.mark.parametrize(
    ("edges", "shape", "message"),
    [
        (torch.tensor([[0, 7], [1, 0]]), (2, 3), "edge_index must lie in 0…6"),
        (torch.tensor([[0, -1], [1, 0]]), (2, 3), "edge_index must lie in 0…6"),
        (torch.tensor([[0, 1], [1, 0]]), (3, 3), "shape"),
        (torch.tensor([[0, 1], [1, 0]]), (2, 2), "shape"),
        (torch.tensor([0, 1]), (2, 3), "edge_index must hold integers"),
    ],
)
def test_messages_along_other_edges_are_refused(edges, shape, message):
    with pytest.raises(InvalidInputError, match=message):
        sum_messages(torch.zeros(7, 3), edges, torch.zeros(*shape))


def test_second_derivatives_of_compiled_messages_are_refused():
    x, along = torch.randn(7, 3, requires_grad=True), torch.randn(10, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(sum_messages(x, BOTH, along).square().sum(), x, create_graph=True)
    with pytest.raises(InvalidInputError, match="sum_messages in float32 on the CPU has no second derivative"):
        gradient.sum().backward()


def test_backbones_say_what_they_need_of_edges():
    with pytest.raises(InvalidInputError, match="gine needs attributes of edges"):
        make_backbone("gine", 3, 4)
    with pytest.raises(InvalidInputError, match=r"gin takes no attributes of edges\. Use gine, gps"):
        make_backbone("gin", 3, 4, edge_channels=2)
    model = make_backbone("gine", 3, 4, edge_channels=2)
    with pytest.raises(InvalidInputError, match="the batch has none"):
        model(torch.zeros(7, 3), batch_of(None))
    with pytest.raises(InvalidInputError, match=r"must have shape \(10, c\)"):
        model(torch.zeros(7, 3), batch_of(torch.zeros(9, 2)))


LENGTHS = DatasetFacts(features=3, outputs=2, edge_features=2)
BONDS = DatasetFacts(features=3, outputs=2, edge_features=2, edge_codes=((1, 2, 3, 12), (0, 1)))


@pytest.mark.parametrize(
    ("options", "facts", "message"),
    [
        ({"backbone": "gine"}, DatasetFacts(features=3, outputs=2), "gine needs attributes of edges"),
        ({"backbone": "gps", "with_edges": True}, DatasetFacts(features=3, outputs=2), "gps needs attributes"),
        ({"encoding": "leap-l", "edge_weight_from": 2}, LENGTHS, "edge_weight_from is 2, and the edges have 2 columns"),
        ({"encoding": "leap-l", "edge_weight_from": 0}, BONDS, "are categories, which cannot weigh"),
    ],
)
def test_networks_say_what_they_need_of_edges(options, facts, message):
    with pytest.raises(InvalidInputError, match=message):
        Network(NetworkConfig(**({"encoding": "none"} | options)), facts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backbone": "gcn", "with_edges": True}, "gcn takes no attributes of edges"),
        ({"backbone": "gcn", "encoding": "rwpe", "edge_weight_from": 0}, "edge_weight_from needs the encoding"),
    ],
)
def test_options_of_edges_that_do_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        NetworkConfig(**options)


def test_categories_of_edges_are_embedded_half_as_wide_as_they_have_values():
    network = Network(NetworkConfig(backbone="gine", encoding="none"), BONDS)
    assert [table.weight.shape for table in network.edge_embedding.tables] == [(4, 2), (2, 1)]
    assert network.backbone.layers[0].lin.weight.shape == (3, 3)
    assert network.count_parameters()["embedding"] == 4 * 2 + 2
    unknown = batch_of(torch.full((10, 2), 1))
    unknown.edge_attr[3, 0] = 4
    with pytest.raises(InvalidInputError, match="categorical edge attribute 0 has the value 4"):
        network._scores(torch.zeros(7, 3), NodeData(unknown))


def test_networks_without_edges_are_what_they_were():
    plain, more = (
        Network(NetworkConfig(backbone="gps", encoding="none"), facts)
        for facts in (DatasetFacts(features=3, outputs=2), LENGTHS)
    )
    assert plain.state_dict().keys() == more.state_dict().keys()


# Weights in the transform


def formula(x, hoods, directions, thresholds, s, weights):
    """The definition, one neighbourhood after the other."""
    out = torch.zeros(len(x), directions.shape[1], len(thresholds), dtype=torch.float64)
    for v in range(len(x)):
        members = torch.as_tensor(np.asarray(hoods.members(v)).astype(np.int64))
        points = x[members]
        mean = points.mean(0)
        width = (points - mean).norm(dim=1).max()
        own = slice(int(hoods.edge_ptr[v]), int(hoods.edge_ptr[v + 1]))
        if len(members) == 1:
            heights = torch.zeros(len(x), directions.shape[1], dtype=torch.float64)
        else:
            heights = ((x - mean) / (width + 1e-6)) @ directions
        below = torch.sigmoid(s * (thresholds - heights[members][:, :, None]))
        tails, heads = torch.as_tensor(np.asarray(hoods.edges)[:, own].astype(np.int64))
        tops = torch.maximum(heights[tails], heights[heads])
        out[v] = below.sum(0) - (weights[own, None, None] * torch.sigmoid(s * (thresholds - tops[:, :, None]))).sum(0)
    return out


def case(seed=0, hops=2):
    generator = torch.Generator().manual_seed(seed)
    hoods = khop(EDGES, 7, hops)
    x = torch.randn(7, 2, generator=generator, dtype=torch.float64)
    directions = torch.nn.functional.normalize(torch.randn(2, 3, generator=generator, dtype=torch.float64), dim=0)
    weights = torch.randn(hoods.edges.shape[1], generator=generator, dtype=torch.float64)
    return hoods, x, directions, weights


GRIDS = [torch.linspace(-1.1, 1.1, 16).double(), torch.tensor([-0.7, -0.1, 0.0, 0.6], dtype=torch.float64)]


@pytest.mark.parametrize("thresholds", GRIDS, ids=["even", "uneven"])
@pytest.mark.parametrize("s", [8.0, 128.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_of_edges_give_the_formula(thresholds, s, dtype):
    hoods, x, directions, weights = case()
    wanted = formula(x, hoods, directions, thresholds, s, weights)
    given = (each.to(dtype) for each in (directions, thresholds))
    found = dect(x.to(dtype), hoods, *given, s, edge_weight=weights.to(dtype))
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-4 if dtype == torch.float32 else 1e-9)


@pytest.mark.parametrize("thresholds", GRIDS, ids=["even", "uneven"])
def test_gradients_with_weights_are_those_of_double_precision(thresholds):
    hoods, x, directions, weights = case()
    upstream = torch.randn(7, 3, len(thresholds), dtype=torch.float64)
    found = []
    for dtype in (torch.float64, torch.float32):
        inputs = [each.to(dtype, copy=True).requires_grad_() for each in (x, directions, thresholds)]
        out = dect(inputs[0], hoods, *inputs[1:], 8.0, edge_weight=weights.to(dtype))
        found.append(torch.autograd.grad(out, inputs, upstream.to(dtype)))
    for wide, narrow in zip(*found, strict=True):
        torch.testing.assert_close(narrow.double(), wide, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_can_be_learned(dtype):
    hoods, x, directions, weights = case()
    learned = weights.to(dtype, copy=True).requires_grad_()
    known = (x.to(dtype), hoods, directions.to(dtype), GRIDS[0].to(dtype), 8.0)
    (found,) = torch.autograd.grad(dect(*known, edge_weight=learned).sum(), learned)
    step = torch.zeros_like(weights)
    step[3] = 1.0
    more, less = (formula(x, hoods, directions, GRIDS[0], 8.0, weights + sign * step).sum() for sign in (1, -1))
    assert float(found[3]) == pytest.approx(float(more - less) / 2, rel=1e-4)


def test_one_weight_for_all_is_the_number():
    hoods, x, directions, _ = case()
    narrow = (x.float(), hoods, directions.float(), GRIDS[0].float(), 128.0)
    all_the_same = torch.full((hoods.edges.shape[1],), 2.0)
    assert torch.equal(dect(*narrow, edge_weight=all_the_same), dect(*narrow, edge_weight=2.0))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (torch.ones(3), "edge_weight must have shape"),
        (torch.ones(1), "edge_weight must have shape"),
        (torch.tensor([float("nan")]), "edge_weight must be finite. Got nan for edge 2"),
    ],
)
def test_weights_that_do_not_fit_are_refused(weights, message):
    hoods, x, directions, _ = case()
    if weights.isnan().any():
        weights = torch.ones(hoods.edges.shape[1]).index_fill(0, torch.tensor([2]), float("nan"))
    with pytest.raises(InvalidInputError, match=message):
        dect(x.float(), hoods, directions.float(), GRIDS[0].float(), 8.0, edge_weight=weights)


def test_edges_of_neighbourhoods_have_the_weights_of_the_graphs_edges():
    hoods = khop(EDGES, 7, 2)
    one_way = torch.arange(5.0)
    table = {frozenset(pair): weight for pair, weight in zip(EDGES.T.tolist(), one_way.tolist(), strict=True)}
    wanted = torch.tensor([table[frozenset(pair)] for pair in np.asarray(hoods.edges).T.tolist()])
    assert torch.equal(edge_weights(hoods, EDGES, one_way), wanted)
    assert torch.equal(edge_weights(hoods, EDGES.flip(0), one_way), wanted)
    shuffled = torch.randperm(10)
    both_ways = torch.cat([one_way, one_way + 4.0])
    assert torch.equal(edge_weights(hoods, BOTH[:, shuffled], both_ways[shuffled]), wanted + 2.0)


@pytest.mark.parametrize(
    ("edges", "weights", "message"),
    [
        (EDGES[:, :4], torch.ones(4), "an edge of the nodes 5 and 6, which edge_index lacks"),
        (EDGES[:, :0], torch.ones(0), "and their graph has none"),
        (EDGES, torch.ones(4), "weights must have shape"),
        (EDGES + 7, torch.ones(5), "edge_index must lie in 0…6"),
    ],
)
def test_weights_of_another_graph_are_refused(edges, weights, message):
    with pytest.raises(InvalidInputError, match=message):
        edge_weights(khop(EDGES, 7), edges, weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_whole_graphs_weigh_their_edges_by_both_directions(dtype):
    torch.manual_seed(0)
    x, directions = torch.randn(7, 2, dtype=dtype), torch.eye(2, dtype=dtype)
    order = torch.randperm(10)
    weights = torch.rand(10, dtype=dtype)
    graphs = batch_of(None, BOTH[:, order], edge_weights=weights[order])
    found = graph_dect(x, graphs, directions, GRIDS[0].to(dtype), 64.0, edge_weight=2.0)
    hoods = khop(EDGES, 7, 6)  # each node's is its whole graph
    each = edge_weights(hoods, BOTH, weights)
    wanted = dect(x, hoods, directions, GRIDS[0].to(dtype), 64.0, edge_weight=2.0 * each)[[0, 3, 4]]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_whole_graphs_weigh_edges_that_stand_in_any_order(seed):
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.combinations(torch.arange(6)).T
    edges, weights = torch.cat([pairs, pairs.flip(0)], dim=1), torch.rand(30, generator=generator)
    x, order = torch.randn(6, 2, generator=generator), torch.randperm(30, generator=generator)
    met, wanted = (
        graph_dect(x.to(kind), batch, torch.eye(2, dtype=kind), GRIDS[0].to(kind), 64.0)
        for kind, batch in (
            (torch.float32, batch_of(None, edges[:, order], (0, 6), edge_weights=weights[order])),
            (torch.float64, batch_of(None, edges, (0, 6), edge_weights=weights.double())),
        )
    )
    torch.testing.assert_close(met, wanted.float(), rtol=1e-4, atol=1e-4)


def test_leap_takes_weights_for_each_hop_count():
    torch.manual_seed(0)
    encoder, x = LEAP(2, 4, hops=(1, 2), edge_weight=2.0, seed=0), torch.randn(7, 2)
    hoods = [khop(EDGES, 7, hops) for hops in (1, 2)]
    ones = [torch.ones(hood.edges.shape[1]) for hood in hoods]
    assert torch.equal(encoder(x, hoods, edge_weights=ones), encoder(x, hoods))
    assert not torch.equal(encoder(x, hoods, edge_weights=[ones[0] * 0.5, ones[1]]), encoder(x, hoods))


def test_a_column_of_the_attributes_weighs_the_transform_of_a_network():
    config = NetworkConfig(backbone="gcn", encoding="leap-f", edge_weight_from=1)
    facts = DatasetFacts(features=2, outputs=2, edge_features=2)
    torch.manual_seed(0)
    network, attributes, x = Network(config, facts).eval(), torch.rand(10, 2), torch.randn(7, 2)
    hoods = khop(EDGES, 7)
    graphs = batch_of(attributes)
    found = network(x, NodeData(graphs, {1: hoods}))
    encoder = network.encodings["leap-f"].leap
    columns = encoder(x, hoods, edge_weights=edge_weights(hoods, BOTH, attributes[:, 1]))
    rows = network.backbone(torch.cat([x, columns], dim=1), replace(graphs, edge_attr=None))
    assert torch.equal(found, graphs.pool(rows))
