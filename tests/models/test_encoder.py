"""LEAP as a module: published sizes, invariances, initialization, saving, batching and clear errors."""

import copy
import io
import pickle

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from leap.models import LEAP, Statistics, dect
from leap.models.kernels.directions import random_directions
from leap.models.projections import make_projection
from leap.models.registries import PROJECTIONS
from leap.pipeline import AddNeighborhoods, khop
from leap.store import Neighborhoods
from leap.store.errors import InvalidInputError

SIZES = {"linear": 2570, "conv1d": 794, "deepsets": 370, "attention": 2938, "attention-pe": 2938}


def example(nodes=12, dim=3, hops=1, seed=0):
    graph = nx.gnp_random_graph(nodes, 0.3, seed=seed)
    edges = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2).T
    x = torch.randn(nodes, dim, generator=torch.Generator().manual_seed(seed))
    return x, khop(edges, nodes, hops)


@pytest.mark.parametrize("dim", [2, 3, 56])
@pytest.mark.parametrize("name", PROJECTIONS)
def test_projections_have_the_published_sizes(name, dim):
    projection = make_projection(name, dim, 16, 16, 10)
    extra = 16 * dim if name == "attention-pe" else 0
    assert sum(p.numel() for p in projection.parameters()) == SIZES[name] + extra


@pytest.mark.parametrize("name", PROJECTIONS)
def test_set_projections_ignore_the_order_of_directions(name):
    torch.manual_seed(0)
    projection = make_projection(name, 3, 16, 16, 10).eval()
    transform, directions, order = torch.randn(5, 16, 16), torch.randn(3, 16), torch.randperm(16)
    same = torch.allclose(
        projection(transform, directions), projection(transform[:, order], directions[:, order]), atol=1e-5
    )
    assert same == projection.is_invariant
    assert projection.is_invariant == (name not in ("linear", "conv1d"))


def test_the_cheap_convolution_is_the_convolution():
    torch.manual_seed(0)
    projection = make_projection("conv1d", 3, 16, 16, 10)
    transform = torch.randn(7, 16, 16)
    plain = projection.third(projection.second(projection.first(transform).relu()).relu()).mean(1)
    torch.testing.assert_close(projection(transform, torch.zeros(3, 16)), projection.mlp(plain))


def test_learned_directions_are_parameters_and_fixed_ones_are_not():
    count = sum(p.numel() for p in LEAP(3, learn_directions=False).parameters())
    assert count == SIZES["conv1d"]
    assert sum(p.numel() for p in LEAP(3).parameters()) == count + 3 * 16
    assert sum(p.numel() for p in LEAP(3, learn_thresholds=True).parameters()) == count + 3 * 16 + 16


def test_directions_start_from_the_seed_and_stay_on_the_sphere():
    encoder = LEAP(3, seed=7)
    expected = torch.from_numpy(random_directions(3, 16, 7)).float()
    torch.testing.assert_close(encoder.encoders[0].unit_directions(), expected)
    x, hoods = example()
    optimizer = torch.optim.Adam(encoder.parameters(), lr=0.5)
    for _ in range(5):
        optimizer.zero_grad()
        encoder(x, hoods).square().sum().backward()
        optimizer.step()
    learned = encoder.encoders[0].unit_directions()
    assert not torch.allclose(learned, expected, atol=1e-2)
    torch.testing.assert_close(learned.norm(dim=0), torch.ones(16))


def test_initialization_leaves_the_global_generator_alone_and_repeats():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    one, two = LEAP(3, seed=1), LEAP(3, seed=1)
    assert torch.equal(torch.rand(4), expected)
    for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_without_a_seed_encoders_differ_and_follow_torchs_generator():
    def start() -> list[torch.Tensor]:
        torch.manual_seed(3)
        both = LEAP(3, hops=(1, 2)), LEAP(3, hops=(1, 2))
        return [hop.unit_directions() for encoder in both for hop in encoder.encoders]

    first, again = start(), start()
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.allclose(first[a], first[b]) for a in range(4) for b in range(a))


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("name", PROJECTIONS)
def test_reset_parameters_gives_the_start_of_the_seed_again(name, learns):
    options = {"hops": (1, 2), "projection": name, "learn_directions": learns, "learn_thresholds": learns, "seed": 5}
    encoder, fresh = LEAP(3, **options), LEAP(3, **options)
    with torch.no_grad():
        for value in encoder.state_dict().values():
            value.add_(1.0)
    torch.manual_seed(1)
    following = torch.rand(3)
    torch.manual_seed(1)
    encoder.reset_parameters()
    assert torch.equal(torch.rand(3), following)
    for key, value in fresh.state_dict().items():
        assert torch.equal(encoder.state_dict()[key], value), key


