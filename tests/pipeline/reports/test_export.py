"""Results to keep beside code: what an export holds, of which runs, and that it is the same on every day."""

import errno
import json
import os
import re
from dataclasses import asdict

import pytest

from leap.pipeline.engine.sweep_log import SWEEPS, SweepCall, calls_of, record
from leap.pipeline.reports import export_report, report
from leap.store.errors import InvalidInputError

GCN = {"backbone": "gcn", "projection": "linear"}


def call(sweep, runs, seconds=60.0, command="leap sweep tiny --seeds 3", **values):
    counts = {"workers": 2, "trained": len(runs), "cached": 0, "failed": 0}
    return SweepCall(sweep, "A tiny_sweep.", command, seconds, **(counts | values), runs=runs)


@pytest.fixture
def runs(made, tmp_path):
    """Runs of two sweeps: on COX2 with three seeds, stopped once, and on another dataset."""
    entries = [
        ("COX2", GCN | {"encoding": encoding, "seed": seed}, [0.8 - 0.01 * seed, 0.7])
        for encoding in ("leap-l", "none")
        for seed in (1, 2, 3)
    ]
    found = made(*entries, ("mine", GCN | {"encoding": "none"}, [0.1, 0.1]))
    names = [run.name for run in found if run.dataset == "COX2"]
    root = tmp_path / "runs"
    record(root, call("tiny", names[:2], 3600.0))
    record(root, call("tiny", names, 5400.0, workers=1, trained=3))
    record(root, call("other", [run.name for run in found if run.dataset == "mine"], command=""))
    return root


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_export_has_the_page_the_tables_the_figures_and_how_they_were_made(runs, tmp_path):
    written = export_report(runs, tmp_path / "out", sweep="tiny")
    text = (tmp_path / "out" / "README.md").read_text()
    assert text.startswith("# tiny\n\nA tiny\\_sweep.\n\n| | |\n")
    assert "| command | `leap sweep tiny --seeds 3` |" in text
    assert "| time | 2.5 h in 2 calls, with 1 worker or 2 workers; 1 run of 6 there before |" in text
    assert "| runs | 6 runs with 12 folds |" in text
    assert "| seeds | 1, 2, 3 |" in text
    assert "| versions | leap-graph 0 |" in text
    assert "## In short\n\n" + written.summary[0][:20] in text
    assert "mine" not in text
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (tmp_path / "out" / link).is_file(), link
    names = set(files(tmp_path / "out"))
    assert {"README.md", "numbers.json", "tables/main.csv", "tables/published.csv", "figures/boxes-COX2.svg"} <= names
    assert {os.path.splitext(name)[1] for name in names} == {".md", ".json", ".csv", ".svg"}
    assert json.loads((tmp_path / "out" / "numbers.json").read_text()) == written.numbers


def test_the_same_runs_give_the_same_export_on_another_day(runs, tmp_path):
    export_report(runs, tmp_path / "one", sweep="tiny")
    for path in runs.glob("*/metrics.json"):
        os.utime(path, (1e9, 1e9))
    export_report(runs, tmp_path / "two", sweep="tiny")
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_what_an_earlier_export_left_goes_and_all_else_stays(runs, tmp_path):
    out = tmp_path / "out"
    (out / "tables").mkdir(parents=True)
    (out / "tables" / "notes.csv").write_text("mine")
    export_report(runs, out)
    assert (out / "tables" / "notes.csv").exists(), "it was no export before"
    assert (out / "figures" / "boxes-mine.svg").exists()
    export_report(runs, out, sweep="tiny")
    assert not (out / "figures" / "boxes-mine.svg").exists()
    assert (out / "figures" / "boxes-COX2.svg").exists()
    assert (out / "tables" / "notes.csv").read_text() == "mine"


@pytest.mark.parametrize("name", ["README.md", "numbers.json"])
def test_a_page_that_is_no_exports_is_not_replaced(runs, tmp_path, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    with pytest.raises(InvalidInputError, match=rf"{name} was not written by an export"):
        export_report(runs, tmp_path / "out")
    assert files(tmp_path / "out") == {name: b"mine"}


def test_a_full_disk_leaves_the_earlier_export_whole(runs, tmp_path, monkeypatch):
    export_report(runs, tmp_path / "out")
    before = files(tmp_path / "out")
    monkeypatch.setattr("leap.pipeline.reports.export.to_svg", full_disk)
    with pytest.raises(InvalidInputError, match="No space left"):
        export_report(runs, tmp_path / "out", sweep="tiny")
    assert set(files(tmp_path / "out")) == set(before)
    monkeypatch.undo()
    export_report(runs, tmp_path / "out")
    assert files(tmp_path / "out") == before


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_report_of_one_sweep_is_about_its_runs_alone(runs, tmp_path):
    report(runs, tmp_path / "report", sweep="other")
    assert "COX2" not in (tmp_path / "report" / "tables" / "main.md").read_text()


def test_a_sweep_that_was_not_done_is_named_with_those_that_were(runs, tmp_path):
    with pytest.raises(
        InvalidInputError, match=r"no sweep 'tny' was done in .*Did you mean 'tiny'\? It knows other, tiny"
    ):
        export_report(runs, tmp_path / "out", sweep="tny")
    assert not (tmp_path / "out").exists()


def test_calls_that_made_other_runs_do_not_count(tmp_path):
    record(tmp_path, call("tiny", ["tried"], 1.0))
    record(tmp_path, call("tiny", ["a"], 10.0))
    record(tmp_path, call("tiny", ["a", "b"], 100.0))
    record(tmp_path, call("tiny", [], 1000.0))
    with (tmp_path / SWEEPS).open("a") as log:
        log.write('{"sweep": "tiny", "cut o')
    assert [each.seconds for each in calls_of(tmp_path, "tiny")] == [10.0, 100.0]


def test_a_damaged_log_loses_only_what_is_damaged(tmp_path):
    record(tmp_path, call("tiny", ["a"], 1.0))
    with (tmp_path / SWEEPS).open("ab") as log:
        log.write(b"\xff\x00 garbage\n\n7\nnull\n")
        log.write(json.dumps(asdict(call("tiny", ["a"])) | {"runs": 5}).encode() + b"\n")
        log.write(json.dumps(asdict(call("tiny", ["a"], 2.0)) | {"of another version": 5}).encode() + b"\n")
        log.write(b'{"sweep": "tiny", "cut o')  # by a disk that was full
    record(tmp_path, call("tiny", ["a"], 3.0))
    record(tmp_path, call("tiny", ["a"], 4.0))
    assert [each.seconds for each in calls_of(tmp_path, "tiny")] == [1.0, 2.0, 3.0, 4.0]


def test_a_folder_in_place_of_the_log_is_named(tmp_path):
    (tmp_path / SWEEPS).mkdir()
    for use in (lambda: calls_of(tmp_path, "tiny"), lambda: record(tmp_path, call("tiny", ["a"]))):
        with pytest.raises(InvalidInputError, match=f"{SWEEPS} is a folder"):
            use()


def test_a_command_stays_in_its_cell(runs, tmp_path):
    names = calls_of(runs, "tiny")[-1].runs
    record(runs, call("odd", names, command="leap sweep odd --on 'a|b`c\n.json'"))
    export_report(runs, tmp_path / "out", sweep="odd")
    (row,) = [line for line in (tmp_path / "out" / "README.md").read_text().splitlines() if "| command |" in line]
    assert row == r"| command | `` leap sweep odd --on 'a\|b`c .json' `` |"
