"""Sweeps that are killed at any moment: the same command goes on, to exactly the results of an unbroken one."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys

import psutil
import pytest
import torch

from leap.pipeline.experiments.results import results_table
from tests.processes import PATIENCE_SECONDS, wait_for, wait_until

EPOCHS, RUNS, FOLDS = 40, 3, 2
NOT_RESULTS = ("seconds", "seconds_an_epoch", "preprocessing_seconds", "cache_hits", "cache_misses")


def start(file, store, runs, *more):
    """Start `leap sweep` as a process group of its own."""
    command = [sys.executable, "-m", "leap.cli.main", "--store", str(store), "--json", "--workers", "2", "sweep"]
    command += [str(file), "--runs", str(runs), "--checkpoint-steps", "2", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def finish(process):
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return json.loads(out)


def epochs_done(runs):
    total = 0
    for path in runs.glob("*/fold-*/epochs.jsonl"):
        with contextlib.suppress(FileNotFoundError):
            total += path.read_text().count("\n")
    return total


def written(runs):
    """When each fold was finished."""
    return {str(path): path.stat().st_mtime_ns for path in runs.glob("*/fold-*/result.json")}


def results(runs):
    table = results_table(runs)
    return table.drop_columns(NOT_RESULTS).to_pylist()


def weights(runs):
    paths = sorted(runs.glob("*/fold-*/best.pt"))
    return {str(path.relative_to(runs)): torch.load(path, weights_only=True)["network"] for path in paths}


def left_behind(group):
    """Processes of a group that still run."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@pytest.fixture
def file(tmp_path, write_shapes, write_sweep):
    data = write_shapes(tmp_path / "data" / "shapes.json", 80)
    return write_sweep(datasets=str(data), encodings=["none", "rwpe", "leap-l"], epochs=EPOCHS, folds=FOLDS)


@pytest.mark.slow
def test_a_sweep_killed_three_times_has_the_results_of_an_unbroken_one(file, tmp_path):
    unbroken = tmp_path / "unbroken"
    finish(start(file, tmp_path / "store-1", unbroken))
    in_all, seed = epochs_done(unbroken), int.from_bytes(os.urandom(4))
    print("seed of the moments:", seed)
    moments = sorted(random.Random(seed).sample(range(1, in_all), 3))
    broken, kept = tmp_path / "broken", {}
    for moment in moments:
        process = start(file, tmp_path / "store-2", broken)
        # If it has ended before anybody looked, there is nothing left to break.
        if wait_until(process, lambda moment=moment: epochs_done(broken) >= moment):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        now = written(broken)
        assert {path: now[path] for path in kept} == kept  # no fold that was done is done again
        kept = now
    finish(start(file, tmp_path / "store-2", broken))
    now = written(broken)
    assert {path: now[path] for path in kept} == kept
    assert results(broken) == results(unbroken)
    assert len(results(broken)) == RUNS * FOLDS
    ours, theirs = weights(broken), weights(unbroken)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[path][name], theirs[path][name]) for path in ours for name in ours[path])


@pytest.mark.slow
def test_ctrl_c_stops_cleanly_and_the_sweep_goes_on(file, tmp_path):
    runs = tmp_path / "runs"
    process = start(file, tmp_path / "store", runs)
    assert wait_until(process, lambda: epochs_done(runs) >= 10)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to every process
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert (out, err) == ("", "Stopped. The same command goes on from here.\n")
    # A helper of multiprocessing ends itself a moment after its main process.
    assert wait_for(lambda: not left_behind(process.pid))
    after = finish(start(file, tmp_path / "store", runs))
    assert after["trained"] + after["cached"] == RUNS
