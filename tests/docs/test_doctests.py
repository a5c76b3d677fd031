"""The examples in docstrings run, and the public names that people start from have one."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    "leap." + ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for layer in ("store", "pipeline")
    for path in sorted((ROOT / layer).rglob("*.py"))
    if ">>> " in path.read_text()
]
WITH_EXAMPLES = {
    "leap.store": ("Store", "Neighborhoods"),
    "leap.pipeline": (
        "AddNeighborhoods",
        "encode",
        "extract",
        "from_networkx",
        "from_pyg",
        "ingest",
        "khop",
        "to_pyg",
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_print_what_they_say(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEAP_STORE", raising=False)
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert tried
    assert not failed


@pytest.mark.parametrize(("package", "names"), WITH_EXAMPLES.items())
def test_public_names_have_a_runnable_example(package, names):
    module = importlib.import_module(package)
    lacking = [name for name in names if ">>> " not in (getattr(module, name).__doc__ or "")]
    assert lacking == []


@pytest.mark.parametrize("package", ["leap.store", "leap.pipeline"])
def test_public_names_are_documented(package):
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if not (getattr(module, name).__doc__ or "").strip()] == []
