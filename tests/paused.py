"""Training that stops at the end of the second epoch of fold 0 until the test lets it go on.

Run as a module it is `leap`; given to `dask worker --preload` it changes what its workers do. The environment names a
folder: the file `reached` appears there, and training goes on once there is a file `go`.
"""

import os
import sys
from pathlib import Path

from tests.processes import wait_for

FOLDER = "LEAP_TEST_PAUSE"


def pause():
    from leap.pipeline.training.trainee import Trainee

    folder, finish_epoch = Path(os.environ[FOLDER]), Trainee.finish_epoch

    def wait_and_finish(self, *arguments):
        if self.progress.epoch == 1 and self.folder.name == "fold-0":
            (folder / "reached").touch()
            wait_for((folder / "go").exists)
        finish_epoch(self, *arguments)

    Trainee.finish_epoch = wait_and_finish


def dask_setup(worker):
    pause()


if __name__ == "__main__":
    from leap.cli.main import main

    pause()
    sys.exit(main())
