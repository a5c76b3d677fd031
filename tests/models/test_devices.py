"""Training steps on torch's `meta` device, where nothing has a value and every question to the device raises.

What passes there leaves no tensor on the host and never waits for the device. Whether the plain paths, which all
devices but the CPU take, are right is seen on the CPU in double precision.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from leap.models import grouped, noise
from leap.models.adam import StackAdam
from leap.models.devices import in_full_precision
from leap.models.encodings import NodeData
from leap.models.network import Network
from leap.models.network_config import DatasetFacts, NetworkConfig
from leap.models.rows import Rows
from leap.models.stack import Stack
from leap.models.transform import Statistics, dect
from leap.pipeline import khop
from tests.models.test_stack import (
    BLOCKS,
    BONDS,
    CATEGORICAL,
    EDGE_CASES,
    LENGTHS,
    MEASURED,
    PROJECTIONS,
    batch,
    union,
)

REGRESSION = DatasetFacts(features=3, outputs=2, task="graph-regression")
NODES = DatasetFacts(features=3, outputs=4, task="node-classification")
STORED = ("none", "rwpe", "lape", "lect")
BACKBONES = ("gcn", "gat", "gin", "nomp", "gps")
PLAIN = [NetworkConfig(backbone=b, encoding=e) for b, e in product(BACKBONES, STORED)]
LEAPS = [
    NetworkConfig(backbone=b, encoding=e, projection=p)
    for b, e, p in product(BACKBONES, ("leap-f", "leap-l", "lape+leap-l"), PROJECTIONS)
]
OTHERS = [
    NetworkConfig(backbone="gin", encoding="leap-l", leap_every_layer=True, hops=(1, 2)),
    NetworkConfig(backbone="gcn", encoding="leap-l", leap_on="lape", pooling="mean"),
    NetworkConfig(backbone="gcn", encoding="leap-l", learn_thresholds=True),
    NetworkConfig(backbone="nomp", encoding="leap-f", learn_thresholds=True, projection="attention"),
    *(NetworkConfig(backbone="gcn", encoding=e, place=True, hops=(1, 2)) for e in ("leap-f", "leap-l")),
    *(NetworkConfig(backbone="nomp", encoding=e, whole=True, place=True) for e in ("leap-f", "leap-l")),
    NetworkConfig(backbone="dect-4k"),
    NetworkConfig(backbone="dect-65k"),
    NetworkConfig(backbone="gin", encoding="none", norm="batch", residual=True, dropout=0.0),
    *BLOCKS,
]
CASES = [
    *product(PLAIN + LEAPS + OTHERS, [MEASURED]),
    *product(
        [
            *(NetworkConfig(backbone=b, encoding=e) for b, e in product(BACKBONES, ("none", "leap-f", "leap-l"))),
            NetworkConfig(backbone="gcn", encoding="leap-l", whole=True, place=True),
        ],
        [CATEGORICAL],
    ),
    *product([NetworkConfig(backbone="gcn", encoding="leap-l"), NetworkConfig(backbone="dect-4k")], [REGRESSION]),
    *product([NetworkConfig(backbone="nomp", encoding="lape+leap-l"), BLOCKS[0], BLOCKS[1]], [NODES]),
    *EDGE_CASES,
    *product([NetworkConfig(backbone="gps", encoding="none", with_edges=True)], [BONDS, LENGTHS]),
    (NetworkConfig(backbone="dect-4k", edge_weight_from=0), LENGTHS),
]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tensors are so small here that a second thread costs more than it computes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def name(case: tuple[NetworkConfig, DatasetFacts]) -> str:
    config, facts = case
    words = [str(value) for value in config.model_dump(exclude_defaults=True).values()]
    return " ".join([*words, facts.task if facts.codes is None else "categorical"])


class OnOneDevice(TorchDispatchMode):
    """Raises if an operation meets arrays of the host; copies to the device are all that may."""

    copies = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
    harmless = (torch.ops.aten.detach.default, torch.ops.aten.lift_fresh.default)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves = tree_leaves((args, kwargs or {}))
        on_host = any(isinstance(leaf, Tensor) and leaf.is_cpu and leaf.ndim for leaf in leaves)
        if on_host and func not in (*self.copies, *self.harmless):
            raise AssertionError(f"{func} on the host")
        return func(*args, **(kwargs or {}))


def data(config: NetworkConfig, facts: DatasetFacts, networks: int) -> tuple[Tensor, NodeData, Tensor, np.ndarray]:
    """Return features, nodes and labels of the networks' batches, and the borders of their labels."""
    parts = [batch(seed, facts, 4) for seed in range(networks)]
    for x, nodes, _ in parts:
        generator = torch.Generator().manual_seed(len(x))
        nodes.encodings["lect"] = torch.randn(len(x), 256, generator=generator)
        nodes.encodings["dect2"] = torch.randn(len(x), 16, 16, generator=generator)
    x, nodes = union(parts, list(range(networks)), noise.keys(np.arange(networks), 0, 0))
    rows = nodes.graphs.graph_rows
    assert rows is not None
    y = torch.cat([labels for _, _, labels in parts])
    if facts.task == "graph-regression":
        y = torch.randn(len(y), facts.outputs, generator=torch.Generator().manual_seed(0))
    if facts.task == "node-classification":
        return x, nodes, torch.arange(len(x)) % facts.outputs, np.array([0, len(x)])
    return x, nodes, y, rows.ptr


