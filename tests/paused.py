"""Training that stops in the second epoch of fold 0 until the test lets it go on.

Run as a module it is `leap`; given to `dask worker --preload` it changes what its workers do. The environment names a
folder: the file `reached` appears there, and training goes on once there is a file `go`.
"""

import os
import sys
from pathlib import Path

from tests.processes import wait_for

FOLDER = "LEAP_TEST_PAUSE"


def pause():
    from leap.pipeline.training.loop import Training

    folder, train_epoch = Path(os.environ[FOLDER]), Training._train_epoch

    def train_and_wait(self, part):
        train_epoch(self, part)
        if self.progress.epoch == 1 and self.folder.name == "fold-0":
            (folder / "reached").touch()
            wait_for((folder / "go").exists)

    Training._train_epoch = train_and_wait


def dask_setup(worker):
    pause()


if __name__ == "__main__":
    from leap.cli.main import main

    pause()
    sys.exit(main())
