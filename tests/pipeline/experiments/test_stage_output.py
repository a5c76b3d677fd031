"""What a sweep leaves for DVC: keys that are the same on every machine, and apart from them what the runs found."""

import csv
import json
from dataclasses import replace

import pytest

from leap.pipeline import sweep
from leap.pipeline.engine.dvc import write_stage_output
from leap.store.errors import InvalidInputError


@pytest.fixture
def result(context, write_sweep, write_shapes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_shapes(tmp_path / "shapes.json")
    file = write_sweep(
        datasets="shapes.json", encodings=["none", "leap-f"], projections=["linear", "deepsets"], seeds=[1, 2]
    )
    return sweep(file.name, context, runs=tmp_path / "runs")


def written(result, folder):
    write_stage_output(result, folder / "train.json", folder / "metrics", folder / "curves")
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def mean(outcome):
    folds = outcome.metrics["folds"]
    return sum(fold["test"]["accuracy"] for fold in folds) / len(folds)


def test_the_manifest_holds_keys_and_no_results(result, tmp_path):
    ours = written(result, tmp_path / "ours")
    others = [
        replace(outcome, metrics=outcome.metrics | {"test": {"accuracy": {"mean": 0.1, "std": 0.1}}, "seconds": 9.0})
        for outcome in result.outcomes
    ]
    theirs = written(replace(result, outcomes=others), tmp_path / "theirs")
    assert ours["metrics/shapes.json.json"] != theirs["metrics/shapes.json.json"]
    assert ours["train.json"] == theirs["train.json"]
    manifest = json.loads(ours["train.json"])
    assert list(manifest["runs"])[:2] == ["none seed=1", "none seed=2"]
    assert len(set(manifest["runs"].values())) == 6
    assert {entry["key"] for entry in manifest["artifacts"]} == {
        entry["key"] for outcome in result.outcomes for entry in outcome.metrics["keys"]
    }


def test_metrics_have_one_number_per_backbone_and_encoding(result, tmp_path):
    scores = json.loads(written(result, tmp_path / "out")["metrics/shapes.json.json"])
    first = {
        encoding: [mean(outcome) for outcome in result.outcomes if outcome.request.label.endswith(words)]
        for encoding, words in (("none", "gcn"), ("leap-f", "leap-f linear"))
    }
    assert [len(means) for means in first.values()] == [2, 2]
    assert scores == {"gcn": {encoding: pytest.approx(sum(means) / 2, abs=1e-6) for encoding, means in first.items()}}


def test_curves_have_a_row_per_encoding_and_epoch(result, tmp_path):
    text = written(result, tmp_path / "out")["curves/shapes.json.csv"]
    rows = list(csv.DictReader(text.splitlines()))
    assert [(row["dataset"], row["backbone"], row["encoding"], row["epoch"]) for row in rows] == [
        ("shapes.json", "gcn", encoding, str(epoch)) for encoding in ("none", "leap-f") for epoch in (0, 1)
    ]
    assert all(float(row["val_loss"]) > 0 for row in rows)
    assert "seconds" not in rows[0]


def test_datasets_of_one_name_are_kept_apart(context, write_sweep, write_shapes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_shapes(tmp_path / "a" / "shapes.json")
    write_shapes(tmp_path / "b" / "shapes.json", 50)
    paths = ["a/shapes.json", str(tmp_path / "b" / "shapes.json")]
    result = sweep(write_sweep(datasets=paths, encodings="none"), context, runs=tmp_path / "runs")
    files = written(result, tmp_path / "out")
    for outcome, place in zip(result.outcomes, ("a", "b"), strict=True):
        scores = json.loads(files[f"metrics/{place}/shapes.json.json"])
        assert scores == {"gcn": {"none": pytest.approx(mean(outcome), abs=1e-6)}}
        (dataset,) = {row["dataset"] for row in csv.DictReader(files[f"curves/{place}/shapes.json.csv"].splitlines())}
        assert dataset == f"{place}/shapes.json"


@pytest.mark.parametrize("option", ["out", "metrics", "curves"])
def test_a_path_that_cannot_be_written_is_named(result, tmp_path, option):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(InvalidInputError, match=f"cannot write --{option} .*taken"):
        write_stage_output(result, **{option: tmp_path / "taken" / "inside"})


@pytest.mark.parametrize("damage", [lambda path: None, lambda path: path.mkdir(), lambda path: path.write_bytes(b"x")])
def test_curves_that_cannot_be_read_are_named(result, tmp_path, damage):
    curves = result.outcomes[0].path / "curves.parquet"
    curves.unlink()
    damage(curves)
    with pytest.raises(InvalidInputError, match=r"curves\.parquet"):
        write_stage_output(result, curves=tmp_path / "out")
