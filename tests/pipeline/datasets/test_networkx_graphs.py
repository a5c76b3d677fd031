"""NetworkX graphs: objects and files, their attributes as features and labels."""

import json

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.pipeline.canonical import canonicalize
from leap.pipeline.datasets import SourceOptions, from_networkx, resolve
from leap.store.errors import InvalidInputError


def labelled(label=1, nodes=3):
    graph = nx.path_graph(nodes, create_using=nx.Graph)
    graph.graph["y"] = label
    for node in graph:
        graph.nodes[node].update(x=[float(node), 0.5], colour="red", weight=node)
    return graph


def write(graph, path):
    if path.suffix == ".json":
        path.write_text(json.dumps(nx.node_link_data(graph, edges="links")))
    elif path.suffix == ".gml":
        nx.write_gml(graph, path)
    else:
        nx.write_graphml(graph, path)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 1000)), min_size=1, max_size=4))
def test_graphs_in_memory_keep_nodes_edges_and_order(shapes):
    graphs = [nx.gnp_random_graph(n, 0.5, seed=seed) for n, seed in shapes]
    result = canonicalize(from_networkx(graphs, "random").read())
    union = nx.disjoint_union_all(graphs)
    assert result.node_ptr.tolist() == np.cumsum([0, *(len(graph) for graph in graphs)]).tolist()
    assert [result.indices[a:b].tolist() for a, b in zip(result.indptr[:-1], result.indptr[1:], strict=True)] == [
        sorted(union[v]) for v in range(len(union))
    ]


@pytest.mark.parametrize("suffix", [".graphml", ".gml", ".json"])
def test_every_format_gives_the_graphs_back(suffix, tmp_path):
    for number in (10, 2, 1):  # files are taken by number, not by spelling
        graph = nx.path_graph(number)
        graph.graph["y"] = number
        nx.set_node_attributes(graph, {node: float(node) for node in graph}, "height")
        write(graph, tmp_path / f"g{number}{suffix}")
    result = canonicalize(resolve(f"{tmp_path}/").read())
    assert np.diff(result.node_ptr).tolist() == [1, 2, 10]
    assert result.classes == [1, 2, 10]
    np.testing.assert_array_equal(result.x[:, 0], [0, 0, 1, *range(10)])
    assert result.summary["edges"] == 0 + 1 + 9


def test_a_json_list_holds_several_graphs(tmp_path):
    path = tmp_path / "many.json"
    path.write_text(json.dumps([nx.node_link_data(labelled(label), edges="edges") for label in ("b", "a")]))
    result = canonicalize(resolve(str(path)).read())
    assert (result.y.tolist(), result.classes) == ([1, 0], ["a", "b"])
    assert result.x.shape == (6, 2)
    assert resolve(str(path)).name == "many"


def test_directed_and_multigraphs_become_simple():
    graph = nx.MultiDiGraph([(0, 1), (0, 1), (1, 0), (1, 1)])
    summary = canonicalize(from_networkx(graph, "multi").read()).summary
    assert (summary["edges"], summary["self_loops_dropped"], summary["duplicate_edges_merged"]) == (1, 1, 1)


def test_features_come_from_x_unless_others_are_named():
    graph = labelled()
    assert from_networkx(graph, "g").read().x.tolist() == [[0, 0.5], [1, 0.5], [2, 0.5]]
    chosen = from_networkx(graph, "g", SourceOptions(node_attributes=("weight", "x"))).read()
    assert chosen.x.tolist() == [[0, 0, 0.5], [1, 1, 0.5], [2, 2, 0.5]]
    assert chosen.notes["unused_node_attributes"] == ["colour"]


def test_choices_are_keywords_or_one_object():
    graphs = [labelled("a"), labelled("b")]
    for number, graph in enumerate(graphs):
        graph.graph["family"] = number
    source = from_networkx(graphs, "g", node_attributes=["weight"], graph_label="family")
    same = from_networkx(graphs, "g", SourceOptions(node_attributes=("weight",), graph_label="family"))
    assert source.fingerprint() == same.fingerprint()
    assert source.read().y.tolist() == [0, 1]
    assert from_networkx(graphs, "g", node_attributes="weight").read().x.shape == (6, 1), (
        "one name is no list of letters"
    )
    for graph in graphs:
        graph.graph.clear()
    assert from_networkx(graphs, "g", node_label="colour").read().task == "node-classification"
    with pytest.raises(InvalidInputError, match="Give one or the other"):
        from_networkx(graphs, "g", SourceOptions(), graph_label="family")


