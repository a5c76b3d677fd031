"""Own data by path: which format is recognized, how it is named, what is refused."""

import shutil

import pytest

from leap.pipeline.canonical import canonicalize
from leap.pipeline.datasets import resolve
from leap.store.errors import InvalidInputError, MissingRawFilesError


@pytest.mark.parametrize("inner", ["", "raw"])
def test_a_tu_folder_anywhere_is_read_and_named_after_its_folder(inner, write_tu, tmp_path):
    write_tu(tmp_path / "my graphs" / inner)
    source = resolve(f"{tmp_path}/my graphs")
    assert source.name == "my-graphs"
    assert canonicalize(source.read()).num_graphs == 3


def test_the_raw_folder_itself_is_named_after_its_dataset(write_tu, tmp_path):
    write_tu(tmp_path / "mine" / "raw")
    assert resolve(f"{tmp_path}/mine/raw").name == "mine"


def test_own_data_never_bears_the_name_of_a_known_dataset(write_tu, tmp_path):
    write_tu(tmp_path / "MUTAG", "MUTAG")
    assert resolve(f"{tmp_path}/MUTAG").name == "own-MUTAG"
    assert resolve("MUTAG", data=tmp_path).name == "MUTAG"


def test_a_folder_here_is_found_without_separator_unless_a_name_shadows_it(write_tu, tmp_path, monkeypatch):
    write_tu(tmp_path / "mine")
    write_tu(tmp_path / "triads")
    monkeypatch.chdir(tmp_path)
    assert resolve("mine", data=tmp_path / "none").read().node_counts.tolist() == [3, 0, 2]
    assert resolve("triads").fingerprint()["reader"] == "triads"
    assert resolve("./triads").name == "own-triads"


def test_moving_own_data_does_not_change_its_fingerprint(write_tu, tmp_path):
    write_tu(tmp_path / "here" / "mine")
    before = resolve(f"{tmp_path}/here/mine").fingerprint()
    shutil.move(tmp_path / "here", tmp_path / "there")
    assert resolve(f"{tmp_path}/there/mine").fingerprint() == before


def test_two_datasets_in_one_folder_are_refused(write_tu, tmp_path):
    write_tu(tmp_path, "one")
    write_tu(tmp_path, "two")
    with pytest.raises(InvalidInputError, match=r"several datasets \(one, two\)"):
        resolve(f"{tmp_path}/")


def test_a_path_to_nothing_is_refused(tmp_path):
    with pytest.raises(MissingRawFilesError, match="no file or folder"):
        resolve(f"{tmp_path}/absent")


@pytest.mark.parametrize("files", [[], ["notes.txt", "table.csv"]])
def test_a_folder_in_no_known_format_is_refused_with_what_was_found(files, tmp_path):
    for name in files:
        (tmp_path / name).write_text("x")
    with pytest.raises(InvalidInputError, match=", ".join(files) or "an empty folder"):
        resolve(f"{tmp_path}/")
