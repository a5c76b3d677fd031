"""Watching commands that run as processes of their own."""

import time

PATIENCE_SECONDS = 400


def wait_until(process, reached):
    """Look again and again until something is the case; false if the process has ended before."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if reached():
            return True
        time.sleep(0.002)
    return False
