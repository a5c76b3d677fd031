"""The sweep: artifacts that are missing, then the folds of all runs on one workforce, then the results of each."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from leap.pipeline.cluster import employ, require_one_thread_each
from leap.pipeline.experiments.cost import Costs
from leap.pipeline.experiments.expand import RunSpec, Selection, expand
from leap.pipeline.experiments.history import Finished, History
from leap.pipeline.experiments.materials import Materials
from leap.pipeline.experiments.progress import SweepEvent, SweepWatch
from leap.pipeline.experiments.results import RESULTS, append, results_table
from leap.pipeline.experiments.sweep_file import SweepFile, load
from leap.pipeline.failures import keep_traceback, keeping_traceback, sentence, traceback_text
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.materialize import DEFAULT_BUDGET_GB
from leap.pipeline.stages.options import checked_gib
from leap.pipeline.training.options import DEFAULT_CHECKPOINT_STEPS
from leap.pipeline.training.run import Run, plan_run
from leap.pipeline.training.stage import DEFAULT_RUNS, run_folder
from leap.store import LeapError
from leap.store.disk import refuse_folder
from leap.store.errors import InvalidInputError, MissingRawFilesError, UnknownDatasetError

if TYPE_CHECKING:
    from leap.pipeline.training.fold import FoldJob

State = Literal["cached", "trained", "failed"]
MOST_OPEN = 100  # runs whose folders are held at once; each takes a file descriptor, of which some systems give few
WRONG_INPUT = InvalidInputError.exit_code
METRIC_OF_TASK = {"graph-regression": "r2"}
# A dataset that only its files make known is an unknown one without them.
DATA_ABSENT = (MissingRawFilesError, UnknownDatasetError)


@dataclass(frozen=True)
class Outcome:
    """How a run of a sweep ended.

    Attributes
    ----------
    state : "cached" if its results were there before.
    metrics : content of metrics.json; None if it failed.
    error : what went wrong, in one paragraph.
    traceback : of that error.
    data_absent : whether raw files are absent, so that the results were found by name and options alone.
    """

    spec: RunSpec
    state: State
    path: Path | None = None
    metrics: dict[str, Any] | None = None
    error: str | None = None
    traceback: str | None = None
    data_absent: bool = False

    @property
    def metric(self) -> str:
        """Name of the test score that sums a finished run up in one number."""
        assert self.metrics is not None
        if self.spec.options.selection(str(self.metrics["dataset"])) == "auroc":
            return "auroc"
        return METRIC_OF_TASK.get(str(self.metrics.get("task")), "accuracy")

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            **self.spec.values(),
            "state": self.state,
            "path": None if self.path is None else str(self.path),
            "test": None if self.metrics is None else self.metrics["test"],
            "val": None if self.metrics is None else self.metrics["val"],
            "error": self.error,
            "data_absent": self.data_absent,
        }


@dataclass(frozen=True)
class SweepResult:
    """A sweep that is over; `outcomes` are in the order of its runs."""

    file: SweepFile
    runs: Path
    outcomes: list[Outcome]

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
    source: "str | Path | SweepFile",
    context: Context | None = None,
    *,
    selection: Selection | None = None,
    runs: Path | str = DEFAULT_RUNS,
    budget_gb: float = DEFAULT_BUDGET_GB,
    memory_gb: float = 2.0,
    checkpoint_steps: int = DEFAULT_CHECKPOINT_STEPS,
    on_event: Callable[[SweepEvent], None] | None = None,
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
    budget_gb, memory_gb, checkpoint_steps : as for `train`.
    on_event : told how far the sweep is, from another thread.

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
    checked_gib("budget_gb", budget_gb)
    checked_gib("memory_gb", memory_gb)
    file = source if isinstance(source, SweepFile) else load(source)
    specs = expand(file, selection)
    work = _Sweep(context or Context(), Path(runs), file, budget_gb, memory_gb, checkpoint_steps)
    with keeping_traceback(Path(runs)), contextlib.closing(work):
        try:
            for dataset in dict.fromkeys(spec.dataset for spec in specs):
                work.open([spec for spec in specs if spec.dataset == dataset])
            work.refuse_wrong_input()
            work.train(on_event)
        except KeyboardInterrupt as interrupt:
            done = sum(outcome.state != "failed" for outcome in work.outcomes.values())
            interrupt.add_note(f"{done} of {len(specs)} runs are done")
            raise
        results_table(work.root)  # puts right what an interruption may have left
    return SweepResult(file, work.root, [work.outcomes[spec] for spec in specs])


@dataclass
class _Sweep:
    """A sweep under way.

    Attributes
    ----------
    opened : runs whose folders are held, by fingerprint, with the requests that they answer.
    later : runs that another process has, or that are too many to be held at once.
    wrong : errors in what was asked for, one for each run that failed by it.
    """

    context: Context
    root: Path
    file: SweepFile
    budget_gb: float
    memory_gb: float
    checkpoint_steps: int
    outcomes: dict[RunSpec, Outcome] = field(default_factory=dict)
    opened: dict[str, tuple[Run, list[RunSpec]]] = field(default_factory=dict)
    later: dict[str, tuple[Run, list[RunSpec]]] = field(default_factory=dict)
    wrong: list[LeapError] = field(default_factory=list)
    history: History = field(init=False)

    def __post_init__(self) -> None:
        refuse_folder(self.root / RESULTS)
        self.history = History.read(self.root)

    def open(self, specs: Sequence[RunSpec]) -> None:
        """Open the runs of one dataset that are not finished, making their artifacts first."""
        materials = Materials(specs[0].dataset, self.file.reading, self.context, self.budget_gb)
        try:
            _ = materials.dataset
        except DATA_ABSENT as error:
            self._answer_by_name(specs, error)
            return
        except Exception as error:
            self._fail(specs, error)
            return
        left = []
        for spec in specs:
            try:
                finished = self.history.by_fingerprint.get(materials.fingerprint(spec))
            except Exception as error:
                self._fail([spec], error)
                continue
            if finished is None:
                left.append(spec)
            else:
                self._end(spec, "cached", finished)
        if not left:
            return
        try:
            materials.make(left)
        except Exception as error:
            self._fail(left, error)
            return
        for spec in left:
            try:
                self._open(spec, materials)
            except Exception as error:
                self._fail([spec], error)

    def _answer_by_name(self, specs: Sequence[RunSpec], absent: LeapError) -> None:
        """Answer runs whose raw files are absent; results stay, but which data they are of cannot be checked."""
        answered = 0
        for spec in specs:
            finished = self.history.by_name(spec.dataset, spec.options)
            if finished is None:
                self._fail([spec], absent)
            else:
                self._end(spec, "cached", finished, data_absent=True)
                answered += 1
        if answered:
            self.context.reporter.note(
                f"note: raw files of {specs[0].dataset!r} are absent, so {answered} of {len(specs)} runs on it are "
                "answered by name and options alone; whether the data was the same is not known"
            )

    def _open(self, spec: RunSpec, materials: Materials) -> None:
        prepared = materials.prepared(spec)
        for group in (self.opened, self.later):
            if prepared.fingerprint in group:
                group[prepared.fingerprint][1].append(spec)
                return
        folder = run_folder(None, prepared.dataset.manifest.dataset, prepared, self.root)
        run = plan_run(folder, prepared, self.context, memory_gb=self.memory_gb, checkpoint_steps=self.checkpoint_steps)
        self.later[prepared.fingerprint] = run, [spec]
        if len(self.opened) < MOST_OPEN:
            self._hold(prepared.fingerprint)

    def _hold(self, fingerprint: str, *, wait: bool = False) -> None:
        """Open a run if its folder can be had; take its results if another process has left them meanwhile."""
        run, specs = self.later.pop(fingerprint)
        if not run.lock.take(wait=wait):
            self.later[fingerprint] = run, specs
            return
        self.opened[fingerprint] = run, specs
        metrics = run.folder.finished(fingerprint)
        try:
            if metrics is None:
                run.open(self.context)
                return
        except Exception:
            self._release(fingerprint)
            raise
        self._release(fingerprint)
        for spec in specs:
            self._end(spec, "cached", (run.folder, metrics))

    def _release(self, fingerprint: str) -> None:
        self.opened.pop(fingerprint)[0].lock.release()

    def close(self) -> None:
        """Give up all folders."""
        for fingerprint in list(self.opened):
            self._release(fingerprint)

    def refuse_wrong_input(self) -> None:
        """Raise if nothing can be done at all, and trying again will not help."""
        if self.wrong and not self.opened and not self.later and len(self.wrong) == len(self.outcomes):
            raise InvalidInputError("\n".join(dict.fromkeys(map(str, self.wrong))))

    def train(self, on_event: Callable[[SweepEvent], None] | None) -> None:
        """Train the folds of all opened runs, and then of those that were left for later.

        Nobody is waited for while runs are held: two sweeps that have some of each other's would wait for ever.
        """
        if self.opened or self.later:
            require_one_thread_each(self.context.workforce)
        while self.opened or self.later:
            if not self.opened:
                self._hold_later()
            self._train_opened(on_event)
            self.close()

    def _hold_later(self) -> None:
        """Open runs that were left for later: those that are free, else the first of them once it is."""
        for fingerprint in list(self.later):
            if len(self.opened) < MOST_OPEN:
                self._try_to_hold(fingerprint)
        if self.later and not self.opened:
            fingerprint, (_, specs) = next(iter(self.later.items()))
            self.context.reporter.note(f"another process is training {specs[0].label}; waiting for it")
            self._try_to_hold(fingerprint, wait=True)

    def _try_to_hold(self, fingerprint: str, *, wait: bool = False) -> None:
        _, specs = self.later[fingerprint]
        try:
            self._hold(fingerprint, wait=wait)
        except Exception as error:
            self._fail(specs, error)

    def _train_opened(self, on_event: Callable[[SweepEvent], None] | None) -> None:
        if not self.opened:
            return
        from leap.pipeline.training.fold import run_fold

        for fingerprint, (run, _) in self.opened.items():
            if run.is_done:  # stopped between its last fold and its end
                self._finish(fingerprint)
        runs = [run for run, _ in self.opened.values()]
        jobs = [job for run in runs for job in run.jobs]
        kept = sum(len(run.done) for run in runs)
        if kept:
            self.context.reporter.note(f"continuing: {kept} of {kept + len(jobs)} folds of unfinished runs are done")
        with (
            employ(self.context.workforce, len(jobs), sum(run.seconds_to_go for run in runs)) as runner,
            SweepWatch(jobs, self._labels(), self._expected(), runner.workers, on_event) as watch,
        ):

            def on_done(result: dict[str, Any]) -> None:
                watch.done(result["fingerprint"], result["fold"], result["seconds"])
                self.opened[result["fingerprint"]][0].note(result)
                if self.opened[result["fingerprint"]][0].is_done:
                    self._finish(result["fingerprint"])

            def on_failed(arguments: "tuple[FoldJob]", error: Exception) -> None:
                job = arguments[0]
                watch.failed(job.fingerprint, job.split.number)
                run, specs = self.opened[job.fingerprint]
                self._fail(specs, error, f"fold {job.split.number}: ", run.folder.path)

            runner.run(run_fold, [(job,) for job in jobs], on_done, on_failed)

    def _finish(self, fingerprint: str) -> None:
        run, specs = self.opened[fingerprint]
        try:
            metrics = run.finish(self.context, sum(result["seconds"] for result in run.done.values()))
            append(self.root, [run.folder])
        except Exception as error:
            self._fail(specs, error, folder=run.folder.path)
            return
        finally:
            run.lock.release()
        for spec in specs:
            self._end(spec, "trained", (run.folder, metrics))

    def _labels(self) -> dict[str, str]:
        return {fingerprint: specs[0].label for fingerprint, (_, specs) in self.opened.items()}

    def _expected(self) -> dict[str, float]:
        """Expected seconds of a fold of each run."""
        stored = {specs[0].dataset: run.prepared.dataset for run, specs in self.opened.values()}
        costs, expected = Costs(self.history, stored), {}
        for fingerprint, (_, specs) in self.opened.items():
            cost = costs.of_fold(specs[0].dataset, specs[0].options)
            expected[fingerprint] = 1.0 if cost is None else cost.seconds
        return expected

    def _end(self, spec: RunSpec, state: State, finished: Finished, *, data_absent: bool = False) -> None:
        self.outcomes[spec] = Outcome(spec, state, finished[0].path, finished[1], data_absent=data_absent)

    def _fail(self, specs: Sequence[RunSpec], error: Exception, where: str = "", folder: Path | None = None) -> None:
        """Note that runs failed; the traceback of an unexpected error goes to the run's folder, if it has one yet."""
        if not isinstance(error, LeapError):
            keep_traceback(error, folder or self.root)
        text, trace = where + sentence(error), traceback_text(error)
        for spec in specs:
            self.outcomes.setdefault(spec, Outcome(spec, "failed", error=text, traceback=trace))
            if isinstance(error, LeapError) and error.exit_code == WRONG_INPUT:
                self.wrong.append(error)
