"""How the packages fit together: imports point one way, every folder is installed, a cached command stays light."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("store", "models", "pipeline", "cli")  # each may import itself and what stands before it
MODULES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
HEAVY = ("torch", "torch_geometric", "numba", "scipy", "zarr", "dask", "distributed", "pyarrow", "sklearn", "networkx")


def imported_names(path: Path) -> set[str]:
    """Every module that a file imports anywhere in it, for type checking too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where they point"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_the_layers_are_not_empty():
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(LAYERS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path):
    allowed = LAYERS[: LAYERS.index(path.relative_to(ROOT).parts[0]) + 1]
    ours = {name.split(".")[1] for name in imported_names(path) if name.startswith("leap.")}
    assert ours <= set(allowed), f"{path.relative_to(ROOT)} imports leap.{sorted(ours - set(allowed))}"
    top_level_names = {name.split(".")[0] for name in imported_names(path)}
    assert not top_level_names & set(LAYERS), "import our packages as leap.…, the only name they are installed under"


def test_no_test_looks_at_the_clock():
    """How fast a machine is decides nothing; what must wait for something does so with `tests.processes`."""
    tests = ROOT / "tests"
    looking = {
        path for path in tests.rglob("*.py") if {"time", "datetime"} & {n.split(".")[0] for n in imported_names(path)}
    }
    assert looking == {tests / "processes.py"}
    impatient = re.compile(r"timeout=\d|\.(wait|join|get)\(\d")
    assert [path.name for path in sorted(tests.rglob("*.py")) if impatient.search(path.read_text())] == []


def test_every_package_folder_is_installed():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT) for path in MODULES}
    assert sorted(settings["packages"]) == sorted(["leap", *("leap." + ".".join(folder.parts) for folder in folders)])
    assert settings["package-dir"] == {"leap": "leap"} | {f"leap.{layer}": layer for layer in LAYERS}


# Runs every command in one fresh interpreter and prints which heavy packages each of them was the first to load.
FRESH = """
import contextlib, importlib.util, io, json, sys

def heavy():  # lazy_loader's placeholders stand in sys.modules too, until something is asked of them
    loaded = {{name for name, module in sys.modules.items() if type(module) is not importlib.util._LazyModule}}
    return {{name.split(".")[0] for name in loaded}} & set({heavy!r})

loaded = {{}}
for package in ("leap.store", "leap.pipeline", "leap.cli.main"):
    __import__(package)
    loaded[f"import {{package}}"] = sorted(heavy())
from leap.cli.main import main
for command in {commands!r}:
    before, shown = heavy(), io.StringIO()
    sys.argv = ["leap", "--store", {store!r}, *command, "--json"]
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        main()
    if command[0] in ("ingest", "extract", "encode"):
        assert all(entry["cached"] for entry in json.loads(shown.getvalue())["artifacts"]), shown.getvalue()
    loaded[" ".join(command)] = sorted(heavy() - before)
print(json.dumps(loaded))
"""
COMMANDS = [
    ["ingest", "letters-low"],
    ["extract", "letters-low", "--hops", "1"],
    ["encode", "letters-low", "--encoding", "rwpe", "--encoding", "lape"],
    ["encode", "letters-low", "--encoding", "rwpe", "--dim", "5"],
    ["store", "ls"],
    ["store", "verify"],
    ["store", "why", "rwpe", "letters-low", "dim=20"],
    ["datasets"],
]


def test_imports_and_cached_commands_load_nothing_heavy(tmp_path):
    from leap.pipeline import Context, encode, extract
    from leap.store import Store

    context = Context(store=Store.open(tmp_path / "store"))
    extract("letters-low", 1, context=context)
    encode("letters-low", ["rwpe", "lape"], context=context)
    script = FRESH.format(heavy=HEAVY, commands=COMMANDS, store=context.store.url)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {what: names for what, names in json.loads(done.stdout).items() if names} == {}


def imports_inside_functions(path: Path) -> list[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {
        node.lineno: ast.unparse(node)
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, functions)
        for node in ast.walk(function)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    return list(found.values())


def test_imports_stand_at_the_top_of_a_module():
    """RDKit alone, which may be absent, is imported where that can be said."""
    found = {str(path.relative_to(ROOT)): imports_inside_functions(path) for path in MODULES}
    assert {name: imports for name, imports in found.items() if imports} == {
        "pipeline/datasets/smiles.py": ["from rdkit import Chem", "from rdkit.rdBase import BlockLogs"]
    }


def test_heavy_libraries_are_made_lazy_in_a_way_that_threads_may_share():
    assert [path for path in MODULES if "lazy.load(" in path.read_text()] == []
