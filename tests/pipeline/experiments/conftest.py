"""Fixtures for tests of sweeps: small datasets as files, which can be learned quickly and removed at any time."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import yaml

from leap.pipeline import Context, Workforce
from leap.store import Store


@pytest.fixture
def write_shapes() -> Callable[..., Path]:
    """Return a function that writes cycles and paths, two classes, to a node-link file."""

    def write(path: Path, count: int = 60) -> Path:
        generator = np.random.default_rng(0)
        graphs = []
        for number in range(count):
            graph = (nx.cycle_graph if number % 2 else nx.path_graph)(3 + number // 2 % 5)
            graph.graph["y"] = number % 2
            for node in graph:
                graph.nodes[node]["x"] = generator.normal(size=2).round(4).tolist()
            graphs.append(nx.node_link_data(graph, edges="edges"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(graphs))
        return path

    return write


@pytest.fixture
def write_sweep(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a sweep file with one grid."""

    def write(**values: Any) -> Path:
        defaults = {"backbones": "gcn", "epochs": 2, "folds": 2}
        path = tmp_path / "sweep.yaml"
        path.write_text(yaml.safe_dump({"name": "test", "grids": [defaults | values]}))
        return path

    return write


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A context with a store of the test's own; everything runs in this process."""
    return Context(Store.open(tmp_path / "store"), workforce=Workforce(0))
