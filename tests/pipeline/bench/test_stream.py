"""The part `stream` compares a stream that reads again and again with one that has everything in memory."""

from pathlib import Path

import numpy as np
import pytest

from leap.pipeline.bench.result import Comparison, MemoryUse
from leap.pipeline.bench.session import BenchOptions, Session
from leap.pipeline.bench.small_graphs import small_graphs
from leap.pipeline.bench.stream import measure_stream


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


@pytest.mark.slow
def test_speed_and_memory_are_measured(tmp_path: Path) -> None:
    loader, epoch, memory = measure_stream(Session(tmp_path, BenchOptions(repeats=1)), graphs=800, partition_mb=0.02)
    assert isinstance(loader, Comparison)
    assert isinstance(epoch, Comparison)
    assert isinstance(memory, MemoryUse)
    assert 0 < loader.ours < epoch.ours
    assert 0 < loader.peer < epoch.peer
    assert "9% of them" in loader.what
    assert 30 * 2**20 < memory.peak < 2**30
