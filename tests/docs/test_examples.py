"""Every example that users can read runs and prints what it is said to print."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from leap.models.registries import BACKBONES, ENCODINGS, PROJECTIONS
from leap.pipeline.datasets.registry import FAMILIES, FORMATS
from leap.pipeline.experiments.expand import expand
from leap.pipeline.experiments.sweep_file import parse
from leap.pipeline.stages.ingest import IngestOptions
from leap.pipeline.training.options import OPTIONS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
SLOW = {"extending.md", "faq.md"}


def script(name: str) -> ModuleType:
    """Load a script of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


examples, generate_cli = script("examples"), script("generate_cli")


@pytest.fixture
def registries(monkeypatch):
    """Forget afterwards what examples register, which other tests do not expect."""
    for registry in (BACKBONES, ENCODINGS, FAMILIES, FORMATS, PROJECTIONS):
        monkeypatch.setattr(registry, "_loaded", dict(registry._loaded))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.name, marks=[pytest.mark.slow] if path.name in SLOW else [])
        for path in examples.DOCUMENTS
        if any(block.is_run and block.language in ("python", "console") for block in examples.blocks(path.read_text()))
    ],
)
@pytest.mark.usefixtures("registries")
def test_documents_print_what_they_say(path):
    _, differences = examples.run(path.read_text())
    shown = "\n\n".join(str(difference) for difference in differences)
    assert not differences, f"{path.name}: python docs/examples.py --write puts the real output there.\n\n{shown}"


def test_the_page_of_commands_is_that_of_the_code():
    assert generate_cli.PAGE.read_text() == generate_cli.page(), "run python docs/generate_cli.py"


def test_the_page_of_sweep_files_is_that_of_the_code():
    text = generate_cli.SWEEP_PAGE.read_text()
    assert text == generate_cli.sweep_page(), "run python docs/generate_cli.py"
    for name in (*OPTIONS, *IngestOptions.model_fields):
        assert f"\n| `{name}` | " in text
    example = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", text, re.S)[0])
    runs = expand(parse(example, "example"))
    assert len(runs) == 3 * 2 * (4 + 3)  # three seeds; hops matter to one encoding of three
    assert {run.options.epochs for run in runs} == {50}


def test_every_command_is_run_or_excused():
    """`leap` in a block that nobody runs would go stale unnoticed."""
    for path in PAGES:
        for block in examples.blocks(path.read_text()):
            if block.language in ("sh", "bash", "shell"):
                assert not re.search(r"^(\$ )?leap ", block.body, re.M), f"{path.name}, line {block.line}: use console"
            if block.language == "console":
                assert block.body.startswith("$ "), f"{path.name}, line {block.line}: no command"


def test_links_lead_somewhere():
    for path in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
            if "://" in target:
                continue
            file, _, anchor = target.partition("#")
            page = (path.parent / file).resolve() if file else path
            assert page.exists(), f"{path.name} links to {target}"
            if anchor:
                headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
                slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
                assert anchor in slugs, f"{path.name} links to {target}"


def test_the_table_of_generated_datasets_is_right():
    from leap.pipeline.canonical import canonicalize
    from leap.pipeline.datasets import resolve

    rows = re.findall(r"^\| `([a-z-]+)` \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| (\d+), ", _page("datasets.md"), re.M)
    assert len(rows) == 5
    for name, *numbers in rows:
        summary = canonicalize(resolve(name).read()).summary
        counted = [summary[count] for count in ("graphs", "nodes", "edges", "features")]
        assert [int(number.replace(",", "")) for number in numbers] == counted, name


def _page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def test_outputs_that_differ_are_noticed():
    _, differences = examples.run("```console\n$ echo one\ntwo\n```\n\n```python\nprint(1)\n```\n\n```text\n2\n```\n")
    assert [difference.command for difference in differences] == ["echo one", "the python block above"]
    assert examples.same("made 3 s  12.0 KiB  0123456789ab", "made 14 min 3 B abcdef012345")
    assert not examples.same("made 3 s", "cached 3 s")


def test_a_failing_block_is_noticed():
    _, differences = examples.run("```python\nraise ValueError('no')\n```\n")
    assert "ValueError: no" in str(differences[0])
