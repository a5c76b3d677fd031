"""A clock that stands still until a test moves it, so that terms, renewals and deaths happen when the test says so."""

import threading

PATIENCE_SECONDS = 400
_LOOK_SECONDS = 0.005  # how often a waiting thread looks whether its event is set; nothing depends on it


class SteppedClock:
    """Time for locks. Threads that wait on it go on when `advance` has reached their moment, or their event is set."""

    def __init__(self):
        self._time = 0.0
        self._changed = threading.Condition()
        self._waiting = {}
        self._rushing = False

    def now(self):
        with self._changed:
            return self._time

    def wait(self, event, seconds):
        me = object()
        with self._changed:
            self._waiting[me] = moment = self._time + seconds
            self._changed.notify_all()
            while not event.is_set() and self._time < moment:
                self._changed.wait(_LOOK_SECONDS)
                if self._rushing:
                    break
            self._waiting.pop(me, None)
            self._changed.notify_all()
        return event.is_set()

    def advance(self, seconds):
        with self._changed:
            self._time += seconds
            self._waiting = {who: moment for who, moment in self._waiting.items() if moment > self._time}
            self._changed.notify_all()

    def rush(self):
        """End all waiting, from now on, at once, without any time going by: nothing runs out, and nobody idles."""
        with self._changed:
            self._rushing = True

    def until_waiting(self, threads):
        """Return when so many threads wait: each has done all it does at this time."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._waiting) == threads, PATIENCE_SECONDS)

    def step(self, seconds, threads):
        """Move on by some seconds once so many threads wait, and return when they wait again."""
        self.until_waiting(threads)
        self.advance(seconds)
        self.until_waiting(threads)
