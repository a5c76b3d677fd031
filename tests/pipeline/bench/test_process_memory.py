import sys
from pathlib import Path

import pytest

from leap.pipeline.bench.process_memory import run_watched
from leap.store.errors import WorkFailedError

MIB = 2**20
# The main process holds 100 MiB for a moment and lets them go; the process that it spawns holds 200 MiB.
PROGRAM = """
import multiprocessing

def hold(mebibytes):
    block = bytearray(mebibytes * 2**20)
    for at in range(0, len(block), 4096):
        block[at] = 1

if __name__ == "__main__":
    hold(100)
    child = multiprocessing.get_context("spawn").Process(target=hold, args=(200,))
    child.start()
    child.join()
    print("fine")
"""


def test_peaks_are_those_of_each_process_alone(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    watched = run_watched([sys.executable, str(tmp_path / "program.py")])
    assert watched.output == "fine\n"
    assert watched.seconds > 0
    assert 100 * MIB < watched.peaks["main"] < 180 * MIB
    assert 200 * MIB < watched.peaks["worker 1"] < 280 * MIB
    assert "worker 2" not in watched.peaks


def test_a_command_that_fails_is_an_error() -> None:
    with pytest.raises(WorkFailedError, match="exit code 3"):
        run_watched([sys.executable, "-c", "raise SystemExit(3)"])
