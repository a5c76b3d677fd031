"""Run folders made up in no time: what every preset would leave behind, with numbers near the paper's."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from leap.models.network_config import NetworkConfig
from leap.pipeline.experiments.expand import expand
from leap.pipeline.experiments.sweep_file import load, presets
from leap.pipeline.published import lookup
from leap.pipeline.reports.runs import FinishedRun, read_runs
from leap.pipeline.training.options import TrainOptions

GUESS = {"none": 0.62, "rwpe": 0.70, "lape": 0.68, "leap-f": 0.78, "leap-l": 0.80, "lape+leap-l": 0.81, "lect": 0.7}
SLOW = {"none": 1.0, "rwpe": 1.02, "lape": 1.05, "leap-f": 1.25, "leap-l": 1.7, "lape+leap-l": 1.8, "lect": 1.1}
DATASETS = ("COX2", "Letter-high", "letters-high", "triads", "alchemy_full", "hiv", "roman-empire", "romanesque")
TASKS = {"alchemy_full": "graph-regression", "romanesque": "node-classification", "roman-empire": "node-classification"}


def expected(dataset: str, network: NetworkConfig) -> float:
    """The published mean where there is one, else a guess."""
    for table in ("projections", "main", "synthetic", "dect"):
        values: dict[str, object] = {"dataset": dataset, "backbone": network.backbone, "encoding": network.encoding}
        if table == "projections":
            values["projection"] = network.projection
        found = lookup(table, **values)
        if found is not None:
            return found.mean / 100
    return GUESS.get(network.encoding, 0.7)


def write_run(
    root: Path,
    dataset: str,
    options: TrainOptions,
    scores: list[float] | None = None,
    *,
    with_curves: bool = True,
    splits: str | None = None,
) -> Path:
    """Write the folder of a finished run; scores are of the folds' test parts, and of validation nearly so."""
    text = json.dumps([dataset, options.model_dump(mode="json")])
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    generator = np.random.default_rng(int(fingerprint[:8], 16))
    network = options.network
    if scores is None:
        # Folds are harder or easier for all encodings alike, as real ones are.
        shared = np.random.default_rng([options.seed, *dataset.encode()]).normal(0, 0.012, options.folds)
        mean = expected(dataset, network) - 0.002 * abs(np.log2(network.scale / 128))
        scores = np.clip(mean + shared + generator.normal(0, 0.006, options.folds), 0, 1).tolist()
    task = TASKS.get(dataset, "graph-classification")
    metric = "r2" if task == "graph-regression" else "accuracy"
    folder = root / f"{dataset}-{network.backbone}-{network.encoding}-{fingerprint[:10]}"
    folder.mkdir(parents=True)
    folds, curves = [], []
    for number, score in enumerate(scores):
        count = min(options.epochs, int(generator.integers(30, 110)))
        seconds = 0.3 * SLOW.get(network.encoding, 1.5) * float(generator.uniform(0.95, 1.05))
        test = {metric: score, "loss": 1 - score, **({"auroc": score} if metric == "accuracy" else {})}
        folds.append(
            {
                "fold": number,
                "epochs": count,
                "best_epoch": max(count - 11, 0),
                "test": test,
                "val": {name: value + float(generator.normal(0, 0.01)) for name, value in test.items()},
                "sizes": {"train": 1350, "val": 450, "test": 450},
                "seconds": seconds * count,
                "seconds_an_epoch": seconds,
            }
        )
        rise = score * (1 - np.exp(-np.arange(1, count + 1) / 12)) + generator.normal(0, 0.01, count)
        of_fold = {"fold": np.full(count, number), "epoch": np.arange(count), **{f"val_{name}": rise for name in test}}
        curves.append(pa.table(of_fold))
    kinds = {"rwpe": ["rwpe"], "lape": ["lape"], "leap-f": ["dect"], "leap-l": ["neighborhoods"]}
    artifacts = [{"kind": "dataset", "key": "0" * 40, "cached": True, "seconds": 1.5, "bytes": 300_000}]
    for part in network.parts:
        for kind in kinds.get(part, []):
            artifacts.append({"kind": kind, "key": "1" * 40, "cached": False, "seconds": 0.42, "bytes": 1_234_567})
    metrics = {
        "run": folder.name,
        "fingerprint": fingerprint,
        "dataset": dataset,
        "task": task,
        "splits": splits,
        "options": options.model_dump(mode="json"),
        "parameters": {"backbone": 4079, "total": 4873},
        "folds": folds,
        "artifacts": artifacts,
        "versions": {"leap-graph": "0"},
    }
    (folder / "metrics.json").write_text(json.dumps(metrics))
    config = {"dataset": dataset, "options": options.model_dump(mode="json"), "facts": {"task": task, "codes": None}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config | {"fingerprint": fingerprint, "artifacts": []}))
    if with_curves:
        pq.write_table(pa.concat_tables(curves), folder / "curves.parquet")
    return folder


def write_presets(root: Path, names: Iterable[str], datasets: Collection[str] | None = None) -> int:
    """Write all runs of presets, or those on some datasets, each once; return how many."""
    specs = {
        json.dumps([spec.dataset, spec.options.model_dump(mode="json")]): spec
        for name in names
        for spec in expand(load(name))
        if datasets is None or spec.dataset in datasets
    }
    for spec in specs.values():
        write_run(root, spec.dataset, spec.options, with_curves=spec.options.network.scale == 128)
    return len(specs)


@pytest.fixture(scope="session")
def every_preset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs root with runs of all presets, on fewer datasets than theirs."""
    root = tmp_path_factory.mktemp("every") / "runs"
    write_presets(root, presets(), DATASETS)
    return root


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., list[FinishedRun]]:
    """Return a function that makes runs: (dataset, options of network and protocol, scores), and reads them all."""

    def make(*entries: tuple[str, dict[str, Any], list[float]], splits: str | None = None) -> list[FinishedRun]:
        for dataset, values, scores in entries:
            network = {name: value for name, value in values.items() if name in NetworkConfig.model_fields}
            rest = {name: value for name, value in values.items() if name not in network}
            defaults = {"folds": len(scores), "class_weight": "frequency", "lape_drop": "one"}
            options = TrainOptions(network=NetworkConfig(**({"edge_weight": 2.0} | network)), **(defaults | rest))
            write_run(tmp_path / "runs", dataset, options, scores, splits=splits)
        return read_runs(tmp_path / "runs")

    return make
