"""The folder of a run: its configuration, what each fold leaves, and the results in the end.

config.yaml           options, dataset and keys of the artifacts
metrics.json          results; a run that has it is finished
curves.parquet        losses and metrics of every epoch of every fold
predictions.parquet   predictions of the test parts
fold-0/ …             best.pt, last.pt, epochs.jsonl, result.json, predictions.parquet
"""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leap.store.errors import InvalidInputError

CONFIG, METRICS, CURVES, PREDICTIONS = "config.yaml", "metrics.json", "curves.parquet", "predictions.parquet"
RESULT, EPOCHS = "result.json", "epochs.jsonl"


@dataclass(frozen=True)
class RunFolder:
    """Paths inside a run's folder, and its small files."""

    path: Path

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.path.name

    def fold(self, number: int) -> Path:
        """Folder of one fold."""
        return self.path / f"fold-{number}"

    def config(self) -> dict[str, Any] | None:
        """Return the configuration, or None where there is no run."""
        import yaml

        try:
            content = yaml.safe_load((self.path / CONFIG).read_text())
        except (OSError, yaml.YAMLError):
            return None
        return content if isinstance(content, dict) else None

    def metrics(self) -> dict[str, Any] | None:
        """Return the results, or None while there are none."""
        return read_json(self.path / METRICS)

    def results(self) -> list[dict[str, Any]]:
        """Return what the folds that are done have left, by number."""
        found = [read_json(path / RESULT) for path in self._folds()]
        return [result for result in found if result is not None]

    def _folds(self) -> Iterator[Path]:
        folders = [path for path in self.path.glob("fold-*") if path.name[5:].isdigit()]
        return iter(sorted(folders, key=lambda path: int(path.name[5:])))

    def start(self, config: dict[str, Any]) -> None:
        """Make the folder, or continue it, with this configuration."""
        import yaml

        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write(self.path / CONFIG, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
        except OSError as error:
            raise InvalidInputError(
                f"cannot write the run folder {str(self.path)!r}: {error.strerror}. Give another one with --run."
            ) from error

    def clear(self) -> None:
        """Remove everything that a run left here, and nothing else."""
        for folder in self._folds():
            shutil.rmtree(folder)
        for name in (CONFIG, METRICS, CURVES, PREDICTIONS):
            (self.path / name).unlink(missing_ok=True)

    def finish(self, metrics: dict[str, Any]) -> None:
        """Gather what the folds left and write the results; the last thing that a run does."""
        self._gather_predictions()
        self._gather_curves()
        write(self.path / METRICS, json.dumps(metrics, indent=1) + "\n")

    def _gather_predictions(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        tables = [pq.read_table(path / PREDICTIONS) for path in self._folds()]
        pq.write_table(pa.concat_tables(tables), self.path / PREDICTIONS)

    def _gather_curves(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = [{"fold": int(path.name[5:]), **entry} for path in self._folds() for entry in read_epochs(path / EPOCHS)]
        pq.write_table(pa.Table.from_pylist(rows), self.path / CURVES)


def find_finished(folder: RunFolder, fingerprint: str) -> tuple[RunFolder, dict[str, Any]] | None:
    """Return a finished run with this fingerprint: this one, or another beside it."""
    metrics = folder.metrics()
    if metrics is not None and metrics.get("fingerprint") == fingerprint:
        return folder, metrics
    for beside, metrics in finished_runs(folder.path.parent):
        if metrics.get("fingerprint") == fingerprint:
            return beside, metrics
    return None


def finished_runs(root: Path) -> Iterator[tuple[RunFolder, dict[str, Any]]]:
    """Yield every finished run among all runs, with its results, by name."""
    for path in sorted(root.glob(f"*/{METRICS}")):
        metrics = read_json(path)
        if metrics is not None:
            yield RunFolder(path.parent), metrics


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a JSON object from a file; None if it is missing or half-written."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def read_epochs(path: Path) -> list[dict[str, Any]]:
    """Return the epochs that a fold has noted; a line under way is left out."""
    try:
        lines = path.read_text().splitlines(keepends=True)
    except OSError:
        return []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def write(path: Path, text: str) -> None:
    """Write a file in one piece."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    os.replace(partial, path)
