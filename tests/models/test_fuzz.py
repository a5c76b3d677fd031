"""No kernel ends Python, whatever numbers and indices it is given. `tests.models.fuzz` makes the calls."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def survive(calls: int, malformed: int, seed: int, **environment: str) -> None:
    options = ["--calls", str(calls), "--malformed", str(malformed), "--seed", str(seed)]
    command = [sys.executable, "-W", "ignore", "-m", "tests.models.fuzz", *options]
    child = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True)
    assert child.returncode == 0, f"exit code {child.returncode}, seed {seed}\n{child.stderr[-5000:]}"
    assert f"{calls + malformed:,} calls" in child.stdout
    print(child.stdout)


def test_random_calls_return_or_are_refused():
    survive(1_500, 500, seed=0)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_random_call_reads_outside_an_array(tmp_path):
    # Compiled anew with checks of every index, which finds what happens not to crash.
    survive(50_000, 10_000, seed=1, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_million_random_calls_return_or_are_refused():
    survive(1_000_000, 10_000, seed=2)
