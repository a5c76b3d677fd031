"""The train stage: artifacts, folds on the workforce, and a run folder with everything worth keeping."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leap.models.network_config import DatasetFacts
from leap.pipeline.cluster import employ
from leap.pipeline.datasets import Source as DatasetSource
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.extract import DEFAULT_BUDGET_GB, within_budget
from leap.pipeline.stages.ingest import IngestOptions, ingest_artifact
from leap.pipeline.stages.materialize import materialize, retrying
from leap.pipeline.stages.provenance import versions
from leap.pipeline.stages.result import ArtifactReport
from leap.pipeline.training.metrics import mean_and_std
from leap.pipeline.training.options import DEFAULT_CHECKPOINT_STEPS, TrainOptions
from leap.pipeline.training.requirements import dataset_facts, needs_statistics, required_recipes
from leap.pipeline.training.run_folder import RunFolder, find_finished
from leap.pipeline.training.watch import EpochEvent, watching
from leap.store import Artifact
from leap.store.errors import InvalidInputError
from leap.store.references import checked_name

if TYPE_CHECKING:
    from leap.pipeline.training.fold import Source
    from leap.pipeline.training.splits import Split

SECONDS_A_STEP, SECONDS_A_NODE = 0.004, 2e-5  # rough: only decides whether a cluster is worth starting
GIB = 2**30


@dataclass(frozen=True)
class TrainResult:
    """A run that is finished.

    Attributes
    ----------
    path : folder of the run.
    cached : whether an earlier run with the same options and artifacts answered the request.
    metrics : content of metrics.json.
    """

    dataset: str
    path: Path
    cached: bool
    metrics: dict[str, Any]
    artifacts: list[ArtifactReport] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values, the object that `--json` prints."""
        return {
            "stage": "train",
            "path": str(self.path),
            "cached": self.cached,
            **self.metrics,
            "artifacts": [report.as_json() for report in self.artifacts],
        }


@dataclass(frozen=True)
class Prepared:
    """A request with its artifacts: all that is needed to train, or to find out that it was done before."""

    options: TrainOptions
    dataset: Artifact
    neighborhoods: list[Artifact]
    encodings: list[Artifact]
    reports: list[ArtifactReport]
    fingerprint: str

    def source(self, url: str) -> "Source":
        """Return where workers find the artifacts."""
        from leap.pipeline.training.fold import Source

        return Source(
            url,
            self.dataset.key,
            tuple(artifact.key for artifact in self.neighborhoods),
            tuple((artifact.key, artifact.dim) for artifact in self.encodings),
            needs_statistics(self.options),
        )


def train(
    dataset: "str | DatasetSource",
    options: TrainOptions | None = None,
    context: Context | None = None,
    *,
    run: Path | str | None = None,
    resume: bool = False,
    force: bool = False,
    ingest_options: IngestOptions | None = None,
    budget_gb: float = DEFAULT_BUDGET_GB,
    memory_gb: float = 2.0,
    checkpoint_steps: int = DEFAULT_CHECKPOINT_STEPS,
    on_epoch: Callable[[EpochEvent], None] | None = None,
) -> TrainResult:
    """Train and test a network by cross-validation, making first what is missing in the store.

    Folds run in parallel on the context's workforce, one thread each. Equal options, artifacts and machine give equal
    numbers, whatever the number of workers.

    Parameters
    ----------
    dataset : name, path or source, as for `ingest`.
    run : folder of the run; default: runs/ and a name made of the dataset, the network and the fingerprint.
    resume : continue a run that was interrupted, to the same result.
    force : train again even if the result is there already; what the folder holds of a run is removed first.
    memory_gb : for the data of one fold; more is read from the store again in every epoch.
    checkpoint_steps : steps after which a checkpoint is written inside an epoch: as many may be repeated by a resume.
    on_epoch : told about every epoch, from another thread.

    Raises
    ------
    InvalidInputError
        If the dataset has nothing to learn, or the folder holds another or an unfinished run.

    Examples
    --------
    >>> import tempfile
    >>> from leap.models.network_config import NetworkConfig
    >>> from leap.pipeline import Context, TrainOptions, Workforce, train
    >>> from leap.store import Store
    >>> folder = tempfile.mkdtemp()
    >>> context = Context(Store.open(f"{folder}/store"), workforce=Workforce(0))
    >>> network = NetworkConfig(backbone="gcn", encoding="rwpe")
    >>> options = TrainOptions(network=network, epochs=1, folds=2, batch_size=256)
    >>> result = train("letters-low", options, context, run=f"{folder}/runs/first")
    >>> result.metrics["parameters"]["total"]
    4079
    """
    context, options = context or Context(), options or TrainOptions()
    start = time.perf_counter()
    prepared = prepare(dataset, options, context, ingest_options, budget_gb)
    name = prepared.dataset.manifest.dataset
    folder = run_folder(run, name, prepared)
    if not force:
        found = find_finished(folder, prepared.fingerprint)
        if found is not None:
            return TrainResult(name, found[0].path, True, found[1], prepared.reports)
    from leap.pipeline.training.splits import make_splits

    facts = dataset_facts(prepared.dataset)
    splits = make_splits(prepared.dataset, options)
    _open_folder(folder, prepared, facts, resume=resume, force=force)
    results = _work(folder, prepared, facts, splits, context, memory_gb, checkpoint_steps, on_epoch)
    metrics = _summarize(folder, prepared, facts, results, time.perf_counter() - start)
    folder.finish(metrics)
    context.store.references.record_run(
        folder.name, [report.key for report in prepared.reports], path=str(folder.path.resolve())
    )
    return TrainResult(name, folder.path, False, metrics, prepared.reports)


