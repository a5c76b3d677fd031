"""Finished runs: looked up in their folders, and as a table, results.parquet, with a row for each fold.

The folders are what counts. The table follows them: whatever it lacks, holds too much or holds in an older version is
put right when it is read. A damaged one, which checksums tell, is made anew.
"""

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from filelock import FileLock
from pydantic import ValidationError

from leap.models.network_config import TaskName
from leap.pipeline.datasets import dataset_card
from leap.pipeline.engine.run_folder import METRICS, RunFolder, finished_runs, is_result
from leap.pipeline.training.options import OPTIONS, TrainOptions, identity
from leap.store.disk import is_read_only, needing_space, refuse_folder, replacing
from leap.store.errors import InvalidInputError

Finished = tuple[RunFolder, dict[str, Any]]

RESULTS = "results.parquet"
VERSIONS_OF_RUNS = b"leap.runs"  # run -> time and size of the metrics.json that its rows are from

JUDGED = ("accuracy", "auroc", "average_precision", "r2", "mae", "mse", "loss")
TYPES: dict[Any, str] = {int: "int64", float: "float64", bool: "bool"}
CHOSEN = {field.column: "string" if field.is_many else TYPES.get(field.type, "string") for field in OPTIONS.values()}
COLUMNS: dict[str, str] = {
    **dict.fromkeys(("run", "fingerprint", "dataset", "stand_in_for", "task", "splits"), "string"),
    **CHOSEN,
    "fold": "int32",
    **{f"{part}_{name}": "float64" for part in ("test", "val") for name in JUDGED},
    "epochs": "int32",
    "best_epoch": "int32",
    "seconds": "float64",
    "seconds_an_epoch": "float64",
    "train_size": "int64",
    "val_size": "int64",
    "test_size": "int64",
    "parameters": "int64",
    "parameters_backbone": "int64",
    "preprocessing_seconds": "float64",
    "preprocessing_bytes": "int64",
    "cache_hits": "int32",
    "cache_misses": "int32",
    "keys": "string",
    "versions": "string",
}


@dataclass(frozen=True)
class History:
    """The finished runs under a folder, as they were when it was read.

    One request has several results where data of the same name has changed, or the training code.
    """

    by_fingerprint: dict[str, Finished] = field(default_factory=dict)
    by_request: dict[tuple[str, TrainOptions], list[Finished]] = field(default_factory=dict)

    @classmethod
    def read(cls, root: Path) -> "History":
        """Look through all run folders."""
        history = cls()
        for folder, metrics in finished_runs(root):
            if not is_result(metrics):
                continue
            history.by_fingerprint[metrics["fingerprint"]] = (folder, metrics)
            try:
                request = (metrics["dataset"], TrainOptions.model_validate(metrics["options"]))
            except ValidationError:
                continue  # of another version
            history.by_request.setdefault(request, []).append((folder, metrics))
        return history

    def by_name(self, dataset: str, options: TrainOptions) -> Finished | None:
        """Return the result of these options on data of this name, whatever it held; None if there are several."""
        found = self._of_task(dataset, options)
        return found[0] if len({metrics.get("fingerprint") for _, metrics in found}) == 1 else None

    def of_dataset(self, dataset: str, options: TrainOptions, key: str) -> Finished | None:
        """Return the result of these options on the dataset of this key."""
        for folder, metrics in self._of_task(dataset, options):
            if {"kind": "dataset", "key": key} in metrics.get("keys", ()):
                return folder, metrics
        return None

    def _of_task(self, dataset: str, options: TrainOptions) -> list[Finished]:
        """Return the results of these options on data of this name, with the defaults of its task."""
        return [
            each
            for task in get_args(TaskName)
            for each in self.by_request.get((dataset, options.on(task)), [])
            if each[1].get("task", task) == task
        ]

    def folds(self) -> Iterator[tuple[str, TrainOptions, dict[str, Any]]]:
        """Yield dataset, options and result of every fold."""
        for (dataset, options), found in self.by_request.items():
            for _, metrics in found:
                for fold in metrics.get("folds", ()):
                    yield dataset, options, fold


def results_table(root: Path | str) -> pa.Table:
    """Return the rows of all finished runs under a folder, by run and fold; the table on disk is put right first.

    Raises
    ------
    NoSpaceError
        If the disk is full; the table on disk then stays as it was.
    """
    return _update(Path(root), None)


def append(root: Path | str, folders: Iterable[RunFolder]) -> None:
    """Put the rows of runs that have just finished into the table."""
    _update(Path(root), [folder.name for folder in folders])


def _update(root: Path, names: list[str] | None) -> pa.Table:
    """Bring the rows of some runs up to date, or of all."""
    if not root.is_dir():
        return _schema().empty_table()
    refuse_folder(root / RESULTS)
    way_out = f"{RESULTS} stays as it was, and no run is lost: free some space and run the same command again."
    try:
        with needing_space(root, way_out), FileLock(root / f".{RESULTS}.lock"):
            table, changed = _current(root, names)
            if changed:
                _write(root / RESULTS, table)
    except OSError as error:
        if not is_read_only(error):
            raise
        table, _ = _current(root, names)  # somebody else's results can be read all the same
    return table.replace_schema_metadata(None)


