"""Run a command and watch the resident memory of every process that it starts."""

import contextlib
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leap.store.errors import WorkFailedError

INTERVAL = 0.02
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True)
class Watched:
    """A finished command: its standard output, wall time, and peak resident bytes by process."""

    output: str
    seconds: float
    peaks: dict[str, int]


def run_watched(command: list[str]) -> Watched:
    """Run a command to its end and note the peak of each process of its tree.

    The command itself is "main", processes that Python's multiprocessing spawned (Dask's workers) are "worker 1",
    "worker 2", … in the order of their start, and anything else is "other", the largest of them.

    Raises
    ------
    WorkFailedError
        If the command fails; its standard error has said why.
    """
    import psutil

    start = time.perf_counter()
    peaks: dict[int, int] = {}
    labels: dict[int, str] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        root = psutil.Process(process.pid)
        try:
            while process.poll() is None:
                with contextlib.suppress(psutil.Error):
                    for member in [root, *root.children(recursive=True)]:
                        if member.pid not in labels:
                            labels[member.pid] = _label(member, root.pid, labels)
                        peaks[member.pid] = max(peaks.get(member.pid, 0), _peak(member))
                time.sleep(INTERVAL)
            seconds = time.perf_counter() - start
            output = process.stdout.read() if process.stdout is not None else ""
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise WorkFailedError(f"'{' '.join(command)}' failed with exit code {process.returncode}; its error is above.")
    by_label: dict[str, int] = {}
    for pid, label in labels.items():
        by_label[label] = max(by_label.get(label, 0), peaks.get(pid, 0))
    return Watched(output, seconds, by_label)


def _label(process: Any, root: int, labels: dict[int, str]) -> str:
    if process.pid == root:
        return "main"
    if "spawn_main" in " ".join(process.cmdline()):
        return f"worker {sum(label.startswith('worker') for label in labels.values()) + 1}"
    return "other"


def _peak(process: Any) -> int:
    """Return the peak that Linux itself keeps, so that nothing between two looks is missed; else what is in use now."""
    try:
        found = _PEAK.search(Path(f"/proc/{process.pid}/status").read_text())
    except OSError:
        found = None
    return int(found[1]) * 1024 if found else int(process.memory_info().rss)
