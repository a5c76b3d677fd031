"""The loop over steps: many folds trained as one stack, each as it would be alone.

A step takes the next batch of every fold, which together are one forward pass, one backward pass and one step of Adam.
Folds whose epoch is over are validated together. A fold that ends leaves, and the next that waits takes its place.
Nothing that one fold does or suffers changes a bit of another's.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leap.models.adam import StackAdam
from leap.models.devices import CPU
from leap.models.network_config import DatasetFacts, NetworkConfig
from leap.models.noise import keys
from leap.models.stack import Stack
from leap.pipeline.engine.run_folder import writing
from leap.pipeline.training.data import KeptUnions, united
from leap.pipeline.training.evaluate import Evaluation, Scored, score
from leap.pipeline.training.objective import StackLoss
from leap.pipeline.training.options import CHECKPOINT_SECONDS
from leap.pipeline.training.trainee import Trainee

T = TypeVar("T")


class Ended(NamedTuple):
    """A fold that has left, with what its best weights predict for its test part, or with the error that stopped it."""

    trainee: Trainee
    test: Evaluation | None
    error: Exception | None = None


class StackTrainer:
    """Trains folds of one architecture, up to `size` at a time.

    Torch's generator must be borrowed meanwhile: architectures that cannot be stacked draw from it, seeded anew before
    each step.
    """

    def __init__(
        self,
        config: NetworkConfig,
        facts: DatasetFacts,
        size: int,
        device: torch.device = CPU,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._facts, self._size, self._device, self._clock = facts, size, device, clock
        self._stack, self._judge = Stack(config, facts, device), Stack(config, facts, device)
        self._adam = StackAdam(self._stack)
        self._trainees: list[Trainee] = []  # in the order of their slots
        self._failed: dict[Trainee, Exception] = {}
        self._kept = KeptUnions(device)
        self._loss: StackLoss | None = None
        self._losses: list[tuple[Tensor, NDArray[np.int64], NDArray[np.int64]]] = []
        self._began = self._saved = clock()

    def run(self, waiting: Iterator[Trainee]) -> Iterator[Ended]:
        """Train all that wait and yield each as it ends."""
        while self._admit(waiting):
            self._finish_epochs()
            self._save()
            gone = self._let_go()
            if gone:
                yield from gone
            else:
                self._attempt_step()

    def _admit(self, waiting: Iterator[Trainee]) -> bool:
        """Fill the stack; false if nobody is left."""
        new: list[Trainee] = []
        while len(self._trainees) + len(new) < self._size and (trainee := next(waiting, None)) is not None:
            new.append(trainee)
        if new:
            self._account()
            if not self._trainees:
                self._began = self._clock()
            self._stack.add([trainee.network for trainee in new])
            self._adam.add([trainee.moments for trainee in new])
            self._trainees += new
            self._loss = None
        return bool(self._trainees)

    def _attempt_step(self) -> None:
        """Take a step; an error in that of a fold alone is that one's, and one of many is nobody's."""
        try:
            self._step()
        except Exception as error:
            if len(self._trainees) > 1:
                raise
            self._failed[self._trainees[0]] = error

    def _step(self) -> None:
        """Take a step with all; if the data of one cannot be read, that one leaves first."""
        trainees = self._trainees
        picks = []
        for trainee in trainees:
            try:
                picks.append(trainee.draw())
            except Exception as error:
                self._failed[trainee] = error
        if self._failed:
            return
        if self._loss is None:
            objectives = [trainee.objective for trainee in trainees]
            self._loss = type(objectives[0]).together(objectives, self._device)
        batch = trainees[0].parts["train"].batch(picks, self._device)
        at = [(trainee.options.seed, trainee.progress.epoch, trainee.progress.step) for trainee in trainees]
        noise = keys(*np.array(at, np.uint64).T)
        if not self._stack.is_grouped:
            torch.manual_seed(int(noise[0]))
        if not self._stack.training:
            self._stack.train()
        assert batch.y is not None
        scores = batch.scores(self._stack, np.arange(len(trainees)), noise)
        losses = self._loss(scores, batch.y, batch.ptr)
        losses.sum().backward()  # type: ignore[no-untyped-call]  # gradients that are given, torch checks in Python
        rates, decays = zip(*((trainee.rate, trainee.options.weight_decay) for trainee in trainees), strict=True)
        self._adam.step(self._stack.gradients(), rates, decays)
        self._losses.append((losses.detach(), batch.ptr, batch.node_ptr))
        for trainee in trainees:
            trainee.step()

    def _account(self) -> None:
        """Give every fold its losses and its share of the time since the last account, by its rows.

        Losses are read from the device here and not in every step, which would have to wait for it.
        """
        taken, self._losses = self._losses, []
        if not taken:
            return
        now = self._clock()
        seconds, self._began = now - self._began, now
        values = torch.stack([losses for losses, _, _ in taken]).cpu().double().numpy()
        counts, rows = (np.diff(np.stack([each[place] for each in taken])) for place in (1, 2))
        shares = rows.sum(0) / max(1, rows.sum())
        for slot, trainee in enumerate(self._trainees):
            progress = trainee.progress
            progress.seconds += seconds * float(shares[slot])
            for value in (values[:, slot] * counts[:, slot]).tolist():
                progress.loss_sum += value
            progress.loss_items += int(counts[:, slot].sum())

    def _finish_epochs(self) -> None:
        """Validate those that have no step left in their epoch, all together."""
        slots = [slot for slot, trainee in enumerate(self._trainees) if trainee.is_epoch_over]
        if not slots:
            return
        self._account()
        scored = self._scored(self._stack, [self._trainees[slot] for slot in slots], "val", slots)
        now = self._clock()
        items = sum(len(each.items) for each in scored.values())
        for trainee, each in scored.items():
            trainee.progress.seconds += (now - self._began) * len(each.items) / max(1, items)
        self._began = now
        for slot in slots:
            trainee = self._trainees[slot]
            if trainee in scored:
                self._attempt(trainee, partial(self._finish_epoch, trainee, slot, scored[trainee]))

    def _finish_epoch(self, trainee: Trainee, slot: int, scored: Scored) -> None:
        trainee.finish_epoch(scored.judged(trainee.objective), partial(self._stack.state, slot))

    def _save(self) -> None:
        """Write the checkpoints that are due, by steps or by time."""
        now = self._clock()
        if is_late := now - self._saved >= CHECKPOINT_SECONDS:
            self._saved = now
        due = [
            (slot, each)
            for slot, each in enumerate(self._trainees)
            if (each.is_due or (is_late and each.checkpoint_steps is None and each.unsaved))
            and each not in self._failed
        ]
        if due:
            self._account()
        for slot, trainee in due:
            self._attempt(trainee, partial(trainee.save, self._stack.state(slot), self._adam.state(slot)))

    def _let_go(self) -> list[Ended]:
        """Part with those that are over, tested together, and with those that failed."""
        leaving = [trainee for trainee in self._trainees if trainee.is_over or trainee in self._failed]
        if not leaving:
            return []
        self._account()
        over = [trainee for trainee in leaving if trainee not in self._failed]
        best = {each: weights for each in over if (weights := self._attempt(each, each.best_weights)) is not None}
        scored = {}
        if best:
            self._judge.add(list(best.values()))
            scored = self._scored(self._judge, list(best), "test", range(len(best)))
            self._judge.keep([])
        staying = [slot for slot, trainee in enumerate(self._trainees) if trainee not in leaving]
        self._stack.keep(staying)
        self._adam.keep(staying)
        self._trainees = [self._trainees[slot] for slot in staying]
        self._loss = None
        for trainee in leaving:
            trainee.close()
            self._kept.forget(trainee.parts["val"])
        tested = {trainee: each.judged(trainee.objective) for trainee, each in scored.items()}
        return [Ended(trainee, tested.get(trainee), self._failed.pop(trainee, None)) for trainee in leaving]

    def _scored(
        self, stack: Stack, trainees: Sequence[Trainee], name: str, slots: Sequence[int]
    ) -> dict[Trainee, Scored]:
        """Return what the networks in these slots say about a part of each trainee; who cannot be read fails alone."""
        parts = [trainee.parts[name] for trainee in trainees]
        try:
            batches = self._kept.of(parts) if name == "val" else united(parts, self._device)
            return dict(zip(trainees, score(stack, batches, slots, self._facts.outputs), strict=True))
        except Exception as error:
            if len(trainees) == 1:
                self._failed[trainees[0]] = error
                return {}
        found: dict[Trainee, Scored] = {}
        for trainee, slot in zip(trainees, slots, strict=True):
            found |= self._scored(stack, [trainee], name, [slot])
        return found

    def _attempt(self, trainee: Trainee, action: Callable[[], T]) -> T | None:
        """Do something for one trainee; an error is that one's alone."""
        try:
            with writing(trainee.folder):
                return action()
        except Exception as error:
            self._failed[trainee] = error
            return None
