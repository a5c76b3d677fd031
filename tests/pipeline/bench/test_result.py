import pytest

from leap.pipeline.bench.result import BenchResult, Comparison, MemoryUse


@pytest.mark.parametrize(("peer", "ok"), [(20.0, True), (19.9, False)])
def test_a_ratio_is_fine_from_its_target_on(peer: float, ok: bool) -> None:
    assert Comparison("part", "what", ours=2.0, peer=peer, target=10.0).ok is ok


def test_a_process_at_the_limit_is_not_fine() -> None:
    assert MemoryUse("large", "ingest", 1.0, "main", peak=2**32 - 1, limit=2**32).ok
    assert not MemoryUse("large", "ingest", 1.0, "main", peak=2**32, limit=2**32).ok


def test_the_whole_is_fine_only_if_everything_is() -> None:
    good = Comparison("a", "b", 1.0, 10.0, 5.0)
    bad = Comparison("a", "b", 1.0, 10.0, 50.0)
    full = MemoryUse("large", "ingest", 1.0, "main", 2, 1)
    assert BenchResult({}, [good], []).as_json()["ok"]
    assert not BenchResult({}, [good, bad], []).as_json()["ok"]
    assert not BenchResult({}, [good], [full]).as_json()["ok"]


def test_a_stopped_peer_gives_a_lower_bound() -> None:
    entry = Comparison("lape", "LaPE", ours=0.5, peer=5.1, target=10.0, is_stopped=True).as_json()
    assert entry["is_lower_bound"]
    assert entry["ratio"] == pytest.approx(10.2)
