"""Ctrl-C and SIGTERM at any moment of a command, from its first imports on."""

import os
import signal
import subprocess
import sys

import pytest

from tests.processes import PATIENCE_SECONDS, wait_until

# Holds a command where it begins to import its commands, which takes the longer half of a short command's time.
HELD_IMPORT = """
import sys, time
from pathlib import Path

class Hold:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            Path({folder!r}, "reached").touch()
            while not Path({folder!r}, "go").exists():
                time.sleep(0.002)

if any("leap" in word for word in sys.orig_argv):
    sys.meta_path.insert(0, Hold())
"""


def ignore_interrupts():
    """What a shell without job control does to a command in the background."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize("before", [None, ignore_interrupts], ids=["foreground", "background"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"])
def test_a_command_that_is_stopped_within_its_imports_ends_quietly(tmp_path, before, number, code):
    (tmp_path / "sitecustomize.py").write_text(HELD_IMPORT.format(folder=str(tmp_path)))
    process = subprocess.Popen(
        [sys.executable, "-m", "leap.cli.main", "--store", str(tmp_path / "store"), "datasets"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
    )
    assert wait_until(process, (tmp_path / "reached").exists)
    process.send_signal(number)
    if before is not None:  # unheeded, it would wait for ever
        (tmp_path / "go").touch()
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, err) == (code, "", "")


LOST = """
import os, signal
from leap.pipeline.cluster import InlineRunner
from leap.pipeline.interrupts import stoppable

class Noisy:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)  # Python prints and forgets what is raised here

def work(number):
    noisy = Noisy() if number == 1 else None
    print(number, flush=True)

with stoppable():
    try:
        InlineRunner().run(work, [(number,) for number in range(4)], lambda result: None)
    except KeyboardInterrupt:
        print("stopped")
"""


def test_a_stop_that_got_lost_in_a_destructor_is_heeded_before_the_next_task():
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["0", "1", "stopped"], done.stderr
