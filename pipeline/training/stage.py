"""The train stage: artifacts, folds on the workforce, and a run folder with everything worth keeping."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leap.pipeline.cluster import employ, require_one_thread_each
from leap.pipeline.datasets import Source as DatasetSource
from leap.pipeline.failures import keeping_traceback
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.ingest import IngestOptions
from leap.pipeline.stages.materialize import DEFAULT_BUDGET_GB
from leap.pipeline.stages.options import checked_gib
from leap.pipeline.stages.result import ArtifactReport
from leap.pipeline.training.options import DEFAULT_CHECKPOINT_STEPS, TrainOptions
from leap.pipeline.training.prepared import Prepared, prepare
from leap.pipeline.training.run import Run, plan_run
from leap.pipeline.training.run_folder import RunFolder, find_finished
from leap.pipeline.training.watch import EpochEvent, watching
from leap.store.references import checked_name

DEFAULT_RUNS = "runs"


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


def train(
    dataset: "str | DatasetSource",
    options: TrainOptions | None = None,
    context: Context | None = None,
    *,
    run: Path | str | None = None,
    runs: Path | str = DEFAULT_RUNS,
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
    numbers, whatever the number of workers. A run that another process is training is waited for.

    Parameters
    ----------
    dataset : name, path or source, as for `ingest`.
    run : folder of the run; default: one in `runs`, named by the dataset, the network and the fingerprint.
    runs : folder of all runs.
    resume : continue a run that was interrupted, to the same result.
    force : train again even if the result is there already; what the folder holds of a run is removed first.
    memory_gb : for the data of one fold; more is read from the store again in every epoch.
    checkpoint_steps : steps after which a checkpoint is written inside an epoch: as many may be repeated by a resume.
    on_epoch : told about every epoch, from another thread.

    A note on the KeyboardInterrupt of a stop says how many folds are done, once there is something to resume.

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
    checked_gib("memory_gb", memory_gb)
    start = time.perf_counter()
    with keeping_traceback(Path(runs) if run is None else Path(run).parent):
        prepared = prepare(dataset, options, context, ingest_options, budget_gb)
    name = prepared.dataset.manifest.dataset
    folder = run_folder(run, name, prepared, runs)
    if not force:
        found = find_finished(folder, prepared.fingerprint)
        if found is not None:
            return TrainResult(name, found[0].path, True, found[1], prepared.reports)
    require_one_thread_each(context.workforce)
    planned = plan_run(folder, prepared, context, memory_gb=memory_gb, checkpoint_steps=checkpoint_steps)
    if not force:
        planned.refuse_another(resume=resume)
    with planned.held(context), keeping_traceback(folder.path):
        found = None if force else find_finished(folder, prepared.fingerprint)
        if found is not None:  # by the process that was waited for
            return TrainResult(name, found[0].path, True, found[1], prepared.reports)
        planned.open(context, resume=resume, force=force)
        try:
            _work(planned, context, on_epoch)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(f"{len(planned.done)} of {len(planned.folds)} folds of {folder.path} are done")
            raise
        metrics = planned.finish(context, time.perf_counter() - start)
    return TrainResult(name, folder.path, False, metrics, prepared.reports)


def run_folder(
    given: Path | str | None, dataset: str, prepared: Prepared, runs: Path | str = DEFAULT_RUNS
) -> RunFolder:
    """Return the folder of a run: the one given, or one among all runs with a name that tells what it is."""
    if given is not None:
        checked_name(Path(given).name, "run")
        return RunFolder(Path(given))
    return RunFolder(Path(runs) / run_name(dataset, prepared.options, prepared.fingerprint))


def run_name(dataset: str, options: TrainOptions, fingerprint: str) -> str:
    """Return a name for a run that tells what it is and is no other's."""
    network = options.network
    words = [re.sub(r"[^A-Za-z0-9._+-]+", "-", Path(dataset).name).strip("-.") or "own", network.backbone]
    words += [network.encoding] + ([network.projection] if network.leap else [])
    return "-".join(words)[:80] + f"-{fingerprint[:10]}"


def _work(run: Run, context: Context, on_epoch: Callable[[EpochEvent], None] | None) -> None:
    """Train the folds that are not done yet."""
    from leap.pipeline.training.fold import run_fold

    if run.done:
        context.reporter.note(f"continuing {run.folder.name}: {len(run.done)} of {len(run.folds)} folds are done")
    with (
        watching(run.folder, run.folds, on_epoch),
        employ(context.workforce, len(run.jobs), run.seconds_to_go) as runner,
    ):
        runner.run(run_fold, [(job,) for job in run.jobs], run.note)
