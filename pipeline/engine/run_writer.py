"""The writer of a run's folder: opened by one process at a time, given the results of folds, and finished."""

import contextlib
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from leap import models
from leap.pipeline.engine.jobs import FoldJob
from leap.pipeline.engine.prepare import Prepared
from leap.pipeline.engine.run_folder import FolderLock, RunFolder
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.materialize import versions
from leap.pipeline.training.metrics import mean_and_std
from leap.pipeline.training.splits import splits_of
from leap.store.errors import InvalidInputError, NoSpaceError, StoreNotWritableError, WorkFailedError


@dataclass
class RunWriter:
    """A run and its folder.

    Attributes
    ----------
    planned : all its folds.
    lock : of the folder, held from opening to the end.
    done : results by fold, of earlier attempts too.
    jobs : folds that are left to do.
    """

    folder: RunFolder
    prepared: Prepared
    planned: list[FoldJob]
    done: dict[int, dict[str, Any]] = field(default_factory=dict)
    jobs: list[FoldJob] = field(default_factory=list)
    lock: FolderLock = field(init=False)

    def __post_init__(self) -> None:
        self.lock = FolderLock(self.folder.path)

    @property
    def folds(self) -> list[int]:
        """Numbers of all folds."""
        return [job.split.number for job in self.planned]

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
                "facts": self.planned[0].facts.model_dump(mode="json"),
                "classes": self.prepared.dataset.manifest.summary.get("classes"),
                "feature_source": self.prepared.dataset.manifest.summary["feature_source"],
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

    def note(self, result: dict[str, Any]) -> None:
        """Take the result of a fold."""
        self.done[result["fold"]] = result

    def finish(self, context: Context) -> dict[str, Any]:
        """Write the results when all folds are done, and return them, the content of metrics.json."""
        metrics = self._summary(context)
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

    def _summary(self, context: Context) -> dict[str, Any]:
        prepared, results = self.prepared, [self.done[number] for number in self.folds]
        return {
            "run": self.folder.name,
            "fingerprint": prepared.fingerprint,
            "dataset": prepared.dataset.manifest.dataset,
            "options": prepared.options.model_dump(mode="json"),
            "task": self.planned[0].facts.task,
            "splits": splits_of(prepared.dataset, prepared.options),
            "parameters": models.count_parameters(prepared.options.network, self.planned[0].facts),
            "test": mean_and_std([result["test"] for result in results]),
            "val": mean_and_std([result["val"] for result in results]),
            "folds": [{name: value for name, value in result.items() if name != "fingerprint"} for result in results],
            "classes": prepared.dataset.manifest.summary.get("classes"),
            "keys": [{"kind": report.kind, "key": report.key} for report in prepared.reports],
            "artifacts": prepared.costs(context.store),
            "seconds": sum(result["seconds"] for result in results),
            "versions": versions() | {name: version(name) for name in ("torch", "torch-geometric")},
        }


def _difference(found: dict[str, Any], prepared: Prepared) -> str:
    """Say in which options a stored run differs from the one asked for."""
    ours, theirs = prepared.options.model_dump(mode="json"), found.get("options") or {}
    flat = [{**side, **(side.get("network") or {})} for side in (ours, theirs)]
    differing = [name for name in flat[0] if name != "network" and flat[0][name] != flat[1].get(name)]
    return "it differs in " + ", ".join(differing) if differing else "of other data"
