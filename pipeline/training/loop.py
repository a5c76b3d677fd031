"""The loop over epochs and steps: Adam, a smaller rate on plateaus, early stopping, resumable at any checkpoint."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from leap.models.network import Network
from leap.pipeline.engine.run_folder import BEST, LAST
from leap.pipeline.training.checkpoint import load, save
from leap.pipeline.training.data import Part
from leap.pipeline.training.evaluate import evaluate
from leap.pipeline.training.objective import Objective
from leap.pipeline.training.options import PATIENCE, TrainOptions
from leap.store.errors import WorkFailedError

Epoch = dict[str, Any]


@dataclass
class Progress:
    """Where training stands; plain values only, as they are saved with every checkpoint.

    Attributes
    ----------
    epoch, step : the next step to take; `step` counts from 0 in each epoch.
    loss_sum, loss_items : of the epoch under way.
    best_value : best validation loss or AUROC so far (lower is better; an AUROC counts negative).
    lowest_loss, waited : lowest validation loss, and epochs since.
    seconds : spent so far, interruptions not counted.
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


class Training:
    """One network being fitted.

    Parameters
    ----------
    folder : where the checkpoints best.pt and last.pt are.
    fingerprint : of the run and fold; a checkpoint of another one is ignored.
    selection : "loss" or "auroc", what makes an epoch the best.
    checkpoint_steps : steps after which a checkpoint is written inside an epoch; after an epoch there always is one.
    """

    def __init__(
        self,
        network: Network,
        objective: Objective,
        options: TrainOptions,
        folder: Path,
        fingerprint: str,
        *,
        selection: str = "loss",
        checkpoint_steps: int = 500,
    ) -> None:
        self.network, self.objective, self.options = network, objective, options
        self.folder, self.fingerprint = folder, fingerprint
        self.selection, self.checkpoint_steps = selection, checkpoint_steps
        self.optimizer = torch.optim.Adam(
            [parameter for parameter in network.parameters() if parameter.requires_grad], lr=options.lr, fused=True
        )
        self.scheduler = ReduceLROnPlateau(self.optimizer, factor=0.1, patience=PATIENCE)
        self.progress = Progress()
        self._restore()

    @property
    def is_over(self) -> bool:
        """Whether all epochs are done, or the validation loss has not fallen for too long."""
        return self.progress.epoch >= self.options.epochs or self.progress.waited >= PATIENCE

    def run(self, train: Part, val: Part, on_epoch: Callable[[Epoch], None]) -> None:
        """Train to the end and leave the network with the weights of its best epoch."""
        while not self.is_over:
            self._train_epoch(train)
            on_epoch(self._finish_epoch(val))
        if self.progress.best_epoch < 0:
            raise WorkFailedError("the validation loss was not a number in any epoch. Use a smaller --lr.")
        best = load(self.folder / BEST, self.fingerprint)
        if best is None:
            raise WorkFailedError(f"{self.folder / BEST} was removed or damaged meanwhile. Run the command again.")
        self.network.load_state_dict(best["network"])

    def _train_epoch(self, train: Part) -> None:
        progress, start = self.progress, time.perf_counter()
        self.network.train()
        for batch in train.batches(progress.epoch, progress.step):
            assert batch.y is not None
            scores = self.network(batch.x, batch.nodes)
            loss = self.objective.loss(scores if batch.rows is None else scores[batch.rows], batch.y)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            progress.loss_sum += loss.item() * len(batch.y)
            progress.loss_items += len(batch.y)
            progress.step += 1
            if progress.step % self.checkpoint_steps == 0:
                now = time.perf_counter()
                progress.seconds += now - start
                start = now
                self._save_last()
        progress.seconds += time.perf_counter() - start

    def _finish_epoch(self, val: Part) -> Epoch:
        progress, start = self.progress, time.perf_counter()
        checked = evaluate(self.network, val.batches(), self.objective)
        assert checked.loss is not None
        rate = float(self.optimizer.param_groups[0]["lr"])
        self.scheduler.step(checked.loss)
        progress.waited = 0 if checked.loss < progress.lowest_loss else progress.waited + 1
        progress.lowest_loss = min(progress.lowest_loss, checked.loss)
        value = checked.loss if self.selection == "loss" else -(checked.metrics.get("auroc") or 0.0)
        # Whatever its AUROC, a network whose loss is not a number has diverged.
        is_best = value < progress.best_value and not math.isnan(checked.loss)
        if is_best:
            progress.best_value, progress.best_epoch = value, progress.epoch
        entry: Epoch = {
            "epoch": progress.epoch,
            "lr": rate,
            "train_loss": progress.loss_sum / max(1, progress.loss_items),
            "val_loss": checked.loss,
            **{f"val_{name}": number for name, number in checked.metrics.items()},
        }
        progress.seconds += time.perf_counter() - start
        entry["seconds"] = progress.seconds
        progress.history.append(entry)
        progress.epoch, progress.step, progress.loss_sum, progress.loss_items = progress.epoch + 1, 0, 0.0, 0
        # The best one first: training that stops between the two writes repeats this epoch and writes both again.
        if is_best:
            self._save_best()
        self._save_last()
        return entry

    def _save_best(self) -> None:
        content = {
            "fingerprint": self.fingerprint,
            "epoch": self.progress.best_epoch,
            "network": self.network.state_dict(),
            "objective": self.objective.state(),
        }
        save(self.folder / BEST, content)

    def _save_last(self) -> None:
        content = {
            "fingerprint": self.fingerprint,
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "generator": torch.get_rng_state(),
            "progress": asdict(self.progress),
        }
        save(self.folder / LAST, content)

    def _restore(self) -> None:
        content = load(self.folder / LAST, self.fingerprint)
        if content is None:
            return
        # Without the weights of the best epoch so far the rest of the way leads nowhere: start again.
        if content["progress"]["best_epoch"] >= 0 and load(self.folder / BEST, self.fingerprint) is None:
            return
        self.network.load_state_dict(content["network"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.scheduler.load_state_dict(content["scheduler"])
        torch.set_rng_state(content["generator"])
        self.progress = Progress(**content["progress"])
