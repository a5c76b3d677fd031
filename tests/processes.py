"""Watching commands that run as processes of their own, and stopping them where a test wants them.

No result depends on how fast a machine is: tests wait for something to happen, and a limit only ends what hangs.
"""

import os
import time
from pathlib import Path

PATIENCE_SECONDS = 1800

_GATE = """
import os, time
from leap.store import PartitionWriter

folder, write = {folder!r}, PartitionWriter.write

def gated(*args, **options):
    while os.path.exists(folder + "/closed") and os.path.getsize(folder + "/written") >= {limit}:
        time.sleep(0.002)
    result = write(*args, **options)
    with open(folder + "/written", "ab") as log:
        log.write(b".")
    return result

PartitionWriter.write = gated
"""


class Gate:
    """Lets a command write a number of partitions and then holds it, with all its workers, until it is opened."""

    def __init__(self, folder, limit):
        self.folder, self.limit = Path(folder), limit
        self.folder.mkdir(parents=True)
        (self.folder / "written").touch()
        (self.folder / "closed").touch()
        (self.folder / "sitecustomize.py").write_text(_GATE.format(folder=str(self.folder), limit=limit))

    @property
    def environment(self):
        """What a command must be started with."""
        return {"PYTHONPATH": os.pathsep.join(filter(None, (str(self.folder), os.environ.get("PYTHONPATH"))))}

    def is_reached(self):
        """Whether the partitions that may be written are."""
        return (self.folder / "written").stat().st_size >= self.limit

    def open(self):
        """Let everybody go on."""
        (self.folder / "closed").unlink()


def wait_for(reached):
    """Look again and again until something is the case; false if it never is."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not reached():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def wait_until(process, reached):
    """Look again and again until something is the case; false if the process has ended before."""
    return wait_for(lambda: reached() or process.poll() is not None) and process.poll() is None
