"""The cache that threads share: its budget, what it forgets, and that a value is made once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.pipeline.recent import RecentValues


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(0, 30))
def test_it_keeps_the_latest_values_that_fit_and_no_others(asked, budget):
    values, made = RecentValues(budget, lambda value: value), []

    def make(key):
        made.append(key)
        return key

    kept = []  # an independent account, the latest last
    for key in asked:
        before = len(made)
        assert values.get(key, lambda key=key: make(key)) == key
        assert (len(made) == before) == (key in kept)
        kept = [other for other in kept if other != key] + [key]
        while sum(kept) > budget and len(kept) > 1:
            kept.pop(0)


def test_a_value_is_made_once_however_many_threads_ask():
    values, made, started = RecentValues(100, lambda value: 1), [], threading.Barrier(8)

    def ask():
        started.wait()
        return values.get("key", lambda: made.append(None) or "value")

    with ThreadPoolExecutor(8) as pool:
        found = [future.result() for future in [pool.submit(ask) for _ in range(8)]]
    assert found == ["value"] * 8
    assert len(made) == 1


def test_making_one_value_holds_up_nobody_who_asks_for_another():
    values = RecentValues(100, lambda value: 1)
    assert values.get("slow", lambda: values.get("other", lambda: "quick")) == "quick"


def test_an_error_is_the_callers_and_leaves_nothing_behind():
    values = RecentValues(100, lambda value: 1)
    with pytest.raises(ZeroDivisionError):
        values.get("key", lambda: 1 // 0)
    assert values.get("key", lambda: "value") == "value"
