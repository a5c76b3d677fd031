"""A run under way: its folder, the folds that are left to do, and its end."""

from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from leap.models.network_config import DatasetFacts
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.provenance import versions
from leap.pipeline.training.metrics import mean_and_std
from leap.pipeline.training.options import DEFAULT_CHECKPOINT_STEPS
from leap.pipeline.training.prepared import Prepared, artifact_costs
from leap.pipeline.training.requirements import dataset_facts
from leap.pipeline.training.run_folder import RunFolder
from leap.store.errors import InvalidInputError

if TYPE_CHECKING:
    from leap.pipeline.training.fold import FoldJob

SECONDS_A_STEP, SECONDS_A_NODE = 0.004, 2e-5  # rough: only decides whether a cluster is worth starting
GIB = 2**30


@dataclass
class Run:
    """A run that was opened.

    Attributes
    ----------
    done : results by fold, of earlier attempts too.
    jobs : folds that are left to do.
    """

    folder: RunFolder
    prepared: Prepared
    facts: DatasetFacts
    folds: list[int]
    done: dict[int, dict[str, Any]]
    jobs: "list[FoldJob]"

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
        context.store.references.record_run(
            self._record,
            [report.key for report in self.prepared.reports],
            path=str(self.folder.path.resolve()),
        )
        return metrics

    @property
    def _record(self) -> str:
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


def open_run(
    folder: RunFolder,
    prepared: Prepared,
    context: Context,
    *,
    resume: bool = False,
    force: bool = False,
    memory_gb: float = 2.0,
    checkpoint_steps: int = DEFAULT_CHECKPOINT_STEPS,
) -> Run:
    """Start a run in its folder, or continue the one that is there.

    Raises
    ------
    InvalidInputError
        If the dataset cannot be cut into folds, or the folder holds another or an unfinished run.
    """
    from leap.pipeline.training.fold import FoldJob
    from leap.pipeline.training.splits import class_frequencies, make_splits

    options, dataset = prepared.options, prepared.dataset
    facts = dataset_facts(dataset)
    splits = make_splits(dataset, options)
    _open_folder(folder, prepared, facts, resume=resume, force=force)
    is_weighted = options.class_weight == "frequency" and facts.task != "graph-regression"
    weights = class_frequencies(dataset) if is_weighted else None
    numbers = [split.number for split in splits]
    done = {number: result for number, result in folder.results(prepared.fingerprint).items() if number in numbers}
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
        if split.number not in done
    ]
    return Run(folder, prepared, facts, numbers, done, jobs)


def _open_folder(folder: RunFolder, prepared: Prepared, facts: DatasetFacts, *, resume: bool, force: bool) -> None:
    if not force:
        _refuse_another(folder, prepared, resume=resume)
        if folder.config() is not None and not resume:
            done = len(folder.results(prepared.fingerprint))
            raise InvalidInputError(
                f"{folder.path} holds this run unfinished: {done} of {prepared.options.folds} folds are done. Continue "
                "it with --resume, or start over with --force."
            )
    if force:
        folder.clear()
    folder.start(
        {
            "dataset": prepared.dataset.manifest.dataset,
            "options": prepared.options.model_dump(mode="json"),
            "artifacts": [{"kind": report.kind, "key": report.key} for report in prepared.reports],
            "facts": facts.model_dump(mode="json"),
            "classes": prepared.dataset.manifest.summary.get("classes"),
            "fingerprint": prepared.fingerprint,
        }
    )


def _refuse_another(folder: RunFolder, prepared: Prepared, *, resume: bool) -> None:
    """Raise if a folder holds another run, or nothing to resume."""
    found = folder.config()
    if found is None and resume:
        raise InvalidInputError(f"there is no run in {folder.path} to resume. Leave --resume out to start one.")
    if found is None and folder.holds_another(prepared.fingerprint):
        reason = "it has no config.yaml, and results with other options or data"
    elif found is not None and found["fingerprint"] != prepared.fingerprint:
        reason = _difference(found, prepared)
    else:
        return
    raise InvalidInputError(
        f"{folder.path} holds another run ({reason}). 'leap train' uses another folder with --run, or replaces that "
        "run with --force."
    )


def _difference(found: dict[str, Any], prepared: Prepared) -> str:
    """Say in which options a stored run differs from the one asked for."""
    ours, theirs = prepared.options.model_dump(mode="json"), found.get("options") or {}
    flat = [{**side, **(side.get("network") or {})} for side in (ours, theirs)]
    differing = [name for name in flat[0] if name != "network" and flat[0][name] != flat[1].get(name)]
    return "it differs in " + ", ".join(differing) if differing else "of other data"
