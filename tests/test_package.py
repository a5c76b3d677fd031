"""The installed package: its version, `python -m leap`, and a wheel that holds everything."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import leap

ROOT = Path(__file__).resolve().parents[1]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def run(*arguments, cwd, **environment):
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_version_is_that_of_the_project():
    assert leap.__version__ == VERSION


def test_the_package_runs_as_a_module(tmp_path):
    assert run("-m", "leap", "--version", cwd=tmp_path) == f"leap {VERSION}\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build a wheel from a copy of what it is made of."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for name in ("leap", "store", "models", "pipeline", "cli"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    run("-c", f"from setuptools import build_meta; build_meta.build_wheel({str(out)!r})", cwd=copy)
    (built,) = out.glob("*.whl")
    return built


def test_a_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    ours = {
        f"leap/{path.relative_to(ROOT)}"
        for layer in ("store", "models", "pipeline", "cli")
        for path in (ROOT / layer).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == ours | {"leap/__init__.py", "leap/__main__.py", "leap/py.typed"}


def test_a_wheel_runs_from_where_it_is_unpacked(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    site = {"PYTHONPATH": str(tmp_path / "site")}
    assert run("-m", "leap", "--version", cwd=tmp_path, **site) == f"leap {VERSION}\n"
    where = run("-c", "import leap.store as s, leap.cli as c; print(s.__file__, c.__file__)", cwd=tmp_path, **site)
    assert all(path.startswith(str(tmp_path / "site")) for path in where.split())
    assert re.search(r"quick +\d+", run("-m", "leap", "sweep", "--list", cwd=tmp_path, **site))