def prepare(
    dataset: "str | DatasetSource",
    options: TrainOptions,
    context: Context,
    ingest_options: IngestOptions | None = None,
    budget_gb: float = DEFAULT_BUDGET_GB,
    *,
    needs_labels: bool = True,
) -> Prepared:
    """Return the artifacts that a network reads, making those that are missing."""
    kept: list[tuple[ArtifactReport, Artifact]] = []

    def attempt() -> list[ArtifactReport]:
        kept[:] = [ingest_artifact(dataset, ingest_options or IngestOptions(), context)]
        source = kept[0][1]
        approve = within_budget(source, budget_gb)
        recipes = required_recipes(options, source, needs_labels=needs_labels)
        kept.extend(materialize(context, source, recipe, approve) for recipe in recipes)
        return [report for report, _ in kept]

    reports = retrying(context.store, attempt)
    artifacts = [artifact for _, artifact in kept]
    keys = [artifact.key for artifact in artifacts]
    return Prepared(
        options,
        artifacts[0],
        [artifact for artifact in artifacts[1:] if artifact.kind == "neighborhoods"],
        [artifact for artifact in artifacts[1:] if artifact.kind != "neighborhoods"],
        reports,
        options.fingerprint(artifacts[0].manifest.dataset, keys),
    )


def run_folder(given: Path | str | None, dataset: str, prepared: Prepared) -> RunFolder:
    """Return the folder of a run: the one given, or runs/ and a name that tells what it is."""
    if given is not None:
        checked_name(Path(given).name, "run")
        return RunFolder(Path(given))
    network = prepared.options.network
    words = [re.sub(r"[^A-Za-z0-9._+-]+", "-", Path(dataset).name).strip("-.") or "own", network.backbone]
    words += [network.encoding] + ([network.projection] if network.leap else [])
    return RunFolder(Path("runs") / ("-".join(words)[:80] + f"-{prepared.fingerprint[:10]}"))


def _open_folder(folder: RunFolder, prepared: Prepared, facts: DatasetFacts, *, resume: bool, force: bool) -> None:
    found = folder.config()
    if found is not None and not force:
        if found.get("fingerprint") != prepared.fingerprint:
            raise InvalidInputError(
                f"{folder.path} holds another run ({_difference(found, prepared)}). Choose another folder with --run, "
                "or replace that run with --force."
            )
        if not resume:
            raise InvalidInputError(
                f"{folder.path} holds this run unfinished: {len(folder.results())} of {prepared.options.folds} folds "
                "are done. Continue it with --resume, or start over with --force."
            )
    elif resume and found is None:
        raise InvalidInputError(f"there is no run in {folder.path} to resume. Leave --resume out to start one.")
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


def _difference(found: dict[str, Any], prepared: Prepared) -> str:
    """Say in which options a stored run differs from the one asked for."""
    ours, theirs = prepared.options.model_dump(mode="json"), found.get("options") or {}
    flat = [{**side, **(side.get("network") or {})} for side in (ours, theirs)]
    differing = [name for name in flat[0] if name != "network" and flat[0][name] != flat[1].get(name)]
    return "it differs in " + ", ".join(differing) if differing else "of other data"


def _work(
    folder: RunFolder,
    prepared: Prepared,
    facts: DatasetFacts,
    splits: "list[Split]",
    context: Context,
    memory_gb: float,
    checkpoint_steps: int,
    on_epoch: Callable[[EpochEvent], None] | None,
) -> list[dict[str, Any]]:
    """Run the folds that are not done yet; return the results of all."""
    from leap.pipeline.training.fold import FoldJob, run_fold
    from leap.pipeline.training.splits import class_frequencies

    options, dataset = prepared.options, prepared.dataset
    is_weighted = options.class_weight == "frequency" and facts.task != "graph-regression"
    weights = class_frequencies(dataset) if is_weighted else None
    done = {result["fold"]: result for result in folder.results()}
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
    if done:
        context.reporter.note(f"continuing {folder.name}: {len(done)} of {len(splits)} folds are done")
    summary = dataset.manifest.summary
    an_epoch = summary["graphs"] / options.batch_size * SECONDS_A_STEP + summary["nodes"] * SECONDS_A_NODE
    with (
        watching(folder, [split.number for split in splits], on_epoch),
        employ(context.workforce, len(jobs), an_epoch * options.epochs * len(jobs)) as runner,
    ):
        runner.run(run_fold, [(job,) for job in jobs], lambda result: done.update({result["fold"]: result}))
    return [done[split.number] for split in splits]


def _summarize(
    folder: RunFolder, prepared: Prepared, facts: DatasetFacts, results: list[dict[str, Any]], seconds: float
) -> dict[str, Any]:
    from leap.models.network import count_parameters

    return {
        "run": folder.name,
        "fingerprint": prepared.fingerprint,
        "dataset": prepared.dataset.manifest.dataset,
        "options": prepared.options.model_dump(mode="json"),
        "parameters": count_parameters(prepared.options.network, facts),
        "test": mean_and_std([result["test"] for result in results]),
        "val": mean_and_std([result["val"] for result in results]),
        "folds": [{name: value for name, value in result.items() if name != "fingerprint"} for result in results],
        "classes": prepared.dataset.manifest.summary.get("classes"),
        "keys": [{"kind": report.kind, "key": report.key} for report in prepared.reports],
        "seconds": seconds,
        "versions": versions() | {name: version(name) for name in ("torch", "torch-geometric")},
    }
