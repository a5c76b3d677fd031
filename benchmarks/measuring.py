"""Times of rivals for the same work, peak memory of processes, and what is reported of both."""

import contextlib
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import torch

from leap.store.errors import WorkFailedError

TURN_SECONDS = 0.02
HOPELESS = 1.5
"""A number of threads that made the first turn this many times longer than another is not tried again."""
WATCH_INTERVAL = 0.02
PACKAGES = ("leap-graph", "numpy", "scipy", "numba", "zarr", "pyarrow", "dask", "torch", "torch-geometric")
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True)
class Measurement:
    """Our time for some work and a peer's, or the peak memory of one of our processes and a limit.

    Attributes
    ----------
    part : part of the benchmark that measured it.
    what : the work, in words.
    ours, peer : seconds, or bytes.
    target : the ratio peer / ours that is asked for; below 1 it says how much slower, or larger, ours may be.
    is_lower_bound : the peer was stopped before it had finished.
    unit : "seconds" or "bytes".
    """

    part: str
    what: str
    ours: float
    peer: float
    target: float
    is_lower_bound: bool = False
    unit: str = "seconds"

    @property
    def ratio(self) -> float:
        """How many times better we are."""
        return self.peer / self.ours

    @property
    def ok(self) -> bool:
        """Whether the ratio reaches the target."""
        return self.ratio >= self.target

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {**asdict(self), "ratio": self.ratio, "ok": self.ok}


@dataclass
class Session:
    """One run of the benchmark.

    Attributes
    ----------
    folder : for stores and files of this run; who made it removes it.
    out : for figures, which stay; None: none are drawn.
    tables : what parts found beside their measurements, rows by title.
    repeats : turns that medians are taken of; rivals that take many seconds run once.
    nodes, edges, workers : size of the graph of the part "large", and processes that extract it.
    """

    folder: Path
    repeats: int = 7
    nodes: int = 2_000_000
    edges: int = 10_000_000
    workers: int = 2
    seconds_of_loops: dict[int, float] = field(default_factory=dict)
    out: Path | None = None
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def note(self, text: str) -> None:
        """Tell people what takes long."""
        print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Rival:
    """Something to be timed, called again and again with the number of torch's threads that serves it best."""

    work: Callable[[], object]
    threads: tuple[int, ...] = (1,)


def thread_choices() -> tuple[int, ...]:
    """Return one thread and torch's own choice; while a machine is busy, the latter may be many times slower."""
    return tuple(sorted({1, torch.get_num_threads()}))


def contest(rivals: Mapping[str, Rival], repeats: int) -> dict[str, float]:
    """Return the median wall time of one call of each rival.

    They take `repeats` turns one after the other, so that a busy moment of the machine meets all of them. A turn of
    something short is as many calls as fit into TURN_SECONDS. There is a turn before them that does not count:
    imports and compilation happen then.
    """
    choices = {name: list(rival.threads) for name, rival in rivals.items()}
    times: dict[tuple[str, int], list[float]] = {}
    with _threads_put_back():
        for turn in range(repeats + 1):
            for name, rival in rivals.items():
                for threads in choices[name]:
                    torch.set_num_threads(threads)
                    times.setdefault((name, threads), []).extend(_turn(rival.work))
                if turn == 1:
                    medians = {threads: statistics.median(times[name, threads]) for threads in choices[name]}
                    bound = HOPELESS * min(medians.values())
                    choices[name] = [threads for threads, median in medians.items() if median <= bound]
            if turn == 0:
                times.clear()
    return {name: min(statistics.median(times[name, threads]) for threads in left) for name, left in choices.items()}


def _turn(work: Callable[[], object]) -> list[float]:
    times: list[float] = []
    while not times or sum(times) < TURN_SECONDS:
        times.append(seconds_of(work))
    return times


def contest_of_reports(rivals: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """Return the median of the seconds that each rival reports itself, in turns and on one thread, as in `contest`."""
    reports: dict[str, list[float]] = {name: [] for name in rivals}
    with _threads_put_back():
        for _ in range(repeats + 1):
            for name, rival in rivals.items():
                torch.set_num_threads(1)
                reports[name].append(rival())
    return {name: statistics.median(found[1:]) for name, found in reports.items()}


def seconds_of(work: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cpu_seconds_of(work: Callable[[], object]) -> float:
    """Return the time that this process computed in one call, whatever else the machine did meanwhile."""
    start = time.process_time()
    work()
    return time.process_time() - start


def median_seconds(work: Callable[[], object], repeats: int, prepare: Callable[[], object] = lambda: None) -> float:
    """Return the median wall time of `repeats` calls after one that does not count; `prepare` is called before each."""
    times = []
    for _ in range(repeats + 1):
        prepare()
        times.append(seconds_of(work))
    return statistics.median(times[1:])


@contextlib.contextmanager
def _threads_put_back() -> Any:
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class Watched:
    """A finished command: its standard output, wall time, and peak resident bytes by process."""

    output: str
    seconds: float
    peaks: dict[str, int]


def run_watched(command: list[str]) -> Watched:
    """Run a command to its end and note the peak memory of each process of its tree.

    The command itself is "main", processes that Python's multiprocessing spawned (Dask's workers) are "worker 1",
    "worker 2", … in the order of their start, and anything else is "other", the largest of them.

    Raises
    ------
    WorkFailedError
        If the command fails; its standard error has said why.
    """
    start = time.perf_counter()
    peaks: dict[int, int] = {}
    labels: dict[int, str] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        root = psutil.Process(process.pid)
        try:
            while process.poll() is None:
                with contextlib.suppress(psutil.Error):
                    for member in [root, *root.children(recursive=True)]:
                        if labels.get(member.pid, "other") == "other":
                            before = labels.get(member.pid)
                            labels[member.pid] = _label(member, root.pid, labels)
                            # A worker looks like its parent, memory included, until it has loaded its own program.
                            if labels[member.pid] != before:
                                peaks.pop(member.pid, None)
                        peaks[member.pid] = max(peaks.get(member.pid, 0), _peak(member))
                time.sleep(WATCH_INTERVAL)
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


def machine_facts() -> dict[str, Any]:
    """Return what a measurement is worthless without: cores, processor, memory, load and versions."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cores": os.cpu_count(),
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "memory_bytes": int(psutil.virtual_memory().total),
        "load": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
    }
