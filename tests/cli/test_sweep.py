"""`leap sweep` as a shell sees it."""

import json
import shutil

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest

QUICK = ("--epochs", "1", "--folds", "2", "--workers", "0", "--seed", "42")


@pytest.fixture
def shapes(tmp_path):
    graphs = []
    for number in range(40):
        graph = (nx.cycle_graph if number % 2 else nx.path_graph)(3 + number % 4)
        graph.graph["y"] = number % 2
        for node in graph:
            graph.nodes[node]["x"] = [node / 3, number % 5 / 2]
        graphs.append(nx.node_link_data(graph, edges="edges"))
    path = tmp_path / "shapes.json"
    path.write_text(json.dumps(graphs))
    return path


def test_presets_are_listed(leap):
    for arguments in (("--list",), ("list",), ()):
        shown = leap("sweep", *arguments)
        assert shown.code == 0
        assert "paper-main" in shown.out
        assert "quick" in shown.out
    listed = leap("sweep", "--list", "--json").json["presets"]
    assert {"name": "paper-main", "runs": 140, "folds": 700}.items() <= next(
        entry for entry in listed if entry["name"] == "paper-main"
    ).items()


def test_the_plan_of_the_main_table_needs_neither_data_nor_network(leap, store):
    shown = leap("sweep", "paper-main", "--plan", "--json")
    assert shown.code == 0, shown.err
    assert (shown.json["runs"], shown.json["folds"], shown.json["artifacts"]) == (7 * 4 * 5, 700, 35)
    assert [entry["runs"] for entry in shown.json["datasets"]] == [20] * 7
    text = leap("sweep", "paper-main", "--dataset", "Letter-high", "--dataset", "DHFR", "--plan")
    assert "200" in text.out
    assert "COX2" not in text.out
    assert not store.exists()


def test_options_that_came_later_tell_runs_apart_too(leap, shapes, tmp_path):
    """They are no part of a run's identity at their defaults, and yet are what differs here."""
    grid = {"dataset": "./shapes.json", "encoding": "none", "dropouts": [0.0, 0.5], "norms": ["none", "layer"]}
    (tmp_path / "own.yaml").write_text(json.dumps({"name": "own", "grids": [grid]}))
    lines = leap("sweep", "own.yaml", *QUICK).out.splitlines()
    assert lines[0].split()[3:5] == ["norm", "dropout"]
    assert [line.split()[3:5] for line in lines[1:5]] == [
        [norm, dropout] for dropout in ("0", "0.5") for norm in ("none", "layer")
    ]


def test_own_data_can_take_the_place_of_a_presets(leap, shapes, tmp_path):
    request = ("sweep", "compare", "--on", "./shapes.json", "-b", "gcn", "-e", "none", "-e", "leap-l", *QUICK)
    first = leap(*request)
    assert first.code == 0, first.err
    assert "2 trained, 0 cached, 0 failed" in first.out
    assert "±" in first.out
    assert (tmp_path / "runs" / "results.parquet").is_file()
    again = leap(*request, "--json")
    assert (again.json["cached"], again.json["trained"]) == (2, 0)
    assert again.json["runs"][0]["test"]["accuracy"]["mean"] is not None
    planned = leap(*request, "--plan", "--json").json
    assert (planned["runs_done"], planned["folds_done"], planned["artifacts"], planned["seconds"]) == (2, 4, 0, 0)


def test_a_redirected_sweep_writes_a_line_for_every_fold_that_ends(leap, shapes, tmp_path):
    grid = "{dataset: ./shapes.json, backbone: gcn, encoding: [none, rwpe], lr: [0.001, 1.0e+10]}"
    (tmp_path / "rates.yaml").write_text(f"name: rates\ngrids:\n  - {grid}\n")
    shown = leap("sweep", "rates.yaml", *QUICK)
    lines = [line for line in shown.err.splitlines() if line.startswith("[")]
    assert [line.split("]")[0] for line in lines] == [f"[{number}/8" for number in range(1, 9)]
    assert sum(", accuracy " in line for line in lines) == 4
    assert sum("failed: the validation loss was not a number" in line for line in lines) == 4
    assert "left" in lines[0]
    assert leap("sweep", "rates.yaml", *QUICK, "--quiet").err.count("[") == 0


def test_progress_with_json_is_an_object_per_line(leap, shapes):
    request = ("sweep", "compare", "--on", "./shapes.json", "-b", "gcn", "-e", "none", *QUICK)
    events = [json.loads(line) for line in leap(*request, "--json").err.splitlines()]
    assert [(event["event"], event["fold"], event["ended"]) for event in events] == [
        ("fold-ended", 0, 1),
        ("fold-ended", 1, 2),
    ]
    assert events[0]["result"]["test"]["accuracy"] is not None


