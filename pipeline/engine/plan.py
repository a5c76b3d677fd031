"""What runs would do and cost, without doing it: artifacts to make, folds to train, time to expect."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leap import models
from leap.pipeline.cluster import Workforce
from leap.pipeline.datasets import dataset_card
from leap.pipeline.derived import Recipe
from leap.pipeline.engine.costs import Costs, size_of
from leap.pipeline.engine.prepare import largest_first, with_inputs
from leap.pipeline.engine.requests import RunRequest, run_fingerprint, run_name
from leap.pipeline.engine.results import History
from leap.pipeline.engine.run_folder import RunFolder
from leap.pipeline.engine.stacks import stack_size
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.ingest import IngestOptions, dataset_request
from leap.pipeline.training.options import TrainOptions
from leap.pipeline.training.requirements import dataset_facts, recipes_for
from leap.pipeline.training.splits import make_splits, part_sizes, split_count, splits_of
from leap.store import Artifact, LeapError
from leap.store.errors import MissingRawFilesError, UnknownDatasetError


@dataclass(frozen=True)
class PlannedArtifact:
    """Something that runs read; `key` is None while the dataset is not stored."""

    kind: str
    params: dict[str, Any]
    key: str | None
    is_stored: bool

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"kind": self.kind, "params": self.params, "key": self.key, "cached": self.is_stored}


@dataclass(frozen=True)
class PlannedRun:
    """One run of a plan.

    Attributes
    ----------
    is_done : whether its results are there.
    folds : how many it has; while the dataset is not stored, at most.
    folds_done : those that are done, of an unfinished run too.
    seconds : expected time of the rest in one process; None if nothing is known about the dataset.
    is_measured : whether that is from earlier runs rather than from sizes.
    stack : how many folds are trained as one at most; None if nothing is known about the dataset.
    data_absent : whether raw files are absent, so that it counts as done by name and options alone.
    """

    request: RunRequest
    is_done: bool
    folds: int
    folds_done: int
    seconds: float | None
    is_measured: bool
    stack: int | None
    data_absent: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            **self.request.values(),
            "done": self.is_done,
            "data_absent": self.data_absent,
            "folds_done": self.folds_done,
            "seconds": self.seconds,
            "seconds_measured": self.is_measured,
            "stack": self.stack,
        }


@dataclass(frozen=True)
class DatasetPlan:
    """What a plan has for one dataset.

    Attributes
    ----------
    artifacts : what the runs that are not done read, the dataset itself first.
    problem : why the dataset cannot be used; None if it can, or may be downloaded.
    """

    dataset: str
    runs: tuple[PlannedRun, ...]
    artifacts: tuple[PlannedArtifact, ...]
    problem: str | None = None

    @property
    def to_make(self) -> list[str]:
        """Kinds of the artifacts that must be made."""
        return [artifact.kind for artifact in self.artifacts if not artifact.is_stored]

    @property
    def seconds(self) -> float | None:
        """Expected time in one process; None if a run's is not known."""
        return total(run.seconds for run in self.runs)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "dataset": self.dataset,
            "runs": len(self.runs),
            "runs_done": sum(run.is_done for run in self.runs),
            "data_absent": sum(run.data_absent for run in self.runs),
            "folds": sum(run.folds for run in self.runs),
            "folds_done": sum(run.folds_done for run in self.runs),
            "artifacts": self.to_make,
            "seconds": self.seconds,
            "problem": self.problem,
        }


@dataclass(frozen=True)
class RunDetails:
    """What a plan of one run says beyond its cost, the dataset being stored.

    Attributes
    ----------
    splits : where they come from: "official", "generated" or "cross-validation".
    folds : sizes of the parts of each fold.
    parameters : trainable parameters by part of the network, and in total.
    """

    task: str
    splits: str
    folds: list[dict[str, int]]
    parameters: dict[str, int]


