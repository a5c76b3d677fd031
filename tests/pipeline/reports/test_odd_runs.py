"""Reports of runs that are unusual: scores that are no numbers, damaged files, no common folds, strange names."""

import json
from html.parser import HTMLParser

import pytest

from leap.models.network_config import NetworkConfig
from leap.pipeline import report
from leap.pipeline.reports.runs import Results, read_runs
from leap.pipeline.training.options import TrainOptions
from tests.pipeline.reports.conftest import write_run

LEAP, NONE = {"encoding": "leap-l"}, {"encoding": "none"}


class Text(HTMLParser):
    """The text of a page outside its style, and its tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.tags, self.is_style = "", set(), False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.is_style = tag == "style"

    def handle_data(self, data):
        self.text += "" if self.is_style else data


def test_scores_that_are_no_numbers_are_left_out_and_said_to_be(made, tmp_path):
    made(("BZR", LEAP, [0.8, float("nan"), 0.6]), ("BZR", NONE, [0.5, 0.5, 0.5]))
    written = report(tmp_path / "runs", tmp_path / "out")
    assert "70.0" in written.tables["main"][1].read_text()
    assert "not a number: 1 fold of BZR-gcn-leap-l-" in written.summary[-1]
    assert list(written.numbers["folds_without_score"].values()) == [1]
    page = Text(written.index.read_text())
    assert "nan" not in page.text.lower().split()
    assert "nan" not in "".join(path.read_text() for paths in written.tables.values() for path in paths)


def test_a_run_without_any_score_leaves_its_place_empty(made, tmp_path):
    nothing = float("nan")
    made(("BZR", LEAP, [nothing, nothing]), ("BZR", NONE, [0.5, 0.6]))
    written = report(tmp_path / "runs", tmp_path / "out")
    assert 'aria-label="no result"' in written.index.read_text()
    assert "no network has a score both with LEAP and without an encoding" in written.summary[0]
    alone = write_run(tmp_path / "alone", "COX2", TrainOptions(network=NetworkConfig(**LEAP), folds=2), [nothing] * 2)
    assert report(alone.parent, tmp_path / "out2").answer.text == "No run has a score, so nothing can be compared."


def test_backbones_that_take_no_encoding_are_said_to_be_why_nothing_is_compared(made, tmp_path):
    made(("BZR", NONE | {"backbone": "dect-4k"}, [0.5, 0.6]))
    alone = report(tmp_path / "runs", tmp_path / "out").answer.text
    assert alone.startswith("Whether LEAP helps is open: DECT (4K) takes no encoding, so there is nothing to compare. ")
    made(("BZR", NONE | {"backbone": "dect-65k"}, [0.5, 0.6]))
    assert "DECT (4K) and DECT (65K) take no encoding" in report(tmp_path / "runs", tmp_path / "out").answer.text
    made(("BZR", LEAP, [float("nan")] * 2))
    without = report(tmp_path / "runs", tmp_path / "out").answer.text
    assert without == "Whether LEAP helps is open: no run of a backbone that takes encodings has a score."


def test_methods_without_common_folds_are_not_tested_and_said_not_to_be(made, tmp_path):
    made(("BZR", LEAP | {"seed": 1}, [0.8, 0.9]), ("BZR", NONE | {"seed": 2}, [0.5, 0.5]))
    written = report(tmp_path / "runs", tmp_path / "out")
    assert "comparisons" not in written.tables
    assert "1 comparison of LEAP with a baseline cannot be tested" in written.index.read_text()
    assert "comparisons" not in written.numbers
    assert not any("paired comparisons" in note for note in written.notes)


def test_a_damaged_table_of_runs_is_made_anew(made, tmp_path):
    made(("BZR", LEAP, [0.8, 0.9]), ("BZR", NONE, [0.5, 0.5]))
    first = report(tmp_path / "runs", tmp_path / "one")
    (tmp_path / "runs" / "results.parquet").write_bytes(b"PAR1 is not enough")
    second = report(tmp_path / "runs", tmp_path / "two")
    assert second.summary == first.summary
    assert second.index.read_bytes() == first.index.read_bytes()


@pytest.mark.parametrize("content", [b"", b"PAR1PAR1", b"nothing"])
def test_curves_that_cannot_be_read_are_named(made, tmp_path, content):
    damaged, _ = made(("BZR", LEAP, [0.8, 0.9]), ("BZR", NONE, [0.5, 0.5]))
    (damaged.path / "curves.parquet").write_bytes(content)
    written = report(tmp_path / "runs", tmp_path / "out")
    assert f"Curves that cannot be read are left out: {damaged.name}." in Text(written.index.read_text()).text
    assert "curves-BZR-gcn" in written.figures


def test_nothing_that_a_dataset_is_called_becomes_a_tag(tmp_path):
    root, name = tmp_path / "runs", '<img src=x onerror="alert(1)">{{ 7 * 7 }}{% raw %}\\|*_`'
    for encoding in ("none", "leap-l"):
        write_run(root, name, TrainOptions(network=NetworkConfig(encoding=encoding), folds=2), [0.5, 0.6])
    written = report(root, tmp_path / "out")
    page = Text(written.index.read_text())
    assert "img" not in page.tags
    assert name in page.text
    assert "<img" not in "".join(paths[1].read_text().replace(r"\<", "") for paths in written.tables.values())
    for paths in written.tables.values():
        rows = paths[1].read_text().splitlines()[2:]
        assert len({row.replace(r"\\", "").replace(r"\|", "").count("|") for row in rows}) == 1
    assert {run.dataset for run in read_runs(root)} == {name}


def test_long_names_are_cut_in_files_and_titles_and_no_file_is_written_twice(tmp_path):
    names = ["x" * 150, "x" * 150 + "y", "a b", "a-b"]
    for name in names:
        write_run(tmp_path / "runs", name, TrainOptions(network=NetworkConfig(**LEAP), folds=2), [0.5, 0.6])
    written = report(tmp_path / "runs", tmp_path / "out")
    files = [path for paths in written.figures.values() for path in paths]
    assert len(set(files)) == len(files)
    assert max(len(path.name) for path in files) < 140
    assert {f"boxes-{name}" for name in names} <= set(written.figures)
    assert (tmp_path / "out" / "figures" / "boxes-a-b.svg").is_file()
    page = written.index.read_text()
    assert len(page.split("x" * 150)) > 2  # the tables have it whole
    title = written.figures[f"boxes-{names[0]}"][0].read_text()
    assert "x" * 44 in title
    assert "x" * 150 not in title


def test_a_name_that_only_looks_like_a_setting_is_no_problem(made, tmp_path):
    """Own datasets may be called like a backbone or an encoding."""
    made(("gcn", LEAP, [0.8, 0.9]), ("none", NONE, [0.5, 0.5]))
    written = report(tmp_path / "runs", tmp_path / "out")
    assert written.numbers["datasets"] == ["gcn", "none"]


def test_a_run_that_is_gone_counts_no_more(made, tmp_path):
    first, _ = made(("BZR", LEAP, [0.8, 0.9]), ("BZR", NONE, [0.5, 0.5]))
    report(tmp_path / "runs", tmp_path / "out")
    (first.path / "metrics.json").unlink()
    assert [run.encoding for run in Results.of(read_runs(tmp_path / "runs")).runs] == ["none"]


def test_json_of_a_report_is_json(made, tmp_path):
    made(("BZR", LEAP, [0.8, float("nan")]), ("BZR", NONE, [0.5, 0.5]))
    shown = report(tmp_path / "runs", tmp_path / "out").as_json()
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
    assert shown["tables"]["main"] == [
        str(tmp_path / "out" / "tables" / f"main.{kind}") for kind in ("csv", "md", "tex")
    ]
