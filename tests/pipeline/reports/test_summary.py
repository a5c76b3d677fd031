"""The sentences at the top of a report: they answer the question and say which runs they are about."""

import json
import os

from leap.models.network_config import NetworkConfig
from leap.pipeline import report
from leap.pipeline.training.options import TrainOptions
from tests.pipeline.reports.conftest import write_run


def test_runs_on_earlier_data_of_the_same_name_are_left_out_and_said_to_be(tmp_path):
    """A file that was replaced keeps its name: results of the old and the new graphs must not be mixed."""
    root = tmp_path / "runs"
    for encoding, key, scores in (
        ("none", "a" * 40, [0.9, 0.9]),
        ("leap-l", "a" * 40, [0.9, 0.9]),
        ("none", "b" * 40, [0.5, 0.5]),
        ("leap-l", "b" * 40, [0.7, 0.7]),
    ):
        options = TrainOptions(network=NetworkConfig(encoding=encoding), folds=2, lr=0.001 if key[0] == "a" else 0.002)
        folder = write_run(root, "mine", options, scores)
        metrics = json.loads((folder / "metrics.json").read_text())
        (folder / "metrics.json").write_text(json.dumps(metrics | {"keys": [{"kind": "dataset", "key": key}]}))
        os.utime(folder / "metrics.json", (1e9, 1e9) if key[0] == "a" else (2e9, 2e9))
    written = report(root, tmp_path / "report")
    assert any(
        text.startswith("Left out: 2 earlier runs on other data under the name mine.") for text in written.summary
    )
    assert "from 50.0 to 70.0 %" in " ".join(written.summary)
    table = (tmp_path / "report" / "tables" / "main.md").read_text()
    assert "90.0" not in table
    assert "70.0" in table


def test_the_first_sentence_compares_with_no_encoding_and_ties_are_shared(tmp_path):
    root = tmp_path / "runs"
    for encoding, scores in (("none", [0.4, 0.5]), ("rwpe", [0.7, 0.8]), ("leap-f", [0.8, 0.7])):
        write_run(root, "mine", TrainOptions(network=NetworkConfig(encoding=encoding), folds=2), scores)
    written = report(root, tmp_path / "report")
    assert written.summary[0] == "With LEAP instead of no encoding, mean accuracy goes from 45.0 to 75.0 % for GCN."
    assert "alone or shared, in 1 of 1 combination of" in written.summary[1]
    page = (tmp_path / "report" / "index.html").read_text()
    assert "3 runs (seed 42) with 6 folds on mine; the last one finished on 20" in page
    assert any(note.endswith("leap sweep paper-hops --on DATASET") for note in written.notes)
