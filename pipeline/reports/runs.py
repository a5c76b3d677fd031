"""The results of a report: finished runs with their folds, and which of them stand side by side.

Only this module reads the table of runs and the folders beside it.
"""

import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leap.pipeline.engine.results import results_table
from leap.pipeline.engine.run_folder import BEST, CURVES, METRICS, RunFolder
from leap.pipeline.engine.sweep_log import SweepCall as SweepCall
from leap.pipeline.engine.sweep_log import calls_of, first_looks
from leap.pipeline.reports.names import PAPER, SYNTHETIC, Metric, by, dataset_label, is_global, metric_of, settings_of
from leap.pipeline.reports.statistics import pooled
from leap.store.errors import InvalidInputError
from leap.store.graphs.tasks import is_node_task

ScoredOn = Literal["test", "val"]
Key = tuple[str, str, str]  # dataset, backbone, encoding
Repetition = tuple[int, int, int]  # seed, split seed, fold
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
SHARED = (  # columns that are the same for all folds of a run
    *("dataset", "stand_in_for", "backbone", "encoding", "projection", "parameters"),
    *("preprocessing_seconds", "preprocessing_bytes", "cache_hits", "cache_misses"),
)


@dataclass(frozen=True)
class FoldResult:
    """One fold of a finished run; `test` and `val` are the dataset's metric there, None if it is not a number."""

    number: int
    test: float | None
    val: float | None
    epochs: int
    seconds: float
    seconds_an_epoch: float
    test_to_train: float


@dataclass(frozen=True)
class FinishedRun:
    """A finished run.

    Attributes
    ----------
    stand_in_for : the real dataset that a generated one resembles; None for any other.
    projection : None without LEAP.
    seeds : seed and split seed.
    splits : where its splits come from, "official", "generated" or "cross-validation"; None for older runs.
    settings : everything else that was chosen, in the groups of `names.PAPER`.
    data : key of the dataset that was trained on; the same name may have meant other graphs before.
    versions : of the packages that it was trained with.
    parameters, preprocessing_seconds, preprocessing_bytes, cache_hits, cache_misses : None where unknown.
    """

    path: Path
    dataset: str
    stand_in_for: str | None
    task: str
    backbone: str
    encoding: str
    projection: str | None
    seeds: tuple[int, int]
    settings: dict[str, dict[str, Any]]
    folds: tuple[FoldResult, ...]
    parameters: int | None
    preprocessing_seconds: float | None
    preprocessing_bytes: int | None
    cache_hits: int | None
    cache_misses: int | None
    splits: str | None = None
    data: str | None = None
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of its folder."""
        return self.path.name

    @property
    def label(self) -> str:
        """Its dataset, as printed."""
        return dataset_label(self.dataset, self.stand_in_for)

    @property
    def metric(self) -> Metric:
        """What its dataset is judged by."""
        return metric_of(self.dataset, self.task)

    @property
    def key(self) -> Key:
        """Dataset, backbone and encoding."""
        return self.dataset, self.backbone, self.encoding

    @property
    def is_global(self) -> bool:
        """Whether it reads whole graphs and has no encoding of nodes."""
        return is_global(self.backbone)

    @property
    def transform(self) -> dict[str, Any]:
        """Settings of the encoding, those that it has."""
        return self.settings["transform"]

    def scores(self, part: ScoredOn = "test") -> dict[Repetition, float]:
        """Return the metric of every fold that has one."""
        found = {self._repetition(fold.number): fold.test if part == "test" else fold.val for fold in self.folds}
        return {key: value for key, value in found.items() if value is not None}

    def _repetition(self, fold: int) -> Repetition:
        """Name a fold; splits that the dataset brings are the same whatever the split seed."""
        seed, split = self.seeds
        has_own = self.splits == "official" or is_node_task(self.task)
        return seed, 0 if has_own else split, fold

    def fold_of(self, repetition: Repetition) -> tuple[int, int]:
        """Return the split seed and fold of a repetition."""
        _, split, number = repetition
        return split, number

    @property
    def finished(self) -> float:
        """When it was finished, in seconds since 1970; 0 if its folder is gone."""
        metrics = self.path / METRICS
        return metrics.stat().st_mtime if metrics.exists() else 0.0

    @property
    def config(self) -> dict[str, Any]:
        """What it was trained with, from its folder."""
        return RunFolder(self.path).config() or {}

    def checkpoint(self, fold: int) -> Path:
        """Return where the weights of a fold's best epoch are."""
        return RunFolder(self.path).fold(fold) / BEST

    @property
    def has_curves(self) -> bool:
        """Whether there are epochs to draw."""
        return any(fold.epochs > 1 for fold in self.folds) and (self.path / CURVES).is_file()

    def curves(self) -> dict[Repetition, NDArray[np.float64]]:
        """Return the validation metric by epoch, one array for each fold.

        Raises
        ------
        InvalidInputError
            If the file is damaged or does not have this metric.
        """
        try:
            table = pq.read_table(self.path / CURVES, columns=["fold", "epoch", f"val_{self.metric.name}"])
            folds, epochs, values = (column.to_numpy().astype(np.float64) for column in table.columns)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise InvalidInputError(f"the curves of {self.name} cannot be read") from error
        return {
            self._repetition(int(fold)): values[folds == fold][np.argsort(epochs[folds == fold], kind="stable")]
            for fold in np.unique(folds)
        }


