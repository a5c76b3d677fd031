"""Kernels are compiled anew when any of them has changed."""

import pytest

from leap.models.kernels.compiling import forget_stale


@pytest.fixture
def folder(tmp_path):
    """Two kernels, compiled before anything was noted of them."""
    (tmp_path / "__pycache__").mkdir()
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(name)
        (tmp_path / "__pycache__" / f"{name}.nbi").touch()
    return tmp_path


def compiled(folder):
    return sorted(path.stem for path in (folder / "__pycache__").glob("*.nbi"))


def test_what_was_compiled_stays_as_long_as_nothing_changes(folder):
    forget_stale(folder)
    assert compiled(folder) == []
    (folder / "__pycache__" / "one.nbi").touch()
    forget_stale(folder)
    assert compiled(folder) == ["one"]


@pytest.mark.parametrize("change", ["edit", "add", "remove", "rename"])
def test_any_change_makes_all_kernels_stale(folder, change):
    forget_stale(folder)
    (folder / "__pycache__" / "one.nbi").touch()
    two = folder / "two.py"
    if change == "edit":
        two.write_text("owt")
    elif change == "add":
        (folder / "three.py").touch()
    elif change == "remove":
        two.unlink()
    else:
        two.rename(folder / "second.py")
    forget_stale(folder)
    assert compiled(folder) == []


def test_a_folder_that_cannot_be_written_is_left_alone(folder):
    forget_stale(folder)
    (folder / "two.py").write_text("owt")
    note = folder / "__pycache__" / "kernels.sha256"
    note.unlink()
    note.mkdir()  # cannot be written, whoever runs the test
    forget_stale(folder)
    assert note.is_dir()
