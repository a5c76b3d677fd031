"""Progress of folds in the terminal: a line each with epoch, losses, metric and time left."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from leap.cli.output import errors
from leap.pipeline.training.watch import EpochEvent

METRICS = (("val_auroc", "AUROC", 3), ("val_r2", "R²", 3))


@contextlib.contextmanager
def fold_bars(epochs: int, *, quiet: bool) -> Iterator[Callable[[EpochEvent], None] | None]:
    """Give what `train` tells about its epochs; None where nobody is looking."""
    if quiet or not errors.is_terminal:
        yield None
        return
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TextColumn("{task.fields[status]}", markup=False),
        TextColumn("≤"),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
    )
    tasks: dict[int, TaskID] = {}
    lock = threading.Lock()

    def show(event: EpochEvent) -> None:
        with lock:
            if not tasks:
                progress.start()
            if event.fold not in tasks:
                tasks[event.fold] = progress.add_task(f"fold {event.fold}", total=epochs, status="")
            progress.update(tasks[event.fold], completed=event.values["epoch"] + 1, status=status(event.values))

    try:
        yield show
    finally:
        if tasks:
            progress.stop()


def status(values: dict[str, float | None]) -> str:
    """Return an epoch in a few words: losses and the metric that matters."""
    text = f"loss {values['train_loss']:.3f}, val {values['val_loss']:.3f}"
    accuracy = values.get("val_accuracy")
    if accuracy is not None:
        return f"{text}, accuracy {accuracy:.1%}"
    for name, shown, digits in METRICS:
        value = values.get(name)
        if value is not None:
            return f"{text}, {shown} {value:.{digits}f}"
    return text
