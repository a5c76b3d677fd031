"""Who does the work: nobody extra for little of it, a quiet local cluster for much, a scheduler where one is named."""

import contextlib
import io
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings

import distributed
import psutil
import pytest

from leap.pipeline.cluster import InlineRunner, Workforce, employ
from leap.store.errors import InvalidInputError, WorkFailedError
from tests.processes import wait_for
from tests.schedulers import KEEP_MEMORY, dask_processes


def double(value):
    return 2 * value


def results(workforce, tasks=3, seconds=0.0):
    found = []
    with employ(workforce, tasks, seconds) as runner:
        runner.run(double, [(value,) for value in range(tasks)], found.append)
    return sorted(found)


def countdown(number):
    if number < 0:
        raise ValueError(number)
    yield from range(number)
    if number == 3:
        raise RuntimeError("three")


@pytest.mark.parametrize("workers", [0, 1])
def test_streams_hand_over_their_items_and_fail_alone(workers):
    """In this process as they come; from another one not those of a stream that fails in the end."""
    items, failed, waited = [], [], []
    with employ(Workforce(workers), 4, 0.0) as runner:
        runner.run_streams(
            countdown,
            [(number,) for number in (2, -1, 3, 1)],
            items.append,
            lambda arguments, error: failed.append((arguments, type(error))),
            lambda: waited.append(1),
        )
    assert sorted(items) == [0, 0, 1] if workers else [0, 1, 0, 1, 2, 0]
    assert sorted(failed) == [((-1,), ValueError), ((3,), RuntimeError)]
    assert bool(waited) == bool(workers)


def test_a_stream_whose_items_nobody_wants_is_closed():
    closed = []

    def stream():
        try:
            yield from range(9)
        finally:
            closed.append(True)

    def refuse(item):
        raise LookupError(item)

    with pytest.raises(LookupError), employ(Workforce(0), 1, 0.0) as runner:
        runner.run_streams(stream, [()], refuse, lambda *_: None, lambda: None)
    assert closed == [True]


@pytest.mark.parametrize(
    ("workforce", "tasks", "seconds"),
    [(Workforce(), 100, 0.5), (Workforce(), 1, 1e6), (Workforce(0), 100, 1e6), (Workforce(2), 0, 0.0)],
    ids=["little work", "one task", "no workers wanted", "nothing to do"],
)
def test_no_cluster_is_started_where_none_pays(workforce, tasks, seconds):
    with employ(workforce, tasks, seconds) as runner:
        assert isinstance(runner, InlineRunner)


def test_a_cluster_starts_without_a_word_where_the_port_of_dashboards_is_taken(capfd):
    with warnings.catch_warnings(), socket.socket() as other:
        with contextlib.suppress(OSError):  # somebody has it already, which is as good
            other.bind(("localhost", 8787))
            other.listen()
        warnings.simplefilter("error")
        assert results(Workforce(1)) == [0, 2, 4]
    assert capfd.readouterr() == ("", "")


def test_what_dask_logs_when_its_workers_are_gone_is_not_shown(monkeypatch):
    """Connections may turn out to be lost after the cluster is closed, as long as the event loop runs."""
    shown, log = logging.StreamHandler(io.StringIO()), logging.getLogger("distributed")
    monkeypatch.setattr(log, "handlers", [shown])  # as outside of pytest
    stop_loop = distributed.utils.LoopRunner.stop

    def stop(self, *args, **options):
        log.error("Batched Comm Closed")
        return stop_loop(self, *args, **options)

    monkeypatch.setattr(distributed.utils.LoopRunner, "stop", stop)
    assert results(Workforce(1)) == [0, 2, 4]
    assert shown.stream.getvalue() == ""
    log.error("heard")
    assert shown.stream.getvalue() == "heard\n"


def test_workers_outlive_the_sleep_of_their_computer():
    """Dask takes it for minutes in which they gave no sign of life."""
    with employ(Workforce(1), 1, 60.0) as runner:
        patience = runner._client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.worker_ttl)
    assert patience is None


def thresholds_of_memory():
    return {name: value for name, value in os.environ.items() if name.startswith("MALLOC_")}


