from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.graphs import letter_like, random_edges, romanesque, small_graphs, write_large_graph
from leap.pipeline.canonical import canonicalize
from leap.pipeline.datasets import resolve


@settings(max_examples=30, deadline=None)
@given(nodes=st.integers(2, 60), share=st.floats(0, 1), seed=st.integers(0, 2**16))
def test_edges_are_distinct_pairs_of_different_nodes(nodes: int, share: float, seed: int) -> None:
    count = max(1, int(share * (nodes * (nodes - 1) // 4)))
    pairs = random_edges(np.random.default_rng(seed), nodes, count)
    assert pairs.shape == (2, count)
    assert pairs.min() >= 0
    assert pairs.max() < nodes
    assert (pairs[0] != pairs[1]).all()
    assert len({frozenset(pair) for pair in pairs.T.tolist()}) == count


def test_the_tables_are_a_dataset_with_exactly_the_wanted_counts(tmp_path: Path) -> None:
    write_large_graph(tmp_path / "large", nodes=3000, edges=9000, features=5)
    graphs = canonicalize(resolve(str(tmp_path / "large")).read())
    assert graphs.num_graphs == 1
    assert graphs.summary["edges"] == 9000
    assert graphs.summary["duplicate_edges_merged"] == graphs.summary["self_loops_dropped"] == 0
    assert graphs.x.shape == (3000, 5)
    assert graphs.x.dtype == np.float32
    assert abs(graphs.x.std() - 1) < 0.05


def test_the_same_seed_gives_the_same_tables(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_large_graph(tmp_path / name, nodes=50, edges=100, seed=seed)
    for table in ("edges.parquet", "nodes.parquet"):
        a, b, c = (pq.read_table(tmp_path / name / table) for name in "abc")
        assert a.equals(b)
        assert not a.equals(c)


def test_letters_are_connected_strokes_of_three_to_eight_nodes() -> None:
    batch = letter_like(300)
    graph = nx.Graph(batch.edge_index.T.tolist())
    sizes = [len(part) for part in nx.connected_components(graph)]
    assert len(sizes) == 300
    assert set(sizes) == set(range(3, 9))
    assert graph.number_of_nodes() == len(batch.x)
    assert nx.number_of_selfloops(graph) == 0
    assert batch.edge_index.shape[1] == 2 * graph.number_of_edges()  # nothing is listed twice
    chords = graph.number_of_edges() - (len(batch.x) - 300)
    assert 0 < chords <= sum(size // 3 for size in sizes)


def test_neighbourhoods_and_statistics_are_those_of_the_graphs() -> None:
    batch = letter_like(20)
    graph = nx.Graph(batch.edge_index.T.tolist())
    for node in graph:
        members = sorted(nx.ego_graph(graph, node))
        assert sorted(batch.neighborhoods.members(node).tolist()) == members
        points = batch.x.numpy()[members].astype(np.float64)
        centred = points - points.mean(0)
        np.testing.assert_allclose(batch.stats.mean[node], points.mean(0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(batch.stats.scale[node], np.linalg.norm(centred, axis=1).max(), rtol=1e-5)


def test_generated_graphs_are_connected_and_small() -> None:
    raw = small_graphs(500).read()
    assert set(np.unique(raw.node_counts)) == set(range(6, 15))
    last = np.cumsum(raw.node_counts)
    owner = np.repeat(np.arange(500), raw.node_counts)
    assert (owner[raw.edges[0]] == owner[raw.edges[1]]).all()
    reached = np.arange(last[-1])
    for _ in range(14):  # the smallest node that each one is connected to
        np.minimum.at(reached, raw.edges[0], reached[raw.edges[1]])
        np.minimum.at(reached, raw.edges[1], reached[raw.edges[0]])
    assert np.array_equal(reached, (last - raw.node_counts)[owner])


def test_romanesque_is_the_dataset_as_pyg_lists_it() -> None:
    edge_index, num_nodes = romanesque()
    assert num_nodes == 22_662
    assert edge_index.shape == (2, 2 * 32_927)
