"""How long folds take: as long as the same did before, or as long as the size of the dataset makes likely."""

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from leap.pipeline.datasets import dataset_card
from leap.pipeline.experiments.history import History
from leap.pipeline.training.options import TrainOptions, relevant
from leap.store import Artifact

TRAINED_SHARE, JUDGED_SHARE = 0.6, 0.2
USUAL_EPOCHS = 60  # of a hundred, before training stops early
SECONDS_A_STEP = {"gcn": 0.003, "gat": 0.004, "gin": 0.003, "nomp": 0.003, "gps": 0.01, "dect-4k": 0.003}
SECONDS_OF_LEAP = 0.002  # more in each step
SECONDS_A_NODE = 1e-5
SECONDS_A_START = 1.0
NOT_COSTS = ("seed", "split_seed", "folds", "epochs", "select", "lr", "class_weight")


@dataclass(frozen=True)
class Cost:
    """What a fold is expected to take; `is_measured` if the same was done before."""

    seconds: float
    is_measured: bool


class Costs:
    """Expected costs of folds.

    Parameters
    ----------
    history : runs that tell how long theirs took.
    datasets : stored datasets by the names that runs have for them.
    """

    def __init__(self, history: History, datasets: dict[str, Artifact] | None = None) -> None:
        self._datasets = datasets or {}
        seconds: dict[Hashable, list[float]] = defaultdict(list)
        epochs: dict[Hashable, list[int]] = defaultdict(list)
        for dataset, options, fold in history.folds():
            for kind in _kinds(dataset, options):
                seconds[kind].append(fold["seconds_an_epoch"])
                epochs[kind].append(fold["epochs"])
        self._seconds = {kind: sum(values) / len(values) for kind, values in seconds.items()}
        self._epochs = {kind: sum(values) / len(values) for kind, values in epochs.items()}

    def of_fold(self, dataset: str, options: TrainOptions) -> Cost | None:
        """Return the cost of one fold; None if nothing is known about the dataset."""
        stored = self._datasets.get(dataset)
        name = dataset if stored is None else stored.manifest.dataset
        for kind in _kinds(name, options):
            if kind in self._seconds:
                an_epoch, epochs = self._seconds[kind], min(self._epochs[kind], options.epochs)
                return Cost(SECONDS_A_START + an_epoch * epochs, True)
        size = dataset_card(name).size
        if stored is not None:
            size = stored.manifest.summary["graphs"], stored.manifest.summary["nodes"]
        if size is None:
            return None
        return Cost(SECONDS_A_START + _an_epoch(*size, options) * min(USUAL_EPOCHS, options.epochs), False)


def _kinds(dataset: str, options: TrainOptions) -> Iterator[Hashable]:
    """Yield what makes two folds cost alike, from everything to the little that matters most."""
    values: dict[str, Any] = relevant(options.flat())
    yield dataset, tuple(sorted((n, str(value)) for n, value in values.items() if n not in NOT_COSTS))
    yield dataset, options.network.backbone, options.network.encoding, options.batch_size


def _an_epoch(graphs: int, nodes: int, options: TrainOptions) -> float:
    share = TRAINED_SHARE if graphs > 1 else 1.0
    steps = max(1.0, graphs * share / options.batch_size)
    network = options.network
    a_step = SECONDS_A_STEP.get(network.backbone, 0.003) + (SECONDS_OF_LEAP if network.leap else 0.0)
    larger = (network.layers or 5) / 5 * ((network.hidden or 32) / 32) ** 0.5
    return float(larger * (steps * a_step + nodes * (share + JUDGED_SHARE) * SECONDS_A_NODE))