def test_reset_parameters_without_a_seed_draws_anew():
    x, hoods = example()
    encoder = LEAP(3, projection=torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(256, 10)))
    before = encoder(x, hoods), encoder.encoders[0].projection[1].weight.clone()
    encoder.reset_parameters()
    assert not torch.allclose(encoder(x, hoods), before[0])
    assert not torch.allclose(encoder.encoders[0].projection[1].weight, before[1])


def test_a_module_serves_as_projection():
    x, hoods = example()
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(256, 4))
    encoder = LEAP(3, 4, projection=module)
    out = encoder(x, hoods)
    assert torch.equal(out, module(encoder.transform(x, hoods)))
    assert "projection='Sequential'" in repr(encoder)
    with pytest.raises(InvalidInputError, match=r"must map \(12, 16, 16\) to \(12, 5\). Got \(12, 4\)"):
        LEAP(3, 5, projection=module)(x, hoods)
    with pytest.raises(InvalidInputError, match="one projection cannot serve 2 hop counts"):
        LEAP(3, 8, hops=(1, 2), projection=module)


def test_a_callable_makes_a_projection_for_each_hop_count():
    met = []

    def make(*sizes: int) -> torch.nn.Module:
        met.append(sizes)
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(sizes[1] * sizes[2], sizes[3]))

    x, one = example(hops=1)
    _, two = example(hops=2)
    encoder = LEAP(3, 6, hops=(1, 2), directions=4, thresholds=5, projection=make)
    assert met == [(3, 4, 5, 3)] * 2
    assert encoder(x, [one, two]).shape == (12, 6)
    with pytest.raises(InvalidInputError, match=r"must make a torch module\. Got int"):
        LEAP(3, projection=lambda *sizes: 7)


@pytest.mark.parametrize("learns", [True, False])
def test_copies_and_pickles_are_whole(learns):
    x, hoods = example()
    model = torch.nn.ModuleList([LEAP(3, learn_directions=learns, learn_thresholds=learns)])
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    others = [
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        torch.load(file, weights_only=False),
    ]
    for other in others:
        assert torch.equal(other[0](x, hoods), model[0](x, hoods))
        other[0].reset_parameters()
        assert not torch.equal(other[0](x, hoods), model[0](x, hoods))


def test_names_of_version_0_1_are_kept_in_checkpoints():
    assert list(LEAP(3, projection="linear").state_dict()) == [
        "encoders.0.thresholds",
        "encoders.0.parametrizations.directions.original",
        "encoders.0.projection.linear.weight",
        "encoders.0.projection.linear.bias",
    ]
    assert "encoders.0.directions" in LEAP(3, learn_directions=False).state_dict()


@pytest.mark.parametrize("given", [torch.tensor([[0, 1], [1, 0]]), [torch.tensor([[0, 1], [1, 0]])], None])
def test_an_edge_index_is_refused_with_the_way_to_neighbourhoods(given):
    with pytest.raises(InvalidInputError, match=r"Got a (Tensor of shape \(2, 2\)|NoneType). Make them once .*khop"):
        LEAP(3)(torch.zeros(2, 3), given)


def test_a_saved_encoder_gives_the_same_encoding():
    x, hoods = example()
    one = LEAP(3, projection="attention-pe", learn_thresholds=True, seed=1).eval()
    two = LEAP(3, projection="attention-pe", learn_thresholds=True, seed=2).eval()
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    two.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(one(x, hoods), two(x, hoods))


def test_the_repr_tells_encoders_apart():
    assert repr(LEAP(3)) != repr(LEAP(3, scale=64.0))
    for text in ("in_channels=3", "hops=(1,)", "projection='conv1d'", "radius=1.1", "edge_weight=1.0", "seed=7"):
        assert text in repr(LEAP(3, seed=7))


