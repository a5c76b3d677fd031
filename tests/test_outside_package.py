"""A package from outside brings a dataset, an encoding and a backbone by entry points, and is trained with.

It is the package of docs/extending.md, put into a folder of the test's own. Every command is a process, with Dask
workers where that is said.
"""

import importlib.util
import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy.linalg import expm

from leap.store import Store
from leap.store.graphs import StoredEncoding, StoredGraphs

ROOT = Path(__file__).resolve().parents[1]
TRACED = """
import os
from typing import ClassVar

from leap_rings.heat import Heat


class Traced(Heat):
    kind: ClassVar[str] = "traced"

    def compute(self, reader, partition, inputs):
        open(os.path.join(os.environ["TRACES"], str(os.getpid())), "w").close()
        return super().compute(reader, partition, inputs)
"""


class Outside:
    """Commands in a folder of their own, with a package on the path."""

    def __init__(self, folder: Path, site: Path) -> None:
        self.folder, self.site, self.store = folder, site, folder / "store"
        (folder / "traces").mkdir(parents=True)

    def start(self, *arguments: object, installed: bool = True) -> subprocess.Popen[str]:
        settings = {"LEAP_STORE": str(self.store), "TRACES": str(self.folder / "traces"), "COLUMNS": "200"}
        environment = {**os.environ, **settings, **({"PYTHONPATH": str(self.site)} if installed else {})}
        return subprocess.Popen(
            [sys.executable, "-m", "leap.cli.main", *map(str, arguments)],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: object, installed: bool = True) -> tuple[int, str, str]:
        process = self.start(*arguments, installed=installed)
        out, err = process.communicate()
        return process.returncode, out, err

    def json(self, *arguments: object) -> dict:
        code, out, err = self(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)


def install(site: Path) -> None:
    spec = importlib.util.spec_from_file_location("docs_examples_of_outside", ROOT / "docs" / "examples.py")
    examples = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = examples
    spec.loader.exec_module(examples)
    examples.write_files((ROOT / "docs" / "extending.md").read_text(), site)
    (site / "traced_rings.py").write_text(TRACED)
    folder = site / "traced_rings-1.0.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_text("[leap.encodings]\ntraced = traced_rings:Traced\n")


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outside")
    install(folder / "site")
    return Outside(folder / "work", folder / "site")


@pytest.fixture(scope="module")
def trained(outside):
    """Train on the outside dataset with the outside encoding and backbone, by two workers."""
    options = ("-e", "heat", "-b", "each", "--epochs", 40, "--folds", 2, "--lr", 0.02, "--workers", 2)
    return outside.json("train", "rings", *options, "--run", "runs/rings")


def test_all_parts_are_listed(outside):
    (rings,) = [entry for entry in outside.json("datasets")["datasets"] if entry["name"] == "rings"]
    assert (rings["family"], rings["licence"], rings["presence"]) == ("leap-rings", "MIT", "embedded")
    shown = {command: outside(command, "--help")[1] for command in ("encode", "train")}
    assert "heat, traced: time between two of them (default: 0.5)" in shown["encode"]
    assert "heat" in shown["train"]
    assert "each" in shown["train"]


def test_it_is_trained_with(outside, trained):
    assert [artifact["kind"] for artifact in trained["artifacts"]] == ["dataset", "heat"]
    assert trained["dataset"] == "rings"
    config = json.loads((outside.folder / "runs" / "rings" / "metrics.json").read_text())["options"]["network"]
    assert (config["backbone"], config["encoding"]) == ("each", "heat")
    scores = [fold["test"]["accuracy"] for fold in trained["folds"]]
    assert min(scores) > 0.8  # guessing gives one half; the encoding alone tells rings from paths


def test_workers_compute_the_encoding(outside):
    tiny = ("--partition-mb", 0.001, "--workers", 2, "--json")
    process = outside.start("encode", "rings", "-e", "traced", *tiny)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert json.loads(out)["artifacts"][1]["partitions"] > 2
    workers = {int(name) for name in os.listdir(outside.folder / "traces")}
    assert workers
    assert process.pid not in workers


def test_the_stored_encoding_is_what_the_recipe_says(outside, trained):
    dataset, heat = (Store.open(outside.store).get(artifact["key"]) for artifact in trained["artifacts"])
    graphs, values = StoredGraphs.of(dataset), StoredEncoding.of(heat).values()
    for (low, high), is_ring in zip(pairwise(graphs.node_ptr().tolist()), graphs.labels().tolist(), strict=True):
        graph = (nx.cycle_graph if is_ring else nx.path_graph)(high - low)
        laplacian = nx.laplacian_matrix(graph).toarray().astype(float)
        expected = np.stack([expm(-0.5 * step * laplacian).diagonal() for step in range(1, 11)], axis=1)
        np.testing.assert_allclose(values[low:high], expected, atol=1e-5)


def test_a_smaller_dimension_is_a_view_and_another_parameter_a_miss(outside, trained):
    (_, again) = outside.json("encode", "rings", "-e", "heat", "--dim", 4)["artifacts"]
    assert (again["cached"], again["view"], again["key"]) == (True, True, trained["artifacts"][1]["key"])
    why = outside.json("store", "why", "heat", "rings", "unit=0.25")
    assert why["differences"] == {"unit": {"asked": 0.25, "stored": 0.5}}


def test_sweeps_take_its_names(outside, trained):
    (outside.folder / "grid.yaml").write_text(
        "grids:\n  - {dataset: rings, backbones: [each, gcn], encodings: [heat, heat+leap-l]}\n"
    )
    plan = outside.json("sweep", "grid.yaml", "--plan")
    assert {(run["backbone"], run["encoding"]) for run in plan["run_list"]} == {
        (backbone, encoding) for backbone in ("each", "gcn") for encoding in ("heat", "heat+leap-l")
    }


def test_the_run_predicts(outside, trained):
    result = outside.json("predict", "runs/rings", "rings", "--out", "predictions.parquet")
    assert result["items"] == 60


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("train", "rings", "-e", "rwpe"), "no dataset 'rings'"),
        (("encode", "triads", "-e", "heat"), "no encoding 'heat'"),
        (("predict", "runs/rings", "triads"), "'heat'"),
    ],
)
def test_without_the_package_its_names_are_unknown(command, message, outside, trained):
    code, _, err = outside(*command, installed=False)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


def test_a_package_that_cannot_be_imported_is_named_and_harms_nothing_else(outside, tmp_path):
    broken = tmp_path / "site" / "broken-1.0.dist-info"
    broken.mkdir(parents=True)
    points = "[leap.encodings]\nvoid = not_there:Recipe\n[leap.backbones]\nvoid = not_there:Backbone\n"
    (broken / "entry_points.txt").write_text(points)
    lame = Outside(tmp_path / "work", tmp_path / "site")
    assert lame.json("encode", "letters-low", "-e", "rwpe")["dataset"] == "letters-low"
    for command in (("encode", "letters-low", "-e", "void"), ("train", "letters-low", "-e", "none", "-b", "void")):
        code, _, err = lame(*command)
        assert code == 2
        assert "'void' cannot be imported from not_there" in err
