"""`Schedule`: the learning rate of each epoch, lowered on a plateau or a function of the epoch alone."""

import math
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from leap.pipeline.training.options import PATIENCE, TrainOptions


class _Rate(Optimizer):
    """The rate of a network, in the place where torch's scheduler looks for it; the stack has an Adam of its own.

    Nothing of torch's is called: making any of its optimizers imports its compiler, a second in every process.
    """

    def __init__(self, rate: float) -> None:
        self.param_groups = [{"lr": rate}]


class Schedule:
    """The rate of one network's training."""

    def __init__(self, options: TrainOptions) -> None:
        self._options = options
        self._holder = _Rate(options.lr)
        self._plateau = ReduceLROnPlateau(self._holder, factor=0.1, patience=PATIENCE)

    def rate(self, epoch: int) -> float:
        """Return the rate of an epoch; of a plateau it is that of the epoch under way."""
        options = self._options
        share = warmth(epoch, options.warm_up)
        if options.schedule == "plateau":
            return share * float(self._holder.param_groups[0]["lr"])
        if options.schedule == "cosine":
            share *= cosine(epoch - options.warm_up, options.epochs - options.warm_up)
        return share * options.lr

    def step(self, loss: float) -> None:
        """Take the validation loss of an epoch."""
        self._plateau.step(loss)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {"scheduler": self._plateau.state_dict(), "rate": float(self._holder.param_groups[0]["lr"])}

    def restore(self, content: dict[str, Any]) -> None:
        """Go on as a checkpoint has it."""
        self._plateau.load_state_dict(content["scheduler"])
        self._holder.param_groups[0]["lr"] = content["rate"]


def warmth(epoch: int, warm_up: int) -> float:
    """Return the share of the rate in an epoch: it rises in equal steps and is 1 from epoch `warm_up` on.

    >>> [warmth(epoch, 3) for epoch in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    return min(1.0, (epoch + 1) / (warm_up + 1))


def cosine(epoch: int, epochs: int) -> float:
    """Return the share of the rate in an epoch: it falls from 1 towards 0 by half a cosine; before epoch 0 it is 1.

    >>> [round(cosine(epoch, 4), 2) for epoch in range(-1, 4)]
    [1.0, 1.0, 0.85, 0.5, 0.15]
    """
    return (1.0 + math.cos(math.pi * epoch / epochs)) / 2.0 if epoch > 0 else 1.0