def stats_of(x: Tensor, nodes: NodeData) -> dict[int, Statistics]:
    """Return some statistics, right in shape, for networks that read them from the batch."""
    return {hops: Statistics(torch.zeros_like(x), torch.ones(len(x))) for hops in nodes.neighborhoods}


def losses_of(scores: Tensor, y: Tensor, ptr: np.ndarray) -> Tensor:
    """Return the sum of the networks' mean losses."""
    each = functional.mse_loss(scores, y, reduction="none").mean(1) if y.is_floating_point() else None
    each = functional.cross_entropy(scores, y, reduction="none") if each is None else each
    return (grouped.pool(each[:, None], ptr)[:, 0] / torch.from_numpy(np.diff(ptr)).to(each.device)).sum()


def states_of(config: NetworkConfig, facts: DatasetFacts, networks: int) -> list[dict[str, Tensor]]:
    states = []
    for seed in range(networks):
        torch.manual_seed(seed)
        states.append(Network(config, facts).state_dict())
    return states


def step(stack: Stack, x: Tensor, nodes: NodeData, y: Tensor, ptr: np.ndarray) -> tuple[Tensor, Tensor]:
    """Train all networks by one step; return scores and gradients."""
    adam = StackAdam(stack)
    adam.add([None] * len(stack))
    scores = stack.train()(x, nodes)
    losses_of(scores, y, ptr).backward()
    gradients = stack.gradients()
    adam.step(gradients, [0.001] * len(stack))
    return scores.detach(), gradients


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
@pytest.mark.parametrize("case", CASES, ids=name)
def test_a_training_step_stays_on_its_device(case: tuple[NetworkConfig, DatasetFacts]) -> None:
    config, facts = case
    stack = Stack(config, facts, "meta")
    networks = 3 if stack.is_grouped else 1
    x, nodes, y, ptr = data(config, facts, networks)
    if facts.codes is None:  # others look at what is learned, which has no statistics in the batch
        nodes = NodeData(nodes.graphs, nodes.neighborhoods, stats_of(x, nodes), nodes.encodings)
    if not stack.is_grouped:
        nodes = alone(nodes)
    stack.add(states_of(config, facts, networks))
    x, nodes, y = x.to("meta"), nodes.to("meta"), y.to("meta")
    with OnOneDevice():
        scores, gradients = step(stack, x, nodes, y, ptr)
    assert scores.shape == (int(ptr[-1]), facts.outputs)
    assert gradients.shape == stack.flat.shape
    assert scores.is_meta
    assert stack.flat.is_meta


def alone(nodes: NodeData) -> NodeData:
    graphs = nodes.graphs
    return NodeData(
        type(graphs)(graphs.edge_index, graphs.ptr, graphs.batch, edge_attr=graphs.edge_attr),
        nodes.neighborhoods,
        nodes.stats,
        nodes.encodings,
    )


def test_what_is_left_on_the_host_is_noticed() -> None:
    with pytest.raises(AssertionError, match="on the host"), OnOneDevice():
        torch.zeros(3, device="meta")[torch.zeros(2, dtype=torch.int64)]


DOUBLED = [
    *product(PLAIN[: -len(STORED)] + OTHERS, [MEASURED]),
    *product(
        [config for config in LEAPS if config.backbone in ("gcn", "nomp") and "+" not in config.encoding], [MEASURED]
    ),
    *[case for case in CASES if case[1] is not MEASURED and case[0].backbone != "gps"],
]  # dropout of gps is torch's own, which draws other numbers in another precision


