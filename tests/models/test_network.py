"""Networks have exactly the published sizes, and every encoding reaches the backbone as it should."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from leap.models.backbones import GraphBatch
from leap.models.embedding import CategoricalEmbedding
from leap.models.network import DatasetFacts, Network, NetworkConfig, NodeData
from leap.models.transform import Statistics, dect, place
from leap.pipeline import khop
from leap.store.errors import InvalidInputError

LETTER = DatasetFacts(features=2, outputs=15)
HIV_VALUES = (54, 1, 11, 9, 5, 2, 7, 2, 2)
EDGES = [[0, 1, 2, 0, 4, 5, 7], [1, 2, 3, 3, 5, 6, 8]]
PTR = [0, 4, 7, 7, 9, 10]  # a cycle, a path, nothing, an edge, a node


def graph_batch() -> GraphBatch:
    edges = torch.tensor(EDGES)
    ptr = torch.tensor(PTR)
    batch = torch.repeat_interleave(torch.arange(len(ptr) - 1), ptr.diff())
    return GraphBatch(torch.cat([edges, edges.flip(0)], dim=1), ptr, batch)


def features(seed: int = 0, dim: int = 2) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(PTR[-1], dim)).astype(np.float32))


def node_data(x: torch.Tensor, hops: tuple[int, ...] = (1, 2), **encodings: torch.Tensor) -> NodeData:
    hoods = {count: khop(EDGES, PTR[-1], count).torch() for count in hops}
    return NodeData(graph_batch(), hoods, {}, encodings)


def seeded(config: NetworkConfig, facts: DatasetFacts = LETTER, seed: int = 42) -> Network:
    torch.manual_seed(seed)
    return Network(config, facts)


@pytest.mark.parametrize(
    ("backbone", "alone", "encoded"),
    [("gcn", 3759, 4079), ("gat", 4045, 4365), ("gin", 3759, 4079), ("nomp", 3583, 3743), ("mlp", 3759, 4079)],
)
def test_backbones_have_the_published_sizes_on_letter(backbone, alone, encoded):
    assert seeded(NetworkConfig(backbone=backbone, encoding="none")).count_parameters() == {
        "backbone": alone,
        "total": alone,
    }
    assert seeded(NetworkConfig(backbone=backbone, encoding="rwpe")).count_parameters()["backbone"] == encoded
    assert seeded(NetworkConfig(backbone=backbone, encoding="leap-f")).count_parameters()["backbone"] == encoded


@pytest.mark.parametrize(
    ("projection", "size"),
    [("linear", 2570), ("conv1d", 794), ("deepsets", 370), ("attention", 2938), ("attention-pe", 2938 + 16 * 2)],
)
def test_leap_adds_its_projection_and_learned_directions(projection, size):
    fixed = seeded(NetworkConfig(backbone="nomp", encoding="leap-f", projection=projection)).count_parameters()
    learned = seeded(NetworkConfig(backbone="nomp", encoding="leap-l", projection=projection)).count_parameters()
    assert fixed == {"backbone": 3743, "leap-f": size, "total": 3743 + size}
    assert learned["leap-l"] == size + 2 * 16


def test_alchemy_sizes_are_those_of_ten_layers_of_64():
    facts = DatasetFacts(features=6, outputs=12, task="graph-regression")
    network = seeded(NetworkConfig(backbone="gcn", encoding="none", hidden=64, layers=10), facts)
    assert network.count_parameters()["total"] == (6 + 1) * 64 + 8 * 65 * 64 + 65 * 12


def test_hiv_embeddings_are_half_as_wide_and_44_together():
    codes = tuple(tuple(range(0, 3 * count, 3)) for count in HIV_VALUES)
    network = seeded(NetworkConfig(backbone="gcn", encoding="leap-l"), DatasetFacts(features=9, codes=codes, outputs=2))
    assert network.embedding.out_channels == 44
    tables = sum(count * (count // 2) for count in HIV_VALUES)
    assert network.count_parameters()["embedding"] == tables + 44 * 16 + 16 + 16 * 3 + 3
    x = torch.stack([torch.tensor([values[min(i, len(values) - 1)] for values in codes]) for i in range(PTR[-1])])
    scores = network(x, node_data(x))
    scores.square().sum().backward()
    assert scores.shape == (5, 2)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
    assert network.embedding.tables[0].weight.grad.abs().sum() > 0


def test_codes_that_were_never_met_are_refused():
    embed = CategoricalEmbedding([(1, 4), (0, 2, 3)])
    for wrong in ([[1, 1]], [[9, 0]], [[1, -1]]):
        with pytest.raises(InvalidInputError, match="which was not among"):
            embed(torch.tensor(wrong))
    assert torch.equal(embed(torch.tensor([[4, 3]])), embed(torch.tensor([[1, 0], [4, 3]]))[1:])


ENCODINGS = ["none", "rwpe", "lape", "lect", "leap-f", "leap-l", "lape+leap-l", "rwpe+lape"]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("backbone", ["gcn", "gat", "gin", "nomp", "gps"])
def test_every_backbone_takes_every_encoding_and_empty_graphs(backbone, encoding):
    network = seeded(NetworkConfig(backbone=backbone, encoding=encoding))
    x = features()
    stored = {kind: torch.randn(PTR[-1], 10) for kind in ("rwpe", "lape")}
    stored |= {kind: torch.randn(PTR[-1], 16, 16) for kind in ("lect", "dect1")}
    scores = network(x, node_data(x, **stored))
    scores.square().sum().backward()
    assert scores.shape == (5, 15)
    assert torch.equal(scores[2], torch.zeros(15))
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


def test_node_tasks_are_not_pooled():
    facts = DatasetFacts(features=2, outputs=3, task="node-classification")
    x = features()
    network = seeded(NetworkConfig(backbone="gcn", encoding="leap-l"), facts)
    assert network(x, node_data(x)).shape == (PTR[-1], 3)


@pytest.mark.parametrize("hops", [(1,), (1, 2)])
def test_leap_f_projects_the_cached_transforms_and_gives_what_leap_would(hops):
    network = seeded(NetworkConfig(backbone="gcn", encoding="leap-f", hops=hops)).eval()
    x, part = features(), network.encodings["leap-f"]
    hoods = [khop(EDGES, PTR[-1], count) for count in hops]
    cached = {
        f"dect{hood.hops}": dect(x, hood, leap.directions, leap.thresholds, 128.0)
        for hood, leap in zip(hoods, part.leap.encoders, strict=True)
    }
    with torch.no_grad():
        from_cache = part(x, NodeData(graph_batch(), encodings=cached))
        torch.testing.assert_close(from_cache, part.leap(x, hoods))


def test_mean_pooling_divides_the_sum_by_the_nodes_and_leaves_empty_graphs_zero():
    x = features()
    scores = {
        pooling: seeded(NetworkConfig(backbone="gcn", encoding="none", pooling=pooling))(x, node_data(x))
        for pooling in ("sum", "mean")
    }
    sizes = np.maximum(1, np.diff(PTR))
    torch.testing.assert_close(scores["mean"], scores["sum"] / torch.from_numpy(sizes).float()[:, None])
    assert torch.equal(scores["mean"][2], torch.zeros(15))


def test_leap_l_uses_the_statistics_of_raw_features():
    network = seeded(NetworkConfig(backbone="gcn", encoding="leap-l")).eval()
    x, data = features(), node_data(features())
    wrong = Statistics(torch.zeros_like(x), torch.full((len(x),), 1e3))
    with torch.no_grad():
        plain = network(x, data)
        other = network(x, NodeData(data.graphs, data.neighborhoods, {1: wrong}, {}))
    assert not torch.allclose(plain, other)


@pytest.mark.parametrize("part", ["leap-f", "leap-l"])
def test_leap_on_another_encoding_sees_that_encoding_only(part):
    network = seeded(NetworkConfig(backbone="gcn", encoding=part, leap_on="rwpe", dim=6)).eval()
    x, walks = features(), torch.randn(PTR[-1], 6)
    encoding = network.encodings[part]
    with torch.no_grad():
        one, two = (encoding(features(seed), node_data(x, rwpe=walks)) for seed in (0, 1))
        assert torch.equal(one, two)
        assert not torch.allclose(one, encoding(x, node_data(x, rwpe=torch.randn(PTR[-1], 6))))


@pytest.mark.parametrize("backbone", ["gcn", "gat", "gin"])
def test_leap_of_hidden_states_enters_every_layer(backbone):
    plain = seeded(NetworkConfig(backbone=backbone, encoding="leap-l")).count_parameters()
    network = seeded(NetworkConfig(backbone=backbone, encoding="leap-l", leap_every_layer=True))
    counts = network.count_parameters()
    assert counts["every layer"] == 4 * (794 + 32 * 16)
    assert counts["backbone"] == plain["backbone"] + 3 * 10 * 32 + 10 * 15
    x = features()
    network(x, node_data(x)).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
    first = network.layer_encodings[0].leap.encoders[0]
    assert first.parametrizations.directions.original.grad.abs().sum() > 0


def test_signs_of_lape_are_flipped_by_graph_in_training_only():
    network = seeded(NetworkConfig(backbone="gcn", encoding="lape"))
    part, x = network.encodings["lape"], features()
    stored = torch.randn(PTR[-1], 10)
    torch.manual_seed(7)
    first = part(x, node_data(x, lape=stored))
    second = part(x, node_data(x, lape=stored))
    torch.manual_seed(7)
    again = part(x, node_data(x, lape=stored))
    signs = first / stored
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert all(torch.equal(signs[lo:hi], signs[lo : lo + 1].expand(hi - lo, -1)) for lo, hi in ((0, 4), (4, 7)))
    network.eval()
    assert torch.equal(part(x, node_data(x, lape=stored)), stored)


def test_several_hops_share_the_dimension():
    network = seeded(NetworkConfig(backbone="gcn", encoding="leap-l", hops=(1, 2)))
    x = features()
    assert network.encodings["leap-l"](x, node_data(x)).shape == (PTR[-1], 10)
    assert network.count_parameters()["backbone"] == 4079


def test_the_seed_changes_projections_but_not_the_first_directions():
    one, two = (seeded(NetworkConfig(encoding="leap-l"), seed=seed) for seed in (1, 2))
    first, second = (network.encodings["leap-l"].leap.encoders[0] for network in (one, two))
    assert torch.equal(first.unit_directions(), second.unit_directions())
    assert not torch.equal(first.projection.first.weight, second.projection.first.weight)


def test_leap_x_is_leap_l_with_places():
    x, config = features(), NetworkConfig(encoding="leap-x")
    named, spelled = seeded(config).eval(), seeded(NetworkConfig(encoding="leap-l", place=True)).eval()
    assert torch.equal(named(x, node_data(x)), spelled(x, node_data(x)))
    assert list(named.count_parameters().values()) == list(spelled.count_parameters().values())


@pytest.mark.parametrize("encoding", ["leap-f", "leap-l"])
def test_places_stand_beside_the_encoding(encoding):
    x, config = features(), NetworkConfig(encoding=encoding, place=True)
    network = seeded(config).eval()
    part, plain = network.encodings[encoding], seeded(NetworkConfig(encoding=encoding)).encodings[encoding]
    assert network.count_parameters()["backbone"] - 4079 == 4 * 32
    curves = {"dect1": part.leap.transform(x, khop(EDGES, PTR[-1]))}
    met = part(x, node_data(x, (1,), **curves))
    assert torch.equal(met[:, :10], plain(x, node_data(x, (1,), **curves)))
    assert torch.equal(met[:, 10:], place(x, khop(EDGES, PTR[-1])))


def test_scores_of_whole_graphs_are_added_to_those_of_their_nodes():
    x = features()
    network = seeded(NetworkConfig(encoding="leap-l", whole=True)).eval()
    counts = network.count_parameters()
    assert counts["whole graphs"] == 794 + 2 * 16 + 11 * 15
    added = network.whole(x, graph_batch())
    assert not added[2].any()  # an empty graph
    assert added[[0, 1, 3, 4]].any(dim=1).all()
    scores, network.whole = network(x, node_data(x)), None
    assert torch.equal(scores, network(x, node_data(x)) + added)
    with pytest.raises(InvalidInputError, match="node task"):
        seeded(NetworkConfig(whole=True), DatasetFacts(features=2, outputs=3, task="node-classification"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"encoding": "rwpe+pope"}, "no encoding 'pope'"),
        ({"encoding": "rwpe+rwpe"}, "named twice"),
        ({"encoding": "leap-f+leap-l"}, "leap-f and leap-l are versions of one"),
        ({"encoding": "leap-x+rwpe+leap-f"}, "leap-x and leap-f are versions of one"),
        ({"hops": (1, 2, 3)}, "must divide"),
        ({"hops": ()}, "at least 1"),
        ({"encoding": "rwpe", "leap_on": "lape"}, "needs the encoding leap"),
        ({"backbone": "nomp", "leap_every_layer": True}, "gcn, gat, gin or gine"),
        ({"backbone": "dect-4k", "encoding": "leap-l"}, "takes no encoding"),
        ({"backbone": "dect-4k", "encoding": "none", "hidden": 3}, "leave hidden"),
        ({"backbone": "dect-4k", "encoding": "none", "pooling": "mean"}, "leave pooling"),
        ({"backbone": "nomp", "layers": 3}, "one layer"),
        ({"encoding": "rwpe", "place": True}, "place needs the encoding leap"),
        ({"encoding": "none", "whole": True}, "whole needs the encoding leap"),
    ],
)
def test_configurations_that_mean_nothing_are_refused(values, message):
    with pytest.raises(ValidationError, match=message):
        NetworkConfig(**values)


def test_what_a_batch_lacks_is_named():
    network, x = seeded(NetworkConfig(encoding="leap-l")), features()
    with pytest.raises(InvalidInputError, match="neighbourhoods of 1 hops"):
        network(x, NodeData(graph_batch()))
    with pytest.raises(InvalidInputError, match="needs the encoding rwpe"):
        seeded(NetworkConfig(encoding="rwpe"))(x, NodeData(graph_batch()))
    with pytest.raises(InvalidInputError, match=r"shape \(N, 2\)"):
        network(features(dim=3), node_data(x))
