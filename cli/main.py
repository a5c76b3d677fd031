"""Entry point of `leap`: runs a command and turns errors into one paragraph and an exit code."""

import sys
import warnings

from leap.cli.app import app
from leap.cli.output import show_error, show_warning
from leap.store.errors import LeapError


def main() -> None:
    """Run the command line; exit codes are 0 done, 1 the work failed, 2 wrong usage or bad input."""
    warnings.showwarning = lambda message, *_: show_warning(str(message))
    is_debugging = "--debug" in sys.argv
    try:
        app()
    except LeapError as error:
        if is_debugging:
            raise
        show_error(str(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        if is_debugging:
            raise
        show_error(f"unexpected {type(error).__name__}: {error}. Run again with --debug for the traceback.")
        sys.exit(1)


if __name__ == "__main__":
    main()
