"""Wrong usage and bad input: one paragraph, exit code 2, no traceback, and not a byte of the store changed."""

import errno
import json
import shutil

import pytest
import torch


@pytest.fixture
def refused(leap, store, snapshot):
    """Return a function that runs a command, checks how it is refused, and gives the message."""

    def run(*arguments, where=None, leave_out=()):
        root = where or store
        before = snapshot(root, leave_out)
        outcome = leap(*arguments)
        assert outcome.code == 2, outcome.err + outcome.out
        assert outcome.out == ""
        assert "Traceback" not in outcome.err
        assert "unexpected" not in outcome.err
        assert outcome.err.startswith("Error: ")
        assert outcome.err.count("\n") == 1, "an error is one paragraph"
        assert snapshot(root, leave_out) == before
        return outcome.err

    return run


NOTES = ("locks", "usage")  # of a command that used the dataset before it was refused
STAGES = pytest.mark.parametrize("stage", ["ingest", "extract", "encode"])


@STAGES
@pytest.mark.parametrize(("wrong", "right"), [("Leter-high", "Letter-high"), ("triad", "triads"), ("HIV", "hiv")])
def test_an_unknown_dataset_comes_with_a_suggestion(refused, filled, stage, wrong, right):
    assert f"no dataset {wrong!r}. Did you mean {right!r}?" in refused(stage, wrong)


@STAGES
def test_missing_raw_files_offline_say_what_to_put_where(refused, filled, tmp_path, stage):
    message = refused(stage, "MUTAG")
    for part in (
        "cannot be reached",
        "MUTAG_A.txt",
        "MUTAG_graph_indicator.txt",
        str(tmp_path / "data" / "MUTAG" / "raw"),
    ):
        assert part in message
    assert not (tmp_path / "data").exists()


BAD_FILES = {
    "labels and indicator of different lengths": ({"graph_labels": "1\n-1\n1\n"}, ["3 lines", "4 graphs"]),
    "attributes and indicator of different lengths": ({"node_attributes": "1, 2\n" * 7}, ["7 lines", "8 nodes"]),
    "a node id too large": ({"A": "1, 2\n2, 99\n"}, ["line 2", "node 99", "1 to 8"]),
    "a node id of zero": ({"A": "0, 2\n"}, ["line 1", "node 0"]),
    "an edge between graphs": ({"A": "1, 4\n"}, ["graph"]),
    "NaN among features": ({"node_attributes": "1, 2\n" * 7 + "1, nan\n"}, ["line 8", "'nan' is not finite"]),
    "infinity among features": ({"node_attributes": "1, 2\n" * 7 + "1, 1e999\n"}, ["line 8", "not finite"]),
    "text for a feature": ({"node_attributes": "1, 2\n" * 7 + "1, two\n"}, ["line 8", "'two' is not a number"]),
    "text for a node id": ({"A": "1, 2\n2, x\n"}, ["line 2", "'x' is not a whole number"]),
    "text for a graph": ({"graph_indicator": "1\n1\n1\n2\n2\n2\n2\nfour\n"}, ["line 8", "'four'"]),
    "text for a label": ({"graph_labels": "1\n-1\none\n-1\n"}, ["line 3", "'one'"]),
    "no indicator": ({"graph_indicator": None}, ["no dataset in a known format"]),
    "no nodes": ({"graph_indicator": ""}, ["empty"]),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_named_with_line_and_value(refused, filled, tu_folder, case):
    files, expected = BAD_FILES[case]
    message = refused("ingest", tu_folder(**files))
    for part in expected:
        assert part in message


@STAGES
def test_a_bad_file_is_refused_by_every_stage(refused, store, tu_folder, stage):
    refused(stage, tu_folder(A="1, 99\n"))
    assert not store.exists(), "not even a new store is begun"


@pytest.fixture
def own_graphs(tmp_path):
    """Node-link graphs of two families; one node lacks `pos_x`, and `kind` is text."""
    graphs = [
        {
            "graph": {"family": "ab"[number % 2], "same": 1},
            "nodes": [{"id": node, "pos_x": 0.5, "pos_y": float(node), "kind": "hub"} for node in range(3)],
            "edges": [{"source": 0, "target": 1}],
        }
        for number in range(10)
    ]
    del graphs[2]["nodes"][1]["pos_x"]
    path = tmp_path / "graphs.json"
    path.write_text(json.dumps(graphs))
    return path


def test_attributes_that_are_left_out_are_said_unless_quiet(leap, own_graphs):
    outcome = leap("extract", own_graphs, "--graph-label", "family")
    assert outcome.code == 0
    assert "1 feature (pos_y), 2 classes" in outcome.out
    kind, lacking = outcome.err.splitlines()
    assert kind.startswith("note: node attribute 'kind' is left out: it is text ('hub' at node 0 of")
    assert lacking.startswith("note: node attribute 'pos_x' is left out: 1 of 30 nodes lacks it, node 1 of")
    assert lacking.endswith("graph 2. Name it with --node-attribute to make that an error.")
    assert leap("ingest", own_graphs, "--graph-label", "same", "--quiet").err == ""
    named = leap("ingest", own_graphs, "--graph-label", "family", "--node-attribute", "pos_y")
    assert (named.code, named.err) == (0, "")


def test_a_label_that_was_not_named_is_offered(leap, own_graphs):
    assert "note: graphs have no label; --graph-label family would" in leap("ingest", own_graphs).err
    trained = leap("train", own_graphs)
    assert trained.code == 2
    assert "no labels or targets to learn. Its graphs have family: give --graph-label family" in trained.err


@STAGES
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--node-attribute", "posx"], "no node attribute 'posx'. Did you mean 'pos_x'? There are kind, pos_x, pos_y."),
        (["--graph-label", "famly"], "no graph attribute 'famly'. Did you mean 'family'? There are family, same."),
    ],
)
def test_a_mistyped_attribute_comes_with_a_suggestion(refused, own_graphs, stage, options, expected):
    assert expected in refused(stage, own_graphs, *options)