def read_runs(root: Path) -> list[FinishedRun]:
    """Return the finished runs of a folder, by name."""
    by_run = grouped(results_table(root).to_pylist(), lambda row: str(row["run"]))
    return [_run(root / name, by_run[name]) for name in sorted(by_run)]


def _run(path: Path, rows: list[dict[str, Any]]) -> FinishedRun:
    first = rows[0]
    task = first["task"] or "graph-classification"
    metric = metric_of(first["dataset"], task).name
    keys = {entry["kind"]: entry["key"] for entry in json.loads(first["keys"] or "[]")}
    return FinishedRun(
        path=path,
        task=task,
        seeds=(int(first["seed"]), int(first["split_seed"])),
        settings=settings_of(first),
        folds=tuple(_fold(row, metric) for row in sorted(rows, key=lambda row: int(row["fold"]))),
        splits=first["splits"],
        data=keys.get("dataset"),
        versions=json.loads(first["versions"] or "{}"),
        **{name: first[name] for name in SHARED},
    )


def _fold(row: dict[str, Any], metric: str) -> FoldResult:
    scores = {part: row.get(f"{part}_{metric}") for part in ("test", "val")}
    scores = {part: value for part, value in scores.items() if value is not None and math.isfinite(value)}
    return FoldResult(
        int(row["fold"]),
        scores.get("test"),
        scores.get("val"),
        int(row["epochs"] or 0),
        float(row["seconds"] or 0),
        float(row["seconds_an_epoch"] or 0),
        (row["test_size"] or 0) / row["train_size"] if row["train_size"] else 0.0,
    )


def last_day(runs: Iterable[FinishedRun]) -> str:
    """Return the day, in UTC, on which the last of some runs was finished."""
    return datetime.fromtimestamp(max(run.finished for run in runs), tz=UTC).date().isoformat()


@dataclass(frozen=True)
class Cell:
    """One configuration: runs that differ in nothing but their seeds; `among` counts the projections it was best of."""

    runs: tuple[FinishedRun, ...]
    among: int = 1

    @property
    def run(self) -> FinishedRun:
        """Any of the runs; they share dataset, network and settings."""
        return self.runs[0]

    def scores(self, part: ScoredOn = "test") -> dict[Repetition, float]:
        """Return the metric of every fold of every seed."""
        return {key: value for run in self.runs for key, value in run.scores(part).items()}

    def by_fold(self, values: Mapping[Repetition, T]) -> list[list[T]]:
        """Return values of repetitions for each fold: one for each seed."""
        folds = grouped(sorted(values), self.run.fold_of).values()
        return [[values[repetition] for repetition in fold] for fold in folds]

    def mean(self, part: ScoredOn = "test", beside: "Cell | None" = None) -> float | None:
        """Return the mean over folds, the seeds of each averaged first; None if no fold has a score.

        Parameters
        ----------
        beside : count only the folds and seeds in which this one has a score, too.
        """
        scores = self.scores(part)
        shared = scores if beside is None else scores.keys() & beside.scores(part).keys()
        by_fold = self.by_fold({key: scores[key] for key in shared})
        return pooled(by_fold)[0] if by_fold else None


