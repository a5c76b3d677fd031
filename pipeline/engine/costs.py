"""What folds are expected to take: as long as the same took before, else what the sizes of the data make likely.

The seconds below were measured on one core of a server, with the networks of the paper on Letter-high, DHFR and hiv and
those of node tasks on minesweeper and tolokers; there an epoch takes between half and twice as long as said here.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from leap.models.network_config import NetworkConfig, uses_cached_transform
from leap.pipeline.datasets import dataset_card
from leap.pipeline.engine.results import History
from leap.pipeline.training.options import TrainOptions, identity
from leap.store import Artifact

TRAINED_SHARE, JUDGED_SHARE = 0.6, 0.2
USUAL_EPOCHS = 60  # of a hundred, before training stops early
JUDGING = 1 / 3  # of the time of a step, for as many nodes: there is no backward pass
# Of a network and step, in a stack where it can be, whatever the batch.
SECONDS_A_STEP = {
    **{"gcn": 2e-4, "gat": 4e-4, "gin": 2e-4, "gine": 4e-4, "nomp": 2e-4, "mlp": 2e-4},
    **{"gps": 0.01, "dect-4k": 0.003},
}
STEP_OF_ANOTHER = 0.003
STEP_OF_LEAP = 1e-4
# Of a node in a step: of being read, and of each product and each entry of a layer's map.
SECONDS_A_NODE, SECONDS_A_PRODUCT, SECONDS_AN_ENTRY = 1e-6, 7e-11, 4e-9
# Of an edge in one direction and a column of a layer.
SECONDS_ALONG_EDGE = {"gcn": 2e-10, "gin": 2e-10, "gine": 1e-9, "gat": 1e-9, "gps": 1e-9}
# Of LEAP and a node in a step: of projecting a transform, and of computing it for a direction and each member or edge.
SECONDS_A_PROJECTION, SECONDS_A_HEIGHT, SECONDS_AN_EDGE = 2.6e-6, 1.8e-8, 1.5e-9
EDGES_A_NODE = 1.5  # where they are not known
CLOSED = 0.3  # share of a node's pairs of neighbours that are joined
NOT_COSTS = (
    *("seed", "split_seed", "cross_validation", "folds", "epochs", "select", "lr", "class_weight"),
    *("schedule", "warm_up", "weight_decay", "patience"),
)


@dataclass(frozen=True)
class Size:
    """Size of a dataset; `edges` counts each once."""

    graphs: int
    nodes: int
    edges: float
    is_categorical: bool = False


@dataclass(frozen=True)
class Cost:
    """What a fold is expected to take; `is_measured` if the same was done before."""

    seconds: float
    is_measured: bool


class Costs:
    """Expected costs of folds."""

    def __init__(self, history: History) -> None:
        seconds: dict[Hashable, list[float]] = defaultdict(list)
        epochs: dict[Hashable, list[int]] = defaultdict(list)
        for dataset, options, fold in history.folds():
            for kind in _kinds(dataset, options):
                seconds[kind].append(fold["seconds_an_epoch"])
                epochs[kind].append(fold["epochs"])
        self._seconds = {kind: sum(values) / len(values) for kind, values in seconds.items()}
        self._epochs = {kind: sum(values) / len(values) for kind, values in epochs.items()}

    def of_fold(self, dataset: str, options: TrainOptions, stored: Artifact | None) -> Cost | None:
        """Return the cost of one fold; None if nothing is known about the dataset."""
        name = dataset if stored is None else stored.manifest.dataset
        for kind in _kinds(name, options):
            if kind in self._seconds:
                return Cost(self._seconds[kind] * min(self._epochs[kind], options.epochs), True)
        size = size_of(name, stored)
        if size is None:
            return None
        usual = max(USUAL_EPOCHS, options.patience)
        return Cost(seconds_an_epoch(size, options) * min(usual, options.epochs), False)


def size_of(dataset: str, stored: Artifact | None) -> Size | None:
    """Return the size of a dataset, if it is known."""
    if stored is not None:
        summary = stored.manifest.summary
        return Size(summary["graphs"], summary["nodes"], summary["edges"], summary["categorical"])
    card = dataset_card(dataset)
    if card.size is None:
        return None
    edges = EDGES_A_NODE * card.size[1] if card.edges is None else card.edges
    return Size(*card.size, edges, card.is_categorical)


def _kinds(dataset: str, options: TrainOptions) -> Iterator[Hashable]:
    """Yield what makes two folds cost alike, from everything to the little that matters most."""
    values: dict[str, Any] = identity(options.flat())
    yield dataset, tuple(sorted((n, str(value)) for n, value in values.items() if n not in NOT_COSTS))
    yield dataset, options.network.backbone, options.network.encoding, options.batch_size


def seconds_an_epoch(size: Size, options: TrainOptions) -> float:
    """Return what an epoch of one fold is likely to take: its steps, and one look at the validation part.

    A node task has one step, and both passes are over the whole graph.
    """
    network, is_one = options.network, size.graphs == 1
    trained, judged = (1.0, 1.0) if is_one else (TRAINED_SHARE, JUDGED_SHARE)
    steps = max(1.0, size.graphs * trained / options.batch_size)
    a_step = SECONDS_A_STEP.get(network.backbone, STEP_OF_ANOTHER) + (STEP_OF_LEAP if network.leap else 0.0)
    nodes = size.nodes * (trained + judged * JUDGING)
    return steps * a_step + nodes * (SECONDS_A_NODE + _of_backbone(size, network) + _of_leap(size, options))


def _of_backbone(size: Size, network: NetworkConfig) -> float:
    """Return seconds of a node in a step."""
    layers, hidden = network.layers or 5, network.hidden or 32
    has_blocks = network.norm != "none" or network.residual or network.feed_forward
    maps = layers * (2 if network.feed_forward else 1) + 2 * has_blocks
    ends = 2 * size.edges / max(1, size.nodes) + 1
    along = layers * ends * hidden * SECONDS_ALONG_EDGE.get(network.backbone, 0.0)
    return maps * hidden * (hidden * SECONDS_A_PRODUCT + SECONDS_AN_ENTRY) + along


def _of_leap(size: Size, options: TrainOptions) -> float:
    """Return seconds of a node in a step, in every place where LEAP is."""
    network = options.network
    if network.leap is None and not network.leap_every_layer:
        return 0.0
    places = 1 + (network.layers or 5) * network.leap_every_layer
    computed = places - uses_cached_transform(network, is_categorical=size.is_categorical)
    heights = 0.0
    for hops in network.hops:
        members, edges = _neighborhood(size, hops, options.cap)
        # Where there are many edges, each counts with the higher of its ends.
        each = SECONDS_AN_EDGE if edges > 2 * members else SECONDS_A_HEIGHT
        heights += members * SECONDS_A_HEIGHT + edges * each
    return places * SECONDS_A_PROJECTION + computed * network.directions * heights


def _neighborhood(size: Size, hops: int, cap: int | None) -> tuple[float, float]:
    """Return how many members and edges a neighbourhood is likely to have."""
    degree = 2 * size.edges / max(1, size.nodes)
    members = 1 + sum(degree * max(1.0, degree - 1) ** hop for hop in range(hops))
    members = min(members, size.nodes / max(1, size.graphs), cap or members)
    others = max(0.0, members - 1)
    return members, others + CLOSED * others * max(0.0, others - 1) / 2