def test_one_label_for_all_graphs_is_nothing_to_train(leap, own_graphs):
    outcome = leap("train", own_graphs, "--graph-label", "same", "--quiet")
    assert (outcome.code, outcome.out) == (2, "")
    assert "all 10 graphs of 'graphs' have the label 1: there is nothing to learn" in outcome.err


@STAGES
def test_a_directory_that_is_not_a_store_is_left_alone(refused, store, stage):
    store.mkdir()
    (store / "thesis.tex").write_text("precious")
    assert "is not a LEAP store: it holds 'thesis.tex'" in refused(stage, "letters-low")


@pytest.mark.parametrize("command", [["ls"], ["verify"], ["gc"], ["show", "abcd"], ["rm", "abcd"]], ids=lambda c: c[0])
def test_store_commands_leave_other_directories_alone_too(refused, store, command):
    store.mkdir()
    (store / "thesis.tex").write_text("precious")
    assert "is not a LEAP store" in refused("store", *command)


def test_a_file_is_not_a_store(refused, tmp_path, leap):
    (tmp_path / "file").write_text("x")
    assert "is a file, not a LEAP store" in refused(
        "ingest", "letters-low", "--store", tmp_path / "file", where=tmp_path
    )


@STAGES
def test_a_store_of_a_newer_schema_is_refused(refused, filled, stage):
    (filled / "leap-store.json").write_text(json.dumps({"format": "leap-store", "schema": 99}))
    message = refused(stage, "letters-low")
    assert "schema 99" in message
    assert "newer" in message


@pytest.mark.parametrize("marker", ["", "{", "[]", '{"format": "other", "schema": 1}', '{"format": "leap-store"}'])
def test_a_store_without_a_readable_marker_is_refused(refused, filled, marker):
    (filled / "leap-store.json").write_text(marker)
    assert "leap-store.json" in refused("ingest", "letters-low")


