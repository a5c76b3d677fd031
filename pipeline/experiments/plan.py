"""What a sweep would do and cost, without doing it and without its data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leap.pipeline.cluster import Workforce
from leap.pipeline.datasets import dataset_card
from leap.pipeline.derived import Recipe
from leap.pipeline.experiments.cost import Costs
from leap.pipeline.experiments.expand import RunSpec, Selection, expand
from leap.pipeline.experiments.history import History
from leap.pipeline.experiments.materials import largest_first, with_inputs
from leap.pipeline.experiments.sweep_file import SweepFile, load
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.ingest import IngestOptions, dataset_request
from leap.pipeline.training.prepared import run_fingerprint
from leap.pipeline.training.requirements import recipes_for
from leap.pipeline.training.run_folder import RunFolder
from leap.pipeline.training.stage import DEFAULT_RUNS, run_name
from leap.store import Artifact, LeapError
from leap.store.errors import MissingRawFilesError, UnknownDatasetError


@dataclass(frozen=True)
class PlannedRun:
    """One run of a plan.

    Attributes
    ----------
    is_done : whether its results are there.
    folds_done : folds that are done, of an unfinished run too.
    seconds : expected time of the rest in one process; None if nothing is known about the dataset.
    is_measured : whether that is from earlier runs rather than from sizes.
    data_absent : whether raw files are absent, so that it counts as done by name and options alone.
    """

    spec: RunSpec
    is_done: bool
    folds_done: int
    seconds: float | None
    is_measured: bool
    data_absent: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            **self.spec.values(),
            "done": self.is_done,
            "data_absent": self.data_absent,
            "folds_done": self.folds_done,
            "seconds": self.seconds,
            "seconds_measured": self.is_measured,
        }


@dataclass(frozen=True)
class DatasetPlan:
    """What a plan has for one dataset.

    Attributes
    ----------
    artifacts : kinds of what must be made, the dataset itself among them.
    problem : why the dataset cannot be used; None if it can, or may be downloaded.
    """

    dataset: str
    runs: tuple[PlannedRun, ...]
    artifacts: tuple[str, ...]
    problem: str | None = None

    @property
    def folds(self) -> int:
        """Folds of all runs."""
        return sum(run.spec.options.folds for run in self.runs)

    @property
    def folds_done(self) -> int:
        """Folds that are done."""
        return sum(run.folds_done for run in self.runs)

    @property
    def runs_done(self) -> int:
        """Runs that are done."""
        return sum(run.is_done for run in self.runs)

    @property
    def data_absent(self) -> int:
        """Runs that count as done by name and options alone, because raw files are absent."""
        return sum(run.data_absent for run in self.runs)

    @property
    def seconds(self) -> float | None:
        """Expected time in one process; None if a run's is not known."""
        return total(run.seconds for run in self.runs)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "dataset": self.dataset,
            "runs": len(self.runs),
            "runs_done": self.runs_done,
            "data_absent": self.data_absent,
            "folds": self.folds,
            "folds_done": self.folds_done,
            "artifacts": list(self.artifacts),
            "seconds": self.seconds,
            "problem": self.problem,
        }


