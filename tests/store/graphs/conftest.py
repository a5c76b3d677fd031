"""Stored graphs of awkward shapes with everything derived of them, for tests of streams and batches."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from leap.pipeline import Context, IngestOptions, Workforce, encode, extract, from_networkx
from leap.store import Store
from leap.store.graphs import ArrayBatch, GraphStream

HOPS = (1, 2)
SMALL = IngestOptions(partition_mb=0.003)


def shapes(seed: int) -> list[nx.Graph]:
    """Some eighty graphs of many shapes, a few empty, one so large that its partition is cut."""
    rng = np.random.default_rng(seed)
    graphs = [nx.gnp_random_graph(int(n), 0.3, seed=int(n)) for n in rng.integers(0, 14, 76)]
    graphs[11:11] = [nx.empty_graph(0), nx.barabasi_albert_graph(130, 2, seed=1), nx.empty_graph(0), nx.empty_graph(1)]
    for number, graph in enumerate(graphs):
        graph.graph["y"] = number % 3
        for node in graph:
            graph.nodes[node]["p"], graph.nodes[node]["q"] = rng.normal(size=2).tolist()
    return graphs


class Stored:
    """Everything that was made of the graphs, and streams over it."""

    def __init__(self, folder: Path, name: str = "shapes", seed: int = 5) -> None:
        self.context = Context(Store.open(folder), workforce=Workforce(0))
        self.graphs = shapes(seed)
        source = from_networkx(self.graphs, name)
        made = extract(source, list(HOPS), ingest_options=SMALL, context=self.context)
        size = {"directions": 3, "thresholds": 4}
        encode(source, ["rwpe", "lape", "dect"], params=size, ingest_options=SMALL, context=self.context)
        find = self.context.store.find
        self.dataset = self.context.store.get(made["dataset"].key)
        self.hoods = [find("neighborhoods", name, hops=hops) for hops in HOPS]
        self.encodings = [find("rwpe", name, dim=4), find("lape", name), find("dect", name)]

    def stream(self, **named) -> GraphStream:
        return GraphStream(self.dataset, self.hoods, self.encodings, **({"batch_size": 5, "window": 4} | named))


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return Stored(tmp_path_factory.mktemp("store"))


def flat(batch: ArrayBatch) -> list[np.ndarray]:
    arrays = [batch.graphs, batch.ptr, batch.batch, batch.x, batch.edge_index]
    arrays += [] if batch.y is None else [batch.y]
    for hood in batch.neighborhoods.values():
        arrays += [hood.node_ptr, hood.nodes, hood.edge_ptr, hood.edges]
    return arrays + [a for pair in batch.stats.values() for a in pair] + list(batch.encodings.values())


def assert_same(found: list[ArrayBatch], expected: list[ArrayBatch]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        for a, b in zip(flat(one), flat(other), strict=True):
            assert a.dtype == b.dtype
            assert np.array_equal(a, b)