def test_workers_keep_their_memory_unlike_dask_has_it(monkeypatch):
    for name in thresholds_of_memory():
        monkeypatch.delenv(name)
    found = []
    with employ(Workforce(1), 1, 0.0) as runner:
        runner.run(thresholds_of_memory, [()], found.append)
    assert found == [KEEP_MEMORY]


def is_out_of_reach():
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_workers_are_born_out_of_reach_of_ctrl_c():
    found = []
    with employ(Workforce(1), 1, 0.0) as runner:
        runner.run(is_out_of_reach, [()], found.append)
    assert found == [True]
    assert not is_out_of_reach()


def pid_and_wait(folder, number):
    (folder / f"{number}.tmp").write_text(str(os.getpid()))
    (folder / f"{number}.tmp").rename(folder / str(number))
    if number:  # all but the first are never done
        threading.Event().wait()


def test_an_error_ends_workers_that_are_busy(tmp_path):
    class Enough(Exception):
        pass

    def on_done(result):
        assert wait_for(lambda: len(list(tmp_path.glob("?"))) == 3)
        raise Enough

    with pytest.raises(Enough), employ(Workforce(2), 3, 0.0) as runner:
        runner.run(pid_and_wait, [(tmp_path, number) for number in range(3)], on_done)
    assert not any(psutil.pid_exists(int(path.read_text())) for path in tmp_path.glob("?"))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nowhere", "tcp://256.0.0.1:8786"])
def test_a_scheduler_that_does_not_answer_is_an_error_that_names_it(address, monkeypatch):
    monkeypatch.setattr("leap.pipeline.cluster.CONNECT_SECONDS", 0.5)
    with pytest.raises(InvalidInputError, match="no Dask scheduler answers at"):
        results(Workforce(scheduler=address))


def test_a_scheduler_without_workers_is_an_error_rather_than_a_wait(monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setattr("leap.pipeline.cluster.CONNECT_SECONDS", 120.0)
    monkeypatch.setattr("leap.pipeline.cluster.WORKERS_SECONDS", 0.1)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="localhost:0") as cluster,
        pytest.raises(InvalidInputError, match="no workers"),
    ):
        results(Workforce(scheduler=cluster.scheduler_address))


@pytest.mark.parametrize("with_listener", [False, True], ids=["stage", "sweep"])
def test_a_scheduler_that_is_lost_is_an_error_that_says_how_to_go_on(tmp_path, capfd, with_listener):
    failures = []

    def on_done(result):
        assert wait_for(lambda: len(list(tmp_path.glob("?"))) == 2), "one task is done and another under way"
        (scheduler,) = (child for child in psutil.Process().children() if "scheduler" in child.cmdline())
        scheduler.kill()

    def on_failed(arguments, error):
        failures.append(error)

    with dask_processes(tmp_path / "dask", 1, "--nthreads", "1") as address:
        capfd.readouterr()
        with employ(Workforce(scheduler=address), 3, 0.0) as runner:
            try:
                arguments = [(tmp_path, number) for number in range(3)]
                runner.run(pid_and_wait, arguments, on_done, on_failed if with_listener else None)
            except WorkFailedError as error:
                failures.append(error)
    assert len(failures) == (2 if with_listener else 1)
    for error in failures:
        assert isinstance(error, WorkFailedError)
        assert f"the Dask scheduler at {address} was lost" in str(error)
        assert "run the same command" in str(error)
    assert capfd.readouterr() == ("", ""), "Dask's own log is no help"


STILLBORN = """
import os, sys
if "--multiprocessing-fork" in sys.orig_argv:
    os._exit(3)
"""


def test_workers_that_do_not_start_are_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(STILLBORN)
    done = subprocess.run(
        [sys.executable, "-m", "leap.cli.main", "--workers", "2", "--store", "store", "extract", "triads"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("Error: a local Dask cluster of ")
    assert "use fewer --workers, or none with --workers 0" in done.stderr
    assert done.stderr.count("\n") == 1


FRESH = """
from leap.pipeline.cluster import Workforce, employ
with employ(Workforce(1), 1, 100.0) as runner:
    runner.run(abs, [(-3,)], print)
"""


def test_a_local_cluster_is_the_first_that_a_process_hears_of_dask():
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