@dataclass(frozen=True)
class SweepPlan:
    """A sweep that was not started; `workers` processes would do it."""

    file: SweepFile
    datasets: tuple[DatasetPlan, ...]
    workers: int

    @property
    def seconds(self) -> float | None:
        """Expected time with all workers; None if it is not known."""
        alone = total(entry.seconds for entry in self.datasets)
        return None if alone is None else alone / max(1, self.workers)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values, the object that `--json` prints."""
        counted = ("runs", "runs_done", "data_absent", "folds", "folds_done")
        entries = [entry.as_json() for entry in self.datasets]
        return {
            "stage": "sweep",
            "plan": True,
            "name": self.file.name,
            "description": self.file.description,
            **{name: sum(entry[name] for entry in entries) for name in counted},
            "artifacts": sum(len(entry["artifacts"]) for entry in entries),
            "seconds": self.seconds,
            "workers": self.workers,
            "datasets": entries,
            "run_list": [run.as_json() for entry in self.datasets for run in entry.runs],
        }


def plan_sweep(
    source: "str | Path | SweepFile",
    context: Context | None = None,
    *,
    selection: Selection | None = None,
    runs: Path | str = DEFAULT_RUNS,
) -> SweepPlan:
    """Return the plan of a sweep. Nothing is downloaded, read or made; what is known about the data is used.

    A run counts as done if its very artifacts have a result; where the dataset is not stored, if its options have one
    on the same raw files; where those are absent, if its name and options have one.
    """
    context = context or Context()
    file = source if isinstance(source, SweepFile) else load(source)
    specs = expand(file, selection)
    history = History.read(Path(runs))
    names = list(dict.fromkeys(spec.dataset for spec in specs))
    found = {name: _stored(name, file.reading, context) for name in names}
    costs = Costs(history, {name: known.artifact for name, known in found.items() if known.artifact is not None})
    plans = []
    for name in names:
        known = found[name]
        mine = [spec for spec in specs if spec.dataset == name]
        planned = tuple(_planned(spec, known, history, costs, Path(runs)) for spec in mine)
        open_specs = [run.spec for run in planned if not run.is_done]
        plans.append(DatasetPlan(name, planned, _missing(open_specs, known.artifact, context), known.problem))
    return SweepPlan(file, tuple(plans), _workers(context.workforce))


@dataclass(frozen=True)
class _Known:
    """What is known about a dataset that was not read: its reported name and key where it has raw files."""

    name: str
    key: str | None = None
    artifact: Artifact | None = None
    is_absent: bool = False
    problem: str | None = None


def _stored(dataset: str, reading: IngestOptions, context: Context) -> _Known:
    try:
        name, key = dataset_request(dataset, reading, context)
    except UnknownDatasetError as error:
        return _Known(dataset, is_absent=True, problem=str(error))
    except MissingRawFilesError as error:  # those of a named one may come by a download
        return _Known(dataset, is_absent=True, problem=str(error) if "/" in dataset else None)
    except LeapError as error:
        return _Known(dataset, problem=str(error))
    return _Known(name, key, context.store.lookup(key))


def _planned(spec: RunSpec, known: _Known, history: History, costs: Costs, root: Path) -> PlannedRun:
    folds, artifact, folds_done = spec.options.folds, known.artifact, 0
    if known.is_absent:
        is_done = history.by_name(spec.dataset, spec.options) is not None
    elif artifact is None:
        is_done = known.key is not None and history.of_dataset(known.name, spec.options, known.key) is not None
    else:
        recipes = recipes_for(spec.options, is_categorical=artifact.manifest.summary["categorical"])
        fingerprint = run_fingerprint(spec.options, artifact, recipes)
        is_done = fingerprint in history.by_fingerprint
        name = run_name(artifact.manifest.dataset, spec.options, fingerprint)
        folds_done = len(RunFolder(root / name).results(fingerprint))
    folds_done = folds if is_done else folds_done
    cost = costs.of_fold(spec.dataset, spec.options)
    seconds = 0.0 if is_done else None if cost is None else cost.seconds * (folds - folds_done)
    is_measured = cost is not None and cost.is_measured
    return PlannedRun(spec, is_done, folds_done, seconds, is_measured, is_done and known.is_absent)


def _missing(specs: Sequence[RunSpec], artifact: Artifact | None, context: Context) -> tuple[str, ...]:
    """Kinds of the artifacts that must be made; a smaller dimension is answered by a larger one."""
    if not specs:
        return ()
    known = dataset_card(specs[0].dataset).is_categorical
    is_categorical = known if artifact is None else artifact.manifest.summary["categorical"]
    wanted = {recipe for spec in specs for recipe in recipes_for(spec.options, is_categorical=is_categorical)}
    if artifact is None:
        return ("dataset", *(recipe.kind for recipe in largest_first(with_inputs(wanted))))
    absent = {recipe for recipe in wanted if not _is_stored(recipe, artifact, context)}
    inputs = {recipe for recipe in with_inputs(absent) if not _is_stored(recipe, artifact, context)}
    return tuple(recipe.kind for recipe in largest_first(inputs))


def _is_stored(recipe: Recipe, artifact: Artifact, context: Context) -> bool:
    return context.store.answer(recipe.request(artifact)) is not None


def _workers(workforce: Workforce) -> int:
    import os

    return (os.cpu_count() or 1) if workforce.workers is None else max(1, workforce.workers)


def total(seconds: Iterable[float | None]) -> float | None:
    """Return the sum; None if one is not known."""
    known = list(seconds)
    return None if None in known else sum(value for value in known if value is not None)