def test_several_hops_are_concatenated_and_share_the_dimensions():
    x, one = example(hops=1)
    _, two = example(hops=2)
    encoder = LEAP(3, 10, hops=(1, 2)).eval()
    out = encoder(x, [one, two])
    assert out.shape == (12, 10)
    torch.testing.assert_close(out[:, :5], encoder.project(encoder.transform(x, one, 0), 0))
    with pytest.raises(InvalidInputError, match="multiple of 3"):
        LEAP(3, 10, hops=(1, 2, 3))
    with pytest.raises(InvalidInputError, match=r"\(1, 2\) hops"):
        encoder(x, [two, one])


def test_features_of_another_width_are_refused_with_shapes():
    x, hoods = example(dim=4)
    with pytest.raises(InvalidInputError, match=r"\(N, 3\). Got \(12, 4\)"):
        LEAP(3)(x, hoods)


@pytest.mark.parametrize("given", [torch.Tensor.double, torch.Tensor.half, torch.Tensor.long, torch.Tensor.numpy])
def test_features_of_another_type_are_refused_with_the_way_out(given):
    x, hoods = example()
    with pytest.raises(InvalidInputError, match=r"x must be a tensor of float32.* Got .*torch\.as_tensor"):
        LEAP(3)(given(x), hoods)


@pytest.mark.parametrize(
    "bad", [{"projection": "mlp"}, {"directions": 0}, {"scale": -1.0}, {"hops": ()}, {"hops": (0,)}]
)
def test_impossible_parameters_are_refused(bad):
    with pytest.raises(InvalidInputError):
        LEAP(3, **bad)


def test_statistics_can_be_given_when_features_do_not_change():
    from leap.models.kernels.normalization import mean_and_scale

    x, hoods = example()
    mean, scale = mean_and_scale(x.numpy(), hoods.node_ptr, hoods.nodes)
    stats = Statistics(torch.from_numpy(mean), torch.from_numpy(scale))
    encoder = LEAP(3, scale=16.0)
    torch.testing.assert_close(encoder(x, hoods, stats), encoder(x, hoods), atol=1e-4, rtol=0)


def test_gradients_reach_hidden_states_below():
    x, hoods = example(dim=5)
    layer, encoder = torch.nn.Linear(5, 3), LEAP(3, projection="linear")
    encoder(layer(x), hoods).square().sum().backward()
    assert layer.weight.grad.abs().sum() > 0


def test_pyg_batches_give_each_graph_its_own_encoding():
    graphs = []
    for seed in range(6):
        nodes = 3 + seed
        graph = nx.gnp_random_graph(nodes, 0.5, seed=seed)
        edge_index = torch.tensor(list(graph.to_directed().edges), dtype=torch.long).reshape(-1, 2).T
        x = torch.randn(nodes, 2, generator=torch.Generator().manual_seed(seed))
        graphs.append(AddNeighborhoods(1)(Data(x=x, edge_index=edge_index)))
    encoder = LEAP(2)
    alone = torch.cat([encoder(g.x, Neighborhoods.from_data(g, 1)) for g in graphs])
    batch = next(iter(DataLoader(graphs, batch_size=6)))
    torch.testing.assert_close(encoder(batch.x, Neighborhoods.from_data(batch, 1)), alone)


def test_the_module_moves_to_double_precision():
    x, hoods = example()
    encoder = LEAP(3, projection="linear")
    narrow = encoder(x, hoods)
    torch.testing.assert_close(encoder.double()(x.double(), hoods).float(), narrow, atol=1e-3, rtol=1e-3)


def test_fixed_directions_equal_the_plain_transform():
    x, hoods = example()
    encoder = LEAP(3, learn_directions=False)
    one = encoder.encoders[0]
    torch.testing.assert_close(encoder.transform(x, hoods), dect(x, hoods, one.directions, one.thresholds, 128.0))


@pytest.mark.parametrize("wrong", [{"in_channels": 2.5}, {"directions": True}, {"thresholds": "3"}, {"hops": (1.5,)}])
def test_sizes_that_are_no_whole_numbers_are_refused(wrong):
    with pytest.raises(InvalidInputError, match="must be a whole number"):
        LEAP(**{"in_channels": 2, **wrong})
