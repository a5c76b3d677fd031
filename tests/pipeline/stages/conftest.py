"""Fixtures for stage tests: contexts with a store each, and sources in memory."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from leap.pipeline import Context, IngestOptions, Workforce
from leap.pipeline.datasets.source import MemorySource, Source
from leap.pipeline.graphs import RawGraphs
from leap.store import Store


@pytest.fixture
def new_context(tmp_path: Path) -> Callable[..., Context]:
    """Return a function that gives a context with a store of the given name, all work in this process by default."""

    def make(name: str = "store", workers: int | None = 0, scheduler: str | None = None) -> Context:
        return Context(Store.open(tmp_path / name), tmp_path / "data", Workforce(workers, scheduler))

    return make


@pytest.fixture
def source_of() -> Callable[..., Source]:
    """Return a function that makes a source of NetworkX graphs, with random coordinates unless `x` is given."""

    def make(graphs: Sequence[nx.Graph], name: str = "toy", x: Any = "random", y: Any = None) -> Source:
        counts = np.array([graph.number_of_nodes() for graph in graphs])
        starts = np.cumsum([0, *counts])
        numbered = [nx.convert_node_labels_to_integers(g, int(at)) for g, at in zip(graphs, starts, strict=False)]
        edges = np.array([edge for graph in numbered for edge in graph.edges], dtype=np.int64).reshape(-1, 2).T
        if isinstance(x, str):
            x = np.random.default_rng(0).normal(size=(int(starts[-1]), 3)).astype(np.float32)
        y = None if y is None else np.asarray(y)
        task = "none" if y is None else "graph-classification"
        return MemorySource(name, "test", RawGraphs(counts, edges, x, y, task))

    return make


@pytest.fixture
def varied(source_of: Callable[..., Source]) -> Source:
    """Graphs of many shapes: repeated eigenvalues, several components, one node, none, and one to be cut."""
    graphs = [
        nx.path_graph(5),
        nx.cycle_graph(6),
        nx.empty_graph(0),
        nx.complete_graph(5),
        nx.star_graph(7),
        nx.empty_graph(1),
        nx.disjoint_union(nx.cycle_graph(4), nx.complete_graph(4)),
        nx.barabasi_albert_graph(70, 2, seed=1),
        nx.empty_graph(3),
        nx.gnp_random_graph(20, 0.07, seed=2),
    ]
    return source_of(graphs, "varied", y=[0, 1] * 5)


@pytest.fixture
def small_parts() -> IngestOptions:
    """Options that cut the datasets above into many partitions, and their largest graph too."""
    return IngestOptions(partition_mb=0.003)
