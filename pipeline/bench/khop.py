"""The extraction kernel, CSR building included, against PyG's `k_hop_subgraph` for every node."""

from collections.abc import Iterator
from functools import partial

from leap.pipeline.bench.result import Comparison
from leap.pipeline.bench.session import Session
from leap.pipeline.bench.timing import median_seconds

TARGETS = {1: 1000.0, 2: 300.0}
"""Required ratio by hop count."""


def compare_khop(session: Session) -> Iterator[Comparison]:
    """Compare for each hop count of `TARGETS`."""
    from leap.pipeline import khop

    graph, repeats = session.graph, session.options.repeats
    for hops, target in TARGETS.items():
        peer = session.loop_seconds(hops)
        ours = median_seconds(partial(khop, graph.edge_index, graph.num_nodes, hops), repeats)
        yield Comparison("khop", f"{hops}-hop neighbourhoods, kernel with CSR building", ours, peer, target)
