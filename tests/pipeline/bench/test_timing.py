import pytest

from leap.pipeline.bench import timing


def test_the_median_leaves_out_the_first_call_and_the_preparation(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock)
    durations = iter([100.0, 3.0, 1.0, 2.0])
    calls = []

    def work() -> None:
        nonlocal clock
        calls.append("work")
        clock += next(durations)

    def prepare() -> None:
        nonlocal clock
        calls.append("prepare")
        clock += 50.0

    assert timing.median_seconds(work, 3, prepare) == 2.0
    assert calls == ["prepare", "work"] * 4