@pytest.mark.parametrize("case", DOUBLED, ids=name)
def test_plain_paths_compute_what_compiled_ones_do(case: tuple[NetworkConfig, DatasetFacts]) -> None:
    """With dropout and random signs, so that these must be the same bits in both."""
    config, facts = case
    stack, wide = Stack(config, facts), Stack(config, facts)
    if not stack.is_grouped:
        stack.eval()
    networks = 3 if stack.is_grouped else 1
    wide.network.double()
    wide.flat = wide.flat.double()
    states = states_of(config, facts, networks)
    x, nodes, y, ptr = data(config, facts, networks)
    nodes = nodes if stack.is_grouped else alone(nodes)
    found = []
    for each, dtype in ((stack, torch.float32), (wide, torch.float64)):
        each.add(states)
        encodings = {name: tensor.to(dtype) for name, tensor in nodes.encodings.items()}
        edge_attr = nodes.graphs.edge_attr
        if edge_attr is not None and edge_attr.is_floating_point():
            nodes = replace(nodes, graphs=replace(nodes.graphs, edge_attr=edge_attr.to(dtype)))
        given = NodeData(nodes.graphs, nodes.neighborhoods, nodes.stats, encodings)
        torch.manual_seed(0)
        features, labels = (tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in (x, y))
        found.append((*step(each, features, given, labels, ptr), each.flat))
    for narrow, double in zip(*found, strict=True):
        assert double.dtype == torch.float64
        assert torch.linalg.vector_norm(narrow - double) < 1e-3 * torch.linalg.vector_norm(double)


def test_a_user_may_have_everything_on_a_device() -> None:
    hoods = khop([[0, 1, 2], [1, 2, 3]], 5, 2).to("meta")
    x = torch.zeros(5, 2, device="meta", requires_grad=True)
    out = dect(x, hoods, torch.zeros(2, 3, device="meta"), torch.zeros(4, device="meta"), 8.0)
    out.sum().backward()
    assert out.shape == (5, 3, 4)


@pytest.mark.parametrize("cells", [1, 7, 40, 400])
def test_blocks_of_the_transform_need_no_answer_of_the_device(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leap.models.transform.CHUNK_CELLS", cells)
    hoods = khop([[0, 1, 2], [1, 2, 3]], 5, 2)
    x = torch.zeros(5, 2, device="meta", requires_grad=True)
    with OnOneDevice():
        out = dect(x, hoods.to("meta"), torch.zeros(2, 3, device="meta"), torch.zeros(4, device="meta"), 8.0)
        out.sum().backward()
    assert out.shape == (5, 3, 4)
    assert x.grad is not None


def test_rows_send_what_they_know_once() -> None:
    rows = Rows.of([2, 0, 3], slots=[4, 1, 0])
    device = torch.device("meta")
    assert rows.segments(device)[0] is rows.segments(device)[0]
    number, place = rows.segments(torch.device("cpu"))
    assert (number.tolist(), place.tolist()) == ([0, 0, 2, 2, 2], [0, 1, 0, 1, 2])


@pytest.mark.parametrize(
    "case", [case for case in DOUBLED if case[0].encoding in ("none", "leap-l", "leap-f", "lape+leap-l")], ids=name
)
def test_lower_precision_is_close_and_lowers_nothing_but_linear_maps(case: tuple[NetworkConfig, DatasetFacts]) -> None:
    config, facts = case
    found = []
    networks = 0
    for precision in ("32", "bf16"):
        stack = Stack(config.model_copy(update={"precision": precision}), facts)
        networks = 3 if stack.is_grouped else 1
        x, nodes, y, ptr = data(config, facts, networks)
        stack.add(states_of(config, facts, networks))
        torch.manual_seed(0)
        found.append(step(stack, x, nodes if stack.is_grouped else alone(nodes), y, ptr))
        assert stack.flat.dtype == torch.float32
    (scores, gradients), (lowered, _) = found
    assert lowered.dtype == scores.dtype == gradients.dtype == torch.float32
    assert not torch.equal(lowered, scores)
    assert torch.linalg.vector_norm(lowered - scores) < 0.05 * torch.linalg.vector_norm(scores)


def test_the_transform_is_never_lowered() -> None:
    hoods = khop([[0, 1, 2], [1, 2, 3]], 5, 2)
    x, directions, grid = torch.randn(5, 2), torch.eye(2), torch.linspace(-1, 1, 4)
    expected = dect(x, hoods, directions, grid, 64.0)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(dect(x, hoods, directions, grid, 64.0), expected)
        assert (x @ directions).dtype == torch.bfloat16
        with in_full_precision(x.device):  # as the plain path has it
            assert (x @ directions).dtype == torch.float32
