"""Kills at any moment: the store verifies, the next command keeps what is done, the bytes are the same in the end."""

import contextlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from leap.pipeline import Context, IngestOptions, Workforce, extract, ingest
from leap.store import Store
from leap.store.artifact import folder_of
from tests.processes import PATIENCE_SECONDS, Gate, wait_until


@dataclass(frozen=True)
class Reference:
    """An uninterrupted run: its store, a store with the dataset alone, and how many partitions the stage has."""

    dataset: str
    options: IngestOptions
    store: Path
    ingested: Path
    key: str
    partitions: int


def uninterrupted(folder, dataset, partition_mb):
    options = IngestOptions(partition_mb=partition_mb)
    context = Context(Store.open(folder / "store"), workforce=Workforce(0))
    ingest(dataset, options=options, context=context)
    shutil.copytree(folder / "store", folder / "ingested")
    report = extract(dataset, 1, ingest_options=options, context=context)["neighborhoods"]
    return Reference(dataset, options, folder / "store", folder / "ingested", report.key, report.partitions)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A run of some forty partitions."""
    return uninterrupted(tmp_path_factory.mktemp("short"), "letters-low", 0.016)


@pytest.fixture(scope="module")
def long_reference(tmp_path_factory):
    """A run of some hundred and fifty partitions."""
    return uninterrupted(tmp_path_factory.mktemp("long"), "triads", 0.04)


def start(store, reference, workers, gate=None):
    """Start `leap extract` as a process of its own, in a group of its own; a gate may hold it."""
    command = [sys.executable, "-m", "leap.cli.main", "--store", str(store), "--json", "--workers", str(workers)]
    command += ["extract", reference.dataset, "--hops", "1", "--partition-mb", str(reference.options.partition_mb)]
    environment = os.environ | (gate.environment if gate else {})
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def records(store, key=None):
    """Finished partitions, in builds and in artifacts, with the time they were written, of all artifacts or of one."""
    found = {}
    for top in ("artifacts", "builds"):
        # `os.walk` passes over folders that are moved away while it looks.
        for folder, _, names in os.walk(Path(store) / top / (key or "")):
            if "partition.json" in names:
                with contextlib.suppress(FileNotFoundError):
                    written = (Path(folder) / "partition.json").stat().st_mtime_ns
                    name = f"{Path(folder).relative_to(Path(store) / top).parts[0]}/{Path(folder).name.split('.')[0]}"
                    found[name] = min(written, found.get(name, written))
    return found


def files(store):
    """Number of files of artifacts, finished or not."""
    return sum(len(names) for _, _, names in os.walk(Path(store) / "artifacts"))


def workers_of(process):
    """Worker processes of a running command."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        return [child for child in children if any("spawn_main" in word for word in child.cmdline())]
    except psutil.NoSuchProcess:
        return []


def finish(process):
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return next(a for a in json.loads(out)["artifacts"] if a["kind"] == "neighborhoods"), err


def kill_main(store, reference, moment, workers=2):
    """Kill the command at a gate, or once a number of files are there; return the records that it left."""
    gate = moment if isinstance(moment, Gate) else None
    process = start(store, reference, workers, gate)
    wait_until(process, gate.is_reached if gate else lambda: files(store) >= moment)
    process.send_signal(signal.SIGKILL)
    if gate:
        gate.open()
    process.communicate()
    assert Store.open(store).verify() == []
    return records(store, reference.key)


def continue_after(left, store, reference, snapshot, workers=0):
    """Run the command to its end, compare with the reference, and return how many partitions it kept."""
    was_published = reference.key in set(Store.open(store).keys())
    report, notes = finish(start(store, reference, workers))
    assert Store.open(store).verify() == []
    assert snapshot(store) == snapshot(reference.store)
    assert report["cached"] == was_published
    if was_published:
        return reference.partitions
    # A worker may have finished one more after its main process was dead.
    assert len(left) <= report["resumed"] <= reference.partitions
    assert {path: time for path, time in records(store, reference.key).items() if path in left} == left
    if report["resumed"]:
        assert f"{report['resumed']} of {reference.partitions} partitions are done" in notes
    return report["resumed"]


def kill_worker(store, reference, moment, snapshot, how_many=1):
    """Kill workers as `kill_main` does the command, which must finish. Returns how many were killed."""
    gate = moment if isinstance(moment, Gate) else None
    process = start(store, reference, 2, gate)
    is_time = gate.is_reached if gate else lambda: files(store) >= moment
    wait_until(process, lambda: is_time() and len(workers_of(process)) >= how_many)
    victims = workers_of(process)[:how_many]
    for victim in victims:
        with contextlib.suppress(ProcessLookupError):  # without a gate it may be done by now
            os.kill(victim.pid, signal.SIGKILL)
    if gate:
        gate.open()
    report, _ = finish(process)
    assert not report["cached"]
    assert Store.open(store).verify() == []
    assert snapshot(store) == snapshot(reference.store)
    return len(victims)


