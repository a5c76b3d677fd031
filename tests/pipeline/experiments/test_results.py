"""The table of runs follows the run folders, whatever happened to either."""

import json
import multiprocessing
import shutil
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from leap.pipeline.engine.results import COLUMNS, RESULTS, append, results_table
from leap.pipeline.engine.run_folder import RunFolder
from leap.pipeline.training.options import TrainOptions


def write_run(root, name, folds=2, accuracy=0.5, artifacts=True, **options):
    network = {"backbone": "gcn", "encoding": "leap-l", "hops": (1, 2)} | options.pop("network", {})
    chosen = TrainOptions(network=network, **options)
    scores = {"loss": 0.1, "accuracy": accuracy, "auroc": None}
    metrics = {
        "run": name,
        "fingerprint": f"fingerprint of {name}",
        "dataset": "letters-high",
        "task": "graph-classification",
        "options": chosen.model_dump(mode="json"),
        "parameters": {"backbone": 10, "leap-l": 5, "total": 15},
        "folds": [
            {
                "fold": number,
                "epochs": 7,
                "best_epoch": 3,
                "test": scores | {"accuracy": accuracy + number / 10},
                "val": scores,
                "sizes": {"train": 3, "val": 2, "test": 1},
                "seconds": 7.0,
                "seconds_an_epoch": 1.0,
            }
            for number in range(folds)
        ],
        "keys": [{"kind": "dataset", "key": "d"}],
        "versions": {"torch": "2"},
    }
    if artifacts:
        metrics["artifacts"] = [
            {"kind": "dataset", "key": "d", "cached": True, "seconds": 9.0, "bytes": 900},
            {"kind": "neighborhoods", "key": "n", "cached": False, "seconds": 1.5, "bytes": 100},
        ]
    (root / name).mkdir(parents=True, exist_ok=True)
    (root / name / "metrics.json").write_text(json.dumps(metrics))
    return RunFolder(root / name)


def rows(root):
    return results_table(root).to_pylist()


def test_a_row_says_everything_about_a_fold(tmp_path):
    write_run(tmp_path, "a", network={"dim": 4}, seed=7)
    first, second = rows(tmp_path)
    assert list(first) == list(COLUMNS)
    assert (first["fold"], second["fold"]) == (0, 1)
    assert second["test_accuracy"] == pytest.approx(0.6)
    assert second["val_accuracy"] == 0.5
    assert second["test_auroc"] is None
    assert second["test_r2"] is None
    expected = {"stand_in_for": "Letter-high", "hops": "1,2", "projection": "conv1d", "dim": 4, "seed": 7}
    expected |= {"epochs": 7, "epochs_at_most": 100, "best_epoch": 3, "train_size": 3, "test_size": 1}
    expected |= {"preprocessing_seconds": 1.5, "preprocessing_bytes": 100, "cache_hits": 1, "cache_misses": 1}
    expected |= {"parameters": 15, "parameters_backbone": 10, "lape_drop": None, "lect_complex": None}
    assert {name: first[name] for name in expected} == expected
    assert json.loads(first["versions"]) == {"torch": "2"}


def test_what_does_not_apply_is_null(tmp_path):
    write_run(tmp_path, "a", network={"encoding": "rwpe", "hops": (1,)}, artifacts=False)
    row = rows(tmp_path)[0]
    names = ("projection", "hops", "directions", "scale", "edge_weight", "leap_on", "preprocessing_seconds", "cap_seed")
    assert {row[name] for name in names} == {None}
    assert row["dim"] == 10


def test_the_table_follows_the_folders(tmp_path):
    assert rows(tmp_path / "nothing") == []
    write_run(tmp_path, "b")
    append(tmp_path, [RunFolder(tmp_path / "b")])
    on_disk = pq.read_table(tmp_path / RESULTS)
    assert on_disk["run"].to_pylist() == ["b", "b"]
    write_run(tmp_path, "a")  # trained by somebody else
    (tmp_path / "unfinished").mkdir()
    assert [row["run"] for row in rows(tmp_path)] == ["a", "a", "b", "b"]
    write_run(tmp_path, "b", accuracy=0.25, folds=3)  # trained again
    assert [row["test_accuracy"] for row in rows(tmp_path) if row["run"] == "b"] == pytest.approx([0.25, 0.35, 0.45])
    shutil.rmtree(tmp_path / "a")
    assert {row["run"] for row in rows(tmp_path)} == {"b"}
    whole = (tmp_path / RESULTS).read_bytes()
    (tmp_path / RESULTS).write_bytes(whole[: len(whole) // 2])
    assert len(rows(tmp_path)) == 3
    (tmp_path / RESULTS).unlink()
    assert len(rows(tmp_path)) == 3
    assert pq.read_table(tmp_path / RESULTS).num_rows == 3


def test_a_flipped_bit_never_shows_in_a_row(tmp_path):
    write_run(tmp_path, "a")
    write_run(tmp_path, "b", accuracy=0.75)
    expected = rows(tmp_path)
    whole = (tmp_path / RESULTS).read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for position in range(4, footer, max(1, footer // 97)):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        (tmp_path / RESULTS).write_bytes(damaged)
        assert rows(tmp_path) == expected


LIMITED = """
import resource, sys
from leap.pipeline.engine.results import results_table
from leap.store.errors import NoSpaceError
sys.dont_write_bytecode = True  # or Python keeps truncated bytecode, which it cannot read later
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    results_table(sys.argv[1])
except NoSpaceError as error:
    sys.exit(f"{error}")
"""


def test_a_full_disk_is_an_error_and_leaves_the_table_as_it_was(tmp_path):
    write_run(tmp_path, "a")
    results_table(tmp_path)
    before = (tmp_path / RESULTS).read_bytes()
    write_run(tmp_path, "b")
    done = subprocess.run([sys.executable, "-c", LIMITED, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(f"no space left on the disk of {tmp_path}. {RESULTS} stays as it was")
    assert (tmp_path / RESULTS).read_bytes() == before
    assert not list(tmp_path.glob("*.partial"))
    assert {row["run"] for row in rows(tmp_path)} == {"a", "b"}


def append_some(root, names):
    for name in names:
        append(root, [write_run(root, name)])


def test_many_processes_may_append(tmp_path):
    context = multiprocessing.get_context("fork")
    names = [[f"run-{worker}-{number}" for number in range(5)] for worker in range(4)]
    processes = [context.Process(target=append_some, args=(tmp_path, part)) for part in names]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    table = pq.read_table(tmp_path / RESULTS)
    assert sorted(set(table["run"].to_pylist())) == sorted(name for part in names for name in part)


@pytest.mark.parametrize("content", ['{"folds": 5}', "{}", '{"fingerprint": "f"}', "[]"])
def test_what_is_not_the_result_of_a_run_has_no_rows(tmp_path, content):
    write_run(tmp_path, "a")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "metrics.json").write_text(content)
    assert {row["run"] for row in rows(tmp_path)} == {"a"}