@dataclass(frozen=True)
class Results:
    """The runs of a report and the choices that all of its sections share.

    Attributes
    ----------
    outdated : runs that are left out, because the same dataset was trained on with other data later.
    first_looks : names of runs that were trained for a first look.
    """

    runs: tuple[FinishedRun, ...]
    outdated: tuple[FinishedRun, ...] = ()
    first_looks: frozenset[str] = frozenset()

    @classmethod
    def of(cls, runs: Iterable[FinishedRun], first_looks: Iterable[str] = ()) -> "Results":
        """Keep, for each dataset, the runs on the data that was trained on last: a name may have meant other graphs."""
        found, latest = list(runs), set()
        for of_dataset in grouped(found, lambda run: run.dataset).values():
            versions = grouped(of_dataset, lambda run: run.data)
            newest = max(versions.values(), key=lambda group: max(run.finished for run in group))
            latest |= {run.name for run in newest}
        return cls(
            tuple(run for run in found if run.name in latest),
            tuple(run for run in found if run.name not in latest),
            frozenset(first_looks),
        )

    @cached_property
    def shown(self) -> list[FinishedRun]:
        """Runs that can be compared: on each dataset, those of its most widely used protocol.

        Between protocols, the one that covers more networks wins; then the paper's; then the longer training; then the
        one with the better validation score. Sizes of a backbone and settings that only an encoding has, such as the
        weight of edges, are chosen in the same way.
        """
        kept = _widest(self.runs, lambda run: run.dataset, "training")
        kept = _widest(kept, lambda run: (run.dataset, run.backbone), "backbone")
        return _widest(kept, lambda run: (run.dataset, run.encoding), "own")

    @cached_property
    def usual_runs(self) -> list[FinishedRun]:
        """For each dataset, backbone and encoding, the runs with the paper's transform, else with the most common."""
        return _widest(self.shown, lambda run: run.key, "transform")

    @cached_property
    def cells(self) -> list[Cell]:
        """All comparable runs, gathered over their seeds."""
        return _cells(self.shown)

    @cached_property
    def usual(self) -> list[Cell]:
        """The usual runs, gathered over their seeds."""
        return _cells(self.usual_runs)

    def chosen(self, part: ScoredOn, *, also_synthetic: bool = False) -> dict[Key, Cell]:
        """Return the cells of the main table; among projections, the best on the "test" or the "val" part."""
        left_out = () if also_synthetic else (SYNTHETIC,)
        several = grouped(
            (cell for cell in self.usual if cell.run.dataset not in left_out and not cell.run.is_global),
            lambda cell: cell.run.key,
        )
        return {
            key: replace(best_by(cells, part), among=len({cell.run.projection for cell in cells}))
            for key, cells in several.items()
        }

    @cached_property
    def tested(self) -> dict[Key, Cell]:
        """Cells of the main table as the paper chooses them, by test score."""
        return self.chosen("test")

    @cached_property
    def validated(self) -> dict[Key, Cell]:
        """Cells of the main table, projections chosen by validation."""
        return self.chosen("val")


def read_results(root: Path, sweep: str | SweepCall | None) -> tuple[Results, list[SweepCall]]:
    """Return the finished runs of a folder; of a sweep that was done there, its runs alone, and its calls.

    Parameters
    ----------
    sweep : its name, whose last call counts, or the call.

    Raises
    ------
    InvalidInputError
        If there are none, or the sweep was not done.
    """
    found = read_runs(root) if root.is_dir() else []
    if not found:
        raise InvalidInputError(
            f"there are no finished runs in {str(root)!r}. Make some with 'leap sweep quick' or 'leap train', or name "
            "another folder with --runs."
        )
    if sweep is None:
        return Results.of(found, first_looks(root)), []
    calls = calls_of(root, sweep) if isinstance(sweep, str) else [sweep]
    chosen = [run for run in found if run.name in calls[-1].runs]
    if not chosen:
        raise InvalidInputError(
            f"the runs of {calls[-1].sweep!r} are not in {str(root)!r} any more. Do the sweep again."
        )
    return Results.of(chosen, calls[-1].runs if calls[-1].is_first_look else ()), calls


def datasets_of(cells: Iterable[Cell]) -> list[str]:
    """Return the names of the datasets of cells, in the order of columns."""
    return sorted({cell.run.dataset for cell in cells}, key=by("dataset"))


def best_by(candidates: Sequence[Cell], part: ScoredOn) -> Cell:
    """Return the cell with the best mean on a part; the first of equal ones."""
    means = [(cell.mean(part), cell) for cell in candidates]
    return max(means, key=lambda entry: -math.inf if entry[0] is None else entry[0])[1]


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items by a key, in the order in which the keys occur."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _cells(runs: Iterable[FinishedRun]) -> list[Cell]:
    by_configuration = grouped(runs, lambda run: (run.key, run.projection, _text(run.settings)))
    return [Cell(tuple(group)) for group in by_configuration.values()]


def _widest(runs: Iterable[FinishedRun], place: Callable[[FinishedRun], Hashable], group: str) -> list[FinishedRun]:
    """Return, for each place, the runs whose settings of a group most networks share there, by name.

    Of the transform, the paper's settings come first even where others are more common. Between settings that are
    shared alike, the validation score decides.
    """

    def merit(runs: list[FinishedRun]) -> tuple[Any, ...]:
        values = runs[0].settings[group]
        covered = len({(run.backbone, run.encoding, run.projection) for run in runs})
        is_papers = all(value == PAPER[group][name] for name, value in values.items())
        order = (is_papers, covered) if group == "transform" else (covered, is_papers)
        scores = [score for run in runs for score in run.scores("val").values()]
        validation = sum(scores) / len(scores) if scores else -math.inf
        return (*order, runs[0].settings["training"]["epochs_at_most"] or 0, len(runs), validation, _text(values))

    kept: list[FinishedRun] = []
    for here in grouped(runs, place).values():
        alike = grouped(here, lambda run: _text(run.settings[group])).values()
        widest: list[FinishedRun] = max(alike, key=merit)
        kept += widest
    return sorted(kept, key=lambda run: run.name)


def _text(values: dict[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)
