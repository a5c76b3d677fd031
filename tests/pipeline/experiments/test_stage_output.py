"""What a sweep leaves for DVC is the same for the same results, and says what the runs found."""

import csv
import json

import pytest

from leap.pipeline import sweep
from leap.pipeline.experiments.stage_output import write_stage_output
from leap.store.errors import InvalidInputError


def test_stage_outputs_have_keys_means_and_curves_and_no_times(context, write_sweep, write_shapes, tmp_path):
    shapes = write_shapes(tmp_path / "shapes.json")
    file = write_sweep(datasets=str(shapes), encodings=["none", "leap-f"], projections=["linear", "deepsets"])
    first = sweep(file, context, runs=tmp_path / "runs")
    write_stage_output(first, tmp_path / "first")
    write_stage_output(sweep(file, context, runs=tmp_path / "runs"), tmp_path / "again")
    names = ["none", "leap-f linear", "leap-f deepsets"]
    for name in ("manifest.json", "metrics.json", "curves.csv"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    manifest = json.loads((tmp_path / "first" / "manifest.json").read_text())
    assert list(manifest["runs"]) == names
    assert {entry["key"] for entry in manifest["artifacts"]} == {
        entry["key"] for outcome in first.outcomes for entry in outcome.metrics["keys"]
    }
    metrics = json.loads((tmp_path / "first" / "metrics.json").read_text())
    folds = first.outcomes[1].metrics["folds"]
    assert metrics["leap-f linear"]["accuracy"]["mean"] == pytest.approx(
        sum(fold["test"]["accuracy"] for fold in folds) / len(folds)
    )
    with (tmp_path / "first" / "curves.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["run"], row["epoch"]) for row in rows] == [(name, str(epoch)) for name in names for epoch in (0, 1)]
    assert "seconds" not in rows[0]


def test_a_folder_that_cannot_be_written_is_named(context, write_sweep, write_shapes, tmp_path):
    file = write_sweep(datasets=str(write_shapes(tmp_path / "shapes.json")), encodings=["none"])
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(InvalidInputError, match="cannot write --out"):
        write_stage_output(sweep(file, context, runs=tmp_path / "runs"), tmp_path / "taken" / "inside")
