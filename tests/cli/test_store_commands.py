"""`leap store`: what it shows of artifacts, what it explains, finds, names and removes."""

import json
import os
from pathlib import Path

import pytest


@pytest.fixture
def key_of(leap, filled):
    """Return a function that gives the key of the artifact of a kind."""

    def find(kind):
        return leap("store", "ls", "--kind", kind, "--json").json["artifacts"][0]["key"]

    return find


def test_ls_lists_every_artifact_with_what_one_wants_to_know(leap, filled):
    answer = leap("store", "ls", "--json").json
    assert answer["store"] == str(filled)
    assert answer["unfinished"] == []
    assert [row["kind"] for row in answer["artifacts"]] == ["dataset", "neighborhoods", "rwpe"]
    for row in answer["artifacts"]:
        assert row["dataset"] == "letters-low"
        assert len(row["key"]) == 40
        assert row["bytes"] > 0
        assert row["created"] > 0
        assert row["tags"] == row["runs"] == []
    shown = leap("store", "ls").out
    for text in ("kind", "dataset", "parameters", "size", "age", "uses", "hops=1", "dim=6", "KiB", "3 artifacts"):
        assert text in shown
    assert answer["artifacts"][2]["key"][:12] in shown


def test_ls_can_be_narrowed(leap, filled):
    assert len(leap("store", "ls", "--kind", "rwpe", "--json").json["artifacts"]) == 1
    assert leap("store", "ls", "--dataset", "other", "--json").json["artifacts"] == []
    assert "0 artifacts" in leap("store", "ls", "--dataset", "other").out


def test_a_new_store_lists_nothing_and_is_not_created(leap, store):
    assert leap("store", "ls", "--json").json["artifacts"] == []
    assert leap("store", "verify").code == 0
    assert leap("store", "gc").code == 0
    assert not store.exists()


def test_ls_shows_tags_pins_and_runs(leap, filled, key_of):
    from leap.store import Store

    key = key_of("rwpe")
    leap("store", "tag", key, "best", "--pin")
    Store.open(filled).references.record_run("run-7", [key])
    row = leap("store", "ls", "--kind", "rwpe", "--json").json["artifacts"][0]
    assert (row["tags"], row["pinned"], row["runs"]) == (["best"], True, ["run-7"])
    assert "tag best, pinned, run-7" in leap("store", "ls").out


def test_show_takes_a_key_its_beginning_or_a_tag(leap, key_of):
    key = key_of("neighborhoods")
    leap("store", "tag", key, "hoods")
    for name in (key, key[:8], "hoods"):
        answer = leap("store", "show", name, "--json").json
        assert answer["key"] == key
        assert answer["manifest"]["inputs"] == {"dataset": key_of("dataset")}
        assert answer["manifest"]["params"] == {"hops": 1, "cap": None, "cap_seed": 0}
        assert Path(answer["path"]).is_dir()
    shown = leap("store", "show", "hoods").out
    for text in ("neighborhoods", key, "edge_ptr", "partitions.parquet", "memberships", "hoods", "numpy="):
        assert text in shown


def test_why_names_the_nearest_artifact_and_what_differs(leap, key_of):
    key = key_of("rwpe")
    answer = leap("store", "why", "rwpe", "letters-low", "dim=9", "--json").json
    assert answer == {
        "cached": False,
        "view": False,
        "key": None,
        "nearest": key,
        "differences": {"dim": {"asked": 9, "stored": 6}},
    }
    shown = leap("store", "why", "rwpe", "letters-low", "dim=9").out
    for text in ("Not cached", key[:12], "dim", "9", "6"):
        assert text in shown


def test_why_says_what_is_cached_and_through_what(leap, key_of):
    key = key_of("rwpe")
    exact = leap("store", "why", "rwpe", "letters-low", "dim=6", "--json").json
    assert (exact["cached"], exact["view"], exact["key"]) == (True, False, key)
    view = leap("store", "why", "rwpe", "letters-low", "dim=2", "--json").json
    assert (view["cached"], view["view"], view["key"]) == (True, True, key)
    assert "view" in leap("store", "why", "rwpe", "letters-low", "dim=2").out
    assert leap("store", "why", "dataset", "letters-low", "--json").json["cached"]
    assert leap("store", "why", "neighborhoods", "letters-low", "hops=1", "--json").json["cached"]


