"""`sweep`: many runs, from a file or a preset."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

from leap.pipeline.engine.engine import Engine, Outcome
from leap.pipeline.engine.plan import RunsPlan, plan_runs, worker_count
from leap.pipeline.engine.results import RESULTS, results_table
from leap.pipeline.engine.sweep_log import SweepCall, record
from leap.pipeline.events import Event
from leap.pipeline.experiments.expand import SweepSelection, expand
from leap.pipeline.experiments.sweep_file import SweepFile, load
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.materialize import DEFAULT_BUDGET_GB
from leap.pipeline.training.options import DEFAULT_RUNS


class SweepWork(TypedDict, total=False):
    """What the trainings of a sweep may use, and who is told: arguments of `sweep` that change no result."""

    budget_gb: float
    memory_gb: float
    checkpoint_steps: int | None
    stack: int | None
    device: str
    command: str
    on_event: Callable[[Event], None] | None


@dataclass(frozen=True)
class SweepResult:
    """A sweep that is over; `outcomes` are in the order of its runs, `call` is its line of the log."""

    file: SweepFile
    runs: Path
    outcomes: list[Outcome]
    call: SweepCall

    @property
    def failed(self) -> list[Outcome]:
        """Runs without results."""
        return [outcome for outcome in self.outcomes if outcome.state == "failed"]

    def as_json(self) -> dict[str, Any]:
        """Return JSON values, the object that `--json` prints."""
        states = [outcome.state for outcome in self.outcomes]
        return {
            "stage": "sweep",
            "name": self.file.name,
            "results": str(self.runs / RESULTS),
            **{state: states.count(state) for state in ("trained", "cached", "failed")},
            "data_absent": sum(outcome.data_absent for outcome in self.outcomes),
            "runs": [outcome.as_json() for outcome in self.outcomes],
        }


def sweep(
    source: str | Path | SweepFile,
    context: Context | None = None,
    *,
    selection: SweepSelection | None = None,
    runs: Path | str = DEFAULT_RUNS,
    budget_gb: float = DEFAULT_BUDGET_GB,
    memory_gb: float = 2.0,
    checkpoint_steps: int | None = None,
    stack: int | None = None,
    device: str = "auto",
    command: str = "",
    on_event: Callable[[Event], None] | None = None,
) -> SweepResult:
    """Do all runs of a sweep that are not done yet.

    It may be stopped at any moment and called again: finished runs and folds are kept, and folds under way go on from
    their last checkpoint, to the same results. A run that fails does not stop the others; the next call tries again.
    A note on the KeyboardInterrupt of a stop says how many runs are done.

    Parameters
    ----------
    source : name of a preset, path of a YAML file, or a sweep file that was read.
    selection : a part of it, and what is done otherwise.
    runs : folder of all runs; results.parquet in it holds the results.
    budget_gb, memory_gb, checkpoint_steps, stack, device : as for `train`.
    command : what was typed, for sweeps.jsonl beside the results, which also has the time that it took.
    on_event : told how far the sweep is, from another thread too.

    Raises
    ------
    InvalidInputError
        If no run at all can be done, because of what was asked for.

    Examples
    --------
    >>> import tempfile
    >>> from leap.pipeline import Context, Workforce, sweep
    >>> from leap.pipeline.experiments.sweep_file import parse
    >>> from leap.store import Store
    >>> folder = tempfile.mkdtemp()
    >>> context = Context(Store.open(f"{folder}/store"), workforce=Workforce(0))
    >>> grid = {"dataset": "letters-low", "encodings": ["none", "rwpe"], "epochs": 1, "folds": 2, "batch_size": 256}
    >>> result = sweep(parse({"grids": [grid]}, "example"), context, runs=f"{folder}/runs")
    >>> [outcome.state for outcome in result.outcomes]
    ['trained', 'trained']
    """
    file = source if isinstance(source, SweepFile) else load(source)
    context = context or Context()
    told = replace(context, reporter=context.reporter.also(on_event))
    requests = expand(file, selection)
    engine = Engine(requests, told, Path(runs), file.reading, budget_gb, memory_gb, checkpoint_steps, stack, device)
    start = time.monotonic()
    try:
        outcomes = engine.work()
    finally:
        call = _call(engine, file, command, time.monotonic() - start)
        if engine.root.is_dir():  # else nothing was begun
            record(engine.root, call)
    results_table(runs)  # puts right what an interruption may have left
    return SweepResult(file, Path(runs), outcomes, call)


def _call(engine: Engine, file: SweepFile, command: str, seconds: float) -> SweepCall:
    ended = list(engine.outcomes.values())
    states = [outcome.state for outcome in ended]
    return SweepCall(
        file.name,
        file.description,
        command,
        seconds,
        worker_count(engine.context.workforce),
        **{state: states.count(state) for state in ("trained", "cached", "failed")},
        runs=sorted(outcome.path.name for outcome in ended if outcome.path is not None and outcome.metrics is not None),
        is_first_look=file.is_first_look,
    )


def plan_sweep(
    source: str | Path | SweepFile,
    context: Context | None = None,
    *,
    selection: SweepSelection | None = None,
    runs: Path | str = DEFAULT_RUNS,
    stack: int | None = None,
) -> RunsPlan:
    """Return the plan of a sweep. Nothing is downloaded, read or made; what is known about the data is used."""
    file = source if isinstance(source, SweepFile) else load(source)
    requests = expand(file, selection)
    return plan_runs(
        requests,
        context or Context(),
        file.reading,
        Path(runs),
        stack=stack,
        name=file.name,
        description=file.description,
    )
