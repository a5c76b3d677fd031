"""A stack computes what each of its networks computes alone, to the last bit, and what torch's own modules compute."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from leap.models import noise
from leap.models.backbones import GraphBatch
from leap.models.encodings import NodeData
from leap.models.network import Network
from leap.models.network_config import DatasetFacts, NetworkConfig
from leap.models.rows import Rows
from leap.models.stack import Stack
from leap.models.transform import Statistics
from leap.pipeline import khop
from leap.store.errors import InvalidInputError
from leap.store.graphs.ragged import pointers

MEASURED = DatasetFacts(features=3, outputs=4)
CATEGORICAL = DatasetFacts(features=2, codes=((1, 5, 6, 9), (0, 2, 3)), outputs=2)
BONDS = CATEGORICAL.model_copy(update={"edge_features": 2, "edge_codes": ((0, 1, 2, 7), (3, 4))})
LENGTHS = MEASURED.model_copy(update={"edge_features": 2})
PROJECTIONS = ("linear", "conv1d", "deepsets", "attention", "attention-pe")
BLOCKS = [
    *(
        NetworkConfig(backbone=b, encoding="none", norm="layer", residual=True, feed_forward=True, dropout=0.2)
        for b in ("gcn", "gat", "gin")
    ),
    *(NetworkConfig(backbone=b, encoding="none", dropout=0.4) for b in ("gcn", "gat", "nomp")),
    NetworkConfig(backbone="gcn", encoding="lape", norm="layer"),
    NetworkConfig(backbone="gat", encoding="none", feed_forward=True, layers=1),
    NetworkConfig(backbone="gin", encoding="leap-l", leap_every_layer=True, residual=True, dropout=0.1),
]
CONFIGS = [
    *(
        NetworkConfig(backbone=b, encoding=e)
        for b, e in product(("gcn", "gat", "gin", "nomp", "mlp"), ("none", "rwpe", "lape"))
    ),
    *(
        NetworkConfig(backbone=b, encoding=e, projection=p)
        for b, e, p in product(("gcn", "nomp"), ("leap-f", "leap-l"), PROJECTIONS)
    ),
    *(NetworkConfig(backbone=b, encoding="lape+leap-l", hops=(1, 2)) for b in ("gat", "gin")),
    NetworkConfig(backbone="gin", encoding="leap-l", leap_every_layer=True),
    NetworkConfig(backbone="gcn", encoding="leap-l", leap_on="rwpe", pooling="mean"),
    NetworkConfig(backbone="gcn", encoding="leap-l", place=True, hops=(1, 2)),
    NetworkConfig(backbone="nomp", encoding="leap-f", place=True),
    NetworkConfig(backbone="nomp", encoding="leap-x"),
    *(NetworkConfig(backbone="gin", encoding="leap-l", whole=True, place=p) for p in (False, True)),
    *BLOCKS,
]
SEES_EDGES = [
    NetworkConfig(backbone="gine", encoding="none"),
    NetworkConfig(backbone="gine", encoding="none", norm="layer", residual=True, feed_forward=True, dropout=0.2),
    NetworkConfig(backbone="gine", encoding="leap-l", leap_every_layer=True, hops=(1, 2)),
]
WEIGHS_EDGES = [
    NetworkConfig(backbone="gcn", encoding="leap-f", edge_weight_from=1),
    NetworkConfig(backbone="gine", encoding="leap-l", edge_weight_from=0, whole=True, hops=(1, 2)),
]
EDGE_CASES = [
    *((config, facts) for config in SEES_EDGES for facts in (BONDS, LENGTHS)),
    *((config, LENGTHS) for config in WEIGHS_EDGES),
]
CASES = [*product(CONFIGS, [MEASURED, CATEGORICAL]), *EDGE_CASES]
NAMES = [
    " ".join(
        [
            *(f"{v}" for v in config.model_dump(exclude_defaults=True).values()),
            "measured" if facts.codes is None else "categorical",
        ]
    )
    for config, facts in CASES
]


def batch(seed: int, facts: DatasetFacts, graphs: int) -> tuple[Tensor, NodeData, Tensor]:
    """Return features, nodes and labels of some random graphs, an empty one among them."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 8, graphs)
    sizes[rng.integers(graphs)] = 0
    ptr = pointers(sizes)
    edges = np.concatenate(
        [
            ptr[g] + np.array([(a, b) for a in range(n) for b in range(a) if rng.random() < 0.4], int).reshape(-1, 2).T
            for g, n in enumerate(sizes)
        ],
        axis=1,
    )
    return *_data(rng, facts, ptr, edges), torch.from_numpy(rng.integers(0, facts.outputs, graphs))


