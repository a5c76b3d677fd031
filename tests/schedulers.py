"""Dask schedulers and workers as users start them: processes of their own."""

import contextlib
import json
import os
import signal
import subprocess
import sys

from distributed import Client

from tests.processes import PATIENCE_SECONDS, wait_until

KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "268435456", "MALLOC_MMAP_THRESHOLD_": "33554432"}  # as docs/faq.md advises


@contextlib.contextmanager
def dask_processes(folder, workers, *options):
    """Give the address of a `dask scheduler` with so many workers, started by one `dask worker` with these options."""
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / "scheduler.json"
    with contextlib.ExitStack() as ending:
        where = ("--host", "127.0.0.1", "--port", "0", "--scheduler-file", note)
        scheduler = _start(ending, folder, "scheduler", *where)
        assert wait_until(scheduler, lambda: _address(note) is not None), (folder / "scheduler.log").read_text()
        address = _address(note)
        _start(ending, folder, "worker", address, "--nworkers", workers, "--local-directory", folder, *options)
        with Client(address, set_as_default=False, timeout=PATIENCE_SECONDS) as client:
            client.wait_for_workers(workers, timeout=PATIENCE_SECONDS)
        yield address


def _address(note):
    try:
        return json.loads(note.read_text())["address"]
    except (OSError, ValueError):  # not yet, or under way
        return None


def _start(ending, folder, kind, *options):
    log = ending.enter_context((folder / f"{kind}.log").open("a"))
    command = [sys.executable, "-m", "dask", kind, "--no-dashboard", *map(str, options)]
    process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | KEEP_MEMORY, start_new_session=True)
    ending.callback(_end, process)
    return process


def _end(process):
    os.killpg(process.pid, signal.SIGKILL)  # and the processes of the workers; asked politely they take seconds
    process.wait()
