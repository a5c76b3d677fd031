"""`python -m benchmarks`: parts by name, a table or one JSON object, and nothing left behind."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.measuring import Measurement, Session


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Replace the parts by two quick ones; return the folders that they were given."""
    given: list[Path] = []

    def quick(session: Session) -> Iterator[Measurement]:
        given.append(session.folder)
        assert session.folder.is_dir()
        yield Measurement("quick", f"{session.repeats} repeats", 0.001, 5.0, 10.0, is_lower_bound=True)

        session.tables["a table"] = [{"name": "first", "count": 3}]

    def hungry(session: Session) -> Iterator[Measurement]:
        yield Measurement("hungry", f"{session.nodes} nodes", 5 * 2**30, 4 * 2**30, 1.0, unit="bytes")

    monkeypatch.setattr(command, "PARTS", {"quick": quick, "hungry": hungry})
    monkeypatch.setattr(command, "DEFAULT", ("quick",))
    return given


def test_every_default_part_exists_and_the_long_ones_are_none() -> None:
    assert set(command.PARTS) - set(command.DEFAULT) == {"stream", "large"}


def test_without_names_the_default_parts_run_and_leave_nothing_behind(folders: list[Path], capsys) -> None:
    command.main(["--json"])
    printed = json.loads(capsys.readouterr().out)
    assert [entry["part"] for entry in printed["measurements"]] == ["quick"]
    assert printed["measurements"][0]["ratio"] == pytest.approx(5000)
    assert printed["ok"] is True
    assert printed["machine"]["versions"]["numpy"]
    assert not folders[0].exists()


def test_results_and_figures_stay_in_a_folder(folders: list[Path], capsys, tmp_path: Path) -> None:
    command.main(["quick", "--out", str(tmp_path / "new" / "bench")])
    left = json.loads((tmp_path / "new" / "bench" / "results.json").read_text())
    assert left["ok"] is True
    assert left["tables"] == {"a table": [{"name": "first", "count": 3}]}
    out = capsys.readouterr().out
    for text in ("a table", "count", "first"):
        assert text in out


def test_a_missed_target_is_shown(folders: list[Path], capsys) -> None:
    command.main(["quick", "hungry", "--repeats", "3", "--nodes", "40", "--edges", "50"])
    out = capsys.readouterr().out
    for text in ("3 repeats", "≥ 5,000×", "40 nodes", "5,120 MiB", "0.80×", "no"):
        assert text in out


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["quick", "fast"], "no part 'fast'. Choose from quick, hungry"),
        (["--repeats", "0"], "at least 1"),
        (["--nodes", "10", "--edges", "100"], "more than half"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(folders: list[Path], capsys, wrong, message) -> None:
    with pytest.raises(SystemExit) as leaving:
        command.main(wrong)
    assert leaving.value.code == 2
    assert message in capsys.readouterr().err
    assert folders == []