def test_why_explains_other_datasets_options_and_kinds(leap, filled):
    other = leap("store", "why", "rwpe", "letters-med", "dim=6", "--json").json
    assert other["differences"]["dataset"] == {"asked": "letters-med", "stored": "letters-low"}
    options = leap("store", "why", "dataset", "letters-low", "partition-mb=1", "--json").json
    assert options["differences"]["partition_bytes"] == {"asked": 2**20, "stored": 8 * 2**20}
    through = leap("store", "why", "rwpe", "letters-low", "dim=6", "partition_mb=1", "--json").json
    assert not through["cached"]
    assert "dataset artifact" in through["differences"]
    assert leap("store", "why", "lape", "letters-low", "--json").json["nearest"] is None
    assert "has no lape at all" in leap("store", "why", "lape", "letters-low").out


def test_why_explains_changed_raw_input(leap, tu_folder):
    folder = tu_folder()
    assert leap("extract", folder).code == 0
    (folder / "toy_graph_labels.txt").write_text("1\n1\n1\n-1\n")
    answer = leap("store", "why", "dataset", folder, "--json").json
    assert not answer["cached"]
    assert "raw input" in answer["differences"]
    assert leap("store", "why", "neighborhoods", folder, "hops=1", "--json").json["cached"] is False


def test_why_names_the_artifact_that_was_made_from_another(leap, filled, monkeypatch):
    from leap.pipeline.derived import NeighborhoodsRecipe

    leap("encode", "letters-low", "-e", "dect")
    assert leap("store", "why", "dect", "letters-low", "--json").json["cached"]
    monkeypatch.setattr(NeighborhoodsRecipe, "algorithm", 99)
    answer = leap("store", "why", "dect", "letters-low", "--json").json
    assert not answer["cached"]
    assert list(answer["differences"]) == ["neighborhoods artifact"]


def test_why_does_nothing_to_the_store_and_downloads_nothing(leap, filled, snapshot, monkeypatch):
    before = snapshot(filled, leave_out=())
    monkeypatch.setattr("urllib.request.urlopen", lambda *a, **k: pytest.fail("a question started a download"))
    outcome = leap("store", "why", "rwpe", "MUTAG")
    assert outcome.code == 2
    assert "MUTAG_A.txt" in outcome.err
    leap("store", "why", "rwpe", "letters-low", "dim=9")
    assert snapshot(filled, leave_out=()) == before


def test_verify_is_content_with_a_sound_store(leap, filled):
    answer = leap("store", "verify", "--json")
    assert answer.code == 0
    assert answer.json == {"store": str(filled), "artifacts": 3, "problems": []}
    assert "all sound" in leap("store", "verify").out


def test_verify_names_damage_and_exits_with_1(leap, filled, key_of, flip_a_bit):
    key = key_of("rwpe")
    chunk = next(path for path in sorted((filled / "artifacts" / key).rglob("c/*/*")) if path.is_file())
    flip_a_bit(chunk)
    outcome = leap("store", "verify", "--json")
    assert outcome.code == 1
    [problem] = outcome.json["problems"]
    assert problem["key"] == key
    assert str(chunk.relative_to(filled / "artifacts" / key)) in problem["problem"]
    assert leap("store", "verify", key_of("dataset")).code == 0
    spoken = leap("store", "verify", key[:8])
    assert spoken.code == 1
    assert "damaged" in spoken.err
    assert "1 of 1 artifact damaged" in spoken.out


