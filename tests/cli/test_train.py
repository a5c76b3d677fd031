"""`leap train` and `leap predict` as a shell sees them."""

import json
import shutil
import subprocess
import sys

import pytest

QUICK = ("--epochs", "1", "--folds", "2", "--workers", "0", "--batch-size", "256")


def test_a_dry_run_prints_the_published_counts_and_trains_nothing(leap, filled, tmp_path):
    shown = leap("train", "letters-low", "--backbone", "gcn", "--encoding", "leap-f", "--dry-run", "--json")
    assert shown.code == 0, shown.err
    assert shown.json["parameters"] == {"backbone": 4079, "leap-f": 794, "total": 4873}
    assert [(entry["kind"], entry["cached"]) for entry in shown.json["artifacts"]] == [
        ("dataset", True),
        ("dect", False),
    ]
    assert shown.json["folds"] == [{"train": 1350, "val": 450, "test": 450}] * 5
    plain = leap("train", "letters-low", "-b", "nomp", "-e", "rwpe", "--dim", "6", "--dry-run")
    assert "3,679" in plain.out
    assert "stored" in plain.out
    assert ", in stacks of up to 32 folds; " in plain.out
    assert shown.json["stack"] == 32
    alone = leap("train", "letters-low", "-b", "gcn", "--dry-run", "--json", "--stack", 1)
    assert alone.json["stack"] == 1
    assert not (tmp_path / "runs").exists()


def test_training_answers_once_and_predicts_afterwards(leap, filled, tmp_path):
    request = ("train", "letters-low", "-b", "gcn", "-e", "rwpe", "--dim", "6", *QUICK, "--run", "runs/first")
    first = leap(*request, "--json")
    assert first.code == 0, first.err
    assert first.json["stage"] == "train"
    assert not first.json["cached"]
    assert {"kind", "params", "key", "cached", "seconds", "bytes"} <= set(first.json["artifacts"][0])
    assert json.loads((tmp_path / "runs" / "first" / "metrics.json").read_text())["folds"] == first.json["folds"]
    again = leap(*request)
    assert "(cached)" in again.out
    assert "mean ± std" in again.out
    assert "AUROC" in again.out
    predicted = leap("predict", "runs/first", "letters-low", "--fold", "0", "--out", "p.parquet", "--json")
    assert predicted.code == 0, predicted.err
    assert predicted.json["items"] == 2250
    assert predicted.json["was_trained_on"]
    assert (tmp_path / "p.parquet").is_file()
    table = leap("predict", "runs/first", "letters-low")
    assert "the mean of 2 folds" in table.out
    assert "this very dataset" in table.out
    listed = leap("store", "ls", "--json")
    assert any("first" in json.dumps(entry) for entry in listed.json["artifacts"])


def test_a_cached_training_loads_neither_torch_nor_pyg(leap, lightly, filled, tmp_path):
    request = ["train", "letters-low", "-b", "gcn", "-e", "none", *QUICK]
    assert leap(*request).code == 0
    assert "(cached)" in lightly(*request)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--backbone", "gnc"), "no backbone 'gnc'. Did you mean"),
        (("--encoding", "rwpe+pope"), "no encoding 'pope'"),
        (("--projection", "conv"), "no projection 'conv'. Did you mean 'conv1d'?"),
        (("--hops", "1", "--hops", "2", "--hops", "3"), "must divide"),
        (("--epochs", "0"), "epochs is 0"),
        (("--stack", "0"), "stack is 0"),
        (("--folds", "1"), "folds is 1"),
        (("--epochs", "9" * 20), "epochs is 99999999999999999999: input should be less than"),
        (("--batch-size", "9" * 20), "batch_size is 99999999999999999999: input should be less than"),
        (("--cap", "9" * 20), "cap is 99999999999999999999: input should be less than"),
        (("--cap", "5", "--cap-seed", "9" * 20), "cap_seed is 99999999999999999999: input should be less than"),
        (("--hidden", "9" * 9), "hidden is 999999999: input should be less than"),
        (("--layers", "9" * 9), "layers is 999999999: input should be less than"),
        (("--class-weight", "some"), "class_weight is 'some'"),
        (("--backbone", "dect-4k", "--encoding", "rwpe"), "takes no encoding"),
        (("--leap-on", "rwpe", "--encoding", "lape"), "needs the encoding leap"),
        (("--resume", "--run", "runs/none"), "to resume"),
        (("--run", "runs/.."), "not allowed"),
    ],
)
def test_wrong_usage_is_one_paragraph_and_exit_code_two(leap, filled, arguments, message):
    shown = leap("train", "letters-low", *arguments)
    assert shown.code == 2
    assert message in shown.err
    assert shown.err.startswith("Error:")
    assert "Traceback" not in shown.err


def test_a_store_that_cannot_be_written_does_not_end_a_training(leap, filled, read_only, tmp_path):
    read_only(filled)
    request = ("train", "letters-low", "-b", "gcn", "-e", "rwpe", "--dim", "6", *QUICK, "--run", "runs/first")
    shown = leap(*request, "--json")
    assert shown.code == 0, shown.err
    assert "the run is not recorded in the store" in shown.err
    assert shown.err.count("read-only") == 1
    assert len(shown.json["folds"]) == 2


def test_a_finished_run_is_read_where_nothing_can_be_written(leap, filled, read_only, tmp_path):
    request = ("train", "letters-low", "-b", "gcn", "-e", "rwpe", "--dim", "6", *QUICK)
    assert leap(*request).code == 0
    read_only(tmp_path / "runs")
    assert leap(*request, "--json").json["cached"]
    other = leap(*request, "--lr", "0.5")
    assert (other.code, other.err.split(":")[1].strip()[:32]) == (2, "cannot write the run folder 'run")


