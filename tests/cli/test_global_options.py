"""Global options work before and after the command's name; `--json` is one object, `--quiet` is quiet."""

import json
import re
import subprocess
import sys

import pytest

COMMANDS = [
    ["datasets"],
    ["ingest", "letters-low"],
    ["extract", "letters-low", "--hops", "1", "--hops", "2"],
    ["encode", "letters-low", "--encoding", "rwpe", "--dim", "4"],
    ["store", "ls"],
    ["store", "show", "KEY"],
    ["store", "why", "rwpe", "letters-low", "dim=9"],
    ["store", "verify"],
    ["store", "tag", "KEY", "best"],
    ["store", "tag", "KEY", "--pin"],
    ["store", "tag", "best", "--delete"],
    ["store", "gc", "--dry-run"],
    ["store", "rm", "KEY", "--dry-run"],
    ["store", "rm", "KEY"],
]


def with_key(command, leap, kind="rwpe"):
    key = next(a["key"] for a in leap("store", "ls", "--json").json["artifacts"] if a["kind"] == kind)
    return [key[:10] if word == "KEY" else word for word in command]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_json_is_one_object_on_stdout(leap, filled, command):
    command = with_key(command, leap)
    if "--delete" in command:
        assert leap("store", "tag", *with_key(["KEY"], leap), "best").code == 0
    outcome = leap(*command, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json
    assert outcome.err == ""


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_without_json_people_get_text(leap, filled, command):
    command = with_key(command, leap)
    if "--delete" in command:
        assert leap("store", "tag", *with_key(["KEY"], leap), "best").code == 0
    outcome = leap(*command)
    assert outcome.code == 0, outcome.err
    assert outcome.out.strip()
    with pytest.raises(json.JSONDecodeError):
        json.loads(outcome.out)


def test_an_option_may_stand_before_or_after_the_command(leap, store, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"

    def is_cached(*arguments):
        return leap(*arguments).json["artifacts"][0]["cached"]

    assert not is_cached("--store", one, "--json", "ingest", "letters-low")
    assert is_cached("ingest", "letters-low", "--store", one, "--json")
    assert not is_cached("--store", one, "ingest", "--store", two, "letters-low", "--json")
    assert leap("--store", two, "store", "ls", "--json").json["store"] == str(two)
    assert leap("store", "ls", "--json", "--store", two).json["store"] == str(two)
    assert not store.exists(), "an option outranks LEAP_STORE"


def test_the_store_is_leap_store_or_else_dot_leap(leap, store, tmp_path, monkeypatch):
    assert leap("ingest", "letters-low").code == 0
    assert (store / "leap-store.json").exists()
    monkeypatch.delenv("LEAP_STORE")
    assert leap("ingest", "letters-low").code == 0
    assert (tmp_path / ".leap" / "leap-store.json").exists()


def test_raw_files_are_looked_for_under_data(leap, tu_folder, tmp_path):
    tu_folder("mine", folder=tmp_path / "elsewhere" / "mine" / "raw")
    assert leap("ingest", "mine").code == 2
    assert leap("--data", tmp_path / "elsewhere", "ingest", "mine").code == 0
    assert leap("ingest", "mine", "--data", tmp_path / "elsewhere", "--json").json["artifacts"][0]["cached"] is True


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize(
    ("command", "kind", "words"),
    [
        (["ingest", "Leter-high"], "UnknownDatasetError", "Did you mean 'Letter-high'?"),
        (
            ["train", "letters-low", "-e", "rwpe+leapl"],
            "InvalidInputError",
            "no encoding 'leapl'. Did you mean",
        ),
        (["train", "letters-low", "--dim", "ten"], "BadParameter", "'--dim'"),
        (["extract"], "MissingParameter", "DATASET"),
        (["ingest", "letters-low", "--nothing"], "NoSuchOption", "--nothing"),
        (["sweep", "paper-mian"], "InvalidInputError", "Did you mean 'paper-main'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_errors_under_json_are_one_object_and_keep_their_exit_code(leap, command, kind, words, where):
    plain = leap(*command)
    assert (plain.code, plain.out) == (2, "")
    outcome = leap(*(["--json", *command] if where == "before" else [*command, "--json"]))
    assert (outcome.code, outcome.err) == (2, "")
    error = outcome.json["error"]
    assert (error["type"], error["exit_code"]) == (kind, 2)
    assert words in error["message"]


def test_an_unexpected_error_under_json_is_an_object_too(leap, monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("out of luck")

    monkeypatch.setattr("leap.pipeline.datasets.catalog", broken)
    outcome = leap("datasets", "--json")
    assert outcome.code == 1
    assert outcome.json["error"]["exit_code"] == 1
    assert "out of luck" in outcome.json["error"]["message"]


def test_a_plan_has_one_name_and_the_old_one_is_understood(leap, filled, snapshot):
    before = snapshot(filled)
    for command in (["train", "letters-low", "-e", "rwpe", "--dim", "6"], ["store", "gc", "--keep-days", "0"]):
        new, old = leap(*command, "--plan", "--json"), leap(*command, "--dry-run", "--json")
        assert new.code == old.code == 0
        assert new.json == old.json
        shown = leap(*command, "--help").out
        assert "--plan" in shown
        assert "--dry-run" not in shown
    assert snapshot(filled) == before


@pytest.mark.parametrize("option", ["--version"])
def test_the_version_is_that_of_the_package(leap, option):
    import leap as package

    outcome = leap(option)
    assert (outcome.code, outcome.out) == (0, f"leap {package.__version__}\n")


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("leap ingest letters-l", "letters-low"),
        ("leap extract triad", "triads"),
        ("leap train letters-low --backbone no", "nomp"),
        ("leap train letters-low -e lape+leap-", "lape+leap-f lape+leap-l lape+leap-x"),
        ("leap train letters-low --pooling m", "mean"),
        ("leap train letters-low --features co", "constant"),
        ("leap sweep paper-h", "paper-hiv paper-hops"),
        ("leap sweep quick --class-weight f", "frequency"),
        ("leap sweep quick --on romanes", "romanesque"),
        ("leap store why rwpe triad", "triads"),
        ("leap train letters-low --leap-e", "--leap-every-layer"),
    ],
)
def test_names_and_choices_are_completed_lightly(lightly, monkeypatch, words, completed):
    monkeypatch.setenv("_LEAP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert lightly().split() == completed.split()


@pytest.mark.parametrize("command", [["ingest"], ["extract"], ["encode", "-e", "rwpe"]], ids=lambda c: c[0])
def test_quiet_says_nothing(leap, command):
    outcome = leap(*command, "letters-low", "--quiet")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


def test_verbose_says_where_things_are_and_what_each_step_took(leap, store, tmp_path):
    plain, verbose = leap("ingest", "letters-low"), leap("ingest", "letters-med", "-v")
    assert (plain.code, plain.err) == (0, "")
    first, *steps = verbose.err.splitlines()
    assert first == f"store: {store}; raw files: {tmp_path / 'data'}"
    assert steps
    assert all(re.fullmatch(r"[\w -]+: [\d,]+( of [\d,]+)? in [\d.]+ (s|min)", step) for step in steps)
    notes = [json.loads(line) for line in leap("ingest", "letters-high", "-v", "--json").err.splitlines()]
    assert {note["event"] for note in notes} == {"note"}
    assert len(notes) == len(steps) + 1


def test_verbose_tells_every_epoch(leap, filled):
    done = leap("train", "letters-low", *("-e", "none", "--folds", "2", "--epochs", "2", "--workers", "0"), "--verbose")
    assert done.code == 0, done.err
    assert len(re.findall(r", fold [01], epoch [01]: loss [\d.]+, val [\d.]+, accuracy", done.err)) == 4


def test_quiet_and_verbose_contradict_each_other(leap):
    outcome = leap("--quiet", "ingest", "letters-low", "--verbose")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--quiet and --verbose contradict each other" in outcome.err


def test_a_stage_reports_what_the_contract_names(leap):
    answer = leap("encode", "letters-low", "-e", "rwpe", "--dim", "3", "--json").json
    assert [artifact["kind"] for artifact in answer["artifacts"]] == ["dataset", "rwpe"]
    for artifact in answer["artifacts"]:
        assert {"kind", "params", "key", "cached", "seconds", "bytes"} <= artifact.keys()
        assert isinstance(artifact["cached"], bool)
        assert artifact["bytes"] > 0
        assert artifact["seconds"] >= 0
    assert answer["artifacts"][1]["params"] == {"dim": 3}


def test_out_writes_a_manifest_without_timings_that_a_second_run_does_not_change(leap, tmp_path):
    out = tmp_path / "deep" / "extract.json"
    assert leap("extract", "letters-low", "--out", out).code == 0
    first = out.read_bytes()
    assert leap("extract", "letters-low", "--out", out).code == 0
    assert out.read_bytes() == first
    text = first.decode()
    assert "seconds" not in text
    assert "cached" not in text
    kinds = [artifact["kind"] for artifact in json.loads(text)["artifacts"]]
    assert kinds == ["dataset", "neighborhoods"]


@pytest.mark.parametrize("command", [[], ["datasets"], ["ingest"], ["extract"], ["encode"], ["store"]])
def test_help_explains_itself(leap, command):
    outcome = leap(*command, "--help")
    assert outcome.code == 0
    assert "Usage:" in outcome.out
    assert outcome.err == ""


@pytest.mark.parametrize("options", ["--all", "--json"])
def test_a_reader_that_left_gets_no_complaint(tmp_path, options):
    script = f"{sys.executable} -m leap.cli.main --store {tmp_path / 'store'} datasets {options} | true"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "")


STOPPED_EARLY = """
import os, signal, sys, typer.main
def stopped(app):
    os.kill(os.getpid(), signal.{name})
typer.main.get_command = stopped
from leap.cli.main import main
sys.argv = ["leap", "datasets"]
main()
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_command_that_is_stopped_before_it_begins_leaves_without_a_word(name, code):
    script = STOPPED_EARLY.format(name=name)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")