def _current(root: Path, names: list[str] | None) -> tuple[pa.Table, bool]:
    table, known = _read(root)
    there = {path.parent.name: _version(path) for path in root.glob(f"*/{METRICS}")}
    looked_at = known.keys() | there.keys() if names is None else set(names)
    stale = {name for name in looked_at if known.get(name) != there.get(name)}
    if not stale:
        return table, False
    rows = [row for name in sorted(stale & there.keys()) for row in rows_of(RunFolder(root / name))]
    kept = table.filter(pc.invert(pc.is_in(table["run"], pa.array(sorted(stale), pa.string()))))
    joined = pa.concat_tables([kept, pa.Table.from_pylist(rows, _schema())])
    versions = {name: version for name, version in known.items() if name not in stale}
    versions |= {name: there[name] for name in stale & there.keys()}
    ordered = joined.sort_by([("run", "ascending"), ("fold", "ascending")])
    return ordered.replace_schema_metadata({VERSIONS_OF_RUNS: json.dumps(versions, sort_keys=True)}), True


def _read(root: Path) -> tuple[pa.Table, dict[str, str]]:
    """Return the table on disk and the versions of its runs; an empty one if it is missing, damaged or of old."""
    try:
        table = pq.read_table(root / RESULTS, page_checksum_verification=True)
        versions = json.loads((table.schema.metadata or {})[VERSIONS_OF_RUNS])
        if table.schema.remove_metadata() == _schema() and isinstance(versions, dict):
            return table, versions
    except (FileNotFoundError, PermissionError, KeyError, ValueError, pa.ArrowException):
        pass
    except OSError as error:
        if error.errno is not None:
            raise
        # Arrow's way to say that bytes are not what they should be.
    return _schema().empty_table(), {}


def _write(path: Path, table: pa.Table) -> None:
    """Replace the table; whoever holds the lock is the only one to do so."""
    with replacing(path) as partial:
        pq.write_table(table, partial, compression="zstd", write_page_checksum=True)


def _version(path: Path) -> str:
    try:
        status = path.stat()
    except (FileNotFoundError, PermissionError):
        return ""
    return f"{status.st_mtime_ns} {status.st_size}"


def _schema() -> pa.Schema:
    types = {
        "string": pa.string(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "bool": pa.bool_(),
    }
    return pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])


def rows_of(folder: RunFolder) -> list[dict[str, Any]]:
    """Return the rows of a finished run; none while it is not."""
    metrics = folder.metrics()
    if metrics is None or not is_result(metrics):
        return []
    shared = _shared(folder, metrics)
    return [shared | _of_fold(fold) for fold in metrics["folds"]]


def _shared(folder: RunFolder, metrics: dict[str, Any]) -> dict[str, Any]:
    values = {**metrics["options"].get("network", {}), **metrics["options"]}
    chosen = {OPTIONS[name].column: _cell(value) for name, value in identity(values).items() if name in OPTIONS}
    artifacts = metrics.get("artifacts")
    extra = [entry for entry in artifacts or [] if entry["kind"] != "dataset"]
    hits = sum(bool(entry["cached"]) for entry in artifacts or [])
    return {
        "run": folder.name,
        "fingerprint": metrics.get("fingerprint"),
        "dataset": metrics["dataset"],
        "stand_in_for": dataset_card(metrics["dataset"]).stand_in_for,
        "task": metrics.get("task") or _task(folder),
        "splits": metrics.get("splits"),
        **chosen,
        "parameters": metrics.get("parameters", {}).get("total"),
        "parameters_backbone": metrics.get("parameters", {}).get("backbone"),
        "preprocessing_seconds": None if artifacts is None else float(sum(entry["seconds"] for entry in extra)),
        "preprocessing_bytes": None if artifacts is None else sum(entry["bytes"] for entry in extra),
        "cache_hits": None if artifacts is None else hits,
        "cache_misses": None if artifacts is None else len(artifacts) - hits,
        "keys": json.dumps(metrics.get("keys", [])),
        "versions": json.dumps(metrics.get("versions", {}), sort_keys=True),
    }


def _cell(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _of_fold(fold: dict[str, Any]) -> dict[str, Any]:
    judged = {f"{part}_{name}": fold[part].get(name) for part in ("test", "val") for name in JUDGED}
    sizes = {f"{part}_size": fold.get("sizes", {}).get(part) for part in ("train", "val", "test")}
    plain = {name: fold.get(name) for name in ("fold", "epochs", "best_epoch", "seconds", "seconds_an_epoch")}
    return judged | sizes | plain


def _task(folder: RunFolder) -> str | None:
    """Task of a run whose metrics do not say; None if its configuration cannot be read either."""
    with contextlib.suppress(InvalidInputError):
        task = ((folder.config() or {}).get("facts") or {}).get("task")
        return None if task is None else str(task)
    return None
