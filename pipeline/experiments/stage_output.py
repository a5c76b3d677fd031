"""What a sweep leaves for DVC: keys, metrics and curves, equal for equal results, so without times and hit flags."""

import csv
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leap.pipeline.experiments.sweep import Outcome, SweepResult
from leap.pipeline.training.run_folder import CURVES, write
from leap.store.errors import InvalidInputError

MANIFEST, METRICS, CURVE_TABLE = "manifest.json", "metrics.json", "curves.csv"
SHOWN = ("accuracy", "auroc", "r2", "mae")
CURVE_COLUMNS = ("run", "epoch", "train_loss", "val_loss", "val_accuracy", "val_r2")


def write_stage_output(result: SweepResult, folder: Path) -> None:
    """Write manifest.json (fingerprints and keys), metrics.json (test means by run) and curves.csv.

    Raises
    ------
    InvalidInputError
        If the folder cannot be written.
    """
    done = dict(zip(_names(result.outcomes), result.outcomes, strict=True))
    keys = {(entry["kind"], entry["key"]) for outcome in done.values() for entry in _metrics(outcome)["keys"]}
    manifest = {
        "stage": "train",
        "runs": {name: _metrics(outcome)["fingerprint"] for name, outcome in done.items()},
        "artifacts": [{"kind": kind, "key": key} for kind, key in sorted(keys)],
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")
        tests = {name: _means(_metrics(outcome)["test"]) for name, outcome in done.items()}
        write(folder / METRICS, json.dumps(tests, indent=1) + "\n")
        with (folder / CURVE_TABLE).open("w", newline="") as stream:
            table = csv.DictWriter(stream, CURVE_COLUMNS)
            table.writeheader()
            table.writerows(row for name, outcome in done.items() for row in _curve(name, outcome))
    except OSError as error:
        raise InvalidInputError(f"cannot write --out {str(folder)!r}: {error.strerror}. Give another path.") from error


def _names(outcomes: list[Outcome]) -> Iterator[str]:
    """Name runs by what tells them apart: the options in which some of them differ."""
    rows = [outcome.spec.values() for outcome in outcomes]
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


def _means(test: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {name: test[name] for name in SHOWN if test.get(name) and test[name]["mean"] is not None}


def _curve(name: str, outcome: Outcome) -> Iterator[dict[str, Any]]:
    """Mean over the folds that reached an epoch."""
    import pyarrow.parquet as pq

    assert outcome.path is not None
    by_epoch: dict[int, list[dict[str, Any]]] = {}
    for row in pq.read_table(outcome.path / CURVES).to_pylist():
        by_epoch.setdefault(row["epoch"], []).append(row)
    for epoch, rows in sorted(by_epoch.items()):
        means: dict[str, Any] = {"run": name, "epoch": epoch}
        for column in CURVE_COLUMNS[2:]:
            values = [row[column] for row in rows if row.get(column) is not None]
            means[column] = round(statistics.fmean(values), 6) if values else ""
        yield means
