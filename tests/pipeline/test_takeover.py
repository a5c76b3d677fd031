"""Commands whose work goes to another process: each returns the one artifact, which nobody disturbs."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from leap.pipeline import Context, IngestOptions, Workforce, extract, ingest
from leap.pipeline.events import Note, Reporter
from leap.store import Store
from leap.store.artifact import builds_of, folder_of
from leap.store.location import locate
from leap.store.lock import LEASE_SECONDS
from tests.clocks import SteppedClock
from tests.processes import PATIENCE_SECONDS, wait_until

PARTS = IngestOptions(partition_mb=0.1)
OPTIONS = ["extract", "letters-low", "--hops", "1", "--partition-mb", "0.1"]


def start(store, *options):
    command = [sys.executable, "-m", "leap.cli.main", "--store", str(store), "--json", *options, *OPTIONS]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def finish(process):
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return next(a for a in json.loads(out)["artifacts"] if a["kind"] == "neighborhoods"), err


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    """Key of the neighbourhoods that the commands make."""
    context = Context(Store.open(tmp_path_factory.mktemp("key")), workforce=Workforce(0))
    return extract("letters-low", 1, ingest_options=PARTS, context=context)["neighborhoods"].key


def attempts(store, key):
    """Folders of attempts at partitions."""
    top = builds_of(key)
    tokens = store.location.names(top)
    return [name for token in tokens for name in store.location.names(f"{top}/{token}") if "." in name]


def versions(s3, store, key):
    """All versions of all objects of an artifact, removals among them."""
    bucket, prefix, _ = s3.split_path(store.location.full(folder_of(key)))
    listed = s3.call_s3("list_object_versions", Bucket=bucket, Prefix=f"{prefix}/")
    assert not listed["IsTruncated"]
    return {
        (entry["Key"], entry["VersionId"]) for kind in ("Versions", "DeleteMarkers") for entry in listed.get(kind, [])
    }


def test_a_command_that_slept_past_its_lease_leaves_the_others_artifact_alone_and_returns_it(s3, key):
    s3.mkdir("asleep")
    s3.call_s3("put_bucket_versioning", Bucket="asleep", VersioningConfiguration={"Status": "Enabled"})
    url = "s3://asleep/store"
    ingest("letters-low", options=PARTS, context=Context(Store.open(url), workforce=Workforce(0)))
    sleeper = start(url, "--workers", "0")
    try:
        store = Store.open(url)
        assert wait_until(sleeper, lambda: len(attempts(store, key)) >= 3)
        os.kill(sleeper.pid, signal.SIGSTOP)
        clock = SteppedClock()
        awake = Context(Store(locate(url), clock), workforce=Workforce(0))
        answers = []

        def take_over():
            answers.append(extract("letters-low", 1, ingest_options=PARTS, context=awake)["neighborhoods"])

        taker = threading.Thread(target=take_over, daemon=True)
        taker.start()
        clock.until_waiting(1)
        clock.advance(LEASE_SECONDS + 1)
        taker.join(PATIENCE_SECONDS)
        assert (answers[0].key, answers[0].cached, answers[0].resumed >= 2) == (key, False, True)
        published = versions(s3, store, key)
        os.kill(sleeper.pid, signal.SIGCONT)
        asked = 0
        while sleeper.poll() is None or asked < 3:
            again = extract("letters-low", 1, ingest_options=PARTS, context=awake)["neighborhoods"]
            assert (again.key, again.cached) == (key, True)
            asked += 1
        report, notes = finish(sleeper)
    finally:
        sleeper.kill()
        sleeper.communicate()
    assert (report["key"], report["cached"]) == (key, True)
    assert "another process has taken over" in notes
    assert versions(s3, store, key) == published
    assert store.verify() == []


def test_a_lost_lease_ends_the_work_and_the_command_returns_the_others_artifact(url, key):
    ingest("letters-low", options=PARTS, context=Context(Store.open(url), workforce=Workforce(0)))
    clocks = [SteppedClock(), SteppedClock()]
    first, second = (Context(Store(locate(url), clock), workforce=Workforce(0)) for clock in clocks)
    notes, seen, answers = [], [], []

    def take_over():
        answers.append(extract("letters-low", 1, ingest_options=PARTS, context=second)["neighborhoods"])

    def fall_asleep():
        """Sleep for more than a term, in which another process makes the artifact."""
        other = threading.Thread(target=take_over, daemon=True)
        other.start()
        clocks[1].until_waiting(1)
        clocks[1].advance(LEASE_SECONDS + 1)
        other.join(PATIENCE_SECONDS)
        clocks[0]._time += LEASE_SECONDS + 1
        seen.append(first.store.location.files(""))

    def listen(event):
        """Keep notes, and fall asleep after the third partition."""
        if isinstance(event, Note):
            notes.append(event.message)
        elif event.description.startswith("neighborhoods") and not event.is_over:
            steps.append(event)
            if len(steps) == 5 and not seen:
                fall_asleep()

    steps = []
    watching = Context(first.store, workforce=Workforce(0), reporter=Reporter(listen))
    report = extract("letters-low", 1, ingest_options=PARTS, context=watching)["neighborhoods"]
    assert (answers[0].cached, report.cached, report.key) == (False, True, key)
    assert any("another process has taken over" in note for note in notes)
    changed = {
        name
        for name, info in first.store.location.files("").items()
        if seen[0].get(name) != info and not name.startswith(("locks/", "usage/"))
    }
    assert changed == set(), "nothing is written after the lease is lost"
    assert first.store.verify() == []


BLOCKING = """
import os, time
from leap.pipeline.derived.neighborhoods import NeighborhoodsRecipe


