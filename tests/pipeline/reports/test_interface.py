"""Where reports touch the rest of the pipeline: in one direction, and in few places."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
REPORTS = ROOT / "pipeline" / "reports"


def imported(path: Path) -> set[str]:
    """Modules of ours that a file imports, those inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("leap."):
            found.add(node.module)
    return found


def test_runs_and_their_folders_are_read_in_one_module():
    declared = {
        "runs.py": {f"leap.pipeline.engine.{name}" for name in ("results", "run_folder", "sweep_log")},
        "closeup.py": {"leap.pipeline.training.checkpoint"},
        "names.py": {"leap.pipeline.training.options"},  # what an option is called, not what a run did
    }
    for path in REPORTS.glob("*.py"):
        found = {name for name in imported(path) if name.split(".")[2:3] in (["engine"], ["experiments"], ["training"])}
        assert found == declared.get(path.name, set()), path


def test_nothing_that_makes_runs_knows_of_reports():
    others = [path for layer in ("store", "models", "pipeline") for path in (ROOT / layer).rglob("*.py")]
    knowing = {path for path in others if any("leap.pipeline.reports" in module for module in imported(path))}
    assert {path.parent for path in knowing} == {REPORTS}


def test_reports_import_nothing_inside_functions():
    for path in REPORTS.glob("*.py"):
        tree = ast.parse(path.read_text())
        inside = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        assert set(inside) <= set(tree.body), path


def test_no_class_of_the_reports_shares_its_name_with_another():
    homes = defaultdict(list)
    for layer in ("store", "models", "pipeline", "cli"):
        for path in (ROOT / layer).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    homes[node.name].append(path)
    ours = {name: paths for name, paths in homes.items() if any(path.parent == REPORTS for path in paths)}
    assert len(ours) > 10
    assert {name: paths for name, paths in ours.items() if len(paths) > 1} == {}
