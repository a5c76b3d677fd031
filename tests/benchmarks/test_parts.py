"""Each part measures real work, and refuses to compare what is not equal; peers that take long have a known time."""

from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import kernels, training
from benchmarks.kernels import loop_seconds, measure_dect, measure_khop, measure_leap
from benchmarks.measuring import Session
from benchmarks.rivals import PygTransform
from benchmarks.stages import measure_extract, measure_large
from benchmarks.streaming import measure_stream
from benchmarks.training import measure_epoch
from leap.store.errors import WorkFailedError


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path, repeats=1, seconds_of_loops={1: 100.0, 2: 200.0})


def test_khop_compares_one_and_two_hops_with_the_loop(session: Session) -> None:
    one, two = measure_khop(session)
    assert (one.peer, two.peer) == (100.0, 200.0)
    assert 0 < one.ours < 100


def test_extract_does_the_work_in_every_repeat(session: Session) -> None:
    (found,) = measure_extract(session)
    assert "300 features" in found.what
    assert 0 < found.ours < 100
    stores = [path for path in session.folder.iterdir() if path.name.startswith("extract-")]
    assert len(stores) == 2  # one for the call that does not count


@pytest.mark.slow
def test_large_reports_every_stage_and_process(tmp_path: Path) -> None:
    found = list(measure_large(Session(tmp_path, nodes=2000, edges=8000, workers=0)))
    mains = [entry for entry in found if "process main" in entry.what]
    assert [entry.what.split(",")[0] for entry in mains] == ["ingest", "extract"]
    assert all(30 * 2**20 < entry.ours < entry.peer == 4 * 2**30 and entry.unit == "bytes" for entry in mains)


def test_leap_and_its_peer_are_timed_for_each_size(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "LEAP_TARGETS", {4: 1.0, 16: 1e9})
    small, large = measure_leap(session)
    assert 0 < small.ours < small.peer
    assert (small.ok, large.ok) == (True, False)


def test_dect_is_compared_with_the_fastest_way_at_every_scale(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(
        [{"plain": 3.0, "whole": 2.0, "blocks": 5.0, "ours": 1.0}, {"plain": 9.0, "whole": 10.0, "ours": 18.0}]
    )
    monkeypatch.setattr(kernels, "contest", lambda rivals, repeats: next(times))
    monkeypatch.setattr(kernels, "DECT_GRAPHS", 8)
    monkeypatch.setattr(kernels, "DECT_TARGETS", {8.0: 1.0, 128.0: 2.0})
    assert [(entry.ratio, entry.ok) for entry in measure_dect(session)] == [(2.0, True), (0.5, False)]


def test_a_peer_with_other_results_is_not_compared_with(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    real = PygTransform.forward
    monkeypatch.setattr(PygTransform, "forward", lambda *given: real(*given) * 1.1)
    with pytest.raises(WorkFailedError, match=r"LEAP and its peer 'peer' differ by"):
        next(measure_leap(session))
    with pytest.raises(WorkFailedError, match=r"a network and its peer 'pyg' differ by"):
        next(measure_epoch(session))
    monkeypatch.setattr(kernels, "DECT_TOLERANCE", 0.0)
    with pytest.raises(WorkFailedError, match=r"dect at scale 8 and its peer 'plain' differ by"):
        next(measure_dect(session))


def test_a_loop_that_finds_something_else_is_not_compared_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "timed_khop_loop", lambda *_: (1.0, []))
    with pytest.raises(WorkFailedError, match="0 members"):
        loop_seconds(Session(tmp_path), 1)


@pytest.mark.slow
def test_epochs_of_real_trainings_are_compared(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    state, trained, real = torch.get_rng_state(), [], training.train

    def spy(*given: Any, **named: Any) -> Any:
        result = real(*given, **named)
        trained.append((result.metrics["options"]["network"]["encoding"], result.cached))
        return result

    monkeypatch.setattr(training, "train", spy)
    pyg, fixed, linear, conv1d = measure_epoch(session, epochs=2)
    assert trained == [(name, False) for name in ("leap-l", "leap-f", "leap-f", "rwpe")] * 2
    assert pyg.ours == fixed.ours < pyg.peer
    assert fixed.peer == conv1d.ours
    assert linear.peer == conv1d.peer
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.slow
def test_speed_and_memory_of_streams_are_measured(session: Session) -> None:
    loader, epoch, memory = measure_stream(session, graphs=800, partition_mb=0.02)
    assert 0 < loader.ours < epoch.ours
    assert 0 < loader.peer < epoch.peer
    assert "9% of them" in loader.what
    assert 30 * 2**20 < memory.ours < 2**30
