"""The trainings whose epochs are compared: one network and loop, other encodings and other ways to the batches."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import torch

from leap.models.encodings import LeapEncoding
from leap.models.network import Network
from leap.models.network_config import NetworkConfig
from leap.pipeline.bench.pyg_training import PygEncoding, PygPart
from leap.pipeline.cluster import Workforce
from leap.pipeline.export import to_pyg
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.ingest import IngestOptions, ingest_artifact
from leap.pipeline.stages.materialize import materialize
from leap.pipeline.training.data import Batch, Inputs, Part
from leap.pipeline.training.loop import Training
from leap.pipeline.training.objective import CrossEntropy
from leap.pipeline.training.options import TrainOptions
from leap.pipeline.training.requirements import dataset_facts, needs_statistics, required_recipes
from leap.store import Store
from leap.store.errors import WorkFailedError

DATASET = "letters-high"
MEMORY_BYTES = 2**30
TOLERANCE = 1e-3
PIECE_STEPS = 20

Epoch = Callable[[], Iterator[None]]


class Batches(Protocol):
    """What the loop takes its batches from."""

    def batches(self, epoch: int = 0, start: int = 0) -> Iterator[Batch]:
        """Return the batches of an epoch."""


class Piece:
    """The next few batches of an epoch that is under way."""

    def __init__(self, epoch: Iterator[Batch]) -> None:
        self._epoch = epoch
        self.is_last = False

    def batches(self, epoch: int = 0, start: int = 0) -> Iterator[Batch]:
        """Go on where the last call stopped."""
        for _ in range(PIECE_STEPS):
            batch = next(self._epoch, None)
            if batch is None:
                self.is_last = True
                return
            yield batch


class Ready:
    """Batches that are made once and stay as they are."""

    def __init__(self, part: Part) -> None:
        self._kept = list(part.batches())

    def batches(self, epoch: int = 0, start: int = 0) -> Iterator[Batch]:
        """Return the same batches in every epoch."""
        return iter(self._kept[start:])


class Setting:
    """A network for the dataset, and what it reads from a store."""

    def __init__(self, context: Context, **choices: Any) -> None:
        self.options = TrainOptions(network=NetworkConfig(backbone="nomp", **choices))
        _, self.dataset = ingest_artifact(DATASET, IngestOptions(), context)
        made = [
            materialize(context, self.dataset, recipe)[1] for recipe in required_recipes(self.options, self.dataset)
        ]
        hoods = [artifact for artifact in made if artifact.kind == "neighborhoods"]
        encodings = [artifact for artifact in made if artifact.kind != "neighborhoods"]
        self._inputs = Inputs(self.dataset, hoods, encodings, needs_statistics(self.options))

    def part(self) -> Part:
        """Return shuffled batches of all graphs, from memory as soon as they have been read once."""
        options = self.options
        size, seed = options.batch_size, options.seed
        return Part(self._inputs, None, None, batch_size=size, shuffle=True, seed=seed, memory_bytes=MEMORY_BYTES)

    def network(self) -> Network:
        """Return a network, the same in every call."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.options.seed)
            return Network(self.options.network, dataset_facts(self.dataset))

    def epochs(self, network: Network, batches: Batches, folder: Path) -> Epoch:
        """Return a function that trains for one more epoch in pieces, without validation and checkpoints."""
        training = Training(network, CrossEntropy(), self.options, folder, "", checkpoint_steps=2**40)

        def epoch() -> Iterator[None]:
            piece = Piece(batches.batches(training.progress.epoch))
            while not piece.is_last:
                training._train_epoch(piece)  # type: ignore[arg-type]
                yield
            training.progress.epoch += 1

        return epoch


def epoch_rivals(folder: Path) -> dict[str, Epoch]:
    """Return trainings by name.

    "leap-l" streams neighbourhoods, "pyg" has the peer's loader and transform, "ready" only backbone and projection to
    learn, all three with conv1d; "leap-f conv1d", "leap-f linear" and "rwpe" stream what the store holds.
    """
    context = Context(Store.open(folder), workforce=Workforce(0))
    learned = Setting(context, encoding="leap-l", projection="conv1d")
    stored = {
        "leap-f conv1d": Setting(context, encoding="leap-f", projection="conv1d"),
        "leap-f linear": Setting(context, encoding="leap-f", projection="linear"),
        "rwpe": Setting(context, encoding="rwpe"),
    }
    fixed = stored["leap-f conv1d"]
    pyg = PygPart(list(to_pyg(learned.dataset)), learned.options.batch_size)
    rivals = {
        "leap-l": learned.epochs(learned.network(), learned.part(), folder),
        "pyg": learned.epochs(_pyg_network(learned), pyg, folder),
        "ready": fixed.epochs(fixed.network(), Ready(fixed.part()), folder),
    }
    return rivals | {
        name: setting.epochs(setting.network(), setting.part(), folder) for name, setting in stored.items()
    }


def _pyg_network(setting: Setting) -> Network:
    """Return the network of a setting with the peer's way to LEAP."""
    ours, theirs = setting.network().eval(), setting.network().eval()
    encoding = theirs.encodings["leap-l"]
    assert isinstance(encoding, LeapEncoding)
    theirs.encodings["leap-l"] = PygEncoding(encoding)
    batch = next(setting.part().batches())
    with torch.no_grad():
        difference = float((ours(batch.x, batch.nodes) - theirs(batch.x, batch.nodes)).abs().max())
    if not difference < TOLERANCE:
        raise WorkFailedError(
            f"scores of the network with LEAP and with its peer differ by {difference:.2g}. Nothing can be compared "
            "before that is understood."
        )
    return theirs