def _data(rng: np.random.Generator, facts: DatasetFacts, ptr: np.ndarray, edges: np.ndarray) -> tuple[Tensor, NodeData]:
    count = int(ptr[-1])
    if facts.codes is None:
        x = torch.from_numpy(rng.normal(size=(count, facts.features)).astype(np.float32))
    else:
        x = torch.from_numpy(np.stack([rng.choice(values, count) for values in facts.codes], axis=1))
    encodings = {n: torch.from_numpy(rng.normal(size=(count, 10)).astype(np.float32)) for n in ("rwpe", "lape")}
    encodings["dect1"] = torch.from_numpy(rng.normal(size=(count, 16, 16)).astype(np.float32))
    both = torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1))
    hoods = {hops: khop(edges, count, hops) for hops in (1, 2)}
    graphs = GraphBatch(
        both,
        torch.from_numpy(ptr),
        torch.from_numpy(np.arange(len(ptr) - 1).repeat(np.diff(ptr))),
        edge_attr=_edge_attr(facts, both.shape[1]),
    )
    return x, NodeData(graphs, hoods, {}, encodings)


def _edge_attr(facts: DatasetFacts, edges: int) -> Tensor | None:
    """Return attributes that differ between the two directions of an edge."""
    own = np.random.default_rng(edges)
    if facts.edge_codes is not None:
        return torch.from_numpy(np.stack([own.choice(values, edges) for values in facts.edge_codes], axis=1))
    return torch.from_numpy(own.random((edges, 2)).astype(np.float32)) if facts.edge_features else None


def union(
    parts: list[tuple[Tensor, NodeData, Tensor]], slots: list[int], keys: np.ndarray | None
) -> tuple[Tensor, NodeData]:
    """Return the batches side by side, made the simple way."""
    counts = [len(x) for x, _, _ in parts]
    first = pointers(counts)
    ptr = pointers(np.concatenate([np.diff(nodes.graphs.ptr.numpy()) for _, nodes, _ in parts]))
    edges = torch.cat(
        [nodes.graphs.edge_index + int(at) for at, (_, nodes, _) in zip(first, parts, strict=False)], dim=1
    )
    attributes = [nodes.graphs.edge_attr for _, nodes, _ in parts if nodes.graphs.edge_attr is not None]
    graph_counts = [nodes.graphs.num_graphs for _, nodes, _ in parts]
    graphs = GraphBatch(
        edges,
        torch.from_numpy(ptr),
        torch.from_numpy(np.arange(len(ptr) - 1).repeat(np.diff(ptr))),
        Rows.of(counts, slots, keys),
        Rows.of(graph_counts, slots, keys),
        edge_attr=torch.cat(attributes) if attributes else None,
        edge_rows=Rows.of([nodes.graphs.edge_index.shape[1] for _, nodes, _ in parts], slots, keys),
    )
    undirected = edges[:, edges[0] > edges[1]].numpy()
    hoods = {hops: khop(undirected, int(first[-1]), hops) for hops in (1, 2)}
    encodings = {n: torch.cat([nodes.encodings[n] for _, nodes, _ in parts]) for n in parts[0][1].encodings}
    return torch.cat([x for x, _, _ in parts]), NodeData(graphs, hoods, {}, encodings)