def test_without_x_all_numeric_attributes_are_taken_by_name():
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, {0: {"b": 1.5, "a": 2, "t": "no"}, 1: {"b": 2.5, "a": 3, "t": "no", "c": 1}})
    raw = from_networkx(graph, "g").read()
    assert raw.notes["node_attributes"] == ["a", "b"]
    assert raw.x.tolist() == [[2, 1.5], [3, 2.5]]


def test_what_is_left_out_is_told_with_the_reason():
    graphs = [nx.path_graph(2), nx.path_graph(3)]
    for graph in graphs:
        nx.set_node_attributes(graph, {node: {"a": 1.0, "pos": 0.5, "t": "hub", "d": None} for node in graph})
    del graphs[1].nodes[2]["pos"]
    raw = from_networkx(graphs, "g").read()
    assert raw.notes["node_attributes"] == ["a"]
    assert raw.remarks == (
        "node attribute 'd' is left out: it is no number (None at node 0 of graph 0).",
        "node attribute 'pos' is left out: 1 of 5 nodes lacks it, node 2 of graph 1. Name it with --node-attribute to "
        "make that an error.",
        "node attribute 't' is left out: it is text ('hub' at node 0 of graph 0).",
    )
    assert from_networkx(graphs, "g", node_attributes=["a"]).read().remarks == (), "a choice needs no comment"
    with pytest.raises(InvalidInputError, match="graph 1, node 2: the attribute 'pos' is missing"):
        from_networkx(graphs, "g", node_attributes=["pos"])


def test_many_attributes_that_are_left_out_share_a_remark():
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, dict.fromkeys(graph, dict.fromkeys("abcdef", "text")))
    remarks = from_networkx(graph, "g").read().remarks
    assert len(remarks) == 5
    assert remarks[-1] == "also left out: e, f."


def test_attributes_beside_x_are_told():
    assert from_networkx(labelled(), "g").read().remarks == (
        "node attributes colour, weight are left out, because there is 'x'; --node-attribute NAME chooses others.",
    )


def test_graph_attributes_that_could_be_labels_are_told():
    graphs = [nx.path_graph(2) for _ in range(4)]
    for number, graph in enumerate(graphs):
        graph.graph.update(family="ab"[number % 2], creator="me", made={"in": 1})
    raw = from_networkx(graphs, "g").read()
    assert raw.task == "none"
    assert raw.remarks == ("graphs have no label; --graph-label family would take the graph attribute 'family'.",)
    for number, graph in enumerate(graphs):
        graph.graph["code"] = f"graph-{number}"
    raw = from_networkx(graphs, "g").read()
    assert raw.notes["possible_graph_labels"] == ["family", "code"], "what tells every graph apart comes last"
    assert "one of the graph attributes family, code" in raw.remarks[0]
    assert from_networkx(graphs, "g", graph_label="family").read().remarks == ()


def test_whole_numbers_throughout_are_categories():
    graph = nx.path_graph(2)
    nx.set_node_attributes(graph, {0: [1, 2], 1: [3, 4]}, "x")
    assert canonicalize(from_networkx(graph, "g").read()).is_categorical


def test_node_labels_count_where_graphs_have_none():
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: "b", 1: "a", 2: "b"}, "y")
    result = canonicalize(from_networkx(graph, "g").read())
    assert result.task == "node-classification"
    assert (result.y.tolist(), result.classes) == ([1, 0, 1], ["a", "b"])
    graph.graph["label"] = 4
    assert from_networkx(graph, "g").read().task == "graph-classification"


