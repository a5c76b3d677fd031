"""What the arrays and tables of an artifact are called is known to `leap.store.graphs` alone."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MODULES = sorted(
    path
    for layer in ("store", "models", "pipeline", "cli")
    for path in (ROOT / layer).rglob("*.py")
    if ROOT / "store" / "graphs" not in path.parents
)
NAMES = {"node_ptr", "indptr", "indices", "edge_ptr", "eigenvalues", "node_offset", "edge_attr"} | {
    f"{part}_mask" for part in ("train", "val", "test")
}
"""Names that mean nothing else; "x", "y", "encoding" or "folds" are also words of options and of others' formats."""
OTHERS = {
    "models/kernels": "names of the kernels' own arguments, for messages",
    "pipeline/pyg": "attributes of PyG's objects",
    "pipeline/datasets": "columns and attributes of users' files",
    "pipeline/canonical.py": "names of the fields of RawGraphs, for messages",
}
READERS = {"read", "load", "table", "shape", "read_file"}
"""Methods of an artifact that take the name of what to read."""


def literals(node: ast.AST) -> list[str]:
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def names_read(tree: ast.AST) -> list[str]:
    """Texts that are given to a method which reads arrays or tables by name."""
    found = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READERS):
            continue
        if isinstance(node.func.value, ast.Name) and node.func.value.id in ("lazy", "pa", "np", "torch", "json"):
            continue
        wanted = [a for a in node.args if isinstance(a, ast.Constant | ast.List | ast.Tuple | ast.JoinedStr)]
        found += [text for argument in wanted for text in literals(argument)]
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_other_module_names_what_is_stored(path):
    tree, place = ast.parse(path.read_text()), str(path.relative_to(ROOT))
    if not place.startswith(tuple(OTHERS)):
        assert NAMES.isdisjoint(literals(tree))
    if not place.startswith("store/"):
        assert names_read(tree) == []


def test_the_search_finds_what_it_looks_for():
    assert names_read(ast.parse("artifact.read(0, ['x'])['x']")) == ["x"]
    assert names_read(ast.parse("stored.load('encoding')")) == ["encoding"]
    assert names_read(ast.parse("lazy.load('torch'); path.read_text(); pa.table({'x': 1})")) == []
    assert all((ROOT / place).exists() for place in OTHERS)
    home = "".join(path.read_text() for path in (ROOT / "store" / "graphs").glob("*.py"))
    assert all(f'"{name}"' in home for name in NAMES if not name.endswith("_mask"))
