import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks import measuring
from benchmarks.measuring import Rival, contest, contest_of_reports, median_seconds, run_watched, thread_choices
from leap.store.errors import WorkFailedError

MIB = 2**20
# The main process holds 100 MiB and lets them go; the process that it spawns holds 200 MiB. Neither goes on before it
# was looked at twice, of which the second look at least began after the memory was taken.
PROGRAM = """
import multiprocessing, os, sys, time

def hold(mebibytes):
    block = bytearray(mebibytes * 2**20)
    for at in range(0, len(block), 4096):
        block[at] = 1
    looks = os.path.getsize(sys.argv[1])
    while os.path.getsize(sys.argv[1]) < looks + 2:
        time.sleep(0.001)

if __name__ == "__main__":
    hold(100)
    child = multiprocessing.get_context("spawn").Process(target=hold, args=(200,))
    child.start()
    child.join()
    print("fine")
"""

# A process with 100 MiB starts another the slow way: it is looked at before it loads its own program.
SLOW_START = """
import os, sys, time

def be_looked_at():
    looks = os.path.getsize(sys.argv[1])
    while os.path.getsize(sys.argv[1]) < looks + 2:
        time.sleep(0.001)

block = bytearray(b"x" * 100 * 2**20)
if child := os.fork():
    os.waitpid(child, 0)
else:
    be_looked_at()
    wait = "import os, sys, time\\nwhile os.path.getsize(sys.argv[1]) < int(sys.argv[2]): time.sleep(0.001)"
    looks = str(os.path.getsize(sys.argv[1]) + 2)
    os.execv(sys.executable, [sys.executable, "-c", wait, sys.argv[1], looks, "spawn_main"])
"""


class Clock:
    """A clock that only work moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def working(self, name: str, durations: Callable[[], float]) -> Callable[[], None]:
        def work() -> None:
            self.log.append(name)
            self.now += durations()

        return work


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: clock.now)
    return clock


def test_rivals_take_turns_and_the_first_turn_does_not_count(clock: Clock) -> None:
    slow, quick = iter([100.0, 3.0, 1.0, 2.0]), iter([70.0, 0.5, 0.25, 4.0])
    found = contest(
        {
            "slow": Rival(clock.working("slow", lambda: next(slow))),
            "quick": Rival(clock.working("quick", lambda: next(quick))),
        },
        3,
    )
    assert found == {"slow": 2.0, "quick": 0.5}
    assert clock.log == ["slow", "quick"] * 4


def test_something_short_is_called_until_its_turn_is_over(clock: Clock) -> None:
    assert contest({"short": Rival(clock.working("short", lambda: 0.008))}, 1) == {"short": pytest.approx(0.008)}
    assert len(clock.log) == 2 * 3


def test_a_rival_gets_the_threads_that_serve_it_best_and_a_hopeless_choice_is_dropped(clock: Clock) -> None:
    before = torch.get_num_threads()
    seconds, met = {1: 1.0, 2: 9.0}, []

    def work() -> None:
        met.append(torch.get_num_threads())
        clock.now += seconds[torch.get_num_threads()]

    assert contest({"any": Rival(work, (1, 2))}, 3) == {"any": 1.0}
    assert met == [1, 2, 1, 2, 1, 1]
    assert torch.get_num_threads() == before


def test_close_choices_of_threads_are_all_tried_to_the_end(clock: Clock) -> None:
    times = {1: iter([1.0, 1.0, 5.0, 5.0]), 2: iter([1.0, 1.4, 1.4, 1.4])}

    def work() -> None:
        clock.now += next(times[torch.get_num_threads()])

    assert contest({"any": Rival(work, (1, 2))}, 3) == {"any": pytest.approx(1.4)}


def test_reports_are_taken_in_turns_on_one_thread() -> None:
    before = torch.get_num_threads()
    reports, log = {"slow": iter([50.0, 1.0, 9.0, 3.0]), "quick": iter([50.0, 0.5, 0.5, 0.25])}, []

    def report(name: str) -> float:
        log.append((name, torch.get_num_threads()))
        torch.set_num_threads(2)
        return next(reports[name])

    found = contest_of_reports({name: partial(report, name) for name in reports}, 3)
    assert found == {"slow": 3.0, "quick": 0.5}
    assert log == [("slow", 1), ("quick", 1)] * 4
    assert torch.get_num_threads() == before


def test_one_thread_is_always_a_choice() -> None:
    assert thread_choices()[0] == 1
    assert torch.get_num_threads() in thread_choices()


def test_the_median_leaves_out_the_first_call_and_the_preparation(clock: Clock) -> None:
    durations = iter([100.0, 3.0, 1.0, 2.0])
    work, prepare = clock.working("work", lambda: next(durations)), clock.working("prepare", lambda: 50.0)
    assert median_seconds(work, 3, prepare) == 2.0
    assert clock.log == ["prepare", "work"] * 4


@pytest.fixture
def looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that grows by a byte with every look of `run_watched`."""
    path = tmp_path / "looks"
    path.touch()

    def count_look(seconds: float) -> None:
        with path.open("a") as log:
            log.write(".")

    monkeypatch.setattr(measuring, "time", SimpleNamespace(perf_counter=measuring.time.perf_counter, sleep=count_look))
    return path


def test_a_worker_that_has_not_loaded_its_program_yet_is_no_other_process(tmp_path: Path, looks: Path) -> None:
    (tmp_path / "program.py").write_text(SLOW_START)
    watched = run_watched([sys.executable, str(tmp_path / "program.py"), str(looks)])
    assert watched.peaks.keys() == {"main", "worker 1"}
    assert watched.peaks["worker 1"] < 60 * MIB < 100 * MIB < watched.peaks["main"]


def test_peaks_are_those_of_each_process_alone(tmp_path: Path, looks: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    watched = run_watched([sys.executable, str(tmp_path / "program.py"), str(looks)])
    assert watched.output == "fine\n"
    assert watched.seconds > 0
    assert 100 * MIB < watched.peaks["main"] < 180 * MIB
    assert 200 * MIB < watched.peaks["worker 1"] < 280 * MIB
    assert "worker 2" not in watched.peaks


def test_a_command_that_fails_is_an_error() -> None:
    with pytest.raises(WorkFailedError, match="exit code 3"):
        run_watched([sys.executable, "-c", "raise SystemExit(3)"])
