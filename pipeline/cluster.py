"""Run partition tasks: in this process when there is little to do, else on a Dask cluster."""

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from typing import Any, Protocol

from leap.pipeline.interrupts import heed_stop, without_interrupts
from leap.store.errors import InvalidInputError, WorkFailedError
from leap.store.lazy import lazy_module

dask, distributed = lazy_module("dask"), lazy_module("distributed")

TINY_SECONDS = 4.0  # starting a cluster costs about this much
CONNECT_SECONDS = 10.0
WAIT_SECONDS = 0.1
WORKERS_SECONDS = 10.0  # for the first worker to join a scheduler that answers
ONE_THREAD_EACH = "--nthreads 1 --nworkers N"  # options of 'dask worker'; training needs them, the rest does not
# Dask tells its workers to give memory back at once. A training step would then spend half its time on having the same
# pages mapped again; left to itself, the C library still gives back what the step of a large stack will need again.
KEEP_MEMORY = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**25,
}

# After five minutes without a sign of life Dask starts a worker anew, which a computer that slept is taken for. That a
# local worker has died is noticed anyway.
PATIENT = {"distributed.scheduler.worker-ttl": None}

Arguments = tuple[Any, ...]
OnFailed = Callable[[Arguments, Exception], None]


@dataclass(frozen=True)
class Workforce:
    """Where the work is done: in this process, on a local cluster, or on a running one.

    Attributes
    ----------
    workers : processes of a local cluster; 0 keeps everything in this process; None decides by the amount of work.
    scheduler : address of a running Dask scheduler, such as "tcp://host:8786", which then is used for all work.
    """

    workers: int | None = None
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 0:
            raise InvalidInputError(f"--workers is {self.workers}. Give 0 (no cluster) or more processes.")


class Runner(Protocol):
    """Something that runs a function over many arguments."""

    workers: int

    def run(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Arguments],
        on_done: Callable[[Any], None],
        on_failed: OnFailed | None = None,
    ) -> None:
        """Call `function(*args)` for each entry, in any order; `on_done` receives each result as it comes.

        The first failure ends everything, unless `on_failed` is there to receive it.
        """

    def run_streams(
        self,
        function: Callable[..., Iterator[Any]],
        arguments: Sequence[Arguments],
        on_item: Callable[[Any], None],
        on_failed: OnFailed,
        on_wait: Callable[[], None],
    ) -> None:
        """Do the same for a function that returns an iterator; `on_item` receives each item as it comes.

        Items of another process come when its iterator has ended; while there is nothing to receive, `on_wait` is
        called every now and then.
        """


class InlineRunner:
    """Runs tasks one after the other in this process."""

    workers = 1

    def run(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Arguments],
        on_done: Callable[[Any], None],
        on_failed: OnFailed | None = None,
    ) -> None:
        """Call `function(*args)` for each entry in order."""
        for args in arguments:
            _settle(partial(function, *args), args, on_done, on_failed)

    def run_streams(
        self,
        function: Callable[..., Iterator[Any]],
        arguments: Sequence[Arguments],
        on_item: Callable[[Any], None],
        on_failed: OnFailed,
        on_wait: Callable[[], None],
    ) -> None:
        """Iterate over `function(*args)` for each entry in order."""
        for args in arguments:
            with contextlib.closing(_stream(function, args)) as items:
                while True:
                    heed_stop()
                    try:
                        item = next(items)
                    except StopIteration:
                        break
                    except Exception as error:
                        on_failed(args, error)
                        break
                    on_item(item)