def holding(compute):
    def held_once(self, reader, partition, inputs):
        # The first task of all waits, in the middle of its work, until it is told to go on.
        try:
            os.close(os.open({folder!r} + "/held", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return compute(self, reader, partition, inputs)
        while not os.path.exists({folder!r} + "/go"):
            time.sleep(0.01)
        return compute(self, reader, partition, inputs)

    return held_once


if NeighborhoodsRecipe.compute.__name__ != "held_once":  # Dask loads this file twice
    NeighborhoodsRecipe.compute = holding(NeighborhoodsRecipe.compute)
"""


def marks(folder):
    """What any change of a file or folder changes, were it for a moment only."""
    found = {path: path.stat() for path in sorted(folder.rglob("*"))}
    return {path: (info.st_ino, info.st_mtime_ns, info.st_ctime_ns) for path, info in found.items()}


def dask(*words):
    command = [sys.executable, "-m", "dask", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def cluster(tmp_path):
    """Address of a scheduler of its own with one worker of two threads, whose first task waits for a file."""
    preload, file = tmp_path / "blocking.py", tmp_path / "scheduler.json"
    preload.write_text(BLOCKING.format(folder=str(tmp_path)))
    scheduler = dask("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
    assert wait_until(scheduler, lambda: file.exists() and file.read_text().rstrip().endswith("}"))
    address = json.loads(file.read_text())["address"]
    options = ["--nthreads", "2", "--nworkers", "1", "--no-nanny", "--no-dashboard", "--preload", str(preload)]
    worker = dask("worker", address, *options, "--local-directory", str(tmp_path))
    yield address
    for process in (worker, scheduler):
        process.kill()
        process.wait()


def test_tasks_that_outlive_their_client_on_a_scheduler_leave_the_next_ones_artifact_alone(tmp_path, cluster, key):
    place = tmp_path / "store"
    ingest("letters-low", options=PARTS, context=Context(Store.open(place), workforce=Workforce(0)))
    first = start(place, "--scheduler", cluster)
    try:
        assert wait_until(first, lambda: (tmp_path / "held").exists() and len(attempts(Store.open(place), key)) >= 2)
    finally:
        first.kill()
        first.communicate()
    report, notes = finish(start(place, "--scheduler", cluster))
    assert (report["key"], report["cached"], report["resumed"] >= 1) == (key, False, True)
    assert "partitions are done" in notes
    folder = place / folder_of(key)
    published = marks(folder)
    from distributed import Client

    def meet(me, other):
        """Return when the other is there: both threads of the worker are free, so the orphan has ended."""
        me.touch()
        while not other.exists():
            pass
        return True

    (tmp_path / "go").touch()  # the orphan goes on
    here, there = tmp_path / "here", tmp_path / "there"
    with Client(cluster) as client:
        pair = [client.submit(meet, here, there), client.submit(meet, there, here)]
        assert [future.result(PATIENCE_SECONDS) for future in pair] == [True, True]
    assert marks(folder) == published
    assert Store.open(place).verify() == []
