"""`Trainee`: one fold in training, with all that it needs to go on after a stop as if there had been none."""

import json
import math
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from leap.pipeline.engine.run_folder import BEST, EPOCHS, LAST
from leap.pipeline.training.checkpoint import load, save
from leap.pipeline.training.data import Part
from leap.pipeline.training.evaluate import Evaluation
from leap.pipeline.training.objective import Objective
from leap.pipeline.training.options import TrainOptions
from leap.pipeline.training.schedule import Schedule
from leap.store.disk import write
from leap.store.errors import WorkFailedError
from leap.store.graphs import Pick

Epoch = dict[str, Any]
State = dict[str, Tensor]


@dataclass
class Progress:
    """Where training stands; plain values only, as they are saved with every checkpoint.

    Attributes
    ----------
    epoch, step : the next step to take; `step` counts from 0 in each epoch.
    loss_sum, loss_items : of the epoch under way.
    best_value : best validation loss or metric so far (lower is better; a metric counts negative).
    lowest_loss, waited : lowest validation loss, and epochs since.
    seconds : spent so far, interruptions not counted; in a stack, the fold's share of the stack's time.
    """

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    loss_items: int = 0
    best_value: float = float("inf")
    best_epoch: int = -1
    lowest_loss: float = float("inf")
    waited: int = 0
    seconds: float = 0.0
    history: list[Epoch] = field(default_factory=list)


class Trainee:
    """One network being fitted. Its weights are in a stack while it is trained; here is everything else.

    Parameters
    ----------
    parts : "train", "val" and "test".
    folder : where the checkpoints best.pt and last.pt and the log of epochs are.
    fingerprint : of the run and fold; a checkpoint of another one is ignored.
    fresh : makes the weights that training begins with where there is no checkpoint.
    selection : "loss", or the metric that makes an epoch the best.
    checkpoint_steps : steps after which a checkpoint is written, counted across epochs; None: the loop says when.

    Attributes
    ----------
    network, moments : weights and Adam's state to begin with; `moments` is None at the very start.
    best : weights of the best epoch so far.
    """

    def __init__(
        self,
        parts: dict[str, Part],
        objective: Objective,
        options: TrainOptions,
        folder: Path,
        fingerprint: str,
        fresh: Callable[[], State],
        *,
        selection: str = "loss",
        checkpoint_steps: int | None = None,
    ) -> None:
        self.parts, self.objective, self.options = parts, objective, options
        self.folder, self.fingerprint = folder, fingerprint
        self.selection, self.checkpoint_steps = selection, checkpoint_steps
        self._schedule = Schedule(options)
        self.progress, self.best = Progress(), None
        self.moments: State | None = None
        self.unsaved = 0
        self._picks: Generator[Pick, None, None] | None = None
        self._pick: Pick | None = None
        content = load(folder / LAST, fingerprint)
        if content is None:
            self.network = fresh()
        else:
            self._restore(content)
        self.steps = self._steps()
        write_epochs(folder / EPOCHS, self.progress.history)

    best: State | None

    def _restore(self, content: dict[str, Any]) -> None:
        self.progress = Progress(**content["progress"])
        self.network, self.moments, self.best = content["network"], content["adam"], content["best"]
        self._schedule.restore(content)

    def _steps(self) -> int:
        return 0 if self.is_over else self.parts["train"].steps(self.progress.epoch)

    @property
    def rate(self) -> float:
        """Learning rate of the epoch under way."""
        return self._schedule.rate(self.progress.epoch)

    @property
    def is_over(self) -> bool:
        """Whether all epochs are done, or the validation loss has not fallen for too long."""
        return self.progress.epoch >= self.options.epochs or self.progress.waited >= self.options.patience

    @property
    def is_epoch_over(self) -> bool:
        """Whether all steps of the epoch are done, so that its validation is next."""
        return not self.is_over and self.progress.step >= self.steps

    @property
    def is_due(self) -> bool:
        """Whether it is time for a checkpoint, by the number of steps or because there are no more."""
        if self.is_over:
            return self.unsaved > 0
        return self.checkpoint_steps is not None and self.unsaved >= self.checkpoint_steps

    def draw(self) -> Pick:
        """Return the graphs of the next step, the same until it is taken; they may have to be read."""
        if self._pick is None:
            if self._picks is None:
                self._picks = self.parts["train"].picks(self.progress.epoch, self.progress.step)
            self._pick = next(self._picks)
        return self._pick

    def step(self) -> None:
        """Count a step that was taken."""
        self._pick = None
        self.progress.step += 1
        self.unsaved += 1

    def close(self) -> None:
        """Stop reading ahead."""
        if self._picks is not None:
            self._picks.close()
        self._picks = self._pick = None

    def finish_epoch(self, checked: Evaluation, network: Callable[[], State]) -> None:
        """Take the result of a validation and go on to the next epoch.

        Parameters
        ----------
        network : gives a copy of the weights that were validated.
        """
        assert checked.loss is not None
        progress, rate = self.progress, self.rate
        self._schedule.step(checked.loss)
        progress.waited = 0 if checked.loss < progress.lowest_loss else progress.waited + 1
        progress.lowest_loss = min(progress.lowest_loss, checked.loss)
        score = checked.metrics.get(self.selection)
        value = checked.loss if self.selection == "loss" else math.inf if score is None else -score
        # Whatever its metric, a network whose loss is not a number has diverged.
        if value < progress.best_value and not math.isnan(checked.loss):
            progress.best_value, progress.best_epoch = value, progress.epoch
            self.best = network()
        entry: Epoch = {
            "epoch": progress.epoch,
            "lr": rate,
            "train_loss": progress.loss_sum / max(1, progress.loss_items),
            "val_loss": checked.loss,
            **{f"val_{name}": number for name, number in checked.metrics.items()},
            "seconds": progress.seconds,
        }
        progress.history.append(entry)
        progress.epoch, progress.step, progress.loss_sum, progress.loss_items = progress.epoch + 1, 0, 0.0, 0
        self.close()
        self.steps = self._steps()
        with (self.folder / EPOCHS).open("a") as stream:
            stream.write(json.dumps(entry) + "\n")

    def best_weights(self) -> State:
        """Return the weights of the best epoch, which are to be tested.

        Raises
        ------
        WorkFailedError
            If there is none.
        """
        if self.best is not None:
            return self.best
        if not math.isfinite(self.progress.lowest_loss):
            also = " or --weight-decay" if self.options.weight_decay else ""
            raise WorkFailedError(f"the validation loss was not a number in any epoch. Use a smaller --lr{also}.")
        raise WorkFailedError(
            f"the validation part has no {self.selection}, which was to choose the tested epoch: it lacks a class. Use "
            "--select loss, or fewer --folds."
        )

    def save(self, network: State, moments: State) -> None:
        """Write last.pt, which alone is enough to go on: it has the weights of the best epoch, too."""
        content = {
            "fingerprint": self.fingerprint,
            "network": network,
            "adam": moments,
            **self._schedule.state(),
            "best": self.best,
            "progress": asdict(self.progress),
        }
        save(self.folder / LAST, content)
        self.unsaved = 0

    def save_best(self) -> None:
        """Write best.pt, the network that others load."""
        content = {
            "fingerprint": self.fingerprint,
            "epoch": self.progress.best_epoch,
            "network": self.best_weights(),
            "objective": self.objective.state(),
        }
        save(self.folder / BEST, content)


def write_epochs(path: Path, history: list[Epoch]) -> None:
    """Write the log of epochs anew; a stop may have left more than the checkpoint knows."""
    write(path, "".join(json.dumps(entry) + "\n" for entry in history))
