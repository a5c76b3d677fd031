"""Each part measures real work; peers that take long are replaced by a known time."""

from pathlib import Path
from typing import Any

import pytest

import leap.pipeline
from leap.pipeline.bench.extract import compare_extract
from leap.pipeline.bench.khop import compare_khop
from leap.pipeline.bench.large import measure_large
from leap.pipeline.bench.session import BenchOptions, Session
from leap.store.errors import WorkFailedError


def session(tmp_path: Path, **options: Any) -> Session:
    return Session(tmp_path, BenchOptions(repeats=2, **options), _loops={1: 100.0, 2: 200.0})


def test_the_graph_is_the_dataset_as_pyg_lists_it(tmp_path: Path) -> None:
    graph = session(tmp_path).graph
    assert graph.num_nodes == 22_662
    assert graph.edge_index.shape == (2, 2 * 32_927)


def test_khop_compares_one_and_two_hops_with_the_loop(tmp_path: Path) -> None:
    one, two = compare_khop(session(tmp_path))
    assert (one.peer, one.target) == (100.0, 1000.0)
    assert (two.peer, two.target) == (200.0, 300.0)
    assert 0 < one.ours < 100


def test_extract_does_the_work_in_every_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, reports = leap.pipeline.extract, []

    def spy(*args: Any, **named: Any) -> Any:
        result = real(*args, **named)
        reports.append((result["dataset"].cached, result["neighborhoods"].cached))
        return result

    monkeypatch.setattr(leap.pipeline, "extract", spy)
    (found,) = compare_extract(session(tmp_path))
    assert reports == [(True, False)] * 3
    assert "300 features" in found.what
    assert 0 < found.ours < 100


def test_large_reports_every_stage_and_process(tmp_path: Path) -> None:
    found = list(measure_large(session(tmp_path, nodes=2000, edges=8000, workers=0)))
    mains = [entry for entry in found if entry.process == "main"]
    assert [entry.what for entry in mains] == ["ingest", "extract, 1 hop"]
    assert all(30 * 2**20 < entry.peak < entry.limit == 4 * 2**30 for entry in mains)


def test_a_peer_that_finds_something_else_is_not_compared_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leap.pipeline.bench.pyg_khop.timed_khop_loop", lambda *_: (1.0, []))
    with pytest.raises(WorkFailedError, match="0 members"):
        Session(tmp_path).loop_seconds(1)
