import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leap.cli.app import app
from leap.pipeline.bench.registry import PARTS, Part
from leap.pipeline.bench.result import Comparison, MemoryUse
from leap.pipeline.bench.run import bench
from leap.pipeline.bench.session import BenchOptions, Session
from leap.store.errors import InvalidInputError


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Replace the parts by two quick ones; return the folders that they were given."""
    given: list[Path] = []

    def quick(session: Session) -> Iterator[Comparison]:
        given.append(session.folder)
        assert session.folder.is_dir()
        yield Comparison("quick", f"{session.options.repeats} repeats", 0.001, 5.0, 10.0, is_stopped=True)

    def hungry(session: Session) -> Iterator[MemoryUse]:
        yield MemoryUse("hungry", f"{session.options.nodes} nodes", 2.0, "worker 1", 5 * 2**30, 4 * 2**30)

    PARTS_FOR_TESTS = {"quick": Part(quick, "quick"), "hungry": Part(hungry, "hungry", is_default=False)}
    for name in list(PARTS):
        monkeypatch.delitem(PARTS, name)
    for name, part in PARTS_FOR_TESTS.items():
        monkeypatch.setitem(PARTS, name, part)
    return given


def test_what_takes_long_is_not_measured_unless_asked_for() -> None:
    assert [name for name, part in PARTS.items() if part.is_default] == [
        "khop",
        "extract",
        "lape",
        "leap",
        "dect",
        "epoch",
    ]


def test_without_names_the_default_parts_run_and_leave_nothing_behind(folders: list[Path]) -> None:
    result = bench()
    assert [entry.part for entry in result.comparisons] == ["quick"]
    assert result.memory == []
    assert result.machine["cores"] >= 1
    assert result.machine["versions"]["numpy"]
    assert not folders[0].exists()


def test_an_unknown_part_is_refused_before_anything_runs(folders: list[Path]) -> None:
    with pytest.raises(InvalidInputError, match=r"no benchmark 'fast'\. Choose from quick, hungry"):
        bench(["quick", "fast"])
    assert folders == []


def test_more_edges_than_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="more than half"):
        BenchOptions(nodes=10, edges=100)


def test_the_command_prints_tables_and_succeeds_even_when_a_target_is_missed(folders: list[Path]) -> None:
    result = CliRunner().invoke(app, ["bench", "quick", "hungry", "--repeats", "3", "--nodes", "40", "--edges", "50"])
    assert result.exit_code == 0, result.output
    assert "3 repeats" in result.stdout
    assert "≥ 5,000×" in result.stdout
    assert "40 nodes" in result.stdout
    assert "5.0 GiB" in result.stdout


def test_the_command_prints_one_json_object(folders: list[Path]) -> None:
    result = CliRunner().invoke(app, ["bench", "--json"])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert set(printed) == {"machine", "comparisons", "memory", "ok"}
    assert printed["comparisons"][0]["ratio"] == pytest.approx(5000)


def test_impossible_options_are_bad_input(folders: list[Path]) -> None:
    result = CliRunner().invoke(app, ["bench", "--repeats", "0"])
    assert isinstance(result.exception, InvalidInputError)