def test_after_kills_the_next_command_continues(tmp_path, reference, snapshot):
    store = tmp_path / "store"
    shutil.copytree(reference.ingested, store)
    first = kill_main(store, reference, Gate(tmp_path / "first", reference.partitions // 5), workers=2)
    second = kill_main(store, reference, Gate(tmp_path / "second", reference.partitions // 3), workers=0)
    assert reference.partitions // 5 <= len(first) < len(second) < reference.partitions
    assert {path: time for path, time in second.items() if path in first} == first
    assert continue_after(second, store, reference, snapshot) == len(second)


def test_a_killed_worker_is_replaced(tmp_path, reference, snapshot):
    shutil.copytree(reference.ingested, tmp_path / "store")
    gate = Gate(tmp_path / "gate", reference.partitions // 4)
    assert kill_worker(tmp_path / "store", reference, gate, snapshot) == 1


@pytest.mark.slow
@pytest.mark.timeout(10_000)
def test_twenty_kills_at_random_moments(tmp_path, long_reference, snapshot, capsys):
    reference = long_reference
    moments = random.Random(2026)
    lines = []
    for number in range(10):
        store = tmp_path / f"main-{number}"
        moment = moments.randrange(files(reference.store))
        if number % 2:  # every other one starts from nothing, so that the dataset's partitions are in danger too
            moment = moments.randrange(files(reference.ingested), files(reference.store))
            shutil.copytree(reference.ingested, store)
        left = kill_main(store, reference, moment)
        kept = continue_after(left, store, reference, snapshot, workers=2 if number % 3 == 0 else 0)
        lines.append(f"main process, after {moment} files: {kept} of {reference.partitions} kept")
        shutil.rmtree(store)
    for number in range(10):
        store = tmp_path / f"worker-{number}"
        moment = moments.randrange(files(reference.ingested), files(reference.store) * 3 // 4)
        shutil.copytree(reference.ingested, store)
        killed = kill_worker(store, reference, moment, snapshot, how_many=1 + number % 2)
        lines.append(f"{killed} worker(s), after {moment} files: finished in the same command")
        shutil.rmtree(store)
    with capsys.disabled():
        print("", *lines, sep="\n  ")


@pytest.mark.slow
def test_an_interrupt_ends_workers_too_without_a_word(tmp_path, reference, snapshot):
    store = tmp_path / "store"
    shutil.copytree(reference.ingested, store)
    gate = Gate(tmp_path / "gate", 3)
    process = start(store, reference, 2, gate)
    assert wait_until(process, gate.is_reached)
    workers = workers_of(process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    gate.open()
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert psutil.wait_procs(workers, timeout=PATIENCE_SECONDS)[1] == []
    continue_after(records(store, reference.key), store, reference, snapshot)


def test_a_kill_while_a_dataset_is_stored_costs_nothing(tmp_path, reference, snapshot):
    store = tmp_path / "store"
    gate = Gate(tmp_path / "gate", 10)
    process = start(store, reference, 0, gate)
    assert wait_until(process, gate.is_reached)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = records(store)
    assert Store.open(store).verify() == []
    assert Store.open(store).keys() == []
    finish(start(store, reference, workers=0))
    assert {path: time for path, time in records(store).items() if path in kept} == kept
    assert snapshot(store) == snapshot(reference.store)


def test_halves_left_by_a_kill_do_not_stay_in_the_artifact(tmp_path, reference, snapshot):
    store = tmp_path / "store"
    shutil.copytree(reference.store, store)
    folder = store / folder_of(reference.key)
    (folder / "manifest.json").rename(folder / "manifest.json.0123.partial")
    (folder / "part-00000").rename(folder / "part-00000.0123.partial")
    (folder / "part-00001" / "partition.json").unlink()
    (folder / "part-00001" / "nodes" / "c" / "0.0123.partial").write_bytes(b"half a chunk")
    (folder / "part-00002" / "partition.json").write_bytes(b'{"files": {')
    (folder / "part-00003" / "edges" / "zarr.json").unlink()
    context = Context(Store.open(store), workforce=Workforce(0))
    report = extract(reference.dataset, 1, ingest_options=reference.options, context=context)["neighborhoods"]
    assert (report.cached, report.resumed) == (False, reference.partitions - 4)
    assert context.store.verify() == []
    assert snapshot(store) == snapshot(reference.store)


def test_partitions_of_another_plan_are_not_kept(tmp_path, reference, snapshot):
    store = tmp_path / "store"
    shutil.copytree(reference.store, store)
    folder = store / folder_of(reference.key)
    (folder / "manifest.json").unlink()
    shutil.copytree(folder / "part-00001", folder / "part-99999")
    shutil.rmtree(folder / "part-00000")
    (folder / "part-00001").rename(folder / "part-00000")
    context = Context(Store.open(store), workforce=Workforce(0))
    report = extract(reference.dataset, 1, ingest_options=reference.options, context=context)["neighborhoods"]
    assert report.resumed == reference.partitions - 2
    assert snapshot(store) == snapshot(reference.store)


def _ask(url, barrier, answers):
    context = Context(Store.open(url), workforce=Workforce(0))
    barrier.wait()
    result = extract("letters-low", 2, context=context)
    answers.put([(report.kind, report.key, report.cached) for report in result.artifacts])


def test_of_eight_processes_that_ask_at_once_one_does_the_work(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    barrier, answers = spawn.Barrier(8), spawn.Queue()
    url = str(tmp_path / "store")
    askers = [spawn.Process(target=_ask, args=(url, barrier, answers)) for _ in range(8)]
    for asker in askers:
        asker.start()
    results = [answers.get(timeout=PATIENCE_SECONDS) for _ in askers]
    for asker in askers:
        asker.join()
    for number, kind in enumerate(("dataset", "neighborhoods")):
        assert {result[number][:2] for result in results} == {(kind, results[0][number][1])}
        assert sorted(result[number][2] for result in results) == [False] + [True] * 7
    assert Store.open(url).verify() == []
