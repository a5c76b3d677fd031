"""`leap compare` as a shell sees it: one command, one answer."""

import errno
import json
import os

import networkx as nx
import pytest

from leap.pipeline.engine import sweep
from leap.pipeline.experiments.recommended import FIRST_LOOK, LARGE, comparison
from leap.pipeline.experiments.sweep_file import load
from leap.pipeline.stages.ingest import IngestOptions

SMALL = ("-b", "gcn", "-e", "none", "-e", "leap-f", "--epochs", "1", "--folds", "2", "--workers", "0", "--seeds", "1")


def write(path, label, *, with_features=False):
    """Write forty small graphs, each with a label that its number gives."""
    graphs = []
    for number in range(40):
        graph = (nx.cycle_graph if number % 2 else nx.path_graph)(3 + number % 4)
        graph.graph["y"] = label(number)
        if with_features:
            nx.set_node_attributes(graph, {node: [node / 3, number % 5 / 2] for node in graph}, "x")
        graphs.append(nx.node_link_data(graph, edges="edges"))
    path.write_text(json.dumps(graphs))


@pytest.fixture
def shapes(tmp_path):
    write(tmp_path / "shapes.json", lambda number: number % 2, with_features=True)


def test_one_command_ends_with_the_answer_and_the_page(leap, shapes, tmp_path):
    shown = leap("compare", "./shapes.json", *SMALL)
    assert shown.code == 0, shown.err
    *_, answer, blank, last = shown.out.splitlines()
    assert answer.startswith("No difference between LEAP and no encoding is shown on shapes: ")
    assert "Cost of LEAP-F with GCN: " in answer
    assert "Take GCN without an encoding" in answer
    assert (blank, last) == ("", "tables and pictures: report/index.html")
    again = leap("compare", "./shapes.json", *SMALL, "--json").json
    assert (again["stage"], again["trained"], again["cached"]) == ("compare", 0, 2)
    assert again["answer"] == answer
    (of_dataset,) = again["datasets"]
    assert (of_dataset["dataset"], of_dataset["effect"], of_dataset["first_look"]) == ("shapes", "not shown", False)
    assert (tmp_path / again["page"]).is_file()


def test_a_first_look_is_said_to_be_one_and_never_mixed_with_the_answer(leap, shapes):
    few = SMALL[:6] + SMALL[8:]
    quick = leap("compare", "./shapes.json", "--quick", *few, "--epochs", "2", "--json").json
    assert quick["name"] == FIRST_LOOK
    assert quick["answer"].startswith("First look, at most 2 epochs: ")
    assert "This is a first look" in quick["answer"]
    full = leap("compare", "./shapes.json", *SMALL, "--json").json
    assert full["trained"] == 2
    assert "first look" not in full["answer"].casefold()


def test_graphs_without_features_and_regressions_are_answered_together(leap, shapes, tmp_path):
    write(tmp_path / "sizes.json", lambda number: 3.5 + number % 4)
    shown = leap("compare", "./shapes.json", "./sizes.json", *SMALL, "--json")
    assert shown.code == 0, shown.err
    assert shown.json["answer"].startswith("LEAP is shown to help on none of 2 datasets; no difference")
    assert [one["metric"] for one in shown.json["datasets"]] == ["accuracy", "r2"]
    assert "R² " in shown.json["datasets"][1]["answer"]


def test_a_dataset_that_cannot_be_read_does_not_stop_the_others(leap, shapes):
    shown = leap("compare", "./nothing.json", "./shapes.json", *SMALL)
    assert shown.code == 1
    assert "./nothing.json" in shown.err
    assert "is shown on shapes: " in shown.out


def test_the_answer_is_about_this_request_whatever_else_the_folder_logs(leap, shapes, tmp_path, monkeypatch):
    """Another process may log its own call in between, and a folder that cannot be written has no new line at all."""
    write(tmp_path / "sizes.json", lambda number: 3.5 + number % 4)
    assert leap("compare", "./shapes.json", *SMALL).code == leap("compare", "./sizes.json", *SMALL).code == 0
    monkeypatch.setattr(sweep, "record", lambda *_: None)
    again = leap("compare", "./shapes.json", *SMALL, "--json").json
    assert [one["dataset"] for one in again["datasets"]] == ["shapes"]


def test_two_datasets_of_one_name_are_not_taken_for_one(leap, shapes, tmp_path):
    (tmp_path / "other").mkdir()
    write(tmp_path / "other" / "shapes.json", lambda number: number % 3)
    shown = leap("compare", "./shapes.json", "./other/../shapes.json", "./other/shapes.json", *SMALL)
    assert shown.code == 2
    assert "'./shapes.json' and './other/shapes.json' are different data with one name, 'shapes'" in shown.err


