"""Canonical form: what is cleaned, what is counted, what is refused."""

import itertools
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.pipeline.canonical import canonicalize
from leap.pipeline.graphs import RawGraphs
from leap.store.errors import InvalidInputError
from leap.store.graphs import Graphs


def raw(counts=(3, 0, 2), edges=((0, 1), (1, 0), (1, 2), (3, 4)), **fields) -> RawGraphs:
    given_fields = {"x": None, "y": None, "task": "none"} | fields
    return RawGraphs(
        node_counts=np.array(counts, dtype=np.int64),
        edges=np.array(edges, dtype=np.int64).reshape(-1, 2).T,
        **given_fields,
    )


def edge_set(graphs: Graphs) -> set[tuple[int, int]]:
    rows = np.repeat(np.arange(graphs.num_nodes), np.diff(graphs.indptr))
    return {(int(a), int(b)) for a, b in zip(rows, graphs.indices, strict=True)}


@st.composite
def messy_graphs(draw):
    counts = draw(st.lists(st.integers(0, 6), min_size=1, max_size=5).filter(sum))
    starts = np.cumsum([0, *counts])
    pairs = []
    for lo, hi in itertools.pairwise(starts):
        if hi > lo:
            node = st.integers(int(lo), int(hi) - 1)
            pairs += draw(st.lists(st.tuples(node, node), max_size=12))
    return raw(counts, draw(st.permutations(pairs)))


@settings(max_examples=60, deadline=None)
@given(messy_graphs())
def test_adjacency_is_the_simple_undirected_graph_networkx_builds(messy):
    graphs = canonicalize(messy)
    oracle = nx.Graph()
    oracle.add_nodes_from(range(graphs.num_nodes))
    listed = messy.edges.T.tolist()
    oracle.add_edges_from((a, b) for a, b in listed if a != b)
    assert edge_set(graphs) == {pair for a, b in oracle.edges for pair in ((a, b), (b, a))}
    for v in range(graphs.num_nodes):
        row = graphs.indices[graphs.indptr[v] : graphs.indptr[v + 1]]
        assert (np.diff(row) > 0).all()
    loops = sum(a == b for a, b in listed)
    assert graphs.summary["self_loops_dropped"] == loops
    assert graphs.summary["duplicate_edges_merged"] == len(listed) - loops - len({(a, b) for a, b in listed if a != b})
    assert graphs.summary["edges"] == oracle.number_of_edges()
    assert graphs.summary["isolated_nodes"] == nx.number_of_isolates(oracle)
    assert graphs.indices.dtype == np.int32


def test_both_directions_of_an_edge_are_no_duplicate_but_a_third_entry_is():
    assert canonicalize(raw((2,), [(0, 1), (1, 0)])).summary["duplicate_edges_merged"] == 0
    assert canonicalize(raw((2,), [(0, 1), (1, 0), (0, 1)])).summary["duplicate_edges_merged"] == 1


def test_empty_graphs_keep_their_labels_unless_dropped_with_them():
    labelled = raw(y=np.array([7, -1, 7]), task="graph-classification")
    kept = canonicalize(labelled)
    assert kept.node_ptr.tolist() == [0, 3, 3, 5]
    assert kept.y.tolist() == [1, 0, 1]
    assert kept.classes == [-1, 7]
    assert kept.summary["empty_graphs"] == 1
    dropped = canonicalize(labelled, drop_empty=True)
    assert dropped.node_ptr.tolist() == [0, 3, 5]
    assert dropped.y.tolist() == [1, 1]
    assert (dropped.summary["empty_graphs"], dropped.summary["dropped_empty_graphs"]) == (0, 1)
    assert edge_set(dropped) == edge_set(kept)


def test_text_labels_are_coded_by_sorted_value():
    graphs = canonicalize(raw(y=np.array(["b", "a", "c"]), task="graph-classification"))
    assert (graphs.y.tolist(), graphs.classes) == ([1, 0, 2], ["a", "b", "c"])


def test_dropping_empty_graphs_leaves_node_labels_alone():
    graphs = canonicalize(raw(y=np.arange(5), task="node-classification"), drop_empty=True)
    assert graphs.y.tolist() == [0, 1, 2, 3, 4]
    assert graphs.num_graphs == 2


def test_regression_targets_are_float32_columns():
    graphs = canonicalize(raw(y=np.array([1.5, 2.5, 3.5]), task="graph-regression"))
    assert graphs.y.shape == (3, 1)
    assert graphs.y.dtype == np.float32
    assert graphs.classes is None
    assert graphs.summary["targets"] == 1


GRID = np.arange(400)
COLLAPSING = {
    "times": (1.7e9 + GRID + 0.5, r"has 400 distinct values from 1700000000.5 to 1700000399.5, .* keeps only [45]\."),
    "an offset": (1.0 + GRID * 1e-9, "keeps only [45]"),
    "too small": ((1 + GRID) * 1e-60, "keeps only 1"),
    "two values": (1e9 + GRID % 2, "has 2 distinct values from 1000000000.0 to 1000000001.0, .* keeps only 1"),
    "large integers": (10**12 + GRID, "keeps only 1"),
}