@pytest.mark.parametrize(
    ("labels", "task"),
    [
        ([1, 2], "graph-classification"),
        (["a", "b"], "graph-classification"),
        ([True, False], "graph-classification"),
        ([np.int64(3), 4], "graph-classification"),
        ([0.5, 2], "graph-regression"),
        ([[1, 2], [3, 4]], "graph-regression"),
        ([[1], [2]], "graph-classification"),
        ([[0, 1], [1, 1]], "graph-regression"),
        ([[True, False], [False, False]], "graph-multilabel"),
        ([[0, None], [1, 1]], "graph-multilabel"),
        ([[0.0, float("nan")], [1.0, 1.0]], "graph-multilabel"),
        ([1, None], "graph-multilabel"),
    ],
)
def test_the_kind_of_label_sets_the_task(labels, task):
    assert from_networkx([labelled(label) for label in labels], "g").read().task == task


def test_the_fingerprint_of_graphs_in_memory_is_their_content():
    one, same = from_networkx(labelled(), "g"), from_networkx(labelled(), "g")
    assert json.loads(json.dumps(one.fingerprint())) == one.fingerprint() == same.fingerprint()
    assert one.fingerprint() != from_networkx(labelled(2), "g").fingerprint()
    assert one.fingerprint() != from_networkx(labelled("1"), "g").fingerprint()


def test_options_are_part_of_the_fingerprint_of_files(tmp_path):
    write(labelled(), tmp_path / "g.json")
    options = SourceOptions(node_attributes=("weight",))
    assert resolve(f"{tmp_path}/").fingerprint() != resolve(f"{tmp_path}/", options=options).fingerprint()


def broken(**attributes):
    graph = labelled()
    graph.nodes[1].update(attributes)
    return graph


def unlabelled(graph):
    del graph.graph["y"]
    return graph


