"""Entry point of `leap`: runs a command and turns errors into one paragraph and an exit code."""

import os
import sys
import traceback
import warnings
from typing import NoReturn

from leap.cli.app import app
from leap.cli.output import show_error, show_warning
from leap.pipeline.failures import sentence
from leap.pipeline.interrupts import stoppable
from leap.store.errors import LeapError


def main() -> None:
    """Run the command line; exit codes are 0 done, 1 the work failed, 2 wrong usage or bad input, 130 stopped."""
    warnings.showwarning = lambda message, *_: show_warning(str(message))
    is_debugging = "--debug" in sys.argv
    try:
        with stoppable() as stop:
            try:
                app()
            except SystemExit:
                if stop.exit_code is None:
                    raise
                _leave(stop.exit_code)
            except KeyboardInterrupt:  # before there was a command, which would have said how to go on
                _leave(stop.exit_code or 130)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        if is_debugging:
            traceback.print_exception(error)
        show_error(sentence(error))
        sys.exit(error.exit_code if isinstance(error, LeapError) else 1)


def _leave(code: int) -> NoReturn:
    """End this process now; whoever has stopped a command does not want to wait for libraries to be taken down."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