def test_other_networks_than_the_recommended_can_be_compared(leap, shapes):
    few = SMALL[6:]
    runs = leap("compare", "./shapes.json", "-b", "mlp", "-e", "none", "-e", "lect+rwpe", *few, "--json").json["runs"]
    assert [(run["backbone"], run["encoding"]) for run in runs] == [("mlp", "none"), ("mlp", "lect+rwpe")]


def test_classes_too_small_for_the_folds_are_named(leap, tmp_path):
    write(tmp_path / "many.json", lambda number: number)
    shown = leap("compare", "./many.json", *SMALL)
    assert shown.code == 2
    assert "no class of 'many' has more than 1 graph (the smallest has 1), fewer than the 2 folds. Use a" in shown.err


@pytest.mark.parametrize("taken", ["report", "report/index.html", "report/tables"])
def test_a_page_that_cannot_be_written_is_refused_before_training(leap, shapes, tmp_path, taken):
    path = tmp_path / taken
    path.parent.mkdir(exist_ok=True)
    path.mkdir() if taken.endswith(".html") else path.touch()
    shown = leap("compare", "./shapes.json", *SMALL)
    assert (shown.code, shown.out) == (2, "")
    reason = "is a folder, and a file belongs there" if taken.endswith(".html") else "Not a directory. Give another"
    assert reason in shown.err
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_is_not_for_us_to_write_is_refused_before_training(leap, shapes, tmp_path, read_only):
    (tmp_path / "theirs").mkdir()
    read_only(tmp_path / "theirs")
    shown = leap("compare", "./shapes.json", *SMALL, "--out", "theirs/new/report")
    assert (shown.code, shown.out) == (2, "")
    assert "cannot write the report to 'theirs/new/report': " in shown.err
    assert not (tmp_path / "runs").exists()


def test_an_answer_is_given_even_if_its_page_cannot_be_written(leap, shapes, monkeypatch):
    def full_disk(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("leap.pipeline.reports.write.to_svg", full_disk)
    shown = leap("compare", "./shapes.json", *SMALL)
    assert shown.code == 2
    assert "2 trained, 0 cached, 0 failed" in shown.out
    assert shown.out.splitlines()[-1].startswith("No difference between LEAP and no encoding is shown on shapes: ")
    assert "cannot write the report to 'report': No space left on device" in shown.err
    told = leap("compare", "./shapes.json", *SMALL, "--json")
    assert told.code == 2
    assert told.json["answer"] == shown.out.splitlines()[-1]
    assert (told.json["page"], len(told.json["datasets"])) == (None, 1)
    assert "No space left" in told.json["page_error"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument"),
        (("./nothing.json",), "nothing.json"),
        (("./shapes.json", "-e", "leap-q"), "leap-q"),
        (("./shapes.json", "--seeds", "2", "--seed", "1"), "--seed and --seeds are both given"),
    ],
)
def test_wrong_usage_ends_with_two_and_a_way_out(leap, shapes, arguments, message):
    shown = leap("compare", *arguments)
    assert shown.code == 2
    assert message in shown.err
    assert "Traceback" not in shown.err


def test_the_plan_trains_nothing_and_names_seeds_and_time(leap, tmp_path):
    planned = leap("compare", "letters-low", "minesweeper", "--plan", "--json").json
    assert (planned["runs"], planned["folds"], planned["seeds"]) == (60, 30 * 5 + 30 * 10, [42, 43, 44])
    assert {run["backbone"] for run in planned["run_list"] if run["dataset"] == "minesweeper"} == {"gcn", "mlp"}
    quick = leap("compare", "letters-low", "--quick", "--plan", "--json").json
    assert (quick["runs"], quick["folds"], quick["name"]) == (10, 50, FIRST_LOOK)
    assert quick["seconds"] < planned["datasets"][0]["seconds"] / 3
    nodes = leap("compare", "minesweeper", "--quick", "--plan", "--json").json
    assert (nodes["runs"], nodes["folds"]) == (10, 30)
    assert nodes["seconds"] * nodes["workers"] < 240
    shorter = leap("compare", "minesweeper", "--quick", "--plan", "--json", "--epochs", "5").json
    assert {run["epochs"] for run in shorter["run_list"]} == {5}
    assert not (tmp_path / "runs").exists()


def test_what_is_recommended_is_what_the_preset_says():
    """Another encoding in the preset is compared without a change elsewhere."""
    (grid,) = load("compare").grids
    (made,) = comparison({"mine": None}, IngestOptions()).grids
    assert made.axes == grid.axes | {"dataset": ("mine",)}


def test_graphs_too_large_for_attention_between_all_nodes_get_a_map_of_each_node():
    file = comparison({"small": (10, 10 * LARGE), "large": (1, LARGE + 1)}, IngestOptions())
    assert [grid.axes["backbone"] for grid in file.grids] == [("gcn", "nomp"), ("gcn", "mlp")]
