"""Ctrl-C reaches every process of a terminal; workers leave it to their main process, which ends them in order."""

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Ignore interrupts; Dask calls this in each worker process when it starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
