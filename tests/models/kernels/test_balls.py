import doctest

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.models.kernels import balls
from leap.models.kernels.adjacency import build_csr
from leap.models.kernels.balls import count_khop, khop_arrays
from leap.store.errors import InvalidInputError
from tests.strategies import simple_graphs

HOPS = st.integers(1, 3)


def extract(graph, hops, **options):
    csr = build_csr(graph.edges, graph.num_nodes)
    return khop_arrays(csr.indptr, csr.indices, hops, **options)


def split(arrays):
    """One (nodes, edges) pair of lists for each neighbourhood."""
    node_ptr, nodes, edge_ptr, edges = arrays
    return [
        (nodes[a:b].tolist(), [tuple(pair) for pair in edges[:, c:d].T.tolist()])
        for a, b, c, d in zip(node_ptr, node_ptr[1:], edge_ptr, edge_ptr[1:], strict=False)
    ]


def distances(graph, v):
    return nx.single_source_shortest_path_length(graph.to_networkx(), v)


@settings(max_examples=120, deadline=None)
@given(simple_graphs(), HOPS)
def test_neighbourhoods_are_the_ego_graphs_of_networkx(graph, hops):
    oracle = graph.to_networkx()
    found = split(extract(graph, hops))
    assert len(found) == graph.num_nodes
    for v, (nodes, edges) in enumerate(found):
        ego = nx.ego_graph(oracle, v, radius=hops)
        assert sorted(nodes) == sorted(ego.nodes)
        assert sorted(edges) == sorted((min(edge), max(edge)) for edge in ego.edges)


@settings(max_examples=60, deadline=None)
@given(simple_graphs(), HOPS)
def test_members_come_by_hop_then_id_and_edges_by_lower_end_then_upper_id(graph, hops):
    for v, (nodes, edges) in enumerate(split(extract(graph, hops))):
        hop = distances(graph, v)
        assert nodes[0] == v
        assert nodes == sorted(nodes, key=lambda u: (hop[u], u))
        assert all(a < b for a, b in edges)
        assert edges == sorted(edges, key=lambda edge: (nodes.index(edge[0]), edge[1]))


@settings(max_examples=60, deadline=None)
@given(simple_graphs(), HOPS, st.integers(0, 8))
def test_counting_agrees_with_extracting(graph, hops, cap):
    csr = build_csr(graph.edges, graph.num_nodes)
    arrays = khop_arrays(csr.indptr, csr.indices, hops, cap=cap)
    members, induced = count_khop(csr.indptr, csr.indices, hops, cap=cap)
    np.testing.assert_array_equal(members, np.diff(arrays.node_ptr))
    np.testing.assert_array_equal(induced, np.diff(arrays.edge_ptr))


@settings(max_examples=40, deadline=None)
@given(simple_graphs(), HOPS, st.integers(0, 6), st.data())
def test_sources_select_neighbourhoods_of_the_whole(graph, hops, cap, data):
    whole = split(extract(graph, hops, cap=cap, seed=3))
    n = graph.num_nodes
    low = data.draw(st.integers(0, n))
    high = data.draw(st.integers(low, n))
    assert split(extract(graph, hops, sources=(low, high), cap=cap, seed=3)) == whole[low:high]
    ids = np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=6) if n else st.just([])), dtype=np.int32)
    assert split(extract(graph, hops, sources=ids, cap=cap, seed=3)) == [whole[v] for v in ids]


def ring_with_chords(n, seed=0):
    rng = np.random.default_rng(seed)
    first = np.arange(n)
    chords = rng.integers(0, n, (2, n))
    return build_csr(np.concatenate([np.stack([first, (first + 1) % n]), chords], axis=1), n)


@pytest.mark.parametrize("cap", [0, 5])
def test_the_result_does_not_depend_on_threads_or_buffers(monkeypatch, cap):
    csr = ring_with_chords(500)
    expected = khop_arrays(csr.indptr, csr.indices, 3, cap=cap, threads=1)
    monkeypatch.setattr(balls, "SERIAL_WORK", 0)
    for size in (1, 7, 1000):
        monkeypatch.setattr(balls, "BUFFER_SIZE", size)
        for threads in (1, 2, 5):
            again = khop_arrays(csr.indptr, csr.indices, 3, cap=cap, threads=threads)
            for one, other in zip(expected, again, strict=True):
                np.testing.assert_array_equal(one, other)
            counts = count_khop(csr.indptr, csr.indices, 3, cap=cap, threads=threads)
            np.testing.assert_array_equal(counts[0], np.diff(expected.node_ptr))
            np.testing.assert_array_equal(counts[1], np.diff(expected.edge_ptr))