@pytest.mark.parametrize(
    "command", [["ingest", "letters-med"], ["extract", "letters-low", "--hops", "2"]], ids=lambda c: c[0]
)
def test_a_read_only_store_is_not_written_to(refused, filled, read_only, command):
    read_only(filled)
    assert "read-only" in refused(*command)


@pytest.mark.parametrize(
    "command", [["tag", "KEY", "best"], ["rm", "KEY"], ["gc", "--keep-days", "0"]], ids=lambda c: c[0]
)
def test_a_read_only_store_cannot_be_tidied(refused, leap, filled, read_only, command):
    key = leap("store", "ls", "--kind", "rwpe", "--json").json["artifacts"][0]["key"]
    read_only(filled)
    assert "read-only" in refused("store", *(key if word == "KEY" else word for word in command))


@pytest.mark.parametrize(
    "command",
    [
        ["ingest", "letters-low"],
        ["extract", "letters-low", "--hops", "1"],
        ["encode", "letters-low", "-e", "rwpe", "--dim", "6"],
        ["encode", "letters-low", "-e", "rwpe", "--dim", "2"],
        ["store", "ls"],
        ["store", "verify"],
        ["store", "why", "rwpe", "letters-low", "dim=9"],
        ["store", "gc", "--dry-run"],
    ],
    ids=" ".join,
)
def test_what_a_read_only_store_has_can_be_used(leap, filled, read_only, snapshot, command):
    read_only(filled)
    before = snapshot(filled, leave_out=())
    outcome = leap(*command, "--json")
    assert outcome.code == 0, outcome.err
    if command[0] != "store":
        assert all(artifact["cached"] for artifact in outcome.json["artifacts"])
    assert snapshot(filled, leave_out=()) == before


def test_a_full_disk_is_noticed_before_anything_is_written(refused, filled, tmp_path, mount):
    small = tmp_path / "small"
    small.mkdir()
    mount(small, "-t", "tmpfs", "-o", "size=2m", "tmpfs")
    shutil.copytree(filled, small / "store")
    message = refused("ingest", "triads", "--store", small / "store", where=small)
    assert "MiB free" in message
    assert "--store" in message


