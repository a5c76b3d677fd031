"""Kernels are compiled anew when any of them has changed, and keep what they use."""

import ast
from pathlib import Path

import pytest

from leap.models import kernels
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


def early_addresses(source):
    """Names of arrays that a function makes, and whose address it takes outside of all loops."""
    found = []
    for function in [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]:
        given = {argument.arg for argument in function.args.args}
        loops = [node for node in ast.walk(function) if isinstance(node, ast.For | ast.While)]
        inside = {id(node) for loop in loops for node in ast.walk(loop)}
        for node in ast.walk(function):
            match node:
                case ast.Attribute(attr="ctypes", value=ast.Name(id=name)) if name not in given:
                    found += [] if id(node) in inside else [f"{function.name}: {name}"]
    return found


def test_addresses_are_taken_where_their_array_lives():
    """Numba frees an array after its last use, and an address is none: one taken before a loop is stale inside."""
    stale = "def f():\n    a = np.zeros(3)\n    at = a.ctypes.data\n    for i in range(3):\n        store(at)"
    assert early_addresses(stale) == ["f: a"]
    for path in Path(kernels.__file__).parent.glob("*.py"):
        assert early_addresses(path.read_text()) == [], path.name
