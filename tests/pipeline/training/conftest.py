"""Fixtures for tests of training: small datasets that can be learned, in one store for all tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from leap.models.network_config import NetworkConfig
from leap.pipeline import Context, TrainOptions, Workforce
from leap.pipeline.datasets.source import MemorySource, Source
from leap.pipeline.graphs import RawGraphs
from leap.store import Store


def graphs_source(graphs: list[nx.Graph], name: str, x: Any, y: Any, task: str, masks: Any = None) -> Source:
    counts = np.array([graph.number_of_nodes() for graph in graphs])
    joined = nx.disjoint_union_all(graphs)
    edges = np.array(joined.edges, dtype=np.int64).reshape(-1, 2).T
    return MemorySource(name, "test", RawGraphs(counts, edges, x, np.asarray(y), task, masks))


def coordinates(graphs: list[nx.Graph], dim: int = 2) -> np.ndarray:
    total = sum(len(graph) for graph in graphs)
    return np.random.default_rng(0).normal(size=(total, dim)).astype(np.float32)


@pytest.fixture(scope="session")
def shapes() -> Source:
    """120 cycles and paths of 3 to 8 nodes, and one graph without nodes: two classes."""
    graphs = [(nx.cycle_graph if i % 2 else nx.path_graph)(3 + i // 2 % 6) for i in range(120)] + [nx.empty_graph(0)]
    return graphs_source(graphs, "shapes", coordinates(graphs), [i % 2 for i in range(121)], "graph-classification")


@pytest.fixture(scope="session")
def sizes() -> Source:
    """Regression: number of nodes, and of edges times 1000."""
    graphs = [nx.gnp_random_graph(3 + i % 7, 0.5, seed=i) for i in range(60)]
    y = [[len(graph), 1000 * graph.number_of_edges()] for graph in graphs]
    return graphs_source(graphs, "sizes", coordinates(graphs), np.array(y, dtype=float), "graph-regression")


@pytest.fixture(scope="session")
def atoms() -> Source:
    """Categorical features with gaps between their codes; the class is whether code 7 occurs."""
    graphs = [nx.path_graph(3 + i % 3) for i in range(60)]
    total = sum(len(graph) for graph in graphs)
    x = np.stack([np.random.default_rng(1).choice([1, 6, 7, 8], total), np.full(total, 2)], axis=1)
    ends = np.cumsum([len(graph) for graph in graphs])
    y = [int((part[:, 0] == 7).any()) for part in np.split(x, ends[:-1])]
    return graphs_source(graphs, "atoms", x, y, "graph-classification")


@pytest.fixture(scope="session")
def nodes() -> Source:
    """One graph; the class of a node is whether its degree is above 3. Three splits."""
    graph = nx.barabasi_albert_graph(80, 2, seed=0)
    dealt = np.random.default_rng(0).choice(3, size=(80, 3), p=[0.5, 0.25, 0.25])
    masks = {name: dealt == code for code, name in enumerate(("train", "val", "test"))}
    y = [int(degree > 3) for _, degree in graph.degree]
    return graphs_source([graph], "nodes", coordinates([graph], 3), y, "node-classification", masks)


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    """A context whose store all tests share; everything runs in this process."""
    return Context(Store.open(tmp_path_factory.mktemp("training") / "store"), workforce=Workforce(0))


@pytest.fixture
def options() -> Callable[..., TrainOptions]:
    """Return a function that makes options; names of the network's go to the network."""

    def make(**values: Any) -> TrainOptions:
        network = {name: values.pop(name) for name in list(values) if name in NetworkConfig.model_fields}
        defaults = {"epochs": 3, "folds": 2}
        return TrainOptions(network=NetworkConfig(**network), **(defaults | values))

    return make


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Folder of a run."""
    return tmp_path / "runs" / "one"