def test_a_disk_that_fills_up_in_training_keeps_the_folds_that_are_done(leap, filled, tmp_path, mount, monkeypatch):
    from leap.pipeline.engine import fold

    small = tmp_path / "small"
    small.mkdir()
    mount(small, "-t", "tmpfs", "-o", "size=4m", "tmpfs")
    trained, real = [], fold.begin_fold

    def filling(job, *arguments):
        if not trained.append(job.split.number) and trained == [0, 1]:
            (small / "ballast").write_bytes(bytes(shutil.disk_usage(small).free))
        return real(job, *arguments)

    monkeypatch.setattr(fold, "begin_fold", filling)
    request = ("train", "letters-low", "-b", "gcn", "-e", "none", *QUICK, "--stack", 1, "--run", small / "runs" / "one")
    shown = leap(*request)
    assert (shown.code, shown.out) == (2, "")
    first, error = shown.err.splitlines()
    assert first.startswith("[1/2] letters-low gcn, fold 0: 1 epoch, ")
    assert error.startswith(f"Error: no space left on the disk of {small / 'runs' / 'one'}. Finished folds and")
    assert "--resume" in error
    kept = (small / "runs" / "one" / "fold-0" / "result.json").read_bytes()
    (small / "ballast").unlink()
    resumed = leap(*request, "--resume", "--json")
    assert resumed.code == 0, resumed.err
    assert trained == [0, 1, 1]
    assert (small / "runs" / "one" / "fold-0" / "result.json").read_bytes() == kept
    whole = leap(*request[:-1], tmp_path / "whole", "--json").json
    assert [entry["test"] for entry in resumed.json["folds"]] == [entry["test"] for entry in whole["folds"]]


LIMITED = """
import resource, sys
from leap.cli.main import main
sys.dont_write_bytecode = True  # or Python keeps truncated bytecode, which it cannot read later
resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))  # checkpoints are larger
main()
"""


@pytest.mark.parametrize(
    "command",
    [("train", "letters-low"), pytest.param(("sweep", "compare", "--on", "letters-low"), marks=pytest.mark.slow)],
)
def test_a_checkpoint_that_finds_no_space_is_named_with_its_folder(leap, filled, tmp_path, command):
    request = (*command, "-b", "gcn", "-e", "none", *QUICK, "--seed", "42")
    done = subprocess.run([sys.executable, "-c", LIMITED, *request], capture_output=True, text=True, check=False)
    assert done.returncode == (2 if command[0] == "train" else 1), done.stderr
    assert f"no space left on the disk of {tmp_path / 'runs' / 'letters-low-gcn-none'}" in done.stderr
    assert "unexpected" not in done.stderr


@pytest.mark.parametrize("command", [("train", "letters-low"), ("sweep", "compare", "--on", "letters-low")])
def test_a_read_only_store_that_has_everything_can_be_trained_on(leap, filled, tmp_path, read_only, snapshot, command):
    read_only(filled)
    before = snapshot(filled, leave_out=())
    request = (*command, "-b", "gcn", "-e", "none", *QUICK, "--seed", "42")
    shown = leap(*request)
    assert shown.code == 0, shown.err
    assert "read-only" in shown.err
    assert len(list((tmp_path / "runs").glob("*/metrics.json"))) == 1
    assert leap(*request, "--json").json["cached"]
    assert snapshot(filled, leave_out=()) == before


def test_predictions_without_metrics_come_with_the_reason(leap, tu_folder):
    graphs, nodes = range(1, 21), [(g, n) for g in range(1, 21) for n in range(3)]
    edges = [(3 * (g - 1) + a, 3 * (g - 1) + b) for g in graphs for a, b in ((1, 2), (2, 1), (2, 3), (3, 2))]
    text = {
        "A": "".join(f"{a}, {b}\n" for a, b in edges),
        "graph_indicator": "".join(f"{g}\n" for g, _ in nodes),
        "node_attributes": "".join(f"{g % 2 + n / 10}, {n}\n" for g, n in nodes),
    }
    ours = tu_folder("ours", **text, graph_labels="".join(f"{2 * (g % 2) - 1}\n" for g in graphs))
    theirs = tu_folder("theirs", **text, graph_labels="".join(f"{g % 2}\n" for g in graphs))
    trained = leap("train", ours, "-b", "gcn", "-e", "none", *QUICK, "--run", "runs/first")
    assert trained.code == 0, trained.err
    shown = leap("predict", "runs/first", theirs)
    assert shown.code == 0, shown.err
    assert "The run knows the labels -1, 1 and 'theirs' has 0, 1, so there are no metrics." in shown.out
    assert "the labels -1, 1" in leap("predict", "runs/first", theirs, "--json").json["unjudged"]
    assert leap("predict", "runs/first", ours, "--json").json["unjudged"] is None


def test_a_missing_run_is_named(leap, filled):
    shown = leap("predict", "runs/nothing", "letters-low")
    assert shown.code == 2
    assert "holds no finished run" in shown.err


def test_training_that_diverges_ends_with_the_reason(leap, filled):
    shown = leap("train", "letters-low", "-b", "nomp", "-e", "leap-l", *QUICK, "--lr", "1e10")
    assert shown.code == 1
    assert shown.err == "Error: the validation loss was not a number in any epoch. Use a smaller --lr.\n"
