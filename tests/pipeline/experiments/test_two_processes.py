"""Several processes on one run: one writes, the others wait and read, and the dead hold nothing up."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from leap.models.network_config import NetworkConfig
from leap.pipeline import TrainOptions, train
from leap.pipeline.engine.jobs import make_jobs
from leap.pipeline.engine.prepare import prepare
from leap.pipeline.engine.results import results_table
from leap.pipeline.engine.run_folder import RunFolder
from leap.pipeline.engine.stacks import run_fold
from leap.store.errors import InvalidInputError, WorkFailedError
from tests import paused
from tests.processes import PATIENCE_SECONDS, wait_until
from tests.schedulers import dask_processes

ROOT = Path(__file__).resolve().parents[3]
EPOCHS, FOLDS = 4, 2
OPTIONS = TrainOptions(network=NetworkConfig(backbone="nomp", encoding="lape"), epochs=EPOCHS, folds=FOLDS)
REQUEST = ["-b", "nomp", "-e", "lape", "--epochs", str(EPOCHS), "--folds", str(FOLDS)]
WAITING = "shapes.json nomp lape; waiting for it"


class Command:
    """`leap` in a process group of its own; paused in training if it is given a folder for that."""

    def __init__(self, tmp_path, number, *arguments, pause=None):
        self.pause = pause
        module, environment = "leap.cli.main", dict(os.environ)
        if pause is not None:
            pause.mkdir(exist_ok=True)
            module, environment[paused.FOLDER] = "tests.paused", str(pause)
        self._out, self._err = tmp_path / f"{number}.out", tmp_path / f"{number}.err"
        command = [sys.executable, "-m", module, "--store", str(tmp_path / "store"), "--json", *map(str, arguments)]
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=err, cwd=ROOT, env=environment, start_new_session=True
            )

    def reached(self):
        return wait_until(self.process, (self.pause / "reached").exists)

    def says(self, words):
        return wait_until(self.process, lambda: words in self._err.read_text())

    def go(self):
        (self.pause / "go").touch()

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def answer(self):
        self.process.wait(timeout=PATIENCE_SECONDS)
        assert self.process.returncode == 0, self._err.read_text()
        return json.loads(self._out.read_text())


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a command; none outlives the test."""
    commands = []

    def make(*arguments, **settings):
        commands.append(Command(tmp_path, *arguments, **settings))
        return commands[-1]

    yield make
    for command in commands:
        command.kill()


@pytest.fixture
def shapes(tmp_path, write_shapes):
    return write_shapes(tmp_path / "data" / "shapes.json")


@pytest.fixture
def unbroken(context, shapes, tmp_path):
    """The run, done without a break."""
    return train(str(shapes), OPTIONS, context, run=tmp_path / "unbroken" / "run").path


def curves(path):
    return pq.read_table(path / "curves.parquet").drop_columns(["seconds"]).to_pylist()


def scores(path):
    metrics = json.loads((path / "metrics.json").read_text())
    return [(entry["fold"], entry["test"], entry["val"], entry["best_epoch"]) for entry in metrics["folds"]]


def assert_same(run, unbroken):
    assert scores(run) == scores(unbroken)
    assert len(curves(run)) == EPOCHS * FOLDS
    assert curves(run) == curves(unbroken)


def stopped_run(start, tmp_path, shapes):
    """Return the request for a run that was killed in its second epoch."""
    request = ["--workers", "0", "train", shapes, *REQUEST, "--run", tmp_path / "runs" / "run"]
    first = start("first", *request, pause=tmp_path / "first")
    assert first.reached()
    first.kill()
    return [*request, "--resume"]


def test_of_two_that_resume_a_run_one_trains_and_the_other_reads(start, tmp_path, shapes, unbroken):
    request = stopped_run(start, tmp_path, shapes)
    one = start("one", *request, pause=tmp_path / "one")
    assert one.reached()
    two = start("two", *request)
    assert two.says(WAITING)
    one.go()
    answers = one.answer(), two.answer()
    assert [answer["cached"] for answer in answers] == [False, True]
    assert answers[0]["folds"] == answers[1]["folds"]
    assert_same(tmp_path / "runs" / "run", unbroken)