def test_a_dataset_whose_files_are_gone_is_listed_and_the_exit_code_is_one(leap, shapes, tu_folder):
    missing = tu_folder("toy")
    request = ("sweep", "compare", "--on", "./shapes.json", "--on", missing, "-b", "gcn", "-e", "none", *QUICK)
    assert leap(*request, "--plan").code == 0
    for path in missing.iterdir():
        path.unlink()
    missing.rmdir()
    shown = leap(*request)
    assert shown.code == 1
    assert "1 trained, 0 cached, 1 failed" in shown.out
    assert f"Failed: {missing} gcn:" in shown.err
    assert "1 run failed. The same command tries again." in shown.err
    assert "Traceback" not in shown.err
    quiet = leap(*request, "--json")
    assert quiet.code == 1
    assert [entry["state"] for entry in quiet.json["runs"]] == ["cached", "failed"]
    assert quiet.json["runs"][1]["error"]


def test_results_found_by_name_alone_are_called_so(leap, shapes, tmp_path):
    options = ("-b", "gcn", "-e", "none", *QUICK)
    assert leap("sweep", "compare", "--on", "./shapes.json", *options).code == 0
    shapes.unlink()
    request = ("sweep", "compare", "--on", "shapes", *options)
    shown = leap(*request)
    assert shown.code == 0, shown.err
    assert "cached (data absent)" in shown.out
    assert "note: raw files of 'shapes' are absent, so 1 of 1 runs on it are answered by name" in shown.err
    assert leap(*request, "--json").json["runs"][0]["data_absent"]
    assert "raw files of shapes are absent: 1 run on it counted as done" in leap(*request, "--plan").err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--on", "./none.json"), "none.json"), (("--on", "./shapes.json", "--graph-label", "famly"), "famly")],
)
def test_a_sweep_that_cannot_do_a_single_run_is_wrong_usage_and_said_once(leap, shapes, arguments, message):
    shown = leap("sweep", "compare", *arguments, *QUICK)
    assert shown.code == 2
    assert shown.err.startswith("Error:")
    assert shown.err.count(message) == 1
    assert shown.out == ""


def test_an_error_that_stops_several_runs_is_said_once(leap, shapes):
    shown = leap(
        "sweep",
        "compare",
        "--on",
        "./shapes.json",
        "--on",
        "./none.json",
        "-b",
        "gcn",
        "-e",
        "none",
        "-e",
        "rwpe",
        *QUICK,
    )
    assert shown.code == 1
    assert shown.err.count("Failed:") == 1
    assert "Failed: 2 runs on ./none.json" in shown.err


def test_a_plan_says_that_own_data_was_not_read_yet(leap, shapes):
    shown = leap("sweep", "compare", "--on", "./shapes.json", "--plan", *QUICK)
    assert shown.code == 0
    assert "./shapes.json is not in the store yet" in shown.err


def test_a_finished_sweep_loads_neither_torch_nor_pyg(leap, lightly, shapes):
    request = ["sweep", "compare", "--on", "./shapes.json", "-b", "gcn", *QUICK]
    assert leap(*request).code == 0
    assert "0 trained, 5 cached, 0 failed" in lightly(*request)


def test_seeds_are_planned_trained_and_shown_as_one_result(leap, shapes, tmp_path):
    request = ("sweep", "compare", "--on", "./shapes.json", "-b", "gcn", "-e", "none", *QUICK[:-2])
    assert leap(*request, "--seeds", "42,7", "--plan", "--json").json["seeds"] == [7, 42]
    assert "2 seeds: 7, 42" in leap(*request, "--seeds", "42,7", "--plan").out
    one = leap(*request, "--seeds", "1")
    assert "1 trained, 0 cached, 0 failed; mean ± std over the folds' test parts, all in" in one.out
    shown = leap(*request, "--seeds", "2")
    assert shown.code == 0, shown.err
    assert "1 trained, 1 cached, 0 failed; mean ± std over the folds' test parts, seeds averaged in each" in shown.out
    row = next(line for line in shown.out.splitlines() if line.startswith("./shapes.json"))
    assert "42, 43" in row
    table = pq.read_table(tmp_path / "runs" / "results.parquet")
    scores = np.array(table.sort_by([("seed", "ascending"), ("fold", "ascending")])["test_accuracy"]).reshape(2, 2)
    folds = 100 * scores.mean(axis=0)
    assert f"{folds.mean():.1f} ± {folds.std(ddof=1):.1f} %" in row