@dataclass(frozen=True)
class RunsPlan:
    """Runs that were not started; `workers` processes would do them. `details` are those of a run planned alone."""

    name: str
    description: str
    datasets: tuple[DatasetPlan, ...]
    workers: int
    details: RunDetails | None = None

    @property
    def seeds(self) -> list[int]:
        """All seeds that runs are trained with."""
        return sorted({run.request.options.seed for entry in self.datasets for run in entry.runs})

    @property
    def seconds(self) -> float | None:
        """Expected time with all workers; None if it is not known."""
        alone = total(entry.seconds for entry in self.datasets)
        return None if alone is None else alone / max(1, self.workers)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values, the object that `--json` prints."""
        if self.details is not None:
            return self._one_as_json(self.details)
        counted = ("runs", "runs_done", "data_absent", "folds", "folds_done")
        entries = [entry.as_json() for entry in self.datasets]
        return {
            "stage": "sweep",
            "plan": True,
            "name": self.name,
            "description": self.description,
            **{name: sum(entry[name] for entry in entries) for name in counted},
            "seeds": self.seeds,
            "artifacts": sum(len(entry["artifacts"]) for entry in entries),
            "seconds": self.seconds,
            "workers": self.workers,
            "datasets": entries,
            "run_list": [run.as_json() for entry in self.datasets for run in entry.runs],
        }

    def _one_as_json(self, details: RunDetails) -> dict[str, Any]:
        entry, run = self.datasets[0], self.datasets[0].runs[0]
        return {
            "stage": "train",
            "plan": True,
            "dataset": entry.dataset,
            "options": run.request.options.model_dump(mode="json"),
            "task": details.task,
            "splits": details.splits,
            "parameters": details.parameters,
            "folds": details.folds,
            "folds_done": run.folds_done,
            "artifacts": [artifact.as_json() for artifact in entry.artifacts],
            "seconds": self.seconds,
            "seconds_measured": run.is_measured,
            "stack": run.stack,
            "workers": self.workers,
        }


def plan_runs(
    requests: Sequence[RunRequest],
    context: Context,
    reading: IngestOptions,
    runs: Path,
    *,
    stack: int | None = None,
    name: str = "",
    description: str = "",
    dataset: Artifact | None = None,
) -> RunsPlan:
    """Return the plan of some runs. Nothing is downloaded, read or made; what is known about the data is used.

    A run counts as done if its very artifacts have a result; where the dataset is not stored, if its options have one
    on the same raw files; where those are absent, if its name and options have one.

    Parameters
    ----------
    stack : how many folds are to be trained as one; None: decided by their sizes.
    dataset : of the only run, which then is looked at closely.
    """
    history = History.read(runs)
    costs, plans = Costs(history), []
    for each in dict.fromkeys(request.name for request in requests):
        mine = [request for request in requests if request.name == each]
        known = _look_up(each, reading, context) if dataset is None else _known(dataset)
        task = dataset_card(each).task if known.artifact is None else known.artifact.manifest.summary["task"]
        mine = [request.on(task) for request in mine]
        planned = tuple(_planned(request, known, history, costs, runs, stack) for request in mine)
        to_do = [run.request for run in planned if dataset is not None or not run.is_done]
        shown = each if dataset is None else known.name
        plans.append(DatasetPlan(shown, planned, tuple(_artifacts(to_do, known, context)), known.problem))
    details = None if dataset is None else _details(plans[0].runs[0].request.options, dataset)
    return RunsPlan(name, description, tuple(plans), worker_count(context.workforce), details)


@dataclass(frozen=True)
class _Known:
    """What is known about a dataset that was not read: its reported name and key where it has raw files."""

    name: str
    key: str | None = None
    artifact: Artifact | None = None
    is_absent: bool = False
    problem: str | None = None


def _look_up(dataset: str, reading: IngestOptions, context: Context) -> _Known:
    try:
        name, key = dataset_request(dataset, reading, context)
    except UnknownDatasetError as error:
        return _Known(dataset, is_absent=True, problem=str(error))
    except MissingRawFilesError as error:  # those of a named one may come by a download
        return _Known(dataset, is_absent=True, problem=str(error) if "/" in dataset else None)
    except LeapError as error:
        return _Known(dataset, problem=str(error))
    return _Known(name, key, context.store.lookup(key))


def known_size(dataset: str, reading: IngestOptions, context: Context) -> tuple[int, int] | None:
    """Return the numbers of graphs and nodes of a dataset as far as they are known without reading it."""
    size = size_of(dataset, _look_up(dataset, reading, context).artifact)
    return dataset_card(dataset).size or (None if size is None else (size.graphs, size.nodes))


def _known(dataset: Artifact) -> _Known:
    return _Known(dataset.manifest.dataset, dataset.key, dataset)


def _planned(
    request: RunRequest, known: _Known, history: History, costs: Costs, root: Path, stack: int | None
) -> PlannedRun:
    options, artifact, folds_done = request.options, known.artifact, 0
    if known.is_absent:
        is_done = history.by_name(request.name, options) is not None
    elif artifact is None:
        is_done = known.key is not None and history.of_dataset(known.name, options, known.key) is not None
    else:
        recipes = recipes_for(options, is_categorical=artifact.manifest.summary["categorical"])
        fingerprint = run_fingerprint(options, artifact, recipes)
        is_done = fingerprint in history.by_fingerprint
        name = run_name(artifact.manifest.dataset, options, fingerprint)
        folds_done = len(RunFolder(root / name).results(fingerprint))
    folds = options.folds if artifact is None else split_count(artifact, options)
    folds_done = folds if is_done else folds_done
    cost = costs.of_fold(request.name, options, artifact)
    seconds = 0.0 if is_done else None if cost is None else cost.seconds * (folds - folds_done)
    is_measured = cost is not None and cost.is_measured
    size, together = size_of(request.name, artifact), None
    if size is not None:
        rows = size.nodes / max(1, size.graphs) * options.batch_size
        together = stack_size(options.network, rows, stack, is_node_task=size.graphs == 1)
    return PlannedRun(request, is_done, folds, folds_done, seconds, is_measured, together, is_done and known.is_absent)


def _artifacts(requests: Sequence[RunRequest], known: _Known, context: Context) -> Iterator[PlannedArtifact]:
    """Yield what runs read, and what must be made for that; a smaller dimension is answered by a larger one."""
    if not requests:
        return
    dataset = known.artifact
    is_categorical = (
        dataset_card(requests[0].name).is_categorical if dataset is None else dataset.manifest.summary["categorical"]
    )
    wanted = {recipe for each in requests for recipe in recipes_for(each.options, is_categorical=is_categorical)}
    if dataset is None:
        yield PlannedArtifact("dataset", {}, known.key, False)
        for recipe in largest_first(with_inputs(wanted)):
            yield PlannedArtifact(recipe.kind, recipe.params, None, False)
        return

    def is_stored(recipe: Recipe) -> bool:
        return context.store.answer(recipe.request(dataset)) is not None

    absent = {recipe for recipe in wanted if not is_stored(recipe)}
    to_make = largest_first(recipe for recipe in with_inputs(absent) if not is_stored(recipe))
    yield PlannedArtifact("dataset", dataset.params, dataset.key, True)
    for recipe in largest_first(wanted - absent):
        found = context.store.answer(recipe.request(dataset))
        yield PlannedArtifact(recipe.kind, recipe.params, found.key if found is not None else None, True)
    for recipe in to_make:
        yield PlannedArtifact(recipe.kind, recipe.params, recipe.key(dataset), False)


def _details(options: TrainOptions, dataset: Artifact) -> RunDetails:
    facts = dataset_facts(dataset, options.network)
    parameters = models.count_parameters(options.network, facts)
    sizes = [part_sizes(dataset, split) for split in make_splits(dataset, options)]
    return RunDetails(facts.task, splits_of(dataset, options), sizes, parameters)


def worker_count(workforce: Workforce) -> int:
    """Return how many processes work at once; those of a scheduler are taken for as many as this machine has."""
    return (os.cpu_count() or 1) if workforce.workers is None else max(1, workforce.workers)


def total(seconds: Iterable[float | None]) -> float | None:
    """Return the sum; None if one is not known."""
    known = list(seconds)
    return None if None in known else sum(value for value in known if value is not None)