@pytest.mark.parametrize("case", COLLAPSING)
def test_targets_that_float32_does_not_tell_apart_are_refused_with_a_way_out(case):
    values, message = COLLAPSING[case]
    y = np.stack([GRID.astype(values.dtype), values], axis=1)
    with pytest.raises(InvalidInputError, match=f"column 1 of the targets.*{message}.*Subtract an offset.*or rescale"):
        canonicalize(raw([1] * 400, [], y=y, task="graph-regression"))


@pytest.mark.parametrize(
    "y",
    [
        np.random.default_rng(7).normal(size=400),
        np.random.default_rng(7).normal(1e4, 1.0, size=400),
        10.0 ** np.linspace(-30, 30, 400),
        np.array([0.3, 0.1 + 0.2, 0.7, 0.8 - 0.1] * 100),  # two values, and four in float64
        (1.7e9 + GRID).astype(np.float32),
        np.zeros(400),
        np.full(400, 1.7e9 + 0.5),
    ],
    ids=["normal", "offset", "magnitudes", "last digits", "float32", "zeros", "constant"],
)
def test_ordinary_targets_are_stored_as_float32_rounds_them(y):
    graphs = canonicalize(raw([1] * 400, [], y=y, task="graph-regression"))
    assert graphs.y.tobytes() == y.astype(np.float32)[:, None].tobytes()


def test_missing_features_become_degrees_ones_or_return_probabilities():
    star = raw((4,), [(0, 1), (0, 2)])
    assert canonicalize(star).x.tolist() == [[2.0], [1.0], [1.0], [0.0]]
    assert canonicalize(star, features="constant").x.tolist() == [[1.0]] * 4
    walks = canonicalize(star, features="rwpe")
    transition = np.zeros((4, 4))
    transition[[1, 2], 0] = 0.5
    transition[0, [1, 2]] = 1.0
    powers = [np.linalg.matrix_power(transition, step).diagonal() for step in range(1, 11)]
    np.testing.assert_allclose(walks.x, np.stack(powers, axis=1), atol=1e-7)
    assert walks.x.dtype == np.float32
    assert walks.feature_source == "rwpe"


def test_integer_features_stay_integers_and_real_ones_become_float32():
    assert canonicalize(raw(x=np.ones((5, 2), np.int32))).is_categorical
    real = canonicalize(raw(x=np.ones((5, 2)), feature_source="given"))
    assert real.x.dtype == np.float32
    assert real.feature_source == "given"


