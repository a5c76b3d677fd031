"""A run and its life in a folder: planned, opened by one process at a time, its folds done, and its end."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leap.models.network_config import DatasetFacts
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.materialize import versions
from leap.pipeline.training.folder_lock import FolderLock
from leap.pipeline.training.metrics import mean_and_std
from leap.pipeline.training.options import DEFAULT_CHECKPOINT_STEPS
from leap.pipeline.training.prepared import Prepared, artifact_costs
from leap.pipeline.training.requirements import dataset_facts
from leap.pipeline.training.run_folder import RunFolder
from leap.store.errors import InvalidInputError, NoSpaceError, StoreNotWritableError, WorkFailedError

if TYPE_CHECKING:
    from leap.pipeline.training.fold import FoldJob

SECONDS_A_STEP, SECONDS_A_NODE = 0.004, 2e-5  # rough: only decides whether a cluster is worth starting
GIB = 2**30


@dataclass
class Run:
    """A run in its folder: planned first, then opened while its lock is held.

    Attributes
    ----------
    lock : of the folder, from opening to the end.
    done : results by fold, of earlier attempts too.
    jobs : folds that are left to do.
    """

    folder: RunFolder
    prepared: Prepared
    facts: DatasetFacts
    planned: "list[FoldJob]"
    lock: FolderLock
    done: dict[int, dict[str, Any]] = field(default_factory=dict)
    jobs: "list[FoldJob]" = field(default_factory=list)

    @property
    def folds(self) -> list[int]:
        """Numbers of all folds."""
        return [job.split.number for job in self.planned]

    @contextlib.contextmanager
    def held(self, context: Context) -> Iterator[None]:
        """Hold the lock during a block, waiting for another process that trains the run."""
        if not self.lock.take():
            context.reporter.note("another process is training this run; waiting for it")
            self.lock.take(wait=True)
        try:
            yield
        finally:
            self.lock.release()

    def open(self, context: Context, *, resume: bool | None = None, force: bool = False) -> None:
        """Start the run in its folder, or continue the one that is there. The lock must be held.

        Parameters
        ----------
        resume : whether there must be a run to continue, or must be none; None: either will do.

        Raises
        ------
        InvalidInputError
            If the folder holds another run, or an unfinished one and `resume` is false.
        WorkFailedError
            If an artifact of the run is gone from the store.
        """
        self.folder.refuse_folders(self.folds)
        if not force:
            self.refuse_another(resume=bool(resume))
            self._refuse_unfinished(resume)
        self._record(context)
        if force:
            self.folder.clear(lambda number: self._say_held(context, number))
        self.folder.start(
            {
                "dataset": self.prepared.dataset.manifest.dataset,
                "options": self.prepared.options.model_dump(mode="json"),
                "artifacts": [{"kind": report.kind, "key": report.key} for report in self.prepared.reports],
                "facts": self.facts.model_dump(mode="json"),
                "classes": self.prepared.dataset.manifest.summary.get("classes"),
                "fingerprint": self.prepared.fingerprint,
            }
        )
        found = self.folder.results(self.prepared.fingerprint)
        self.done = {number: found[number] for number in self.folds if number in found}
        self.jobs = [job for job in self.planned if job.split.number not in self.done]
        for job in self.jobs:
            if FolderLock(Path(job.folder)).is_held_elsewhere():
                self._say_held(context, job.split.number)

    def _say_held(self, context: Context, number: int) -> None:
        context.reporter.note(f"a worker of an earlier command is training fold {number} of this run; waiting for it")

    def refuse_another(self, *, resume: bool) -> None:
        """Raise if the folder holds another run, or nothing to resume."""
        found = self.folder.config()
        if found is None and resume:
            raise InvalidInputError(
                f"there is no run in {self.folder.path} to resume. Leave --resume out to start one."
            )
        if found is None and self.folder.holds_another(self.prepared.fingerprint):
            reason = "it has no config.yaml, and results with other options or data"
        elif found is not None and found["fingerprint"] != self.prepared.fingerprint:
            reason = _difference(found, self.prepared)
        else:
            return
        raise InvalidInputError(
            f"{self.folder.path} holds another run ({reason}). 'leap train' uses another folder with --run, or "
            "replaces that run with --force."
        )

    def _refuse_unfinished(self, resume: bool | None) -> None:
        if resume is False and self.folder.config() is not None:
            done = len(self.folder.results(self.prepared.fingerprint))
            raise InvalidInputError(
                f"{self.folder.path} holds this run unfinished: {done} of {len(self.folds)} folds are done. Continue "
                "it with --resume, or start over with --force."
            )

    @property
    def is_done(self) -> bool:
        """Whether every fold has its result."""
        return all(number in self.done for number in self.folds)

    @property
    def seconds_to_go(self) -> float:
        """Rough time of the folds that are left, in one process."""
        options, summary = self.prepared.options, self.prepared.dataset.manifest.summary
        an_epoch = summary["graphs"] / options.batch_size * SECONDS_A_STEP + summary["nodes"] * SECONDS_A_NODE
        return float(an_epoch * options.epochs * len(self.jobs))

    def note(self, result: dict[str, Any]) -> None:
        """Take the result of a fold."""
        self.done[result["fold"]] = result

    def finish(self, context: Context, seconds: float) -> dict[str, Any]:
        """Write the results when all folds are done, and return them, the content of metrics.json."""
        metrics = self._summary(context, seconds)
        self.folder.finish(metrics)
        with contextlib.suppress(StoreNotWritableError, NoSpaceError):  # that was said when the run was opened
            self._write_record(context)
        return metrics

    def _record(self, context: Context) -> None:
        """Have the store keep what the run reads, and look whether it is still there.

        A store that cannot be written does not end a training.
        """
        try:
            self._write_record(context)
        except (StoreNotWritableError, NoSpaceError) as error:
            context.reporter.note(f"the run is not recorded in the store: {error}")
        for report in self.prepared.reports:
            if context.store.lookup(report.key) is None:
                raise WorkFailedError(
                    f"{report.kind} {report.key[:12]} was removed from the store just before the training began. Run "
                    "the command again: it is made anew."
                )

    def _write_record(self, context: Context) -> None:
        keys = [report.key for report in self.prepared.reports]
        context.store.references.record_run(self._record_name, keys, path=str(self.folder.path.resolve()))

    @property
    def _record_name(self) -> str:
        """Name in the store, which may serve folders of the same name in different places."""
        short = self.prepared.fingerprint[:10]
        name = self.folder.name
        return name if name.endswith(short) else f"{name[:80]}-{short}"

    def _summary(self, context: Context, seconds: float) -> dict[str, Any]:
        from leap.models.network import count_parameters

        prepared, results = self.prepared, [self.done[number] for number in self.folds]
        return {
            "run": self.folder.name,
            "fingerprint": prepared.fingerprint,
            "dataset": prepared.dataset.manifest.dataset,
            "options": prepared.options.model_dump(mode="json"),
            "task": self.facts.task,
            "parameters": count_parameters(prepared.options.network, self.facts),
            "test": mean_and_std([result["test"] for result in results]),
            "val": mean_and_std([result["val"] for result in results]),
            "folds": [{name: value for name, value in result.items() if name != "fingerprint"} for result in results],
            "classes": prepared.dataset.manifest.summary.get("classes"),
            "keys": [{"kind": report.kind, "key": report.key} for report in prepared.reports],
            "artifacts": artifact_costs(prepared, context.store),
            "seconds": seconds,
            "versions": versions() | {name: version(name) for name in ("torch", "torch-geometric")},
        }


def plan_run(
    folder: RunFolder,
    prepared: Prepared,
    context: Context,
    *,
    memory_gb: float = 2.0,
    checkpoint_steps: int = DEFAULT_CHECKPOINT_STEPS,
) -> Run:
    """Return a run that has not been opened yet; nothing is written.

    Raises
    ------
    InvalidInputError
        If the dataset cannot be cut into folds.
    """
    from leap.pipeline.training.fold import FoldJob
    from leap.pipeline.training.splits import class_frequencies, make_splits

    options, dataset = prepared.options, prepared.dataset
    facts = dataset_facts(dataset)
    splits = make_splits(dataset, options)
    is_weighted = options.class_weight == "frequency" and facts.task != "graph-regression"
    weights = class_frequencies(dataset) if is_weighted else None
    jobs = [
        FoldJob(
            prepared.source(context.store.url),
            options,
            facts,
            split,
            weights,
            options.selection(dataset.manifest.dataset),
            prepared.fingerprint,
            str(folder.fold(split.number).resolve()),
            checkpoint_steps,
            int(memory_gb * GIB),
        )
        for split in splits
    ]
    return Run(folder, prepared, facts, jobs, FolderLock(folder.path))


def _difference(found: dict[str, Any], prepared: Prepared) -> str:
    """Say in which options a stored run differs from the one asked for."""
    ours, theirs = prepared.options.model_dump(mode="json"), found.get("options") or {}
    flat = [{**side, **(side.get("network") or {})} for side in (ours, theirs)]
    differing = [name for name in flat[0] if name != "network" and flat[0][name] != flat[1].get(name)]
    return "it differs in " + ", ".join(differing) if differing else "of other data"
