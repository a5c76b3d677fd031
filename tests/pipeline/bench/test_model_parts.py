"""The parts `leap`, `dect` and `epoch` compare equal work, and refuse to compare anything else."""

from pathlib import Path

import pytest
import torch

from leap.pipeline.bench import dect, epoch_rivals, leap
from leap.pipeline.bench.dect import compare_dect
from leap.pipeline.bench.epoch import compare_epoch
from leap.pipeline.bench.leap import compare_leap
from leap.pipeline.bench.pyg_leap import PygTransform
from leap.pipeline.bench.session import BenchOptions, Session
from leap.store.errors import WorkFailedError


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path, BenchOptions(repeats=1))


def test_leap_is_compared_on_small_and_large_batches(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    assert leap.TARGETS == {16: 20.0, 512: 40.0}
    monkeypatch.setattr(leap, "TARGETS", {4: 20.0, 16: 40.0})
    small, large = compare_leap(session)
    assert (small.target, large.target) == (20.0, 40.0)
    assert 0 < small.ours < small.peer
    assert 0 < large.ours < large.peer


def test_dect_is_compared_at_every_scale(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dect.TARGETS == {8.0: 1.0, 32.0: 1.0, 128.0: 2.0, 512.0: 1.0}
    assert dect.GRAPHS == 512
    monkeypatch.setattr(dect, "GRAPHS", 8)
    found = list(compare_dect(session))
    assert [entry.target for entry in found] == [1.0, 1.0, 2.0, 1.0]
    assert all(entry.ours > 0 and entry.peer > 0 for entry in found)


def test_a_peer_with_other_results_is_not_compared_with(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    real = PygTransform.forward
    monkeypatch.setattr(PygTransform, "forward", lambda *given: real(*given) * 1.1)
    with pytest.raises(WorkFailedError, match=r"LEAP and its peer differ by"):
        next(compare_leap(session))
    with pytest.raises(WorkFailedError, match=r"scores of the network .* differ by"):
        next(compare_epoch(session))
    monkeypatch.setattr(dect, "ROUNDING", 0.0)
    with pytest.raises(WorkFailedError, match=r"dect and its peer 'plain' differ by .* at scale 8"):
        next(compare_dect(session))


@pytest.mark.slow
def test_epochs_are_compared_with_pyg_a_ready_transform_and_rwpe(session: Session) -> None:
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    pyg, ready, linear, conv1d = compare_epoch(session)
    assert (pyg.target, ready.target) == (4.0, pytest.approx(1 / 1.5))
    assert linear.target == conv1d.target == pytest.approx(1 / 1.15)
    assert pyg.ours == ready.ours < pyg.peer
    assert linear.peer == conv1d.peer
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_an_epoch_takes_every_batch_once_in_pieces(tmp_path: Path) -> None:
    numbers = iter(range(45))
    piece = epoch_rivals.Piece(numbers)  # type: ignore[arg-type]
    taken = []
    while not piece.is_last:
        taken.append(list(piece.batches()))
    assert [len(part) for part in taken] == [20, 20, 5]
    assert [number for part in taken for number in part] == list(range(45))