BAD = {
    "id too large": (raw(edges=[(0, 1), (1, 5)]), "edge 1 names node 5"),
    "negative id": (raw(edges=[(-1, 0)]), "names node -1"),
    "edge between graphs": (raw(edges=[(0, 1), (2, 3)]), "edge 1 joins node 2 of graph 0 and node 3 of graph 2"),
    "nan feature": (
        raw(x=np.array([[0, 0], [0, 0], [0, np.nan], [0, 0], [0, 0]])),
        r"node 2 of all\) has nan in column 1",
    ),
    "infinite feature": (raw(x=np.full((5, 1), np.inf)), r"node 0 of all\) has inf"),
    "overflowing feature": (raw(x=np.full((5, 1), 1e39)), r"node 0 of all\) has 1e\+39"),
    "feature rows": (raw(x=np.ones((4, 1))), r"\(5, d\).*Got shape \(4, 1\)"),
    "no feature column": (raw(x=np.ones((5, 0))), "no column"),
    "text features": (raw(x=np.full((5, 1), "a")), "must be numbers"),
    "label count": (raw(y=np.zeros(2), task="graph-classification"), "2 labels for 3 graphs"),
    "node label count": (raw(y=np.zeros(3), task="node-classification"), "3 labels for 5 nodes"),
    "nan label": (raw(y=np.array([0, np.nan, 1]), task="graph-classification"), "label of graph 1 is nan"),
    "nan target": (raw(y=np.array([0, np.nan, 1]), task="graph-regression"), "graph 1 has nan"),
    "overflowing target": (
        raw(y=np.array([0, 1, 5e299]), task="graph-regression"),
        r"targets must be finite float32 numbers, but graph 2 has 5e\+299 in column 0, .*Repair or remove it",
    ),
    "mixed labels": (raw(y=np.array([1, "a", 2], object), task="graph-classification"), "int, str"),
    "missing labels": (raw(task="graph-classification"), "no labels"),
    "no nodes": (raw((0, 0), []), "without a single node"),
    "real ids": (replace(raw(), edges=np.zeros((2, 1))), "integers of shape"),
    "flat edges": (replace(raw(), edges=np.zeros(4, np.int64)), r"shape \(4,\)"),
    "mask shape": (
        raw(
            y=np.zeros(5),
            task="node-classification",
            masks={part: np.ones((4, 1), bool) for part in ("train", "val", "test")},
        ),
        "masks must all have shape",
    ),
    "mask names": (
        raw(y=np.zeros(5), task="node-classification", masks={"train": np.ones((5, 1), bool)}),
        "Got train",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_the_value_met(case):
    graphs, message = BAD[case]
    with pytest.raises(InvalidInputError, match=message) as caught:
        canonicalize(graphs)
    assert caught.value.exit_code == 2


def test_unknown_feature_choice_is_refused():
    with pytest.raises(InvalidInputError, match="'degrees'"):
        canonicalize(raw(), features="degrees")


def test_categories_that_no_table_of_embeddings_holds_are_refused():
    codes = np.zeros((5, 2), dtype=np.int64)
    codes[3, 1] = 10**12
    with pytest.raises(InvalidInputError, match=r"column 1 of the features has the value 1000000000000 at node 3"):
        canonicalize(raw(x=codes))


def parts(train, val, test):
    """Masks of one column per split."""
    columns = {"train": train, "val": val, "test": test}
    return {name: np.array(rows, bool).reshape(len(rows), -1) for name, rows in columns.items()}


THREE = [parts([1, 0, 0], [0, 1, 0], [0, 0, 1]), parts([1, 1, 0], [0, 1, 0], [0, 0, 1])]


def test_labels_of_a_multi_label_task_keep_their_gaps():
    graphs = canonicalize(raw(y=np.array([[0, np.nan], [1, 1], [np.nan, np.nan]]), task="graph-multilabel"))
    np.testing.assert_array_equal(graphs.y, np.array([[0, np.nan], [1, 1], [np.nan, np.nan]], np.float32))
    assert (graphs.summary["targets"], graphs.classes) == (2, None)


def test_nodes_outside_the_masks_may_lack_targets():
    y = np.array([1.5, 2.5, np.nan, 0.5, np.nan])
    masks = parts([1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 1, 0])
    graphs = canonicalize(raw(y=y, task="node-regression", masks=masks))
    np.testing.assert_array_equal(graphs.y, y[:, None].astype(np.float32))
    assert graphs.summary["targets"] == 1


def test_official_splits_of_graphs_go_with_graphs_that_are_dropped():
    masks = parts([1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1])
    graphs = raw((3, 0, 1, 1), [(0, 1)], y=np.arange(4), task="graph-classification", masks=masks)
    graphs = canonicalize(graphs, drop_empty=True)
    assert graphs.summary["official_splits"] == 1
    (fold,) = graphs.official_folds()
    assert {part: members.tolist() for part, members in fold.items()} == {"train": [0], "val": [1], "test": [2]}


NEW_BAD = {
    "third label": (raw(y=np.array([[0], [2], [1]]), task="graph-multilabel"), "graph 1 has 2 in column 0"),
    "infinite label": (raw(y=np.array([[0], [np.inf], [1]]), task="graph-multilabel"), "graph 1 has inf in column 0"),
    "flat labels": (raw(y=np.array([0.0, 1, 1]), task="graph-multilabel"), r"\(graphs, labels\).*shape \(3,\)"),
    "text labels": (raw(y=np.array([["a"]] * 3), task="graph-multilabel"), "must be numbers"),
    "target needed": (
        raw(
            y=np.array([1, np.nan, 2, 3, 4]),
            task="node-regression",
            masks=parts([1, 1, 0, 0, 0], *[[0, 0, 1, 0, 0]] * 2),
        ),
        "node 1 is in the train mask of split 0, but its target is missing",
    ),
    "no target": (raw(y=np.full(5, np.nan), task="node-regression"), "no node has all its targets"),
    "infinite node target": (raw(y=np.array([1, np.inf, 2, 3, 4]), task="node-regression"), "node 1 has inf"),
    "empty part": (
        raw(y=np.arange(3), task="graph-classification", masks=parts([1, 1, 0], [0, 0, 0], [0, 0, 1])),
        "the val part of official split 0 has no graph",
    ),
    "overlap": (
        raw(y=np.arange(3), task="graph-classification", masks=THREE[1]),
        "graph 1 is in the train part and in the val part of official split 0",
    ),
    "graph mask rows": (
        raw(y=np.arange(3), task="graph-classification", masks=parts([1] * 5, [0] * 5, [0] * 5)),
        r"shape \(3, splits\)",
    ),
    "too many splits": (
        raw(y=np.arange(3), task="graph-classification", masks={k: v.repeat(101, 1) for k, v in THREE[0].items()}),
        "1 to 100 official splits. Got 101",
    ),
}


@pytest.mark.parametrize("case", NEW_BAD)
def test_bad_labels_and_splits_are_refused_with_the_value_met(case):
    graphs, message = NEW_BAD[case]
    with pytest.raises(InvalidInputError, match=message):
        canonicalize(graphs)