def test_large_hops_are_sorted_too():
    n = 300
    hub = build_csr(np.stack([np.full(n - 1, n // 2), np.delete(np.arange(n), n // 2)])[:, ::-1], n)
    for nodes, _ in split(khop_arrays(hub.indptr, hub.indices, 2))[:: n // 3]:
        others = [u for u in nodes[1:] if u != n // 2]
        assert others == sorted(others)
        assert len(nodes) == n


def test_64_bit_ids_give_the_same_neighbourhoods():
    csr = ring_with_chords(60)
    narrow = khop_arrays(csr.indptr, csr.indices, 2, cap=9)
    wide = khop_arrays(csr.indptr, csr.indices.astype(np.int64), 2, cap=9)
    assert (narrow.nodes.dtype, narrow.edges.dtype) == (np.int32, np.int32)
    assert (wide.nodes.dtype, wide.edges.dtype) == (np.int64, np.int64)
    for one, other in zip(narrow, wide, strict=True):
        np.testing.assert_array_equal(one, other)


def test_read_only_arrays_are_accepted():
    csr = ring_with_chords(20)
    csr.indptr.flags.writeable = csr.indices.flags.writeable = False
    assert len(khop_arrays(csr.indptr, csr.indices, 1).node_ptr) == 21


def splitmix64(state):
    mask = 2**64 - 1
    z = (state + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def sampled(hop, v, cap, seed):
    """The members that the documented sampling keeps, from the hop distance of each reachable node."""
    state = splitmix64((splitmix64(seed % 2**64) + v) % 2**64)
    kept = []
    for distance in range(max(hop.values()) + 1):
        level = sorted(u for u in hop if hop[u] == distance)
        room = cap - len(kept)
        if len(level) > room:
            keys = {u: splitmix64((state + u * 0x9E3779B97F4A7C15) % 2**64) for u in level}
            return kept + sorted(sorted(level, key=keys.__getitem__)[:room])
        kept += level
    return kept


@settings(max_examples=80, deadline=None)
@given(simple_graphs(), HOPS, st.integers(1, 8), st.integers(-5, 5))
def test_a_cap_keeps_near_hops_and_the_documented_sample_of_the_one_that_overflows(graph, hops, cap, seed):
    oracle = graph.to_networkx()
    for v, (nodes, edges) in enumerate(split(extract(graph, hops, cap=cap, seed=seed))):
        hop = {u: d for u, d in distances(graph, v).items() if d <= hops}
        assert nodes == sampled(hop, v, cap, seed)
        assert len(nodes) == min(cap, len(hop))
        induced = oracle.subgraph(nodes).edges
        assert sorted(edges) == sorted((min(edge), max(edge)) for edge in induced)


@settings(max_examples=40, deadline=None)
@given(simple_graphs(), HOPS, st.integers(1, 6), st.integers(2, 9))
def test_a_relabelled_piece_draws_the_sample_of_the_whole(graph, hops, cap, stride):
    """Spread the ids over a larger graph; the piece that holds them draws what the larger graph draws."""
    names = 5 + stride * np.arange(graph.num_nodes, dtype=np.int64)
    larger = build_csr(names[graph.edges], 5 + stride * graph.num_nodes)
    piece = extract(graph, hops, cap=cap, seed=1, global_ids=names)
    whole = khop_arrays(larger.indptr, larger.indices, hops, sources=names, cap=cap, seed=1)
    np.testing.assert_array_equal(names[piece.nodes], whole.nodes)
    np.testing.assert_array_equal(names[piece.edges], whole.edges)
    np.testing.assert_array_equal(piece.node_ptr, whole.node_ptr)
    np.testing.assert_array_equal(piece.edge_ptr, whole.edge_ptr)


def test_samples_are_uniform_and_differ_between_seeds_and_sources():
    n, cap, seeds = 40, 11, 400
    star = build_csr(np.stack([np.zeros(n, dtype=np.int64), np.arange(1, n + 1)]), n + 1)
    picks = np.stack(
        [khop_arrays(star.indptr, star.indices, 1, sources=(0, 1), cap=cap, seed=s).nodes for s in range(seeds)]
    )
    assert len({tuple(pick) for pick in picks}) == seeds
    often = np.bincount(picks[:, 1:].ravel(), minlength=n + 1)[1:]
    expected = seeds * (cap - 1) / n
    assert np.abs(often - expected).max() < 5 * np.sqrt(expected)
    complete = build_csr(np.stack(np.triu_indices(n, 1)), n)
    rows = khop_arrays(complete.indptr, complete.indices, 1, cap=cap).nodes.reshape(n, cap)
    assert len({tuple(sorted(row)) for row in rows}) == n


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hops": 0}, r"at least 1 hop, but hops = 0"),
        ({"hops": 1, "cap": -2}, r"but is -2"),
        ({"hops": 1, "sources": (1, 9)}, r"1…9 does not lie in 0…3"),
        ({"hops": 1, "sources": np.array([0, 3])}, r"Source 3 does not exist"),
        ({"hops": 1, "sources": np.array([[0]])}, r"shape \(1, 1\)"),
    ],
)
def test_wrong_arguments_are_refused_with_the_value_met(options, message):
    csr = build_csr([[0, 1], [1, 2]], 3)
    with pytest.raises(InvalidInputError, match=message):
        khop_arrays(csr.indptr, csr.indices, **options)


def test_the_examples_in_the_documentation_run():
    failed, attempted = doctest.testmod(balls)
    assert attempted > 0
    assert failed == 0