def train_step(stack: Stack, parts: list, slots: list[int], keys: np.ndarray | None) -> tuple[list[Tensor], Tensor]:
    """Return the scores of each part and the gradients of all networks."""
    x, nodes = union(parts, slots, keys)
    scores = stack(x, nodes)
    labels = torch.cat([y for _, _, y in parts])
    torch.nn.functional.cross_entropy(scores, labels, reduction="none").sum().backward()
    return list(scores.detach().split([len(y) for _, _, y in parts])), stack.gradients()


def stack_of(config: NetworkConfig, facts: DatasetFacts, seeds: range) -> tuple[Stack, list[dict[str, Tensor]]]:
    states = []
    for seed in seeds:
        torch.manual_seed(seed)
        states.append(Network(config, facts).state_dict())
    stack = Stack(config, facts)
    stack.add(states)
    return stack, states


@pytest.mark.parametrize(("config", "facts"), CASES, ids=NAMES)
def test_a_network_is_the_same_alone_and_in_a_stack(config: NetworkConfig, facts: DatasetFacts) -> None:
    stack, states = stack_of(config, facts, range(5))
    assert stack.is_grouped
    parts = [batch(seed, facts, graphs) for seed, graphs in enumerate((16, 3, 16, 2, 40))]
    keys = noise.keys(np.arange(5), 3, 7)
    scores, gradients = train_step(stack, parts, [0, 1, 2, 3, 4], keys)
    assert gradients.abs().sum(1).min() > 0
    for number in range(5):
        alone = Stack(config, facts)
        alone.add([states[number]])
        (one,), gradient = train_step(alone, [parts[number]], [0], keys[number : number + 1])
        assert torch.equal(one, scores[number])
        assert torch.equal(gradient[0], gradients[number])


@pytest.mark.parametrize(("config", "facts"), CASES, ids=NAMES)
def test_a_stack_computes_what_single_networks_do(config: NetworkConfig, facts: DatasetFacts) -> None:
    stack, states = stack_of(config, facts, range(3))
    parts = [batch(seed, facts, 5) for seed in range(3)]
    scores, gradients = train_step(stack, parts, [2, 0, 1], None)
    for slot, (x, nodes, y), found in zip((2, 0, 1), parts, scores, strict=True):
        network = Network(config, facts).eval()
        network.load_state_dict(states[slot])
        expected = network(x, nodes)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        torch.nn.functional.cross_entropy(expected, y, reduction="none").sum().backward()
        learned = [p for p in network.parameters() if p.requires_grad]
        flat = torch.cat([torch.zeros(p.numel()) if p.grad is None else p.grad.flatten() for p in learned])
        torch.testing.assert_close(gradients[slot, : len(flat)], flat, rtol=1e-3, atol=2e-3)


def test_networks_come_and_go() -> None:
    config = NetworkConfig(backbone="nomp", encoding="leap-l")
    stack, states = stack_of(config, MEASURED, range(4))
    parts = [batch(seed, MEASURED, 4) for seed in range(4)]
    before, _ = train_step(stack, parts, [0, 1, 2, 3], None)
    stack.keep([3, 1])
    stack.add([states[0]])
    after, _ = train_step(stack, [parts[1], parts[0], parts[3]], [1, 2, 0], None)
    for number, scores in zip((1, 0, 3), after, strict=True):
        assert torch.equal(before[number], scores)
    for name, tensor in stack.state(1).items():
        assert torch.equal(tensor, states[1][name])
    assert list(stack.state(0))
    assert set(stack.state(0)) == set(states[0])


def test_a_step_on_the_flat_parameters_reaches_the_networks() -> None:
    stack, _ = stack_of(NetworkConfig(backbone="gcn", encoding="none"), MEASURED, range(2))
    parts = [batch(seed, MEASURED, 4) for seed in range(2)]
    before, _ = train_step(stack, parts, [0, 1], None)
    with torch.no_grad():
        stack.flat[1] *= 2
    after, _ = train_step(stack, parts, [0, 1], None)
    assert torch.equal(before[0], after[0])
    assert not torch.equal(before[1], after[1])