@pytest.mark.parametrize(
    "command", [["ingest", "triads"], ["extract", "letters-low", "--hops", "2"]], ids=lambda c: c[0]
)
def test_a_disk_that_fills_up_on_the_way_leaves_the_store_as_it_was(
    leap, filled, tmp_path, mount, snapshot, monkeypatch, command
):
    small = tmp_path / "small"
    small.mkdir()
    mount(small, "-t", "tmpfs", "-o", "size=2m", "tmpfs")
    shutil.copytree(filled, small / "store")
    free = shutil.disk_usage(small).free
    (small / "ballast").write_bytes(bytes(free - 60_000))
    before = snapshot(small / "store")
    monkeypatch.setattr("leap.store.location.LocalLocation.free_bytes", lambda self: None)
    outcome = leap(*command, "--store", small / "store")
    assert outcome.code == 2, outcome.err
    assert outcome.err.startswith("Error: no space left on the disk")
    assert outcome.err.count("\n") == 1
    assert snapshot(small / "store") == before
    assert leap("store", "verify", "--store", small / "store").code == 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_any_write_that_finds_no_space_is_the_same_error(leap, filled, snapshot, monkeypatch, code):
    before = snapshot(filled)

    def full(*args, **kwargs):
        raise OSError(code, "No space left on device")

    monkeypatch.setattr("zarr.storage._local._put", full)
    outcome = leap("ingest", "letters-high")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("Error: no space left on the disk of the store")
    assert snapshot(filled) == before


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["extract", "letters-low", "--hops", "0"], "hops is 0"),
        (["extract", "letters-low", "--hops", "-1"], "hops is -1"),
        (["extract", "letters-low", "--cap", "1"], "cap is 1"),
        (["extract", "letters-low", "--cap", "4", "--cap-seed", "-1"], "cap_seed is -1"),
        (["extract", "letters-low", "--workers", "-2"], "--workers is -2"),
        (["encode", "letters-low", "-e", "rope"], "no encoding 'rope'. Did you mean 'rwpe'? Choose from"),
        (["encode", "letters-low", "-e", "leap-f"], "LEAP is learned, by 'leap train DATASET -e leap-f'"),
        (["encode", "letters-low", "-e", "leap"], "LEAP is learned, by 'leap train DATASET -e leap-l'"),
        (["encode", "letters-low", "-e", "lape+leap-l"], "'leap train DATASET -e lape+leap-l'"),
        (["encode", "letters-low", "-e", "leap-l"], "'leap encode DATASET -e dect'"),
        (["encode", "letters-low", "--dim", "0"], "dim is 0"),
        (["encode", "letters-low", "--drop", "none"], "drop is 'none'"),
        (["encode", "letters-low", "-e", "rwpe", "--scale", "9"], "'scale' is not a parameter of rwpe"),
        (["encode", "letters-low", "-e", "dect", "--scale", "inf"], "scale is inf"),
        (["encode", "letters-low", "-e", "dect", "--directions-file", "missing.npy"], "missing.npy"),
        (["ingest", "letters-low", "--features", "colour"], "features is 'colour'"),
        (["ingest", "letters-low", "--partition-mb", "0"], "partition_mb is 0"),
        (["ingest", "letters-low", "--partition-mb", "inf"], "partition_mb is inf"),
        *(
            ([*command, option, value], f"{option[2:].replace('-', '_')} is {float(value)}: give a number of ")
            for value in ("nan", "inf", "-1", "0")
            for option, *command in (
                ["--budget-gb", "extract", "letters-low"],
                ["--budget-gb", "encode", "letters-low"],
                ["--budget-gb", "train", "letters-low"],
                ["--memory-gb", "train", "letters-low"],
                ["--budget-gb", "sweep", "quick"],
                ["--memory-gb", "sweep", "quick"],
                ["--budget-gb", "train", "letters-low", "--plan"],
                ["--memory-gb", "sweep", "quick", "--plan"],
                ["--keep-days", "store", "gc"],
            )
            if (option, value) != ("--keep-days", "0")
        ),
        (
            ["train", "letters-low", "--device", "gpu"],
            "no device is called 'gpu'. Give auto, cpu, cuda, cuda:N or mps.",
        ),
        (["sweep", "quick", "--device", "cpu:1"], "no device is called 'cpu:1'"),
        *(
            ([*command, "--device", "cuda:7"], "finds no cuda device on this machine. Use --device cpu.")
            for command in (["train", "letters-low"], ["sweep", "quick"], ["predict", "nowhere", "letters-low"])
            if not torch.cuda.is_available()
        ),
        (["store", "show", "0123456789"], "no artifact or tag '0123456789'"),
        (["store", "show", "x"], "no artifact or tag 'x'"),
        (["store", "tag", "0123456789", "best"], "no artifact or tag"),
        (["store", "tag", "best", "--delete"], "no tag 'best'"),
        (["store", "rm", "0123456789"], "no artifact or tag"),
        (["store", "why", "colour", "letters-low"], "no kind 'colour'"),
        (["store", "why", "rwpe", "letters-low", "dim"], "'dim' is not NAME=VALUE"),
        (["store", "why", "rwpe", "letters-low", "colour=1"], "'colour' is not a parameter of rwpe"),
        (["store", "why", "dataset", "letters-low", "dim=1"], "'dim' is not a parameter of dataset"),
        (["store", "why", "rwpe", "Leter-low"], "Did you mean"),
        (["ingest", "./nowhere"], "there is no file or folder"),
        (["ingest", "../inner"], "no dataset in a known format (found: an empty folder)"),
        (["ingest", ""], "no dataset ''"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_values_are_refused(refused, filled, tmp_path, monkeypatch, arguments, expected):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    assert expected in refused(*arguments)


def test_a_scheduler_that_does_not_answer_is_named(refused, filled, monkeypatch):
    monkeypatch.setattr("leap.pipeline.cluster.CONNECT_SECONDS", 0.5)
    message = refused("extract", "letters-low", "--hops", "2", "--scheduler", "tcp://127.0.0.1:1", leave_out=NOTES)
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:1'" in message


def test_a_directions_file_must_hold_a_matrix_of_numbers(refused, filled, tmp_path):
    import numpy as np

    for number, (array, expected) in enumerate(
        [
            (np.zeros(3), "shape (3,)"),
            (np.array([["a", "b"]]), "numbers"),
            (np.ones((5, 2)), "5"),
            (np.full((2, 2), np.nan), "nan"),
            (np.zeros((2, 2)), "length zero"),
        ]
    ):
        path = tmp_path / f"{number}.npy"
        np.save(path, array)
        message = refused("encode", "letters-low", "-e", "dect", "--directions-file", path, leave_out=NOTES)
        assert expected in message
    (tmp_path / "text.npy").write_text("not an array")
    assert "not a readable .npy array" in refused(
        "encode", "letters-low", "-e", "dect", "--directions-file", tmp_path / "text.npy"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["extract"],
        ["extract", "letters-low", "--hops", "two"],
        ["extract", "letters-low", "--nonsense"],
        ["nonsense"],
        ["--workers", "two", "ingest", "letters-low"],
        ["store", "nonsense"],
        ["store", "gc", "--keep-days", "long"],
    ],
    ids=" ".join,
)
def test_usage_errors_have_exit_code_2_too(leap, filled, snapshot, arguments):
    before = snapshot(filled, leave_out=())
    outcome = leap(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Usage:" in outcome.err
    assert "Traceback" not in outcome.err
    assert snapshot(filled, leave_out=()) == before


def test_an_explosion_is_refused_with_its_estimate(leap, filled, snapshot):
    before = snapshot(filled)
    outcome = leap("extract", "letters-low", "--hops", "3", "--budget-gb", "0.0001")
    assert outcome.code == 2
    assert "3-hop neighbourhoods of 'letters-low' are estimated at" in outcome.err
    assert "--cap" in outcome.err
    assert snapshot(filled) == before


def test_an_unwritable_out_is_an_error(leap, filled, tmp_path):
    (tmp_path / "file").write_text("x")
    outcome = leap("extract", "letters-low", "--out", tmp_path / "file" / "out.json")
    assert outcome.code == 2
    assert "cannot write --out" in outcome.err


def test_failed_work_has_exit_code_1_and_names_what_happened(leap, filled, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("the sky [fell]")

    monkeypatch.setattr("leap.pipeline.derived.rwpe.RwpeRecipe.plan", broken)
    outcome = leap("encode", "letters-low", "-e", "rwpe", "--dim", "30")
    assert outcome.code == 1
    assert "RuntimeError: the sky [fell]" in outcome.err
    assert "--debug" in outcome.err
    assert "Traceback" not in outcome.err
    debugged = leap("encode", "letters-low", "-e", "rwpe", "--dim", "30", "--debug")
    assert debugged.code == 1
    assert "Traceback" in debugged.err
    assert "in broken" in debugged.err


def test_an_encoding_that_cannot_be_computed_is_named(leap, filled, monkeypatch):
    def broken(*args, **kwargs):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("leap.pipeline.derived.rwpe.RwpeRecipe.compute", broken)
    outcome = leap("encode", "letters-low", "-e", "rwpe", "--dim", "30", "--workers", "0")
    assert outcome.code == 1
    assert "division by zero. It was raised by the computation of rwpe. Run again with --debug" in outcome.err


def test_debugging_changes_no_exit_code(leap, filled):
    debugged = leap("extract", "letters-low", "--hops", "0", "--debug")
    assert debugged.code == 2
    assert "Traceback" in debugged.err
    assert debugged.err.splitlines()[-1].startswith("Error: hops is 0")


@pytest.mark.parametrize("command", ["train", "sweep"])
@pytest.mark.parametrize(
    ("part", "has_folder"),
    [("leap.pipeline.derived.rwpe.RwpeRecipe.check", False), ("leap.pipeline.engine.fold.begin_fold", True)],
)
def test_unexpected_errors_of_training_leave_their_traceback_where_the_message_says(
    leap, filled, tmp_path, monkeypatch, command, part, has_folder
):
    def broken(*args, **kwargs):
        raise RuntimeError("the sky [fell]")

    monkeypatch.setattr(part, broken)
    what = {"train": ("train", "letters-low"), "sweep": ("sweep", "compare", "--on", "letters-low")}[command]
    request = (*what, "-b", "gcn", "-e", "rwpe", "--epochs", "1", "--folds", "2", "--workers", "0", "--seed", "42")
    shown = leap(*request)
    assert shown.code == 1
    assert "unexpected RuntimeError: the sky [fell]. The traceback is in runs/" in shown.err
    assert "Traceback" not in shown.err
    (kept,) = (tmp_path / "runs").rglob("traceback-*.txt")
    assert str(kept.relative_to(tmp_path)) in shown.err
    assert (kept.parent != tmp_path / "runs") == has_folder
    assert "in broken" in kept.read_text()
    again = ("--resume",) if command == "train" and has_folder else ()
    debugged = leap(*request, *again, "--debug")
    assert debugged.code == 1
    assert "Traceback" in debugged.err
    assert "in broken" in debugged.err


SMALL = ("--epochs", "1", "--folds", "2", "--workers", "0", "--seed", "42")


def test_a_folder_where_a_file_belongs_is_an_error_that_names_it(leap, filled, tmp_path):
    on_letters = ("sweep", "compare", "--on", "letters-low", "-b", "gcn", "-e", "none", *SMALL)
    (tmp_path / "taken").mkdir()
    (tmp_path / "runs/results.parquet").mkdir(parents=True)
    refused = leap(*on_letters)
    assert (refused.code, refused.out) == (2, ""), refused.err
    assert "runs/results.parquet is a folder, and a file belongs there" in refused.err
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["results.parquet"], "before any training"
    (tmp_path / "runs/results.parquet").rmdir()
    assert leap(*on_letters).code == 0
    (run,) = (path.parent for path in (tmp_path / "runs").glob("*/metrics.json"))
    assert leap("report").code == 0
    for path in ("runs/results.parquet", "report/index.html", "report/tables/main.csv"):
        kept = (tmp_path / path).read_bytes()
        (tmp_path / path).unlink()
        (tmp_path / path).mkdir()
        refused = leap("report")
        assert (refused.code, refused.out) == (2, ""), refused.err
        assert f"{path} is a folder, and a file belongs there" in refused.err
        (tmp_path / path).rmdir()
        (tmp_path / path).write_bytes(kept)
    for command in (
        ("predict", run, "letters-low"),
        ("ingest", "letters-low"),
        ("extract", "letters-low"),
        ("encode", "letters-low", "-e", "rwpe", "--dim", "6"),
        on_letters,
    ):
        refused = leap(*command, "--out", tmp_path / "taken")
        assert (refused.code, refused.out) == (2, ""), refused.err
        assert "taken" in refused.err
        assert refused.err.count("\n") == 1
    (run / "metrics.json").unlink()
    (run / "metrics.json").mkdir()
    refused = leap(*on_letters)
    assert (refused.code, refused.out) == (2, ""), refused.err
    assert f"{run.relative_to(tmp_path)}/metrics.json is a folder" in refused.err


def test_names_between_colons_are_no_pictures(refused, filled):
    assert "no artifact or tag 'evil:x:y'" in refused("store", "show", "evil:x:y")
