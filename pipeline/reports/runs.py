"""The runs that a report is made of: each fold's results with what was trained, read from the table of runs."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leap.pipeline.reports.statistics import mean_and_spread

# Settings of the transform and its projection, which the ablations vary; the paper's values.
TRANSFORM: dict[str, Any] = {
    "hops": "1",
    "dim": 10,
    "directions": 16,
    "thresholds": 16,
    "scale": 128.0,
    "radius": 1.1,
    "learn_thresholds": False,
    "leap_on": "features",
    "leap_every_layer": False,
}
# Settings of the training that runs of a dataset must share to be compared, with the paper's values.
PROTOCOL: dict[str, Any] = {
    "folds": 5,
    "epochs_at_most": 100,
    "batch_size": 16,
    "lr": 1e-3,
    "class_weight": "frequency",
    "select": None,
}
# Settings that runs of one backbone must share.
SIZE: dict[str, Any] = {"hidden": None, "layers": None, "pooling": "sum"}
# Settings that runs of one encoding must share, with the published code's values and the encodings that know them.
OWN: dict[str, Any] = {"edge_weight": 2.0, "lape_drop": "one", "lect_complex": "points", "cap": None, "cap_seed": 0}
KNOWN_TO = {"edge_weight": ("leap",), "lape_drop": ("lape",), "lect_complex": ("lect",)}
METRICS = ("accuracy", "auroc", "average_precision", "r2", "mae", "mse", "loss")


@dataclass(frozen=True)
class Fold:
    """One fold of a run; metrics as in metrics.json, shares in 0…1."""

    number: int
    test: dict[str, float]
    val: dict[str, float]
    epochs: int
    best_epoch: int
    seconds: float
    seconds_an_epoch: float
    test_to_train: float


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes
    ----------
    stand_in_for : the real dataset that a generated one resembles; None for any other.
    projection : None without LEAP.
    settings : everything else that was chosen, by the names of the table of runs.
    data : key of the dataset that was trained on; the same name may have meant other graphs before.
    parameters, preprocessing_seconds, preprocessing_bytes, cache_hits, cache_misses : None where unknown.
    """

    name: str
    path: Path
    dataset: str
    stand_in_for: str | None
    task: str
    backbone: str
    encoding: str
    projection: str | None
    seed: tuple[int, int]
    settings: dict[str, Any]
    folds: tuple[Fold, ...]
    parameters: int | None
    preprocessing_seconds: float | None
    preprocessing_bytes: int | None
    cache_hits: int | None
    cache_misses: int | None
    data: str | None = None

    @property
    def has_leap(self) -> bool:
        """Whether LEAP is part of the encoding."""
        return "leap" in self.encoding

    @property
    def transform(self) -> dict[str, Any]:
        """Settings of the encoding, those that apply to it."""
        return {name: self.settings.get(name) for name in TRANSFORM if self._knows(name)}

    @property
    def protocol(self) -> dict[str, Any]:
        """Settings of the training."""
        return {name: self.settings.get(name) for name in PROTOCOL}

    @property
    def size(self) -> dict[str, Any]:
        """Settings of the backbone."""
        return {name: self.settings.get(name) for name in SIZE}

    @property
    def own(self) -> dict[str, Any]:
        """Settings that only this kind of encoding has."""
        names = [name for name in OWN if any(part in self.encoding for part in KNOWN_TO.get(name, ("leap", "lect")))]
        if self.settings.get("cap") is None:
            names = [name for name in names if name != "cap_seed"]
        return {name: self.settings.get(name) for name in names}

    def _knows(self, setting: str) -> bool:
        if setting == "dim":
            return self.encoding not in ("none", "lect")
        if setting in ("hops", "directions", "thresholds", "radius"):
            return self.has_leap or "lect" in self.encoding
        return self.has_leap

    def scores(self, metric: str, part: str = "test") -> dict[tuple[int, int, int], float]:
        """Return a metric of every fold by (seed, split seed, fold), those that have it."""
        found = {}
        for fold in self.folds:
            value = (fold.test if part == "test" else fold.val).get(metric)
            if value is not None:
                found[(*self.seed, fold.number)] = value
        return found


def read_runs(root: Path) -> list[Run]:
    """Return the finished runs of a runs root, in a fixed order."""
    from leap.pipeline.experiments.results import results_table

    return runs_of(results_table(root).to_pylist(), root)


def runs_of(rows: Iterable[Mapping[str, Any]], root: Path) -> list[Run]:
    """Return runs from rows of the table of runs, one row for each fold."""
    by_run: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_run.setdefault(row["run"], []).append(row)
    return [_run(name, by_run[name], root) for name in sorted(by_run)]


def _run(name: str, rows: list[Mapping[str, Any]], root: Path) -> Run:
    first = rows[0]
    names = {*TRANSFORM, *PROTOCOL, *SIZE, *OWN}
    return Run(
        name,
        root / name,
        first["dataset"],
        first.get("stand_in_for"),
        first.get("task") or "graph-classification",
        first["backbone"],
        first["encoding"],
        first.get("projection") if "leap" in first["encoding"] else None,
        (int(first["seed"]), int(first["split_seed"])),
        {setting: first.get(setting) for setting in sorted(names)},
        tuple(_fold(row) for row in sorted(rows, key=lambda row: row["fold"])),
        first.get("parameters"),
        first.get("preprocessing_seconds"),
        first.get("preprocessing_bytes"),
        first.get("cache_hits"),
        first.get("cache_misses"),
        next((entry["key"] for entry in json.loads(first.get("keys") or "[]") if entry["kind"] == "dataset"), None),
    )


def _fold(row: Mapping[str, Any]) -> Fold:
    def part(name: str) -> dict[str, float]:
        values = {metric: row.get(f"{name}_{metric}") for metric in METRICS}
        return {metric: float(value) for metric, value in values.items() if value is not None}

    train, test = row.get("train_size") or 0, row.get("test_size") or 0
    return Fold(
        int(row["fold"]),
        part("test"),
        part("val"),
        int(row.get("epochs") or 0),
        int(row.get("best_epoch") or 0),
        float(row.get("seconds") or 0),
        float(row.get("seconds_an_epoch") or 0),
        test / train if train else 0.0,
    )


@dataclass(frozen=True)
class Cell:
    """One configuration: runs that differ in nothing but their seeds."""

    runs: tuple[Run, ...]

    @property
    def first(self) -> Run:
        """Any of the runs; they share dataset, network and settings."""
        return self.runs[0]

    def scores(self, metric: str, part: str = "test") -> dict[tuple[int, int, int], float]:
        """Return a metric of every fold of every seed."""
        return {key: value for run in self.runs for key, value in run.scores(metric, part).items()}

    def mean(self, metric: str, part: str = "test") -> float | None:
        """Return the mean over folds and seeds; None if no fold has the metric."""
        values = list(self.scores(metric, part).values())
        return mean_and_spread(values)[0] if values else None
