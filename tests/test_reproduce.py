"""`make reproduce` and DVC's experiments: the pipeline of dvc.yaml, really run on a tiny dataset."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PARAMS = {
    "datasets": ["shapes.json"],
    "ingest": {"features": "degree"},
    "extract": {"hops": [1]},
    "encode": {"encoding": ["rwpe", "lape"], "dim": 3},
    "sweep": "tiny.yaml",
    "train": {"projection": "linear", "folds": 2},
}
SWEEP = {"grids": [{"dataset": "shapes.json", "backbones": "gcn", "encodings": ["none", "leap-f"], "epochs": 2}]}
OTHER_MACHINE = """
import sys
if any(word.endswith("bin/leap") for word in sys.orig_argv):
    import torch
    loss = torch.nn.functional.cross_entropy
    torch.nn.functional.cross_entropy = lambda *given, **options: 1.001 * loss(*given, **options)
"""


def run(tree, *command, **environment):
    """Run a command as a user would who has just unpacked or cloned the tree."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LEAP_", "DVC_", "GIT_"))}
    done = subprocess.run(
        command, cwd=tree, env=kept | {"PATH": path} | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_reproduce(tree, **environment):
    """Run `make reproduce` with the environment of the tests in place of one of its own."""
    return run(tree, "make", "-o", "setup", f"VENV={sys.prefix}", "reproduce", **environment)


def changes(tree):
    return run(tree, "git", "status", "--porcelain")


def results(tree):
    return {path.name: path.read_text() for path in (tree / ".leap/stages").glob("[mc]*s/*")}


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory):
    """A clone with `make reproduce` behind it and dvc.lock committed."""
    tree = tmp_path_factory.mktemp("reproduce") / "clone"
    shutil.copytree(ROOT / ".dvc", tree / ".dvc", ignore=shutil.ignore_patterns("tmp", "cache", "config.local"))
    for name in ("dvc.yaml", "Makefile", ".gitignore", ".dvcignore"):
        shutil.copy(ROOT / name, tree)
    shapes = [(nx.cycle_graph if number % 2 else nx.path_graph)(3 + number // 2 % 5) for number in range(40)]
    for number, graph in enumerate(shapes):
        graph.graph["y"] = number % 2
    (tree / "shapes.json").write_text(json.dumps([nx.node_link_data(graph, edges="edges") for graph in shapes]))
    (tree / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    (tree / "tiny.yaml").write_text(yaml.safe_dump(SWEEP))
    run(tree, "git", "init", "--quiet")
    run(tree, "git", "config", "user.name", "tester")
    run(tree, "git", "config", "user.email", "tester@example.org")
    make_reproduce(tree)
    run(tree, "git", "add", ".")
    run(tree, "git", "commit", "--quiet", "--message", "reproduced")
    return tree


@pytest.fixture
def clone(reproduced, tmp_path):
    return shutil.copytree(reproduced, tmp_path / "clone")


def test_a_machine_with_other_results_leaves_the_lock_file_as_it_is(clone, tmp_path):
    before, ours = (clone / "dvc.lock").read_text(), results(clone)
    shutil.rmtree(clone / ".leap")
    (tmp_path / "sitecustomize.py").write_text(OTHER_MACHINE)
    make_reproduce(clone, PYTHONPATH=str(tmp_path))
    assert (clone / "dvc.lock").read_text() == before
    assert changes(clone) == ""
    theirs = results(clone)
    assert ours.keys() == theirs.keys() == {"shapes.json.json", "shapes.json.csv"}
    assert ours["shapes.json.csv"] != theirs["shapes.json.csv"], "the other machine is no other one"


def test_experiments_are_shown_side_by_side(clone):
    run(clone, "dvc", "exp", "run", "--name", "one")
    assert changes(clone) == ""
    run(clone, "dvc", "exp", "run", "--name", "other", "--set-param", "train.projection=deepsets")
    shown = json.loads(run(clone, "dvc", "exp", "show", "--json"))
    head = next(row for row in shown if row["rev"] != "workspace")
    found = {entry["name"]: entry["revs"][0]["data"] for entry in head["experiments"]}
    scores = {name: data["metrics"][".leap/stages/metrics/shapes.json.json"]["data"] for name, data in found.items()}
    assert {name: data["params"]["params.yaml"]["data"]["train"]["projection"] for name, data in found.items()} == {
        "one": "linear",
        "other": "deepsets",
    }
    for score in scores.values():
        assert score["gcn"].keys() == {"none", "leap-f"}
        assert all(0 <= value <= 1 for value in score["gcn"].values())
    assert scores["one"]["gcn"]["none"] == scores["other"]["gcn"]["none"]
    run(clone, "dvc", "plots", "diff", "one", "other")
    page = (clone / "dvc_plots" / "index.html").read_text()
    assert '"rev": "one"' in page
    assert '"rev": "other"' in page
    assert "dvc_plots" not in changes(clone)


def test_a_tree_without_git_is_reproduced(clone):
    shutil.rmtree(clone / ".git")
    shutil.rmtree(clone / "report")
    shutil.rmtree(clone / ".leap/stages/train")
    before = (clone / "dvc.lock").read_text()
    make_reproduce(clone)
    assert (clone / "report" / "index.html").exists()
    assert (clone / "dvc.lock").read_text() == before


def test_scores_fit_on_a_screen(clone):
    table = run(clone, "dvc", "metrics", "show").splitlines()
    assert [line.split()[0] for line in table] == ["Path", ".leap/stages/metrics/shapes.json.json"]
    assert table[0].split()[1:] == ["gcn.leap-f", "gcn.none"]


def manifest(tree):
    return json.loads((tree / ".leap/stages/train/shapes.json.json").read_text())


@pytest.mark.slow
def test_a_data_file_of_the_users_own_that_changed_is_noticed(clone):
    before = manifest(clone)
    graphs = json.loads((clone / "shapes.json").read_text())
    (clone / "shapes.json").write_text(json.dumps(graphs[:-2]))
    make_reproduce(clone)
    after = manifest(clone)
    assert after["runs"].keys() == before["runs"].keys()
    assert not set(after["runs"].values()) & set(before["runs"].values())


def test_a_sweep_file_of_the_users_own_that_changed_is_noticed(clone):
    before = manifest(clone)
    grid = SWEEP["grids"][0] | {"encodings": ["none", "leap-f", "rwpe"]}
    (clone / "tiny.yaml").write_text(yaml.safe_dump({"grids": [grid]}))
    make_reproduce(clone)
    after = manifest(clone)
    assert set(before["runs"].values()) < set(after["runs"].values())
    assert len(after["runs"]) == 3


def test_nothing_is_made_again_where_nothing_changed(clone):
    def written():
        files = [*(clone / ".leap/artifacts").rglob("*"), *(clone / ".leap/experiments").rglob("metrics.json")]
        return {path: path.stat().st_mtime_ns for path in (*files, clone / "report/index.html") if path.is_file()}

    before = written()
    make_reproduce(clone)
    assert changes(clone) == ""
    assert written() == before
