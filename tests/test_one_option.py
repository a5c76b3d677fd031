"""An option is said once: a field that is added to one file is on the command line and everywhere else."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from leap.models.registries import BACKBONES, PROJECTIONS, BackboneTraits
from leap.pipeline.experiments.sweep_file import axes_of
from leap.pipeline.training.options import OPTIONS, TrainOptions, relevant

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("store", "models", "pipeline", "cli")
CONFIG = Path("models", "network_config.py")
FIELD = """    pooling: Annotated["""
ADDED = """    shade: Annotated[
        Literal["light", "dark"],
        Option(help="How it is lit: {choices}.", panel=NETWORK, label="light", matters=lambda kind: kind.has_leap),
    ] = "light"
"""
WALK = """
import importlib.util, json, sys
import typer.main
from leap.cli.app import app
from leap.pipeline.experiments.expand import expand
from leap.pipeline.engine.results import COLUMNS
from leap.pipeline.experiments.sweep_file import parse
from leap.pipeline.reports.names import PAPER
from leap.pipeline.training.options import OPTIONS, TrainOptions, relevant

commands = typer.main.get_command(app).commands
shown = {name: {p.name: p for p in commands[name].params} for name in ("train", "sweep")}
grid = {"datasets": "triads", "encodings": ["rwpe", "leap-l"], "shades": ["light", "Dark"]}
runs = [run.options for run in expand(parse({"grids": [grid]}, "a"))]
spec = importlib.util.spec_from_file_location("generate_cli", sys.argv[1])
generate_cli = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate_cli)
print(json.dumps({
    "flags": {name: params["shade"].opts for name, params in shown.items()},
    "help": shown["train"]["shade"].help,
    "default": shown["train"]["shade"].default,
    "runs": [[run.network.encoding, run.network.shade] for run in runs],
    "column": COLUMNS["shade"],
    "compared": PAPER["backbone"]["shade"],
    "label": OPTIONS["shade"].label,
    "is_in_docs": "| `--shade NAME` | How it is lit: light or dark. | light |" in generate_cli.page(),
    "prints": [TrainOptions.of({"encoding": e, "shade": s}).fingerprint("a", []) for e in ("rwpe", "leap-l")
               for s in ("light", "dark")],
}))
"""


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """Return what is known of an option that one file more says; all other files are as they are."""
    root = tmp_path_factory.mktemp("changed")
    (root / "leap" / "models").mkdir(parents=True)
    for layer in LAYERS:
        if layer != CONFIG.parts[0]:
            (root / "leap" / layer).symlink_to(ROOT / layer)
    for entry in (ROOT / "models").iterdir():
        if entry.name not in ("__pycache__", CONFIG.name):
            (root / "leap" / "models" / entry.name).symlink_to(entry)
    source = (ROOT / CONFIG).read_text()
    assert source.count(FIELD) == 1
    (root / "leap" / CONFIG).write_text(source.replace(FIELD, ADDED + FIELD))
    done = subprocess.run(
        [sys.executable, "-c", WALK, str(ROOT / "docs" / "generate_cli.py")],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_one_file_more_is_an_option_of_the_commands(walked):
    assert walked["flags"] == {"train": ["--shade"], "sweep": ["--shade"]}
    assert (walked["help"], walked["default"]) == ("How it is lit: light or dark.", "light")


def test_one_file_more_is_a_key_of_sweep_files_where_it_matters(walked):
    assert walked["runs"] == [["rwpe", "light"], ["leap-l", "light"], ["leap-l", "dark"]]


def test_one_file_more_is_part_of_the_fingerprint_where_it_matters(walked):
    without, same, light, dark = walked["prints"]
    assert without == same
    assert light != dark


def test_one_file_more_is_a_column_of_the_results_and_known_to_reports_and_documents(walked):
    assert (walked["column"], walked["compared"], walked["label"]) == ("string", "light", "light")
    assert walked["is_in_docs"]


def test_no_other_file_repeats_a_default_of_the_command_line():
    """What the commands declare themselves is no option of a training."""
    for name in ("train", "sweep"):
        text = (ROOT / "cli" / f"{name}.py").read_text()
        declared = set(re.findall(r"^    (\w+): ", text[text.index(f"def {name}(") : text.index(") -> None:")], re.M))
        filters = {"backbone", "encoding"} if name == "sweep" else set()
        assert declared & OPTIONS.keys() == filters


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_explains_itself(name):
    field = OPTIONS[name]
    assert field.help.endswith(".")
    assert "{" not in field.help
    assert field.default is None or field.default == field.owner.model_validate({}).model_dump()[name]


# Fingerprints that runs in the world already have.
@pytest.mark.parametrize(
    ("values", "fingerprint"),
    [
        ({}, "de72e4a78afdc744"),
        (
            {"encoding": "lape+leap-l", "hops": (1, 2), "pooling": "mean", "lape_drop": "one", "cap": 5},
            "1764efb0f8a31c2a",
        ),
        (
            {"backbone": "dect-4k", "encoding": "none", "seed": 3},
            "44068c52d786d240",
        ),
    ],
)
def test_fingerprints_stay(values, fingerprint):
    assert TrainOptions.of(values).fingerprint("letters-low", ["key"]).startswith(fingerprint)


def test_what_is_registered_can_be_chosen(monkeypatch):
    class Whole:
        traits = BackboneTraits(looks_at_graphs=True)

    monkeypatch.setitem(BACKBONES._loaded, "whole", Whole)
    monkeypatch.setitem(PROJECTIONS._loaded, "folded", object)
    chosen = TrainOptions.of({"backbone": "Whole", "projection": "folded"}).network
    assert (chosen.backbone, chosen.encoding, chosen.projection) == ("whole", "none", "folded")
    assert OPTIONS["backbone"].help.endswith("dect-65k or whole.")
    assert "layers" not in relevant({"backbone": "whole", "layers": 3})
    assert axes_of({"backbones": ["WHOLE", "gcn"]}, "here") == {"backbone": ("whole", "gcn")}
