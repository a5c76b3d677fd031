from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.pipeline.bench.large_graph import random_edges, write_large_graph
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


def test_the_tables_are_own_data_with_exactly_the_wanted_counts(tmp_path: Path) -> None:
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
