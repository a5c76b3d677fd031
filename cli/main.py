"""Entry point of `leap`: runs a command and turns errors into one paragraph and an exit code."""

import os
import sys
import traceback
import warnings
from typing import NoReturn

from leap import cli
from leap.pipeline.failures import sentence
from leap.pipeline.interrupts import stoppable


def main() -> None:
    """Run the command line; exit codes are 0 done, 1 the work failed, 2 wrong usage or bad input, 130 stopped."""
    is_debugging, as_json = "--debug" in sys.argv, "--json" in sys.argv
    try:
        with stoppable() as stop:
            try:
                # A shell may have had Ctrl-C ignored, so nothing that takes time is imported before it is heeded.
                warnings.showwarning = lambda message, *_: cli.output.show_warning(str(message))
                # Alone, typer prints what is wrong with the usage itself; for JSON it must raise.
                code = cli.app.app(standalone_mode=not as_json)
                sys.exit(code if isinstance(code, int) else 0)
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
        code = getattr(error, "exit_code", 1)
        message = error.format_message() if hasattr(error, "format_message") else sentence(error)
        if as_json:
            cli.output.print_json({"error": {"type": type(error).__name__, "message": message, "exit_code": code}})
        else:
            cli.output.show_error(message)
        sys.exit(code)


def _leave(code: int) -> NoReturn:
    """End this process now; whoever has stopped a command does not want to wait for libraries to be taken down."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
