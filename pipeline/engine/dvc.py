"""What a sweep leaves for DVC: keys, equal on every machine, and apart from them one score and one curve per cell.

A cell is a dataset, as the sweep names it, a backbone and an encoding. The first run that the sweep has for it stands
for it, with all its seeds; what a sweep varies beyond that is for the report.
"""

import csv
import io
import json
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leap.pipeline.engine.engine import Outcome
from leap.pipeline.engine.run_folder import read_curves
from leap.pipeline.engine.sweep import SweepResult
from leap.store.disk import write
from leap.store.errors import InvalidInputError

CURVE_COLUMNS = ("dataset", "backbone", "encoding", "epoch", "train_loss", "val_loss", "val_accuracy", "val_r2")
MEANS = CURVE_COLUMNS[4:]

Cell = tuple[str, str, str]


def write_stage_output(
    result: SweepResult, out: Path | None = None, metrics: Path | None = None, curves: Path | None = None
) -> None:
    """Write what is asked for, of a sweep without failures.

    Parameters
    ----------
    out : JSON file for fingerprints and keys. It holds no results, so that DVC may compare it by digest.
    metrics : folder for a file DATASET.json per dataset, with the mean test score of each backbone and encoding; your
        own graphs go by their path, so that a/shapes.json and b/shapes.json do not share one.
    curves : folder for a file DATASET.csv per dataset, with the mean of each epoch.

    Raises
    ------
    InvalidInputError
        If a path cannot be written.
    """
    cells = _cells(result.outcomes)
    datasets = dict.fromkeys(dataset for dataset, _, _ in cells)
    if out is not None:
        _write("--out", out, json.dumps(_manifest(result.outcomes), indent=1) + "\n")
    if metrics is not None:
        for dataset in datasets:
            scores: dict[str, dict[str, float | None]] = {}
            for (_, backbone, encoding), outcomes in _of(dataset, cells):
                scores.setdefault(backbone, {})[encoding] = _score(outcomes)
            _write("--metrics", metrics / f"{dataset}.json", json.dumps(scores, indent=1) + "\n")
    if curves is not None:
        for dataset in datasets:
            rows = [row for cell, outcomes in _of(dataset, cells) for row in _curve(cell, outcomes)]
            _write("--curves", curves / f"{dataset}.csv", _as_csv(rows))


def _place(dataset: str) -> str:
    """Return a relative path that no other dataset has: the name, or the path from here or from the root."""
    here = os.path.relpath(dataset)
    return os.path.abspath(dataset).lstrip(os.sep) if here.startswith(os.pardir) else here


def _write(option: str, path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, text)
    except OSError as error:
        raise InvalidInputError(f"cannot write {option} {str(path)!r}: {error.strerror}. Give another path.") from error


def _manifest(outcomes: list[Outcome]) -> dict[str, Any]:
    keys = {(entry["kind"], entry["key"]) for outcome in outcomes for entry in _metrics(outcome)["keys"]}
    return {
        "stage": "train",
        "runs": dict(zip(_names(outcomes), (_metrics(outcome)["fingerprint"] for outcome in outcomes), strict=True)),
        "artifacts": [{"kind": kind, "key": key} for kind, key in sorted(keys)],
    }


def _names(outcomes: list[Outcome]) -> Iterator[str]:
    """Name runs by what tells them apart: the options in which some of them differ."""
    rows = [outcome.request.values() for outcome in outcomes]
    options = dict.fromkeys(name for row in rows for name in row)
    telling = [name for name in options if len({json.dumps(row[name]) for row in rows if name in row}) > 1]
    for row in rows:
        yield " ".join(_word(name, row[name]) for name in telling or ["encoding"] if row.get(name) is not None)


def _word(name: str, value: Any) -> str:
    text = "+".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text if isinstance(value, str) else f"{name}={text}"


def _metrics(outcome: Outcome) -> dict[str, Any]:
    assert outcome.metrics is not None
    return outcome.metrics


def _cells(outcomes: list[Outcome]) -> dict[Cell, list[Outcome]]:
    """Return the runs that stand for each cell, which differ in the seed alone."""
    first: dict[Cell, dict[str, Any]] = {}
    cells: dict[Cell, list[Outcome]] = {}
    for outcome in outcomes:
        options = outcome.request.values()
        options.pop("seed", None)
        cell = (_place(outcome.request.name), str(options["backbone"]), str(options.get("encoding", "none")))
        if first.setdefault(cell, options) == options:
            cells.setdefault(cell, []).append(outcome)
    return cells


def _of(dataset: str, cells: dict[Cell, list[Outcome]]) -> Iterator[tuple[Cell, list[Outcome]]]:
    return ((cell, outcomes) for cell, outcomes in cells.items() if cell[0] == dataset)


def _score(outcomes: list[Outcome]) -> float | None:
    means = [_metrics(outcome)["test"][outcome.metric]["mean"] for outcome in outcomes]
    known = [mean for mean in means if mean is not None]
    return round(statistics.fmean(known), 6) if known else None


def _curve(cell: Cell, outcomes: list[Outcome]) -> Iterator[dict[str, Any]]:
    """Mean over the folds that reached an epoch."""
    by_epoch: dict[int, list[dict[str, Any]]] = {}
    for outcome in outcomes:
        assert outcome.path is not None
        for row in read_curves(outcome.path).to_pylist():
            by_epoch.setdefault(row["epoch"], []).append(row)
    for epoch, rows in sorted(by_epoch.items()):
        means: dict[str, Any] = dict(zip(CURVE_COLUMNS, (*cell, epoch), strict=False))
        for column in MEANS:
            values = [row[column] for row in rows if row.get(column) is not None]
            means[column] = round(statistics.fmean(values), 6) if values else ""
        yield means


def _as_csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, CURVE_COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()