@pytest.mark.parametrize("how", ["missing", "truncated", "edited manifest", "stray file"])
def test_verify_finds_every_kind_of_damage(leap, filled, key_of, how):
    folder = filled / "artifacts" / key_of("neighborhoods")
    if how == "missing":
        next(path for path in folder.rglob("c/*") if path.is_file()).unlink()
    elif how == "truncated":
        table = folder / "partitions.parquet"
        table.write_bytes(table.read_bytes()[:-10])
    elif how == "edited manifest":
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["params"]["hops"] = 2
        (folder / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    else:
        (folder / "notes.txt").write_text("mine")
    outcome = leap("store", "verify", "--json")
    assert outcome.code == 1
    assert len(outcome.json["problems"]) == 1


@pytest.mark.filterwarnings("default")
def test_a_damaged_artifact_is_made_again_with_a_warning(leap, filled, key_of, snapshot):
    folder = filled / "artifacts" / key_of("neighborhoods")
    before = snapshot(filled)
    (folder / "partitions.parquet").write_bytes(b"PAR1")
    outcome = leap("extract", "letters-low", "--hops", "1", "--json")
    assert outcome.code == 0
    assert outcome.err.startswith("Warning: artifact")
    assert "will be rebuilt" in outcome.err
    assert [artifact["cached"] for artifact in outcome.json["artifacts"]] == [True, False]
    assert snapshot(filled) == before


def test_a_damaged_artifact_can_be_removed(leap, filled, key_of):
    key = key_of("rwpe")
    (filled / "artifacts" / key / "manifest.json").write_text("{}")
    outcome = leap("store", "rm", key, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json["keys"] == [key]
    assert leap("store", "verify").code == 0
    assert not (filled / "artifacts" / key).exists()


def test_a_tag_is_set_moved_and_deleted(leap, filled, key_of):
    first, second = key_of("rwpe"), key_of("neighborhoods")
    assert "tagged best" in leap("store", "tag", first, "best").out
    assert leap("store", "show", "best", "--json").json["key"] == first
    leap("store", "tag", second, "best")
    assert leap("store", "show", "best", "--json").json["key"] == second
    assert "best" in leap("store", "tag", "best", "--delete").out
    assert leap("store", "show", "best").code == 2
    assert "nothing to do" in leap("store", "tag", first).err


def test_gc_only_says_what_it_would_do_in_a_dry_run(leap, filled, key_of, snapshot):
    before = snapshot(filled, leave_out=())
    answer = leap("store", "gc", "--keep-days", "0", "--dry-run", "--json").json
    assert answer["dry_run"] is True
    assert [row["keep"] for row in answer["artifacts"]] == [False] * 3
    assert answer["bytes"] > 0
    assert "3 artifacts" in leap("store", "gc", "--keep-days", "0", "-n").out
    assert snapshot(filled, leave_out=()) == before


def test_gc_keeps_what_is_referred_to_and_what_that_was_made_from(leap, filled, key_of):
    hoods, dataset, walks = (key_of(kind) for kind in ("neighborhoods", "dataset", "rwpe"))
    leap("store", "tag", hoods, "--pin")
    answer = leap("store", "gc", "--keep-days", "0", "--json").json
    kept = {row["key"]: (row["keep"], row["reason"]) for row in answer["artifacts"]}
    assert kept[hoods] == (True, "pinned")
    assert kept[dataset][0]
    assert not kept[walks][0]
    assert {row["key"] for row in leap("store", "ls", "--json").json["artifacts"]} == {hoods, dataset}
    assert leap("store", "verify").code == 0


def test_gc_keeps_everything_used_lately(leap, filled):
    assert all(row["keep"] for row in leap("store", "gc", "--json").json["artifacts"])
    assert "0 artifacts" in leap("store", "gc").out


def age(folder, days):
    """Make everything below a folder look as if it was written days ago."""
    for path in [folder, *folder.rglob("*")]:
        then = path.lstat().st_mtime - days * 86_400
        os.utime(path, (then, then))


def test_gc_removes_what_interrupted_commands_left_behind(leap, filled):
    unfinished = filled / "artifacts" / ("0" * 40) / "part-00000"
    unfinished.mkdir(parents=True)
    (unfinished / "zarr.json").write_text("{}")
    aside = filled / "artifacts" / f"{'1' * 40}.0123.partial" / "part-00000"
    aside.mkdir(parents=True)
    (aside / "zarr.json").write_text("{}")
    assert leap("store", "ls", "--json").json["unfinished"] == ["0" * 40]
    assert "unfinished" in leap("store", "ls").out
    assert leap("store", "gc", "--json").json["unfinished"] == []
    fresh = leap("store", "gc", "--keep-days", "0", "--dry-run", "--json").json
    assert fresh["unfinished"] == fresh["partial"] == [], "it may be work under way"
    age(unfinished, days=2)
    age(aside.parent, days=2)
    answer = leap("store", "gc", "--keep-days", "1", "--json").json
    assert answer["unfinished"] == ["0" * 40]
    assert answer["partial"] == [f"artifacts/{aside.parent.name}"]
    assert not unfinished.exists()
    assert not aside.exists()
    assert all(row["keep"] for row in answer["artifacts"])


def test_gc_forgets_runs_whose_folder_is_gone(leap, filled, key_of, tmp_path):
    from leap.store import Store

    walks, run = key_of("rwpe"), tmp_path / "runs" / "run-7"
    run.mkdir(parents=True)
    Store.open(filled).references.record_run("run-7", [walks], path=str(run))
    kept = leap("store", "gc", "--keep-days", "0", "--dry-run", "--json").json
    assert {row["key"]: row["reason"] for row in kept["artifacts"]}[walks] == "used by run run-7"
    run.rmdir()
    dry = leap("store", "gc", "--keep-days", "0", "--dry-run")
    assert "Run run-7 would be forgotten" in dry.out
    assert "run-7" in Store.open(filled).references.runs()
    answer = leap("store", "gc", "--keep-days", "0", "--json").json
    assert answer["runs"] == ["run-7"]
    assert not any(row["keep"] for row in answer["artifacts"])
    assert Store.open(filled).references.runs() == {}
    assert leap("store", "ls", "--json").json["artifacts"] == []


def test_rm_protects_what_others_were_made_from(leap, filled, key_of, snapshot):
    before = snapshot(filled, leave_out=())
    outcome = leap("store", "rm", key_of("dataset"))
    assert outcome.code == 2
    assert "--cascade" in outcome.err
    assert "neighborhoods" in outcome.err
    answer = leap("store", "rm", key_of("dataset"), "--cascade", "--dry-run", "--json").json
    assert len(answer["keys"]) == 3
    assert snapshot(filled, leave_out=()) == before
    assert len(leap("store", "rm", key_of("dataset"), "--cascade", "--json").json["keys"]) == 3
    assert leap("store", "ls", "--json").json["artifacts"] == []


def test_rm_takes_tags_and_forgets_them(leap, filled, key_of):
    leap("store", "tag", key_of("rwpe"), "old")
    assert "1 artifact" in leap("store", "rm", "old").out
    assert leap("store", "show", "old").code == 2
    assert not list((filled / "refs" / "tags").iterdir())
    assert not leap("encode", "letters-low", "-e", "rwpe", "--dim", "6", "--json").json["artifacts"][1]["cached"]


def test_rm_takes_the_stage_manifests_with_it(leap, filled, key_of):
    out = filled / "stages" / "encode" / "letters-low.json"
    leap("encode", "letters-low", "-e", "rwpe", "--dim", "6", "--out", out)
    assert "named by" in str(leap("store", "gc", "--keep-days", "0", "-n", "--json").json["artifacts"])
    leap("store", "rm", key_of("rwpe"))
    assert not out.exists(), "or `dvc repro` would think that the stage is done"


def test_names_with_brackets_are_shown_as_they_are(leap, tu_folder, tmp_path):
    folder, store = tu_folder("toy", folder=tmp_path / "my [bold] data [/x]"), tmp_path / "my [red] store [/x]"
    outcome = leap("ingest", folder, "--store", store)
    assert outcome.code == 0, outcome.err
    assert str(store) in leap("store", "ls", "--store", store).out
    assert f"{folder}/missing" in leap("ingest", folder / "missing", "--store", store).err
