"""Sweeps that are killed at any moment: the same command goes on, to exactly the results of an unbroken one."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys

import psutil
import pytest
import torch

from leap.pipeline.engine.results import results_table
from tests.processes import PATIENCE_SECONDS, wait_for, wait_until

EPOCHS, RUNS, FOLDS = 40, 3, 2
NOT_RESULTS = ("seconds", "seconds_an_epoch", "preprocessing_seconds", "cache_hits", "cache_misses")


def start(file, store, runs, *more, workers=2):
    """Start `leap sweep` as a process group of its own."""
    command = [sys.executable, "-m", "leap.cli.main", "--store", str(store), "--json", "--workers", str(workers)]
    command += ["sweep", str(file), "--runs", str(runs), "--checkpoint-steps", "2", *more]
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
def test_a_stack_of_ten_killed_five_times_has_the_results_of_an_unbroken_one(tmp_path, write_shapes, write_sweep):
    data = write_shapes(tmp_path / "data" / "shapes.json", 120)
    file = write_sweep(datasets=str(data), backbones="nomp", encodings="lape+leap-l", epochs=8, folds=10)
    unbroken, broken, store = tmp_path / "unbroken", tmp_path / "broken", tmp_path / "store"
    finish(start(file, store, unbroken, "--stack", "1"))
    in_all, seed = epochs_done(unbroken), int.from_bytes(os.urandom(4))
    print("seed of the moments:", seed)
    for moment in sorted(random.Random(seed).sample(range(1, in_all), 5)):
        process = start(file, store, broken, "--stack", "10", workers=0)
        if wait_until(process, lambda moment=moment: epochs_done(broken) >= moment):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    finish(start(file, store, broken, "--stack", "10", workers=0))
    assert results(broken) == results(unbroken)
    ours, theirs = weights(broken), weights(unbroken)
    assert len(ours) == 10
    assert all(torch.equal(ours[path][name], theirs[path][name]) for path in ours for name in ours[path])


def workers_of(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        children = psutil.Process(process.pid).children(recursive=True)
        return [child for child in children if any("spawn_main" in word for word in child.cmdline())]
    return []


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 6])
def test_a_killed_worker_loses_nothing_that_its_folds_had_saved(file, tmp_path, size):
    """Another one claims them, in the same command."""
    finish(start(file, tmp_path / "store", tmp_path / "unbroken"))
    broken = tmp_path / "broken"
    process = start(file, tmp_path / "store", broken, "--stack", str(size))
    assert wait_until(process, lambda: epochs_done(broken) >= 20 and workers_of(process))
    workers_of(process)[0].kill()
    assert finish(process)["trained"] == RUNS
    assert results(broken) == results(tmp_path / "unbroken")


def finished(runs):
    return len(list(runs.glob("*/metrics.json")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "send", "code"),
    [(signal.SIGINT, os.killpg, 130), (signal.SIGTERM, os.kill, 143)],  # as a terminal does, and as 'kill' does
    ids=["Ctrl-C", "SIGTERM"],
)
def test_a_sweep_that_is_stopped_leaves_no_process_and_says_how_to_go_on(file, tmp_path, number, send, code):
    runs = tmp_path / "runs"
    process = start(file, tmp_path / "store", runs)
    assert wait_until(process, lambda: finished(runs) >= 1)
    send(process.pid, number)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == code, err
    *told, last = err.splitlines()
    assert {json.loads(line)["event"] for line in told} <= {"fold-ended", "note"}
    said = re.fullmatch(r"Stopped: (\d) of 3 runs are done\. The same command goes on from here\.", last)
    assert said, err
    assert int(said[1]) <= finished(runs) < RUNS
    assert out == ""
    assert_no_process(process)
    after = finish(start(file, tmp_path / "store", runs))
    assert after["trained"] + after["cached"] == RUNS
    assert after["cached"] >= int(said[1])


@pytest.mark.slow
def test_a_training_that_is_stopped_says_how_to_resume(tmp_path, write_shapes):
    data, runs = write_shapes(tmp_path / "data" / "shapes.json", 80), tmp_path / "runs"
    command = [sys.executable, "-m", "leap.cli.main", "--store", str(tmp_path / "store"), "--workers", "2", "--json"]
    command += ["train", str(data), "-b", "gcn", "-e", "none", "--runs", str(runs), "--checkpoint-steps", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, start_new_session=True, **pipes)
    assert wait_until(process, lambda: list(runs.glob("*/fold-*/result.json")))
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out) == (130, ""), err
    (folder,) = runs.iterdir()
    last = err.splitlines()[-1]
    said = re.fullmatch(r"Stopped: (\d) of 5 folds of (.*) are done\. The same command with --resume goes on.*", last)
    assert said, err
    assert said[2] == str(folder)
    kept = written(runs)
    assert int(said[1]) <= len(kept) < 5
    assert_no_process(process)
    assert len(finish(subprocess.Popen([*command, "--resume"], **pipes))["folds"]) == 5
    assert {path: time for path, time in written(runs).items() if path in kept} == kept


STOPPED_TWICE = """
import os, signal
from leap.pipeline.interrupts import stoppable
with stoppable():
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        print("ending in order", flush=True)
        os.kill(os.getpid(), signal.SIGINT)
        print("still there", flush=True)
"""


def test_a_second_ctrl_c_ends_at_once():
    done = subprocess.run([sys.executable, "-c", STOPPED_TWICE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "ending in order\n", "")


def assert_no_process(process):
    # A helper of multiprocessing ends itself a moment after its main process.
    assert wait_for(lambda: not left_behind(process.pid))
