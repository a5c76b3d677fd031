import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from leap.pipeline.bench import process_memory
from leap.pipeline.bench.process_memory import run_watched
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


def test_peaks_are_those_of_each_process_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    looks = tmp_path / "looks"
    looks.touch()

    def count_look(seconds: float) -> None:
        with looks.open("a") as log:
            log.write(".")

    monkeypatch.setattr(
        process_memory, "time", SimpleNamespace(perf_counter=process_memory.time.perf_counter, sleep=count_look)
    )
    watched = run_watched([sys.executable, str(tmp_path / "program.py"), str(looks)])
    assert watched.output == "fine\n"
    assert watched.seconds > 0
    assert 100 * MIB < watched.peaks["main"] < 180 * MIB
    assert 200 * MIB < watched.peaks["worker 1"] < 280 * MIB
    assert "worker 2" not in watched.peaks


def test_a_command_that_fails_is_an_error() -> None:
    with pytest.raises(WorkFailedError, match="exit code 3"):
        run_watched([sys.executable, "-c", "raise SystemExit(3)"])