class DaskRunner:
    """Runs tasks on a Dask cluster; a worker that dies is replaced and its task given to another."""

    def __init__(self, client: Any, workers: int) -> None:
        self._client = client
        self.workers = workers

    def run(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Arguments],
        on_done: Callable[[Any], None],
        on_failed: OnFailed | None = None,
    ) -> None:
        """Submit everything and hand over results as they come; earlier entries are started first."""
        self._run(function, arguments, on_done, on_failed)

    def run_streams(
        self,
        function: Callable[..., Iterator[Any]],
        arguments: Sequence[Arguments],
        on_item: Callable[[Any], None],
        on_failed: OnFailed,
        on_wait: Callable[[], None],
    ) -> None:
        """Submit everything and hand over the items of each entry when it has ended."""

        def on_done(items: list[Any]) -> None:
            for item in items:
                on_item(item)

        self._run(partial(_collect, function), arguments, on_done, on_failed, on_wait)

    def _run(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Arguments],
        on_done: Callable[[Any], None],
        on_failed: OnFailed | None,
        on_wait: Callable[[], None] | None = None,
    ) -> None:
        futures = {self._client.submit(function, *args, pure=False): args for args in arguments}
        try:
            completed = distributed.as_completed(list(futures), loop=self._client.loop)
            while futures:
                while on_wait is not None and not completed.has_ready():
                    heed_stop()
                    on_wait()
                    time.sleep(WAIT_SECONDS)
                future = next(completed)
                _settle(partial(_result, future), futures.pop(future), on_done, on_failed)
        finally:
            self._client.cancel(list(futures), force=True)


def _stream(function: Callable[..., Iterator[Any]], args: Arguments) -> Generator[Any, None, None]:
    yield from function(*args)


def _collect(function: Callable[..., Iterator[Any]], *args: Any) -> list[Any]:
    return list(function(*args))


def _settle(
    work: Callable[[], Any], args: Arguments, on_done: Callable[[Any], None], on_failed: OnFailed | None
) -> None:
    """Hand over what some work returns, or how it failed where somebody wants to know."""
    heed_stop()
    try:
        result = work()
    except Exception as error:
        if on_failed is None:
            raise
        on_failed(args, error)
    else:
        on_done(result)


def _result(future: Any) -> Any:
    try:
        return future.result()
    except distributed.KilledWorker as error:
        raise WorkFailedError(
            f"a task killed its worker several times ({error}); most often memory ran out. Use fewer --workers, "
            "or ingest with a smaller --partition-mb."
        ) from error
    except (distributed.CancelledError, distributed.comm.CommClosedError) as error:
        # Nobody else cancels a task that is waited for.
        raise WorkFailedError(
            f"the Dask scheduler at {future.client.scheduler.address} was lost. Partitions and folds that are finished "
            "are kept: start it and its workers again, then run the same command ('leap train' with --resume)."
        ) from error


@contextlib.contextmanager
def employ(workforce: Workforce, tasks: int, seconds: float) -> Iterator[Runner]:
    """Provide a runner fit for the work.

    Parameters
    ----------
    tasks : number of tasks.
    seconds : rough single-process estimate of all of them together.
    """
    if workforce.scheduler is not None and tasks:
        with _client(workforce.scheduler) as client:
            yield DaskRunner(client, len(client.scheduler_info(n_workers=-1)["workers"]))
        return
    is_tiny = tasks < 2 or seconds < TINY_SECONDS
    wanted = workforce.workers if workforce.workers is not None else 0 if is_tiny else (os.cpu_count() or 1)
    if wanted == 0 or tasks == 0:
        yield InlineRunner()
        return
    with _local(min(wanted, tasks)) as runner:
        yield runner


def require_one_thread_each(workforce: Workforce) -> None:
    """Raise if a scheduler's workers have several threads, which training refuses, before anything is begun.

    Raises
    ------
    InvalidInputError
        If a worker has several threads: seeds and thread counts belong to a process, so that only one stack at a time
        can be trained in it.
    """
    if workforce.scheduler is None:
        return
    with _client(workforce.scheduler) as client:
        for address, worker in client.scheduler_info(n_workers=-1)["workers"].items():
            _require_one_thread(address, worker["nthreads"], workforce.scheduler)


def refuse_threaded_worker() -> None:
    """Raise the same inside a task, for a worker that joined later."""
    if "distributed" not in sys.modules:
        return
    try:
        worker = distributed.get_worker()
    except ValueError:  # no task of Dask's
        return
    _require_one_thread(worker.address, worker.state.nthreads, worker.scheduler.address)


