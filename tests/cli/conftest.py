"""Fixtures for tests of the command line: run it in this process, on a store of the test's own."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Outcome:
    """What a command did: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON object on stdout; anything else there fails."""
        value, end = json.JSONDecoder().raw_decode(self.out)
        assert self.out[end:] == "\n", f"more than one JSON object: {self.out[end:]!r}"
        assert isinstance(value, dict)
        return value


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The folder that `leap` uses as its store."""
    return tmp_path / "store"


@pytest.fixture
def leap(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """Return a function that runs the command line as the shell would, without the cost of a process.

    The store is `store` by LEAP_STORE, raw files are looked for under `data`, and there is no network.
    """
    from leap.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEAP_STORE", str(store))
    monkeypatch.setenv("LEAP_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("leap.pipeline.datasets.tu.URL", "http://127.0.0.1:9")
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # `main` replaces it; put back afterwards

    def run(*arguments: Any) -> Outcome:
        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["leap", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        return Outcome(code, *capfd.readouterr())

    return run


@pytest.fixture
def lightly() -> Callable[..., str]:
    """Return a function that runs a command in a new process, without what takes seconds to load, and gives stdout."""
    script = """
import sys
from leap.cli.main import main
sys.argv[0] = "leap"
try:
    main()
except SystemExit as leaving:
    assert not leaving.code
assert not {"torch", "torch_geometric", "numba", "dask", "zarr"} & set(sys.modules)
"""

    def run(*arguments: str) -> str:
        done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the dataset letters-low, its 1-hop neighbourhoods and its random-walk encoding of 6 steps."""
    from leap.pipeline import Context, Workforce, encode, extract
    from leap.store import Store

    folder = tmp_path_factory.mktemp("template") / "store"
    context = Context(Store.open(folder), workforce=Workforce(0))
    extract("letters-low", 1, context=context)
    encode("letters-low", "rwpe", params={"dim": 6}, context=context)
    return folder


@pytest.fixture
def filled(template: Path, store: Path) -> Path:
    """The test's store, filled like `template`."""
    shutil.copytree(template, store)
    return store


@pytest.fixture
def mount() -> Iterator[Callable[..., None]]:
    """Return a function that mounts something for the duration of the test; skips it where that is not allowed."""
    mounted: list[str] = []

    def do(target: Path, *options: str) -> None:
        done = subprocess.run(["mount", *options, str(target)], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"cannot mount here: {done.stderr.strip()}")
        mounted.append(str(target))

    yield do
    for target in reversed(mounted):
        subprocess.run(["umount", target], check=False)


@pytest.fixture
def read_only(mount: Callable[..., None]) -> Callable[[Path], None]:
    """Return a function after which nothing can be written below a folder, not even by root."""

    def make(folder: Path) -> None:
        if os.geteuid() == 0:  # whom permissions do not stop
            mount(folder, "--bind", str(folder))
            subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        else:
            for path in [folder, *folder.rglob("*")]:
                path.chmod(path.stat().st_mode & ~0o222)

    return make
