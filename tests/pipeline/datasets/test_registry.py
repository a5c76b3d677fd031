"""Names and paths: what answers, what is suggested, what is imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from leap.pipeline.datasets import FAMILIES, catalog, dataset_card, resolve
from leap.pipeline.datasets.family import default_data_dir
from leap.pipeline.datasets.source import checked_name
from leap.store.errors import InvalidInputError, MissingRawFilesError, UnknownDatasetError


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("Leter-high", "Letter-high"), ("traids", "triads"), ("mutag", "MUTAG"), ("letters_low", "letters-low")],
)
def test_a_misspelt_name_is_answered_with_the_right_one(typed, meant, tmp_path):
    with pytest.raises(UnknownDatasetError) as caught:
        resolve(typed, data=tmp_path)
    assert str(caught.value).startswith(f"no dataset {typed!r}. Did you mean {meant!r}? 'leap datasets' lists all")
    assert caught.value.exit_code == 2


def test_a_name_like_no_other_gets_no_suggestion(tmp_path):
    with pytest.raises(UnknownDatasetError, match=r"no dataset 'qqqqqqqq'\. 'leap datasets'"):
        resolve("qqqqqqqq", data=tmp_path)


@pytest.mark.parametrize("name", ["", "x" * 5000, "a\0b"])
def test_impossible_names_are_unknown_datasets(name, tmp_path):
    with pytest.raises(UnknownDatasetError):
        resolve(name, data=tmp_path)


def test_impossible_paths_are_missing_files():
    with pytest.raises(MissingRawFilesError):
        resolve("./" + "x" * 5000)


def test_odd_folders_beside_the_raw_files_are_passed_over(tmp_path, write_tu):
    write_tu(tmp_path / "with space", "with space")
    assert "with space" not in [info.name for info in catalog(tmp_path)]


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "a\\b", ".hidden", "a b", "a\n", "-x", "C:x"])
def test_names_that_could_leave_their_folder_are_refused(name):
    with pytest.raises(InvalidInputError):
        checked_name(name)


def test_the_catalogue_knows_what_is_embedded_and_what_is_absent(tmp_path):
    infos = {info.name: info for info in catalog(tmp_path)}
    embedded = [name for name, info in infos.items() if info.presence == "embedded"]
    assert embedded == ["triads", "letters-low", "letters-med", "letters-high", "romanesque"]
    assert infos["COX2"].presence == "absent"
    assert infos["COX2"].path == tmp_path / "COX2" / "raw"
    assert all(info.card.licence and info.card.source for info in infos.values())


def test_what_the_paper_did_is_said_with_the_dataset():
    hiv = dataset_card("hiv")
    assert (hiv.metric, hiv.select, hiv.is_categorical, hiv.label) == ("auroc", "auroc", True, "HIV")
    assert dataset_card("alchemy_full").published_settings["layers"] == 10
    assert dataset_card("letters-med").label == "letters-med (stand-in for Letter-med)"
    assert dataset_card("MUTAG").select == "loss"


def test_a_dataset_is_judged_by_its_own_metric_else_by_its_tasks():
    assert dataset_card("minesweeper").judged_by("node-classification") == "auroc"
    assert dataset_card("roman-empire").judged_by("node-classification") == "accuracy"
    assert dataset_card("mine").judged_by("graph-regression") == "r2"


def test_stand_ins_stand_in_for_datasets_of_the_same_size(tmp_path):
    cards = {info.name: info.card for info in catalog(tmp_path)}
    stand_ins = [card for card in cards.values() if card.stand_in_for is not None]
    assert [card.name for card in stand_ins] == ["letters-low", "letters-med", "letters-high", "romanesque"]
    for card in stand_ins:
        graphs, nodes = cards[card.stand_in_for].size
        assert card.size[0] == graphs
        assert card.size[1] == pytest.approx(nodes, rel=0.01)


def test_sizes_on_cards_of_generated_datasets_are_those_of_their_graphs(tmp_path):
    for info in catalog(tmp_path):
        if info.presence == "embedded":
            counts = resolve(info.name).read().node_counts
            assert info.card.size == (len(counts), counts.sum())


def test_your_own_graphs_have_a_card_without_surprises():
    card = dataset_card("my-graphs")
    assert (card.family, card.metric, card.select, card.stand_in_for, card.size) == ("own", None, "loss", None, None)


def test_what_is_registered_as_a_family_must_be_one(monkeypatch):
    monkeypatch.setitem(FAMILIES._loaded, "odd", 3)
    with pytest.raises(InvalidInputError, match="the family of datasets 'odd' is a int, not a Family"):
        catalog()


def test_no_two_families_claim_the_same_name(tmp_path):
    names = [info.name for info in catalog(tmp_path)]
    assert len(names) == len(set(names))


def test_the_data_folder_comes_from_the_environment_else_from_the_cache(monkeypatch):
    monkeypatch.setenv("LEAP_DATA", "/some/where")
    assert default_data_dir() == Path("/some/where")
    monkeypatch.delenv("LEAP_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_data_dir() == Path("/caches/leap/data")


def test_finding_and_fingerprinting_a_dataset_imports_nothing_heavy():
    program = (
        "import sys; from leap.pipeline.datasets import resolve; resolve('triads').fingerprint();"
        "print(*{'torch', 'torch_geometric', 'numba', 'pyarrow', 'scipy', 'sklearn', 'rdkit', 'networkx'}"
        " & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
