"""Parquet tables: ids of any kind, several graphs, features, labels and masks."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.pipeline.canonical import canonicalize
from leap.pipeline.datasets import SourceOptions, resolve
from leap.store.errors import InvalidInputError


@pytest.fixture
def tables(tmp_path):
    def write(**content):
        for name, columns in content.items():
            pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        return f"{tmp_path}/"

    return write


EDGES = {"source": [10, 20, 20], "target": [20, 30, 10]}


def test_an_edge_table_alone_names_its_nodes(tables):
    raw = resolve(tables(edges=EDGES)).read()
    assert raw.node_counts.tolist() == [3]
    assert raw.edges.tolist() == [[0, 1, 1], [1, 2, 0]]
    assert raw.task == "none"
    assert "nodes" in raw.notes


def test_a_node_table_brings_isolated_nodes_features_labels_and_masks(tables):
    nodes = {
        "id": [30, 10, 40, 20],
        "x": [[3.0, 0.5], [1.0, 0.5], [4.0, 0.5], [2.0, 0.5]],
        "y": ["c", "a", "d", "b"],
        "train": [True, False, False, True],
        "val": [False, True, False, False],
        "test": [False, False, True, False],
    }
    result = canonicalize(resolve(tables(edges=EDGES, nodes=nodes)).read())
    assert result.x[:, 0].tolist() == [3, 1, 4, 2]
    assert result.y.tolist() == [2, 0, 3, 1]
    assert np.diff(result.indptr).tolist() == [1, 1, 0, 2]
    assert result.masks["train"].tolist() == [[True], [False], [False], [True]]


def test_masks_may_be_lists_one_entry_a_split(tables):
    masks = {part: [[True, False]] * 3 for part in ("train", "val", "test")}
    raw = resolve(tables(edges=EDGES, nodes={"id": [10, 20, 30], "y": [0, 1, 0], **masks})).read()
    assert raw.masks["val"].shape == (3, 2)


def test_without_an_id_column_rows_count_from_zero(tables):
    raw = resolve(tables(edges={"source": [0], "target": [2]}, nodes={"x": [1.0, 2.0, 3.0]})).read()
    assert raw.edges.tolist() == [[0], [2]]
    assert raw.x.tolist() == [[1], [2], [3]]


def test_each_graph_may_count_its_nodes_from_zero(tables):
    path = tables(
        edges={"graph": ["b", "a", "b"], "source": [0, 0, 1], "target": [1, 1, 2]},
        nodes={
            "graph": ["b", "a", "b", "a", "b"],
            "id": [2, 0, 0, 1, 1],
            "x0": [2.0, 10.0, 0.0, 11.0, 1.0],
            "x1": [0.0] * 5,
        },
        graphs={"graph": ["b", "empty", "a"], "y": [5, 6, 5]},
    )
    result = canonicalize(resolve(path).read())
    assert result.node_ptr.tolist() == [0, 3, 3, 5]
    assert result.x[:, 0].tolist() == [2, 0, 1, 10, 11]
    assert np.diff(result.indptr).tolist() == [1, 1, 2, 1, 1]
    assert (result.y.tolist(), result.classes) == ([0, 1, 0], [5, 6])


def test_edges_alone_may_form_several_graphs(tables):
    raw = resolve(tables(edges={"graph": [7, 3, 7], "source": [0, 0, 1], "target": [1, 1, 2]})).read()
    assert raw.node_counts.tolist() == [2, 3]
    assert raw.edges.tolist() == [[2, 0, 3], [3, 1, 4]]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30),
    st.sampled_from(["dense", "huge", "text", "int32"]),
    st.permutations(range(10)),
)
def test_ids_of_any_kind_mean_the_same_graph(tmp_path_factory, pairs, kind, order):
    spell = {
        "dense": np.arange(10) - 3,
        "huge": np.arange(10) * 10**15 - 10**17,
        "text": np.array([f"node {i}" for i in range(10)]),
        "int32": np.arange(10, dtype=np.int32),
    }[kind]
    folder = tmp_path_factory.mktemp("ids")
    a, b = (np.array(end) for end in zip(*pairs, strict=True))
    pq.write_table(pa.table({"source": spell[a], "target": spell[b]}), folder / "edges.parquet")
    pq.write_table(pa.table({"id": spell[list(order)]}), folder / "nodes.parquet")
    raw = resolve(f"{folder}/").read()
    row = np.argsort(order)
    assert raw.edges.tolist() == [row[a].tolist(), row[b].tolist()]


@pytest.mark.parametrize(
    ("nodes", "options", "columns"),
    [
        ({"x": [1.0, 2.0, 3.0], "z": [1.0] * 3}, SourceOptions(), ["x"]),
        ({"x10": [1.0] * 3, "x2": [1.0] * 3}, SourceOptions(), ["x2", "x10"]),
        ({"b": [1.0] * 3, "a": [1] * 3, "t": ["no"] * 3, "y": [0, 1, 0]}, SourceOptions(), ["a", "b"]),
        ({"x": [1.0] * 3, "z": [1.0] * 3}, SourceOptions(node_attributes=("z", "x")), ["z", "x"]),
    ],
)
def test_which_columns_become_features(nodes, options, columns, tables):
    raw = resolve(tables(edges=EDGES, nodes={"id": [10, 20, 30], **nodes}), options=options).read()
    assert raw.notes["node_columns"] == columns
    assert raw.x.shape == (3, len(columns))


def test_whole_numbers_throughout_are_categories_and_real_targets_are_regression(tables):
    path = tables(
        edges=EDGES,
        nodes={"id": [10, 20, 30], "x": pa.array([1, 2, 3], pa.int8())},
        graphs={"y": [[0.5, 1.5]]},
    )
    raw = resolve(path).read()
    assert raw.x.dtype == np.int64
    assert raw.task == "graph-regression"
    assert raw.y.tolist() == [[0.5, 1.5]]


NODES = {"id": [10, 20, 30]}
BAD = {
    "no target": ({"edges": {"source": [1]}}, "no column 'target', only source"),
    "unknown node": (
        {"edges": EDGES, "nodes": {"id": [10, 20]}},
        r"row 1: the target 30 is no node of .*nodes.parquet",
    ),
    "unknown text": (
        {"edges": {"source": ["a"], "target": ["b"]}, "nodes": {"id": ["a"]}},
        "row 0: the target 'b' is no node",
    ),
    "node twice": ({"edges": EDGES, "nodes": {"id": [10, 20, 10, 30]}}, "row [02] occurs twice"),
    "node in another graph": (
        {
            "edges": {"graph": [1], "source": [0], "target": [1]},
            "nodes": {"graph": [1, 2], "id": [0, 1]},
        },
        "target 1 is no node of .* in the same graph",
    ),
    "unknown graph": (
        {"edges": EDGES, "nodes": {**NODES, "graph": [1, 1, 2]}, "graphs": {"graph": [1], "y": [0]}},
        r"row 2: no graph 2 in .*graphs.parquet",
    ),
    "graph only in edges": ({"edges": {**EDGES, "graph": [1, 1, 1]}, "nodes": NODES}, "needs the columns 'id' and"),
    "graphs without graph": ({"edges": EDGES, "graphs": {"y": [1, 2]}}, "2 rows, but neither"),
    "mixed ids": ({"edges": {"source": [1], "target": ["a"]}}, "all whole numbers or all text"),
    "real ids": ({"edges": {"source": [1.5], "target": [2.5]}}, "all whole numbers or all text"),
    "missing id": ({"edges": {"source": [1, None], "target": [2, 3]}}, "'source' has no value in row 1"),
    "missing feature": ({"edges": EDGES, "nodes": {**NODES, "x": [1.0, None, 2.0]}}, "'x' has no value in row 1"),
    "nan feature": (
        {"edges": EDGES, "nodes": {**NODES, "x": [1.0, float("nan"), 2.0]}},
        r"nodes.parquet: column 'x' has nan in row 1 \(counted from 0, id 20\)",
    ),
    "ragged feature": ({"edges": EDGES, "nodes": {**NODES, "x": [[1.0], [1.0, 2.0], [1.0]]}}, "2 values in row 1"),
    "hole in feature": ({"edges": EDGES, "nodes": {**NODES, "x": [[1.0], [None], [1.0]]}}, "misses a value in row 1"),
    "text feature": ({"edges": EDGES, "nodes": {**NODES, "x": ["a", "b", "c"]}}, "'x' holds string, not numbers"),
    "two masks": (
        {"edges": EDGES, "nodes": {**NODES, "y": [0, 1, 0], "train": [True] * 3, "val": [True] * 3}},
        "needs train, val and test together",
    ),
    "cross-graph edge": (
        {"edges": EDGES, "nodes": {**NODES, "graph": [1, 1, 2]}},
        "joins node 1 of graph 0 and node 2",
    ),
    "dates": ({"edges": EDGES, "nodes": {**NODES, "y": pa.array([1, 2, 3], pa.date32())}}, "neither numbers nor text"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_refused_with_the_value_met(case, tables):
    content, message = BAD[case]
    with pytest.raises(InvalidInputError, match=message):
        canonicalize(resolve(tables(**content)).read())


@pytest.mark.parametrize("content", [b"", b"PAR1 nonsense PAR1", b"text"])
def test_files_that_are_no_parquet_are_refused(content, tmp_path):
    (tmp_path / "edges.parquet").write_bytes(content)
    with pytest.raises(InvalidInputError, match="not a Parquet table"):
        resolve(f"{tmp_path}/").read()


def test_named_columns_that_do_not_exist_are_refused(tables):
    path = tables(edges=EDGES, nodes={**NODES, "height": [1.0, 2.0, 3.0]})
    for options, message in (
        (SourceOptions(node_attributes=("hight",)), r"no column 'hight', only .* Did you mean 'height'\?"),
        (SourceOptions(node_label="hight"), r"no column 'hight' in nodes.parquet. Did you mean 'height'\? There are"),
        (SourceOptions(graph_label="z"), "no column 'z' in graphs.parquet. There is no such table"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            resolve(path, options=options).read()
    tables(graphs={"graph": [0], "family": ["a"]})
    with pytest.raises(
        InvalidInputError, match=r"'famly' in graphs.parquet. Did you mean 'family'\? There are family, g"
    ):
        resolve(path, options=SourceOptions(graph_label="famly")).read()


@pytest.mark.parametrize(
    ("columns", "remark"),
    [
        ({"kind": ["a", "b", "c"]}, "node column 'kind' is left out: it holds string, not numbers."),
        (
            {"kind": ["a", "b", "c"], "sort": ["a", "b", "c"]},
            "node columns kind (string), sort (string) are left out: they do not hold numbers.",
        ),
        (
            {"x": [1.0, 2.0, 3.0]},
            "node column 'age' is left out, because there is 'x'; --node-attribute NAME chooses others.",
        ),
    ],
)
def test_node_columns_that_are_left_out_are_told(tables, columns, remark):
    path = tables(edges=EDGES, nodes={"id": [10, 20, 30], "age": [1.0, 2.0, 3.0], "y": [0, 1, 0], **columns})
    assert resolve(path).read().remarks == (remark,)
    assert resolve(path, options=SourceOptions(node_attributes=("age",))).read().remarks == ()


def test_graph_columns_that_could_be_labels_are_told(tables):
    path = tables(
        edges={"source": [0, 0, 0], "target": [1, 1, 1], "graph": [0, 1, 2]},
        graphs={"graph": [0, 1, 2], "family": ["a", "b", "a"], "gaps": [1, None, 2]},
    )
    raw = resolve(path).read()
    assert raw.remarks == ("graphs have no label; --graph-label family would take the graph column 'family'.",)
    assert raw.notes["possible_graph_labels"] == ["family"]
    assert resolve(path, options=SourceOptions(graph_label="family")).read().remarks == ()


def test_a_changed_table_changes_the_fingerprint(tables):
    before = resolve(tables(edges=EDGES)).fingerprint()
    assert resolve(tables(edges=EDGES, nodes=NODES)).fingerprint() != before


def test_dictionary_columns_are_read_as_their_values(tables):
    words = pa.array(["a", "b", "a"]).dictionary_encode()
    raw = resolve(tables(edges={"source": words, "target": ["b", "c", "b"]})).read()
    assert raw.edges.tolist() == [[0, 1, 0], [1, 2, 1]]


@pytest.mark.parametrize("value", [2**63, 2**64 - 1])
def test_labels_of_more_than_63_bits_are_refused_with_their_value(tables, value):
    large = pa.array([0, value, 1], type=pa.uint64())
    with pytest.raises(InvalidInputError, match=f"column 'y' of .*nodes.parquet of node 1 is {value}; labels must fit"):
        resolve(tables(edges=EDGES, nodes={"id": [10, 20, 30], "y": large})).read()
    content = {
        "edges": EDGES | {"graph": [0, 0, 0]},
        "nodes": {"id": [10, 20, 30], "graph": [0, 0, 0]},
        "graphs": {"graph": [1, 2, 0], "y": large},
    }
    with pytest.raises(InvalidInputError, match=f"column 'y' of .*graphs.parquet of graph 1 is {value}; labels must"):
        resolve(tables(**content)).read()


def test_labels_without_sign_that_fit_are_taken(tables):
    labels = pa.array([2**63 - 1, 0, 2**63 - 1], type=pa.uint64())
    result = canonicalize(resolve(tables(edges=EDGES, nodes={"id": [10, 20, 30], "y": labels})).read())
    assert result.classes == [0, 2**63 - 1]


@pytest.mark.parametrize("odd", [[1, 0, 2], [0.5, 0.0, 1.0], [1, 0, -1], ["yes", "no", "no"]])
def test_masks_of_other_values_than_zero_and_one_are_refused(tables, odd):
    nodes = {"id": [10, 20, 30], "y": [0, 1, 0], "train": [1, 0, 0], "val": [0, 1, 0], "test": odd}
    met = next(value for value in odd if value not in (0, 1))
    with pytest.raises(
        InvalidInputError, match=rf"column 'test' of .*nodes.parquet has {met} at node \d; a mask holds"
    ):
        resolve(tables(edges=EDGES, nodes=nodes)).read()


def test_masks_of_zeros_and_ones_are_truth_values(tables):
    nodes = {"id": [10, 20, 30], "y": [0, 1, 0], "train": [1, 0, 0], "val": [0.0, 1.0, 0.0], "test": [0, 0, 1]}
    assert resolve(tables(edges=EDGES, nodes=nodes)).read().masks["val"].tolist() == [[False], [True], [False]]


def test_categories_that_no_table_of_embeddings_holds_are_refused(tables):
    nodes = {"id": [10, 20, 30], "colour": [0, 10**12, 1], "shape": [1, 2, 3]}
    with pytest.raises(InvalidInputError, match=r"column 'colour' of .* has the value 1000000000000 at node 1"):
        resolve(tables(edges=EDGES, nodes=nodes)).read()


FOUR = {"source": [0, 1, 2, 3], "target": [0, 1, 2, 3], "graph": [0, 1, 2, 3]}


def test_null_labels_in_lists_are_missing(tables):
    labels = pa.array([[True, None], [False, True], [None, None], [True, True]])
    raw = resolve(tables(edges=FOUR, graphs={"graph": [0, 1, 2, 3], "y": labels})).read()
    assert raw.task == "graph-multilabel"
    np.testing.assert_array_equal(raw.y, [[1, np.nan], [0, 1], [np.nan, np.nan], [1, 1]])


def test_columns_of_the_table_of_graphs_are_official_splits(tables):
    masks = {"train": [True, True, False, False], "val": [False] * 2 + [True, False], "test": [False] * 3 + [True]}
    graphs = {"graph": [0, 1, 2, 3], "y": [0, 1, 0, 1]}
    plain = resolve(tables(edges=FOUR, graphs=graphs))
    assert (plain.fingerprint()["version"], plain.read().masks) == (1, None)
    split = resolve(tables(edges=FOUR, graphs=graphs | masks))
    assert split.fingerprint()["version"] == 2
    graphs_read = canonicalize(split.read())
    assert graphs_read.summary["official_splits"] == 1
    assert [fold["train"].tolist() for fold in graphs_read.official_folds()] == [[0, 1]]


def test_real_numbers_of_nodes_are_targets(tables):
    raw = resolve(tables(edges=EDGES, nodes={**NODES, "y": [0.5, 1.0, float("nan")]})).read()
    assert raw.task == "node-regression"
    raw = resolve(tables(edges=EDGES, nodes={**NODES, "y": [1, 2, 3]}), options=SourceOptions(task="node-regression"))
    assert raw.read().y.tolist() == [1.0, 2.0, 3.0]
    assert raw.fingerprint()["options"]["task"] == "node-regression"
