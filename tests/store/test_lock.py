"""Locks: one holder at a time, given up by the dead, and known to be lost by those who were given up for dead."""

import json
import multiprocessing
import os
import signal
import threading

import pytest

from leap.store import Store
from leap.store import lock as lock_module
from leap.store.conditional import create_file, current, put
from leap.store.errors import InvalidInputError, LeaseLostError
from leap.store.location import locate
from leap.store.lock import LEASE_SECONDS, RENEWAL_SECONDS, exclusive, lock_path, may_be_held
from tests.clocks import PATIENCE_SECONDS, SteppedClock


@pytest.fixture(params=["s3", "memory"])
def location(request):
    """A place with leases: behind an S3 API, and in the memory of this process."""
    if request.param == "s3":
        return locate(request.getfixturevalue("url"))
    return locate(f"memory://{request.node.name}")


def in_a_thread(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def let_finish(thread, clock):
    """Let a thread look for what it waits for until it has ended."""
    clock.rush()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def version(location, name="key"):
    return current(location, lock_path(location, name))


def die_holding(location, name="key"):
    """Leave a lease as a dead holder does."""
    location.write_bytes(lock_path(location, name), json.dumps({"holder": "a dead process"}).encode())


def test_conditions_are_evaluated(location):
    first = put(location, "object", b"first", None)
    assert put(location, "object", b"again", None) is None
    second = put(location, "object", b"second", first)
    assert put(location, "object", b"third", first) is None
    assert put(location, "absent", b"data", first) is None
    assert (current(location, "object"), current(location, "absent")) == (second, None)
    assert location.read_bytes("object") == b"second"
    assert not create_file(location, "object", b"other")


def test_a_lease_lasts_as_long_as_the_work(location):
    assert not may_be_held(location, "key")
    with exclusive(location, "key"):
        assert may_be_held(location, "key")
    assert not may_be_held(location, "key")


def test_a_lease_is_renewed_and_the_next_waits_for_its_end(location):
    clock = SteppedClock()
    order, waiting = [], threading.Event()

    def second():
        with exclusive(location, "key", waiting.set, clock):
            order.append("second")

    with exclusive(location, "key", clock=clock) as held:
        other = in_a_thread(second)
        assert waiting.wait(PATIENCE_SECONDS)
        versions = [version(location)]
        for _ in range(int(3 * LEASE_SECONDS / RENEWAL_SECONDS)):
            clock.step(RENEWAL_SECONDS, threads=2)
            versions.append(version(location))
            held.check()
        assert len(set(versions)) == len(versions), "each renewal changes the lease"
        order.append("first")
    let_finish(other, clock)
    assert order == ["first", "second"]


def _hold_and_die(url):
    with Store.open(url).building("0" * 40):
        os.kill(os.getpid(), signal.SIGKILL)


def test_the_lease_of_a_dead_process_is_taken_over_after_a_term_and_not_before(url):
    holder = multiprocessing.get_context("spawn").Process(target=_hold_and_die, args=(url,))
    holder.start()
    holder.join()
    clock = SteppedClock()
    store = Store(locate(url), clock)
    dead, waited, entered = version(store.location, "0" * 40), threading.Event(), threading.Event()

    def take_over():
        with store.building("0" * 40, waited.set) as build:
            assert build.published is None
            entered.set()

    taker = in_a_thread(take_over)
    clock.step(LEASE_SECONDS, threads=1)
    assert waited.is_set()
    assert not entered.is_set()
    assert version(store.location, "0" * 40) == dead
    clock.advance(1.0)
    let_finish(taker, clock)
    assert entered.is_set()


def test_of_many_that_take_over_a_dead_lease_at_once_exactly_one_holds_it(location, monkeypatch):
    """All have found the lease dead before any of them writes: the moment in which two used to believe they held it."""
    clock, takers = SteppedClock(), 4
    die_holding(location)
    together = threading.Barrier(takers)
    first_try = threading.local()

    def put_together(*args):
        if getattr(first_try, "is_ahead", False):
            first_try.is_ahead = False
            together.wait(PATIENCE_SECONDS)
        return put(*args)

    monkeypatch.setattr(lock_module, "put", put_together)
    inside, most, entered, leave = [], [], threading.Event(), threading.Event()

    def take():
        first_try.is_ahead = True
        with exclusive(location, "key", clock=clock) as held:
            inside.append(1)
            most.append(len(inside))
            entered.set()
            assert leave.wait(PATIENCE_SECONDS)
            held.confirm()
            inside.pop()

    threads = [in_a_thread(take) for _ in range(takers)]
    clock.until_waiting(takers)
    clock.advance(LEASE_SECONDS + 1)
    clock.until_waiting(takers)  # the others, and the thread that renews
    assert entered.wait(PATIENCE_SECONDS)
    assert most == [1]
    leave.set()
    for thread in threads:
        let_finish(thread, clock)
    assert most == [1] * takers


def test_a_holder_that_lost_its_lease_notices_and_leaves_the_new_one_alone(location):
    clock = SteppedClock()
    with exclusive(location, "key", clock=clock) as held:
        die_holding(location)
        theirs = version(location)
        [renewal] = [thread for thread in threading.enumerate() if thread.name == "lease key"]
        clock.until_waiting(1)
        clock.advance(RENEWAL_SECONDS)
        renewal.join(PATIENCE_SECONDS)
        with pytest.raises(LeaseLostError, match="went to another process"):
            held.check()
    assert version(location) == theirs


def test_a_holder_that_slept_through_its_term_asks_before_it_goes_on(location):
    asleep = SteppedClock()
    with exclusive(location, "key", clock=asleep) as held:
        held.check()
        die_holding(location)
        held.check()  # within the term nobody is asked
        with asleep._changed:
            asleep._time += LEASE_SECONDS + 1  # the thread that renews is not awake yet
        with pytest.raises(LeaseLostError):
            held.check()


def test_a_renewal_whose_answer_was_lost_is_no_lost_lease(location, monkeypatch):
    with exclusive(location, "key", clock=SteppedClock()) as held:

        def put_without_answer(*args):
            put(*args)

        monkeypatch.setattr(lock_module, "put", put_without_answer)
        held.confirm()
        monkeypatch.undo()
        held.confirm()
    assert not may_be_held(location, "key")


def test_a_service_that_ignores_conditions_is_refused(url, s3, monkeypatch):
    """As an old client does, which leaves conditions out without a word."""
    whole = type(s3)._filter_kwargs

    def without_conditions(self, method, kwargs):
        return whole(self, method, {name: value for name, value in kwargs.items() if name not in ("IfMatch",)})

    monkeypatch.setattr(type(s3), "_filter_kwargs", without_conditions)
    with pytest.raises(InvalidInputError, match="does not evaluate conditional writes"), exclusive(locate(url), "key"):
        raise AssertionError("entered")


def test_waiting_for_a_file_lock_uses_the_clock(tmp_path):
    clock, location = SteppedClock(), locate(tmp_path)
    entered = threading.Event()

    def second():
        with exclusive(location, "key", clock=clock):
            entered.set()

    with exclusive(location, "key", clock=clock):
        other = in_a_thread(second)
        clock.step(3600.0, threads=1)
        assert not entered.is_set()
    let_finish(other, clock)
    assert entered.is_set()
