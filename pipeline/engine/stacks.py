"""Folds in stacks: put together, spread over workers, watched while they are trained.

This is the one place that decides which folds go to the workers, in which order and how many at a time.
"""

import contextlib
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from leap import models
from leap.models.network_config import NetworkConfig, can_stack
from leap.pipeline import engine
from leap.pipeline.cluster import employ, refuse_threaded_worker, worker_number
from leap.pipeline.engine.jobs import FoldJob, FoldOutcome
from leap.pipeline.engine.run_folder import RESULT, FolderLock
from leap.pipeline.engine.watch import FoldsWatch
from leap.pipeline.stages.context import Context
from leap.pipeline.training.options import identity
from leap.store.graphs.tasks import is_node_task

MOST = 32
ROWS = 4096  # of a step: by then a row of a larger stack costs no less, and later more (decision 18)


class StackTask(NamedTuple):
    """What a worker gets: folds that may be trained as one stack, of which it takes up to `size` at a time."""

    jobs: tuple[FoldJob, ...]
    size: int


def stack_size(network: NetworkConfig, rows: float, given: int | None = None, *, is_node_task: bool = False) -> int:
    """Return how many folds are trained at a time: as asked for, or so many that a step is worth its overhead.

    Parameters
    ----------
    rows : nodes of a batch of one fold, on average.
    given : what was asked for; an architecture that cannot be stacked is trained alone all the same.
    """
    if not can_stack(network, is_node_task=is_node_task):
        return 1
    return max(1, min(MOST, int(ROWS / max(1.0, rows)))) if given is None else given


def plan_stacks(jobs: Sequence[FoldJob], workers: int, given: int | None = None) -> list[StackTask]:
    """Put jobs that make one stack together and return the tasks of all workers, those with most to do first.

    Tasks of one stack have the same jobs and share them while they work. There are as many as its size wants; while
    there are fewer tasks than workers, the stack with most to do for each gets another one. Begun last, a long task
    would keep one worker busy while the others have nothing left.
    """
    groups: dict[Hashable, list[FoldJob]] = {}
    for job in jobs:
        groups.setdefault(_kind(job), []).append(job)
    stacks = list(groups.values())
    sizes = [min(_size(job, given) for job in stack) for stack in stacks]
    seconds = [sum(job.seconds for job in stack) for stack in stacks]
    tasks = [min(workers, -(-len(stack) // size)) for stack, size in zip(stacks, sizes, strict=True)]
    while sum(tasks) < workers:
        left = [n for n, stack in enumerate(stacks) if tasks[n] < len(stack)]
        if not left:
            break
        tasks[max(left, key=lambda n: seconds[n] / tasks[n])] += 1
    return [
        StackTask(tuple(stacks[n]), min(sizes[n], -(-len(stacks[n]) // tasks[n])))
        for n in sorted(range(len(stacks)), key=lambda n: -seconds[n] / tasks[n])
        for _ in range(tasks[n])
    ]


def _kind(job: FoldJob) -> Hashable:
    """Return what the folds of a stack have in common: the network, what it reads and learns, the size of batches."""
    options = identity(job.options.flat())
    shared = {*NetworkConfig.model_fields, "batch_size", "cap"}
    return job.facts, tuple((name, str(value)) for name, value in options.items() if name in shared)


def _size(job: FoldJob, given: int | None) -> int:
    # Folds that read the data again in every epoch would each need memory for what they read.
    if not job.fits_in_memory:
        return 1
    return stack_size(job.options.network, job.rows, given, is_node_task=is_node_task(job.facts.task))


def train_folds(
    jobs: Sequence[FoldJob],
    context: Context,
    on_done: Callable[[FoldJob, dict[str, Any]], None],
    on_failed: Callable[[FoldJob, Exception], None],
    stack: int | None = None,
    device: str = "auto",
    before: tuple[int, int] = (0, 0),
    later: Sequence[float] = (),
) -> None:
    """Train folds on the context's workforce, one thread each, and hand over each result or failure as it comes.

    Parameters
    ----------
    stack : how many are trained as one; None: decided by the sizes of their batches.
    device : where; auto is what each worker finds. A GPU has one process unless a number of workers is asked for.
    before, later : as for `FoldsWatch`.
    """
    left = {job.name: job for job in jobs}
    results = {job.name: os.path.join(job.folder, RESULT) for job in jobs}
    lost: dict[tuple[str, int], Exception] = {}
    workforce = context.workforce
    if workforce.workers is None and workforce.scheduler is None:
        processes = models.device_processes(device)
        workforce = replace(workforce, workers=0 if processes == 1 else processes)
    with employ(workforce, len(jobs), sum(job.seconds for job in jobs)) as runner:
        tasks = plan_stacks(jobs, runner.workers, stack)
        with FoldsWatch(tasks, runner.workers, context.reporter, before, later) as watch:

            def settle(outcome: FoldOutcome) -> None:
                job = left.pop(outcome.name, None)
                if job is None:  # its result was found before
                    return
                if outcome.result is not None:
                    watch.end(job, outcome.result)
                    on_done(job, outcome.result)
                else:
                    assert outcome.error is not None
                    on_failed(job, outcome.error)
                    watch.end(job, outcome.error)

            def look() -> None:
                """Take results of folds whose task goes on; ten times a second, so nothing is built for a look."""
                for job in [job for job in left.values() if os.path.exists(results[job.name])]:
                    if (result := job.result()) is not None:
                        settle(FoldOutcome(job.name, result, None))

            def lose(arguments: tuple[StackTask, str], error: Exception) -> None:
                lost.update(dict.fromkeys((job.name for job in arguments[0].jobs), error))

            runner.run_streams(run_stack, [(task, device) for task in tasks], settle, lose, look)
            look()
            for name, error in lost.items():
                settle(FoldOutcome(name, None, error))
            # What is left was in the hands of another process, maybe of a worker that outlived its command.
            waiting = [(job, device) for job in left.values()]
            runner.run(run_fold, waiting, settle, lambda args, error: settle(FoldOutcome.of(args[0], error=error)))


def run_stack(task: StackTask, device: str) -> Iterator[FoldOutcome]:
    """Train and test folds, each from its last checkpoint on if there is one; the task that workers run.

    Raises
    ------
    InvalidInputError
        On a Dask worker with several threads.
    """
    refuse_threaded_worker()
    return engine.fold.train_stack(task.jobs, task.size, models.find_device(device, worker_number()))


def run_fold(job: FoldJob, device: str = "auto") -> FoldOutcome:
    """Train and test one fold; if another process has it, that one is waited for, and its result taken."""
    refuse_threaded_worker()
    found = models.find_device(device, worker_number())
    while True:
        with contextlib.closing(engine.fold.train_stack([job], 1, found)) as outcomes:
            outcome = next(outcomes, None)
        if outcome is not None:
            return outcome
        with FolderLock(Path(job.folder)):
            pass