def test_a_step_knows_nothing_of_the_gradients_before_it() -> None:
    stack, _states = stack_of(NetworkConfig(backbone="gcn", encoding="leap-l"), MEASURED, range(2))
    parts = [batch(seed, MEASURED, 4) for seed in range(2)]
    (_, first), (_, second) = (train_step(stack, parts, [0, 1], None) for _ in range(2))
    assert torch.equal(first, second)
    assert stack.gradients().count_nonzero() == 0
    with torch.no_grad():
        stack.keep([1])
    _, alone = train_step(stack, parts[1:], [0], None)
    assert torch.equal(alone[0], first[1])


def test_what_is_not_a_number_stays_in_its_network() -> None:
    config = NetworkConfig(backbone="nomp", encoding="leap-l", projection="attention")
    stack, _states = stack_of(config, MEASURED, range(3))
    parts = [batch(seed, MEASURED, 4) for seed in range(3)]
    keys = noise.keys(np.arange(3), 0, 0)
    _, clean = train_step(stack, parts, [0, 1, 2], keys)
    spoilt, _ = stack_of(config, MEASURED, range(3))
    with torch.no_grad():
        spoilt.flat[1] = torch.nan
    scores, gradients = train_step(spoilt, parts, [0, 1, 2], keys)
    assert scores[1][len(scores[1]) - 1].isnan().all() or scores[1].isnan().any()
    assert torch.equal(gradients[[0, 2]], clean[[0, 2]])


@pytest.mark.parametrize(
    ("config", "facts"),
    [
        (NetworkConfig(backbone="gps", encoding="none"), MEASURED),
        (NetworkConfig(backbone="dect-4k"), MEASURED),
        (NetworkConfig(backbone="gcn", encoding="leap-l", learn_thresholds=True), MEASURED),
        (NetworkConfig(backbone="gcn", encoding="none", norm="batch"), MEASURED),
        (NetworkConfig(backbone="gcn", encoding="none"), MEASURED.model_copy(update={"task": "node-classification"})),
    ],
)
def test_what_cannot_be_stacked_is_a_stack_of_one(config: NetworkConfig, facts: DatasetFacts) -> None:
    torch.manual_seed(0)
    network = Network(config, facts).eval()
    stack = Stack(config, facts).eval()
    assert not stack.is_grouped
    stack.add([network.state_dict()])
    x, nodes, _ = batch(0, facts, 5)
    assert torch.equal(stack(x, nodes), network(x, nodes))
    stack(x, nodes).square().sum().backward()
    assert stack.gradients().abs().sum() > 0
    with pytest.raises(InvalidInputError, match="trained alone"):
        stack.add([network.state_dict()])


def test_statistics_of_the_union_are_those_of_the_parts() -> None:
    config = NetworkConfig(backbone="gcn", encoding="leap-l")
    stack, _ = stack_of(config, MEASURED, range(2))
    parts = [batch(seed, MEASURED, 6) for seed in range(2)]
    x, nodes = union(parts, [0, 1], None)
    hood = nodes.neighborhoods[1]
    mean = torch.stack(
        [
            x[hood.nodes[a:b].astype(np.int64)].mean(0)
            for a, b in zip(hood.node_ptr[:-1], hood.node_ptr[1:], strict=True)
        ]
    )
    scale = torch.stack(
        [
            (x[hood.nodes[a:b].astype(np.int64)] - m).norm(dim=1).max()
            for a, b, m in zip(hood.node_ptr[:-1], hood.node_ptr[1:], mean, strict=True)
        ]
    )
    with torch.no_grad():
        given = stack(x, NodeData(nodes.graphs, nodes.neighborhoods, {1: Statistics(mean, scale)}, nodes.encodings))
        torch.testing.assert_close(given, stack(x, nodes), rtol=1e-3, atol=1e-3)
