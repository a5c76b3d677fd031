"""The engine: artifacts that are missing, then the folds of all runs on one workforce, then the results of each."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from leap import models
from leap.pipeline.cluster import require_one_thread_each
from leap.pipeline.datasets import dataset_card
from leap.pipeline.engine.costs import Costs
from leap.pipeline.engine.jobs import FoldJob, make_jobs
from leap.pipeline.engine.prepare import Materials
from leap.pipeline.engine.requests import RunRequest, run_name
from leap.pipeline.engine.results import RESULTS, Finished, History, append
from leap.pipeline.engine.run_folder import RunFolder
from leap.pipeline.engine.run_writer import RunWriter
from leap.pipeline.engine.stacks import train_folds
from leap.pipeline.failures import keep_traceback, keeping_traceback, sentence, traceback_text
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.ingest import IngestOptions
from leap.pipeline.stages.materialize import checked_gib
from leap.pipeline.stages.result import ArtifactReport
from leap.store import LeapError
from leap.store.disk import refuse_folder
from leap.store.errors import InvalidInputError, MissingRawFilesError, UnknownDatasetError

State = Literal["cached", "trained", "failed"]
MOST_OPEN = 100  # runs whose folders are held at once; each takes a file descriptor, of which some systems give few
WRONG_INPUT = InvalidInputError.exit_code
# A dataset that only its files make known is an unknown one without them.
DATA_ABSENT = (MissingRawFilesError, UnknownDatasetError)


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    state : "cached" if its results were there before.
    metrics : content of metrics.json; None if it failed.
    artifacts : what it reads, as found or made; empty where the data is absent or the run failed.
    error : what went wrong, in one paragraph.
    traceback : of that error.
    data_absent : whether raw files are absent, so that the results were found by name and options alone.
    """

    request: RunRequest
    state: State
    path: Path | None = None
    metrics: dict[str, Any] | None = None
    artifacts: Sequence[ArtifactReport] = ()
    error: str | None = None
    traceback: str | None = None
    data_absent: bool = False

    @property
    def metric(self) -> str:
        """Name of the test score that sums a finished run up in one number."""
        assert self.metrics is not None
        dataset = str(self.metrics["dataset"])
        if self.request.options.selection(dataset) == "auroc":
            return "auroc"
        return dataset_card(dataset).judged_by(str(self.metrics.get("task")))

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            **self.request.values(),
            "state": self.state,
            "path": None if self.path is None else str(self.path),
            "test": None if self.metrics is None else self.metrics["test"],
            "val": None if self.metrics is None else self.metrics["val"],
            "error": self.error,
            "data_absent": self.data_absent,
        }


class _Pending(NamedTuple):
    """A run to be done, and the numbers of the requests that it answers."""

    run: RunWriter
    numbers: list[int]