def test_what_a_sweep_did_is_recorded_and_can_be_exported(leap, shapes, tmp_path):
    request = ("sweep", "compare", "--on", "./shapes.json", "-b", "gcn", "-e", "none", "-e", "leap-l", *QUICK)
    assert leap("train", "./shapes.json", "-b", "gin", "-e", "none", *QUICK).code == 0
    assert leap(*request).code == 0
    assert leap(*request).code == 0
    first, again = map(json.loads, (tmp_path / "runs" / "sweeps.jsonl").read_text().splitlines())
    assert (first["sweep"], first["trained"], first["cached"], first["workers"]) == ("compare", 2, 0, 1)
    assert first["command"] == "leap " + " ".join(request)
    assert first["seconds"] > 0
    assert (again["trained"], again["cached"], again["runs"]) == (0, 2, first["runs"])
    shown = leap("report", "--sweep", "compare", "--export", "kept")
    assert shown.code == 0, shown.err
    assert shown.out.splitlines()[-1].startswith("kept/README.md with ")
    text = (tmp_path / "kept" / "README.md").read_text()
    assert f"| command | `leap {' '.join(request)}` |" in text
    assert "2 runs with 4 folds" in text
    refused = leap("report", "--sweep", "comprae")
    assert (refused.code, "Did you mean 'compare'?" in refused.err) == (2, True)
    assert leap("report", "--export", "kept", "--graph", "3").code == 2


@pytest.fixture
def two_runs(leap, shapes, tmp_path):
    """A request that two finished runs answer, of which the table in `runs` knows one."""
    request = ("sweep", "compare", "--on", "./shapes.json", "-b", "gcn", "-e", "none", "-e", "rwpe", *QUICK)
    assert leap(*request[: -len(QUICK) - 2], *QUICK).code == 0
    known = (tmp_path / "runs" / "results.parquet").read_bytes()
    assert leap(*request).code == 0
    (tmp_path / "runs" / "results.parquet").write_bytes(known)
    return request


def test_a_table_that_finds_no_space_is_an_error_and_stays_as_it_was(leap, two_runs, tmp_path, mount):
    small = tmp_path / "small"
    small.mkdir()
    mount(small, "-t", "tmpfs", "-o", "size=4m", "tmpfs")
    shutil.copytree(tmp_path / "runs", small / "runs")
    (small / "ballast").write_bytes(bytes(shutil.disk_usage(small).free))
    before = (small / "runs" / "results.parquet").read_bytes()
    shown = leap(*two_runs, "--runs", small / "runs")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith(f"Error: no space left on the disk of {small / 'runs'}. results.parquet stays as")
    assert (small / "runs" / "results.parquet").read_bytes() == before
    (small / "ballast").unlink()
    assert leap(*two_runs, "--runs", small / "runs", "--json").json["cached"] == 2
    assert len(set(pq.read_table(small / "runs" / "results.parquet")["run"].to_pylist())) == 2


def test_finished_runs_answer_from_a_read_only_folder(leap, two_runs, tmp_path, read_only):
    before = (tmp_path / "runs" / "results.parquet").read_bytes()
    read_only(tmp_path / "runs")
    assert leap(*two_runs, "--json").json["cached"] == 2
    assert (tmp_path / "runs" / "results.parquet").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("paper-mian",), "Did you mean 'paper-main'?"),
        (("none.yaml",), "cannot read the sweep 'none.yaml'"),
        (("paper-main", "--dataset", "Leter-high"), "Did you mean 'Letter-high'?"),
        (("paper-main", "--on", "mine", "-e", "leap-l"), "no published-best projection"),
        (("quick", "--epochs", "0"), "epochs is 0"),
        (("quick", "--folds", "1"), "folds is 1"),
        (("quick", "--seed", "1", "--seeds", "3"), "--seed and --seeds are both given"),
        (("quick", "--seeds", "0"), "seeds in the options given is '0'"),
        (("quick", "--seeds", ""), "seeds in the options given is ''"),
    ],
)
def test_wrong_usage_is_one_paragraph_and_exit_code_two(leap, arguments, message):
    shown = leap("sweep", *arguments)
    assert shown.code == 2
    assert message in shown.err
    assert shown.err.startswith("Error:")
    assert "Traceback" not in shown.err


def test_runs_that_diverge_fail_with_the_reason_and_the_others_finish(leap, shapes, tmp_path):
    grid = "{dataset: ./shapes.json, backbone: nomp, encoding: leap-l, lr: [0.001, 1.0e+10]}"
    (tmp_path / "rates.yaml").write_text(f"name: rates\ngrids:\n  - {grid}\n")
    shown = leap("sweep", "rates.yaml", "--epochs", "4", "--folds", "2", "--workers", "0")
    assert shown.code == 1
    assert "1 trained, 0 cached, 1 failed" in shown.out
    assert "the validation loss was not a number in any epoch. Use a smaller --lr." in shown.err.replace("\n", " ")