def test_who_waits_goes_on_where_a_killed_process_stopped(start, tmp_path, shapes, unbroken):
    request = stopped_run(start, tmp_path, shapes)
    one = start("one", *request, pause=tmp_path / "one")
    assert one.reached()
    two = start("two", *request)
    assert two.says(WAITING)
    other = start("other", *request, "--lr", "0.05")  # another run is refused without a wait
    assert other.process.wait(timeout=PATIENCE_SECONDS) == 2
    assert "holds another run (it differs in lr)" in json.loads(other._out.read_text())["error"]["message"]
    one.kill()
    assert not two.answer()["cached"]
    assert_same(tmp_path / "runs" / "run", unbroken)


@pytest.mark.parametrize("how", ["--resume", pytest.param("--force", marks=pytest.mark.slow)])
def test_a_fold_that_an_orphaned_worker_trains_is_waited_for(start, tmp_path, shapes, unbroken, how, monkeypatch):
    pause = tmp_path / "pause"
    pause.mkdir()
    monkeypatch.setenv(paused.FOLDER, str(pause))
    preload = ("--nthreads", 1, "--preload", paused.__file__)
    request = ["train", shapes, *REQUEST, "--run", tmp_path / "runs" / "run"]
    with dask_processes(tmp_path / "dask", 1, *preload) as address:
        main = start("main", "--scheduler", address, *request)
        assert wait_until(main.process, (pause / "reached").exists)
        main.kill()
        after = start("after", "--workers", "0", *request, how)
        assert after.says("a worker of an earlier command is training fold 0 of this run; waiting for it")
        (pause / "go").touch()
        assert not after.answer()["cached"]
    assert_same(tmp_path / "runs" / "run", unbroken)


def test_two_sweeps_at_once_do_every_run_once(start, tmp_path, shapes, write_sweep):
    file = write_sweep(datasets=str(shapes), encodings=["none", "rwpe", "lape"], epochs=EPOCHS, folds=FOLDS)
    request = ["--workers", "0", "sweep", file, "--runs"]
    one = start("one", *request, tmp_path / "runs", "--encoding", "none", pause=tmp_path / "one")
    assert one.reached()
    two = start("two", *request, tmp_path / "runs")
    assert two.says("shapes.json gcn; waiting for it")  # and by now the other runs are done
    assert len(list((tmp_path / "runs").glob("*/metrics.json"))) == 2
    one.go()
    answers = [one.answer(), two.answer()]
    assert [(answer["trained"], answer["cached"], answer["failed"]) for answer in answers] == [(1, 0, 0), (2, 1, 0)]
    alone = start("alone", *request, tmp_path / "alone")
    assert alone.answer()["trained"] == 3
    columns = ("run", "fingerprint", "fold", "test_accuracy", "test_loss", "val_loss", "epochs", "best_epoch")
    tables = [results_table(tmp_path / name).select(columns).to_pylist() for name in ("runs", "alone")]
    assert tables[0] == tables[1]
    assert len(tables[0]) == 3 * FOLDS


def planned_folds(run, shapes, context):
    prepared = prepare(str(shapes), OPTIONS, context)
    facts = {"label": "shapes", "seconds": 1.0, "memory_gb": 1.0, "checkpoint_steps": 500}
    return make_jobs(prepared, RunFolder(run), context, **facts)


def test_a_late_worker_does_not_write_into_the_folder_of_another_run(context, shapes, tmp_path, snapshot):
    run = tmp_path / "runs" / "run"
    late = planned_folds(run, shapes, context)[0]
    other = OPTIONS.model_copy(update={"lr": 0.05})
    train(str(shapes), other, context, run=run)
    before = snapshot(run)
    error = run_fold(late).error
    assert isinstance(error, WorkFailedError)
    assert "another run's by now" in str(error)
    assert snapshot(run) == before


def test_a_fold_that_another_worker_has_done_is_not_trained_again(context, shapes, unbroken, snapshot):
    again = planned_folds(unbroken, shapes, context)[1]
    before = snapshot(unbroken)
    assert run_fold(again).result["test"] == scores(unbroken)[1][1]
    assert snapshot(unbroken) == before


def test_a_folder_that_cannot_be_made_is_named(context, shapes, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInputError, match=r"cannot write the run folder .*file/run.*--run"):
        train(str(shapes), OPTIONS, context, run=tmp_path / "file" / "run")
