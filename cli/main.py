"""Entry point of `leap`: runs a command and turns errors into one paragraph and an exit code."""

import os
import sys
import traceback
import warnings
from typing import NoReturn

from leap import cli
from leap.pipeline.failures import sentence
from leap.pipeline.interrupts import stoppable
from leap.store.errors import LeapError


def main() -> None:
    """Run the command line; exit codes are 0 done, 1 the work failed, 2 wrong usage or bad input, 130 stopped."""
    is_debugging = "--debug" in sys.argv
    try:
        with stoppable() as stop:
            try:
                # A shell may have had Ctrl-C ignored, so nothing that takes time is imported before it is heeded.
                warnings.showwarning = lambda message, *_: cli.output.show_warning(str(message))
                cli.app.app()
            except KeyboardInterrupt:  # before there was a command, which would have said how to go on
                _leave(stop.exit_code or 130)
            except BaseException:  # how a command ends, or what an import makes of an interrupt
                if stop.exit_code is None:
                    raise
                _leave(stop.exit_code)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        if is_debugging:
            traceback.print_exception(error)
        cli.output.show_error(sentence(error))
        sys.exit(error.exit_code if isinstance(error, LeapError) else 1)


def _leave(code: int) -> NoReturn:
    """End this process now; whoever has stopped a command does not want to wait for libraries to be taken down."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
