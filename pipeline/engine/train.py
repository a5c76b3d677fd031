"""`train`: one run, asked for alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from leap.pipeline.datasets import Source
from leap.pipeline.engine.engine import Engine
from leap.pipeline.engine.plan import RunsPlan, plan_runs
from leap.pipeline.engine.requests import RunRequest
from leap.pipeline.engine.run_folder import RunFolder
from leap.pipeline.events import EpochEnded, Event
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.ingest import IngestOptions, ingest_artifact
from leap.pipeline.stages.materialize import DEFAULT_BUDGET_GB
from leap.pipeline.stages.result import ArtifactReport
from leap.pipeline.training.options import DEFAULT_RUNS, TrainOptions
from leap.pipeline.training.requirements import required_recipes
from leap.store.references import checked_name


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
    artifacts: list[ArtifactReport]

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
    dataset: str | Source,
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
    checkpoint_steps: int | None = None,
    stack: int | None = None,
    device: str = "auto",
    on_epoch: Callable[[EpochEnded], None] | None = None,
) -> TrainResult:
    """Train and test a network by cross-validation, making first what is missing in the store.

    Folds are trained in stacks, several as one, on the context's workforce, one thread each. Equal options, artifacts
    and machine give equal numbers, whatever the stacks and the number of workers. A run that another process is
    training is waited for.

    Parameters
    ----------
    dataset : name, path or source, as for `ingest`.
    run : folder of the run; default: one in `runs`, named by the dataset, the network and the fingerprint.
    runs : folder of all runs.
    resume : continue a run that was interrupted, to the same result.
    force : train again even if the result is there already; what the folder holds of a run is removed first.
    memory_gb : for the data of all folds that a worker trains at a time; more is read from the store again in every
        epoch, and then folds are trained alone.
    checkpoint_steps : steps of a fold after which a checkpoint is written: as many may be repeated by a resume. None:
        one is written every 20 seconds.
    stack : how many folds are trained as one; None: decided by the sizes of their batches.
    device : "cpu", "cuda", "cuda:N", "mps", or "auto": cuda or mps where there is one. Numbers of another device differ
        in their last digits; a run does not say which one it had.
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
    context, folder = context or Context(), None
    if on_epoch is not None:
        tell = on_epoch

        def listen(event: Event) -> None:
            if isinstance(event, EpochEnded):
                tell(event)

        context = replace(context, reporter=context.reporter.also(listen))
    if run is not None:
        checked_name(Path(run).name, "run")
        folder = RunFolder(Path(run))
    (outcome,) = Engine(
        [RunRequest(dataset, options or TrainOptions())],
        context,
        Path(runs) if folder is None else folder.path.parent,
        ingest_options or IngestOptions(),
        budget_gb,
        memory_gb,
        checkpoint_steps,
        stack,
        device,
        folder=folder,
        resume=resume,
        force=force,
        is_alone=True,
    ).work()
    assert outcome.path is not None
    assert outcome.metrics is not None
    is_cached = outcome.state == "cached"
    return TrainResult(outcome.metrics["dataset"], outcome.path, is_cached, outcome.metrics, list(outcome.artifacts))


def plan_training(
    dataset: str | Source,
    options: TrainOptions,
    context: Context,
    ingest_options: IngestOptions | None = None,
    *,
    runs: Path | str = DEFAULT_RUNS,
    stack: int | None = None,
) -> RunsPlan:
    """Return the plan of a training. The dataset itself is ingested if it is not stored yet; nothing else is made.

    Raises
    ------
    InvalidInputError
        If the dataset has nothing to learn, or cannot have what the options ask for.
    """
    reading = ingest_options or IngestOptions()
    _, artifact = ingest_artifact(dataset, reading, context)
    for recipe in required_recipes(options, artifact):
        recipe.check(artifact)
    return plan_runs([RunRequest(dataset, options)], context, reading, Path(runs), stack=stack, dataset=artifact)