@dataclass
class Engine:
    """Does what is asked for, whether one run or many; each is used once.

    Attributes
    ----------
    root : folder of all runs.
    stack : how many folds are trained as one; None: decided by their sizes.
    device : where they are trained, as `leap.models.find_device` takes it.
    folder : of the only run, if it is not to be named by what the run is.
    resume, force : as for `RunWriter.open`.
    is_alone : a run that was asked for alone raises its error; one of many does not stop the others.
    outcomes : by number of the request.
    waiting : runs to be done, by fingerprint; some may be in the hands of another process.
    opened : runs whose folders are held.
    wrong : errors in what was asked for, one for each run that failed by it.
    folds_done, folds_failed : how many have ended so far.
    """

    requests: Sequence[RunRequest]
    context: Context
    root: Path
    reading: IngestOptions
    budget_gb: float
    memory_gb: float
    checkpoint_steps: int | None
    stack: int | None = None
    device: str = "auto"
    folder: RunFolder | None = None
    resume: bool | None = None
    force: bool = False
    is_alone: bool = False
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    waiting: dict[str, _Pending] = field(default_factory=dict)
    opened: dict[str, _Pending] = field(default_factory=dict)
    wrong: list[LeapError] = field(default_factory=list)
    folds_done: int = 0
    folds_failed: int = 0

    def __post_init__(self) -> None:
        checked_gib("budget_gb", self.budget_gb)
        checked_gib("memory_gb", self.memory_gb)
        if self.stack is not None and self.stack < 1:
            raise InvalidInputError(f"--stack is {self.stack}. Give how many folds are trained as one, at least 1.")
        # A scheduler's workers look on their own machines, and every machine has a CPU: torch is not needed to know.
        if self.device not in ("auto", "cpu") and self.context.workforce.scheduler is None:
            models.find_device(self.device)
        if self.folder is None:
            refuse_folder(self.root / RESULTS)

    @cached_property
    def history(self) -> History:
        """Runs that were finished before."""
        return History.read(self.root)

    @cached_property
    def costs(self) -> Costs:
        """How long folds take."""
        return Costs(self.history)

    def work(self) -> list[Outcome]:
        """Do all runs that are not done yet and return how each ended, in the order of the requests.

        A note on the KeyboardInterrupt of a stop says how far they are.
        """
        with keeping_traceback(self.root), contextlib.closing(self):
            try:
                for name in dict.fromkeys(request.name for request in self.requests):
                    self._prepare([n for n, request in enumerate(self.requests) if request.name == name])
                self._train()
            except KeyboardInterrupt as interrupt:
                self._say_how_far(interrupt)
                raise
        return [self.outcomes[number] for number in range(len(self.requests))]

    def close(self) -> None:
        """Give up all folders."""
        while self.opened:
            self.opened.popitem()[1].run.lock.release()

    def _say_how_far(self, interrupt: KeyboardInterrupt) -> None:
        if not self.is_alone:
            done = sum(outcome.state != "failed" for outcome in self.outcomes.values())
            interrupt.add_note(f"{done} of {len(self.requests)} runs are done")
            return
        for run, _ in self.opened.values():
            interrupt.add_note(f"{len(run.done)} of {len(run.folds)} folds of {run.folder.path} are done")

    def _prepare(self, numbers: list[int]) -> None:
        """Look up the runs of one dataset; of those that are not finished, make the artifacts and plan the folds."""
        materials = Materials(self.requests[numbers[0]].dataset, self.reading, self.context, self.budget_gb)
        try:
            manifest = materials.dataset[1].manifest
        except DATA_ABSENT as error:
            self._answer_by_name(numbers, error)
            return
        except Exception as error:
            self._fail(numbers, error)
            return
        name, task, left = manifest.dataset, manifest.summary["task"], []
        self.requests = [each.on(task) if n in numbers else each for n, each in enumerate(self.requests)]
        for number in numbers:
            options = self.requests[number].options
            try:
                fingerprint = materials.fingerprint(options)
                folder = self.folder or RunFolder(self.root / run_name(name, options, fingerprint))
                finished = self._finished(folder, fingerprint)
            except Exception as error:
                self._fail([number], error)
                continue
            if finished is None:
                left.append((number, folder))
            else:
                self._end(number, "cached", finished, materials.stored(options))
        if not left:
            return
        try:
            materials.make([self.requests[number].options for number, _ in left])
        except Exception as error:
            self._fail([number for number, _ in left], error)
            return
        for number, folder in left:
            try:
                self._plan(number, folder, materials)
            except Exception as error:
                self._fail([number], error)

    def _finished(self, folder: RunFolder, fingerprint: str) -> Finished | None:
        """Return a finished run with this fingerprint: in its own folder, or under any name beside it."""
        if self.force:
            return None
        metrics = folder.finished(fingerprint)
        return self.history.by_fingerprint.get(fingerprint) if metrics is None else (folder, metrics)

    def _answer_by_name(self, numbers: list[int], absent: LeapError) -> None:
        """Answer runs whose raw files are absent; results stay, but which data they are of cannot be checked."""
        if self.is_alone:
            raise absent
        answered = 0
        for number in numbers:
            request = self.requests[number]
            finished = self.history.by_name(request.name, request.options)
            if finished is None:
                self._fail([number], absent)
            else:
                self._end(number, "cached", finished, data_absent=True)
                answered += 1
        if answered:
            self.context.reporter.note(
                f"note: raw files of {self.requests[numbers[0]].name!r} are absent, so {answered} of {len(numbers)} "
                "runs on it are answered by name and options alone; whether the data was the same is not known"
            )

    def _plan(self, number: int, folder: RunFolder, materials: Materials) -> None:
        request = self.requests[number]
        prepared = materials.prepared(request.options)
        if prepared.fingerprint in self.waiting:
            self.waiting[prepared.fingerprint].numbers.append(number)
            return
        cost = self.costs.of_fold(request.name, request.options, prepared.dataset)
        jobs = make_jobs(
            prepared,
            folder,
            self.context,
            label=request.label,
            seconds=cost.seconds if cost is not None else 1.0,
            memory_gb=self.memory_gb,
            checkpoint_steps=self.checkpoint_steps,
        )
        run = RunWriter(folder, prepared, jobs)
        if not self.force:
            run.refuse_another(resume=bool(self.resume))
        self.waiting[prepared.fingerprint] = _Pending(run, [number])

    def _train(self) -> None:
        """Train the folds of all runs that can be had, and then of those that other processes had.

        Nobody is waited for while runs are held: two processes that have some of each other's would wait for ever.
        """
        self._refuse_wrong_input()
        if self.waiting:
            require_one_thread_each(self.context.workforce)
        while self.waiting:
            for fingerprint in list(self.waiting):
                if len(self.opened) < MOST_OPEN:
                    self._open(fingerprint)
            if self.waiting and not self.opened:
                fingerprint, (_, numbers) = next(iter(self.waiting.items()))
                label = self.requests[numbers[0]].label
                self.context.reporter.note(f"another process is training {label}; waiting for it")
                self._open(fingerprint, wait=True)
            self._refuse_wrong_input()
            self._train_opened()
            self.close()

    def _open(self, fingerprint: str, *, wait: bool = False) -> None:
        """Open a run if its folder can be had; take its results if another process has left them meanwhile."""
        pending = self.waiting.pop(fingerprint)
        run, numbers = pending
        try:
            if not run.lock.take(wait=wait):
                self.waiting[fingerprint] = pending
                return
            self.opened[fingerprint] = pending
            metrics = None if self.force else run.folder.finished(fingerprint)
            if metrics is None:
                run.open(self.context, resume=self.resume, force=self.force)
                return
            for number in numbers:
                self._end(number, "cached", (run.folder, metrics), run.prepared.reports)
        except Exception as error:
            self._release(fingerprint)
            self._fail(numbers, error, folder=run.folder.path)
        else:
            self._release(fingerprint)

    def _release(self, fingerprint: str) -> None:
        if fingerprint in self.opened:
            self.opened.pop(fingerprint).run.lock.release()

    def _refuse_wrong_input(self) -> None:
        """Raise if nothing can be done at all, and trying again will not help."""
        if self.wrong and not self.opened and not self.waiting and len(self.wrong) == len(self.outcomes):
            raise InvalidInputError("\n".join(dict.fromkeys(map(str, self.wrong))))

    def _train_opened(self) -> None:
        for fingerprint, (run, _) in list(self.opened.items()):
            if run.is_done:  # stopped between its last fold and its end
                self._finish(fingerprint)
        runs = [run for run, _ in self.opened.values()]
        jobs, kept = [job for run in runs for job in run.jobs], sum(len(run.done) for run in runs)
        if kept:
            self.context.reporter.note(f"continuing: {kept} of {kept + len(jobs)} folds of unfinished runs are done")
        if jobs:
            later = [job.seconds for run, _ in self.waiting.values() for job in run.planned]
            before = (self.folds_done, self.folds_failed)
            train_folds(jobs, self.context, self._take, self._give_up, self.stack, self.device, before, later)

    def _take(self, job: FoldJob, result: dict[str, Any]) -> None:
        run = self.opened[job.fingerprint].run
        self.folds_done += 1
        run.note(result)
        if run.is_done:
            self._finish(job.fingerprint)

    def _give_up(self, job: FoldJob, error: Exception) -> None:
        run, numbers = self.opened[job.fingerprint]
        self.folds_failed += 1
        where = "" if self.is_alone else f"fold {job.split.number}: "
        self._fail(numbers, error, where, run.folder.path)

    def _finish(self, fingerprint: str) -> None:
        run, numbers = self.opened[fingerprint]
        try:
            metrics = run.finish(self.context)
            if self.folder is None:
                append(self.root, [run.folder])
        except Exception as error:
            self._fail(numbers, error, folder=run.folder.path)
            return
        finally:
            self._release(fingerprint)
        for number in numbers:
            self._end(number, "trained", (run.folder, metrics), run.prepared.reports)

    def _end(
        self,
        number: int,
        state: State,
        finished: Finished,
        artifacts: Sequence[ArtifactReport] = (),
        *,
        data_absent: bool = False,
    ) -> None:
        folder, metrics = finished
        self.outcomes[number] = Outcome(
            self.requests[number], state, folder.path, metrics, artifacts, data_absent=data_absent
        )

    def _fail(self, numbers: list[int], error: Exception, where: str = "", folder: Path | None = None) -> None:
        """Note that runs failed; the traceback of an unexpected error goes to the run's folder, if it has one yet."""
        if not isinstance(error, LeapError):
            keep_traceback(error, folder or self.root)
        if self.is_alone:
            raise error
        text, trace = where + sentence(error), traceback_text(error)
        for number in numbers:
            self.outcomes.setdefault(number, Outcome(self.requests[number], "failed", error=text, traceback=trace))
            if isinstance(error, LeapError) and error.exit_code == WRONG_INPUT:
                self.wrong.append(error)
