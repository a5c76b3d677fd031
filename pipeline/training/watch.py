"""Tell somebody about every epoch while workers train: they note epochs in files, and a thread reads those."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from leap.pipeline.training.run_folder import EPOCHS, RunFolder, read_epochs

PERIOD_SECONDS = 0.4


@dataclass(frozen=True)
class EpochEvent:
    """An epoch that was finished: the fold's number, and losses, metrics and rate by name."""

    fold: int
    values: dict[str, Any]


@contextlib.contextmanager
def watching(folder: RunFolder, folds: Sequence[int], on_epoch: Callable[[EpochEvent], None] | None) -> Iterator[None]:
    """Call `on_epoch` from a thread of its own while the block runs, and for what is left at its end."""
    if on_epoch is None:
        yield
        return
    tell, seen, over = on_epoch, dict.fromkeys(folds, 0), threading.Event()

    def look() -> None:
        for fold in folds:
            entries = read_epochs(folder.fold(fold) / EPOCHS)
            for entry in entries[seen[fold] :]:
                tell(EpochEvent(fold, entry))
            seen[fold] = max(seen[fold], len(entries))

    def keep_looking() -> None:
        while not over.wait(PERIOD_SECONDS):
            look()

    thread = threading.Thread(target=keep_looking, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        look()