BAD = {
    "text feature": (broken(x="red"), SourceOptions(), "graph 0, node 1: the attribute 'x' is 'red'"),
    "short feature": (broken(x=[1.0]), SourceOptions(), r"is \[1.0\]; it must be a list of 2 numbers"),
    "unknown attribute": (
        labelled(),
        SourceOptions(node_attributes=("color",)),
        r"no node attribute 'color'\. Did you mean 'colour'\? There are colour, weight, x\.",
    ),
    "lacking attribute": (broken(z=1.0), SourceOptions(node_attributes=("z",)), "graph 0, node 0: .* 'z' is missing"),
    "nan": (broken(x=[float("nan"), 1.0]), SourceOptions(), r"graph 0, node 1: the attribute 'x' is \[nan, 1.0\]"),
    "too large": (broken(x=[1e39, 1.0]), SourceOptions(), r"graph 0, node 1: the attribute 'x' is \[1e\+39, 1.0\]"),
    "unknown graph label": (
        labelled(),
        SourceOptions(graph_label="yy"),
        r"no graph attribute 'yy'\. Did you mean 'y'\? There is only y\.",
    ),
    "unlabelled graph": ([labelled(), nx.path_graph(2)], SourceOptions(), "graph 1 has no graph attribute 'y'"),
    "unlabelled node": (unlabelled(broken(z=1)), SourceOptions(node_label="z"), "2 of 3 nodes have no attribute 'z'"),
    "unknown node label": (
        nx.path_graph(2),
        SourceOptions(node_label="z"),
        r"no node attribute 'z'\. There are none\.",
    ),
    "mixed labels": (
        [labelled("a"), labelled("b"), labelled(3)],
        SourceOptions(),
        "'y' is of two kinds: graph 0 has 'a', graph 2 has 3; labels must be all whole",
    ),
    "no label at all": ([labelled("a"), labelled(None)], SourceOptions(), "'y' of graph 1 is None; labels must be"),
    "mixed node labels": (
        nx.set_node_attributes(graph := nx.path_graph(2), {0: "a", 1: 7}, "y") or graph,
        SourceOptions(),
        "mixes text and numbers: node 0 of all has 'a', node 1 has 7",
    ),
    "ragged targets": ([labelled([1, 2]), labelled([1, 2, 3])], SourceOptions(), "3 values for graph 1"),
    "nothing": ([], SourceOptions(), "no graphs"),
    "not a graph": ([3], SourceOptions(), "graph 0 is a int"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_graphs_are_refused_with_the_value_met(case):
    graphs, options, message = BAD[case]
    with pytest.raises(InvalidInputError, match=message):
        canonicalize(from_networkx(graphs, "g", options).read())


BAD_FILES = {
    "half.json": ('{"nodes": [', "not a json file"),
    "nothing.json": ("[]", "holds no graph: a graph in node-link form or a list of such graphs is expected"),
    "nan.json": (
        '[{"nodes": [{"id": 5, "pos_x": NaN}], "links": []}]',
        "nan.json, graph 0, node 5: the attribute 'pos_x' is nan",
    ),
    "list.json": ("[1]", "graph 0 is not in node-link form"),
    "other.json": ('{"a": 1}', "not in node-link form"),
    "noid.json": ('{"nodes": [{"a": 1}], "links": []}', "entry 0 of 'nodes' has no 'id'"),
    "twice.json": ('{"nodes": [{"id": 1}, {"id": 1}], "links": []}', "two nodes have the id 1"),
    "nolink.json": ('{"nodes": [{"id": 1}], "links": [{"source": 1}]}', "entry 0 of 'links'"),
    "stray.json": ('{"nodes": [{"id": 1}], "links": [{"source": 1, "target": 7}]}', "node 7, which does not exist"),
    "bad.graphml": ("<graphml><node>", "not a graphml file"),
    "bad.gml": ("graph [ node [ id a ]", "not a gml file"),
    "bytes.json": (b"\xff\xfe\x00", "not a json file"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_malformed_files_are_named(name, tmp_path):
    content, message = BAD_FILES[name]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidInputError, match=message) as caught:
        resolve(str(path)).read()
    assert str(path) in str(caught.value)


def test_tuples_as_node_ids_survive_json(tmp_path):
    write(nx.grid_2d_graph(2, 3), tmp_path / "grid.json")
    assert canonicalize(resolve(f"{tmp_path}/").read()).summary["edges"] == 7


@pytest.mark.parametrize("value", [10**12, 2**70])
def test_categories_that_no_table_of_embeddings_holds_are_refused(value):
    graph = nx.path_graph(3)
    for node in graph:
        graph.nodes[node]["colour"] = value if node == 1 else node
    with pytest.raises(InvalidInputError, match=f"graph 0, node 1: the attribute 'colour' is {value}. Whole numbers"):
        from_networkx(graph, "large-codes")


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**70])
def test_labels_of_more_than_64_bits_are_refused_with_their_value(value):
    graph = nx.path_graph(2)
    graph.graph["y"] = value
    with pytest.raises(InvalidInputError, match=f"the attribute 'y' of graph 0 is {value}; labels must fit 64 bits"):
        from_networkx(graph, "large-label")
    del graph.graph["y"]
    graph.nodes[0]["y"], graph.nodes[1]["y"] = 0, value
    with pytest.raises(InvalidInputError, match=f"the attribute 'y' of node 1 is {value}; labels must fit 64 bits"):
        from_networkx(graph, "large-label")


def on_nodes(*labels):
    graph = nx.path_graph(len(labels))
    nx.set_node_attributes(graph, dict(enumerate(labels)), "y")
    return graph


def test_several_labels_keep_their_gaps():
    raw = from_networkx([labelled([1, None]), labelled([0, float("nan")]), labelled([True, 0])], "g").read()
    np.testing.assert_array_equal(raw.y, [[1, np.nan], [0, np.nan], [1, 0]])


@pytest.mark.parametrize(
    ("labels", "task"),
    [
        ((1.0, 0.5, 2.0), "node-regression"),
        ((1, 0.5, float("nan")), "node-regression"),
        (([1.0, 2.5], [0.0, 1.0]), "node-regression"),
        ((1.0, 2.0), "node-classification"),
        ((3, 4), "node-classification"),
    ],
)
def test_the_kind_of_node_label_sets_the_task(labels, task):
    raw = from_networkx(on_nodes(*labels), "g").read()
    assert raw.task == task
    np.testing.assert_array_equal(raw.y, np.array(labels))


@pytest.mark.parametrize(
    ("graphs", "task", "y"),
    [
        ([labelled([0, 1]), labelled([1, 1])], "graph-multilabel", [[0, 1], [1, 1]]),
        ([labelled(0), labelled(1)], "graph-multilabel", [[0], [1]]),
        ([labelled(3), labelled(4)], "graph-regression", [[3], [4]]),
        ([labelled(1.0), labelled(2.0)], "graph-classification", [1, 2]),
        ([on_nodes(3, 4)], "node-regression", [3, 4]),
    ],
)
def test_a_task_that_is_asked_for_goes_before_the_kind_of_label(graphs, task, y):
    raw = from_networkx(graphs, "g", task=task).read()
    assert (raw.task, raw.y.tolist()) == (task, y)


@pytest.mark.parametrize(
    ("graphs", "task", "message"),
    [
        ([labelled(0.5)], "graph-classification", "--task graph-classification: .* holds labels of graph-regression"),
        ([labelled("a")], "graph-regression", "holds labels of graph-classification"),
        ([labelled([0, 2])], "graph-multilabel", "of graph 0 has 2; several labels are 0 and 1"),
        ([labelled("a")], "graph-multilabel", "of graph 0 has 'a'"),
        ([on_nodes(0, 1)], "graph-multilabel", "no labels for it. Name them with --graph-label"),
        ([labelled(1)], "node-regression", "no labels for it. Name them with --node-label"),
        ([on_nodes("a", "b")], "node-regression", "holds labels of node-classification"),
        ([on_nodes(1.0, float("nan"))], None, "--task node-regression reads numbers as targets"),
    ],
)
def test_labels_that_do_not_suit_the_task_are_refused(graphs, task, message):
    with pytest.raises(InvalidInputError, match=message):
        from_networkx(graphs, "g", task=task)


def test_zeros_and_ones_in_lists_are_said_to_be_targets():
    graphs = [labelled([0, 1]), labelled([1, 1])]
    told = "all 2 targets of each graph are 0 or 1"
    assert any(remark.startswith(told) for remark in from_networkx(graphs, "g").read().remarks)
    chosen = from_networkx(graphs, "g", task="graph-regression").read()
    assert not any(remark.startswith(told) for remark in chosen.remarks)


def test_a_task_is_part_of_a_key_only_where_it_is_asked_for():
    assert "task" not in SourceOptions().as_dict()
    assert SourceOptions(task="graph-regression").as_dict()["task"] == "graph-regression"


@pytest.mark.parametrize(
    "splits",
    [
        ([0, 1], [2], [3]),
        {"train": [0, 1], "valid": [2], "test": [3]},
        [{"train": np.array([0, 1]), "val": np.array([2]), "test": np.array([3])}],
    ],
)
def test_splits_of_graphs_in_memory_become_masks(splits):
    masks = from_networkx([labelled(i) for i in range(5)], "g", splits=splits).read().masks
    assert {part: np.flatnonzero(mask[:, 0]).tolist() for part, mask in masks.items()} == {
        "train": [0, 1],
        "val": [2],
        "test": [3],
    }
    assert masks["train"].shape == (5, 1)


@pytest.mark.parametrize(
    "splits",
    [
        [([0], [1], [2]), ([1], [2], [0]), ([2], [0], [1])],
        [{"train": [i], "val": [(i + 1) % 3], "test": [(i + 2) % 3]} for i in range(3)],
        (([i], [(i + 1) % 3], [(i + 2) % 3]) for i in range(3)),
    ],
)
def test_several_splits_make_several_columns(splits):
    masks = from_networkx([labelled(i) for i in range(3)], "g", splits=splits).read().masks
    assert masks["train"].tolist() == np.eye(3, dtype=bool).tolist()


def test_a_part_of_a_split_may_be_empty_so_far():
    masks = from_networkx([labelled(i) for i in range(3)], "g", splits=([], [0], [1, 2])).read().masks
    assert {part: mask.ravel().tolist() for part, mask in masks.items()} == {
        "train": [False, False, False],
        "val": [True, False, False],
        "test": [False, True, True],
    }


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        (([0], [1], [7]), "the test part of split 0 names graph 7, but the numbers are 0 to 2"),
        ({"train": [0], "test": [1]}, "Split 0 has 2: train, test"),
        (([0.5], [1], [2]), "must be numbers of graphs. Got float64"),
        (([0, [1]], [1], [2]), "must be numbers of graphs. Got object"),
        (3, "splits are the parts .train, val, test.*Got 3"),
        ([4, 5], "Split 0 is 4"),
    ],
)
def test_splits_that_name_no_graphs_are_refused(splits, message):
    with pytest.raises(InvalidInputError, match=message):
        from_networkx([labelled(i) for i in range(3)], "g", splits=splits)