def worker_number() -> int:
    """Return the number of the local worker that runs this; 0 in this process, and on workers with other names."""
    if "distributed" not in sys.modules:
        return 0
    try:
        name = distributed.get_worker().name
    except ValueError:  # no task of Dask's
        return 0
    return name if isinstance(name, int) else 0


def _require_one_thread(worker: str, threads: int, scheduler: str) -> None:
    if threads > 1:
        raise InvalidInputError(
            f"the Dask worker {worker} has {threads} threads, and a process trains one stack of folds at a time. For "
            f"training start workers with 'dask worker {scheduler} {ONE_THREAD_EACH}'."
        )


@contextlib.contextmanager
def _client(address: str) -> Iterator[Any]:
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InvalidInputError(
            f"no Dask scheduler answers at {address!r} ({type(error).__name__}). Start one with 'dask scheduler' and "
            f"'dask worker ADDRESS {ONE_THREAD_EACH}', or leave --scheduler out."
        ) from error
    with distributed.utils.silence_logging_cmgr("CRITICAL"), client:  # what is wrong is raised, and said once
        try:
            client.wait_for_workers(1, timeout=WORKERS_SECONDS)
        except TimeoutError as error:
            raise InvalidInputError(
                f"the Dask scheduler at {address!r} has no workers. Start some with 'dask worker {address} "
                f"{ONE_THREAD_EACH}'."
            ) from error
        yield client


@contextlib.contextmanager
def _local(workers: int) -> Iterator[DaskRunner]:
    client_class = distributed.Client  # imported before its settings are changed, which it would not complete otherwise
    with (
        dask.config.set(KEEP_MEMORY | PATIENT),
        # Of workers that are killed, Dask tells in its log even when the cluster is closed: until the loop has ended.
        distributed.utils.silence_logging_cmgr("CRITICAL"),
        _quiet_tracker(),
        _event_loop() as loop,
        _local_cluster(loop, workers) as cluster,
        client_class(cluster, set_as_default=False) as client,
    ):
        try:
            yield DaskRunner(client, workers)
        finally:
            cluster.sync(_kill_workers, cluster)


def _local_cluster(loop: Any, workers: int) -> Any:
    """Start a scheduler in this process and workers in others."""
    try:
        # One thread a process, for kernels as for BLAS: processes are what shares the machine.
        return distributed.LocalCluster(
            loop=loop,
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            # None would still claim Dask's usual port, and complain where another cluster has it.
            dashboard_address="localhost:0",
            scheduler_kwargs={"dashboard": False},
            silence_logs=logging.CRITICAL,
            env={"NUMBA_NUM_THREADS": "1"},
        )
    except (RuntimeError, OSError, TimeoutError) as error:
        raise WorkFailedError(
            f"a local Dask cluster of {workers} processes did not start ({error.__cause__ or error}). Most often "
            "memory or processes are short: use fewer --workers, or none with --workers 0. A script of your own must "
            "call LEAP below 'if __name__ == \"__main__\":'."
        ) from error


@contextlib.contextmanager
def _event_loop() -> Iterator[Any]:
    """Provide a running event loop; the workers that it starts are out of reach of Ctrl-C."""
    runner = distributed.utils.LoopRunner()
    resource_tracker.ensure_running()  # now, because the thread that starts it is within reach of Ctrl-C afterwards
    with without_interrupts():
        runner.start()
    try:
        yield runner.loop
    finally:
        runner.stop()


@contextlib.contextmanager
def _quiet_tracker() -> Iterator[None]:
    """Keep Python's resource tracker, started in this block, from warning of what killed workers leave for it."""
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, (before, "ignore:resource_tracker:UserWarning")))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


async def _kill_workers(cluster: Any) -> None:
    """End the workers of a cluster at once.

    Asked to end, each would wait for its task, or, idle, for its threads, until Dask's patience of seconds is over.
    Nothing is lost: tasks that were finished have written what they made, and others leave what can be continued.
    """
    for nanny in cluster.workers.values():
        nanny.close_gracefully()  # else it would replace its worker
        if nanny.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(nanny.pid, signal.SIGKILL)
