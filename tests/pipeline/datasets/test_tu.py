"""TU format: what PyG reads, the known traps, and every malformed file named with line and value."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from leap.pipeline.canonical import canonicalize
from leap.pipeline.datasets import catalog, resolve
from leap.pipeline.datasets.tu import TU_NAMES, TUSource, read_tu
from leap.pipeline.partition import plan_dataset
from leap.store.errors import InvalidInputError, MissingRawFilesError

COLUMNS = {
    "BZR": 56,
    "COX2": 38,
    "DHFR": 56,
    "Letter-high": 2,
    "Letter-med": 2,
    "Letter-low": 2,
    "Fingerprint": 2,
}


@pytest.mark.parametrize("name", COLUMNS)
def test_equals_what_pyg_reads_with_node_attributes(name, real_data, tmp_path):
    from torch_geometric.io import read_tu_data

    folder = real_data(name) / name / "raw"
    data, slices, _ = read_tu_data(str(folder), name)
    raw = resolve(name, data=real_data(name), download=False).read()
    graphs = canonicalize(raw)
    assert graphs.x.shape[1] == COLUMNS[name]
    np.testing.assert_array_equal(graphs.x, data.x.numpy())
    np.testing.assert_array_equal(graphs.y, data.y.numpy())
    sizes = slices["x"].diff().numpy()
    np.testing.assert_array_equal(np.diff(graphs.node_ptr), sizes)
    rows = np.repeat(np.arange(graphs.num_nodes), np.diff(graphs.indptr))
    first = np.repeat(graphs.node_ptr[:-1], slices["edge_index"].diff().numpy())
    theirs = data.edge_index.numpy() + first
    np.testing.assert_array_equal(np.stack([rows, graphs.indices]), theirs[:, np.lexsort(theirs[::-1])])


def test_fingerprint_keeps_2800_graphs_with_labels_unshifted(real_data):
    data = real_data("Fingerprint")
    raw = resolve("Fingerprint", data=data, download=False).read()
    labels = np.loadtxt(data / "Fingerprint/raw/Fingerprint_graph_labels.txt", dtype=int)
    graphs = canonicalize(raw)
    assert graphs.num_graphs == 2800
    assert graphs.summary["empty_graphs"] == 651
    assert [graphs.classes[code] for code in graphs.y] == labels.tolist()
    indicator = np.loadtxt(data / "Fingerprint/raw/Fingerprint_graph_indicator.txt", dtype=int)
    owner = np.repeat(np.arange(1, 2801), np.diff(graphs.node_ptr))
    np.testing.assert_array_equal(owner, indicator)
    without = canonicalize(raw, drop_empty=True)
    assert without.num_graphs == 2149
    np.testing.assert_array_equal(np.array(without.classes)[without.y], labels[np.unique(indicator) - 1])
    assert raw.notes == {"edge_attributes": "attributes"}


def test_attributes_of_edges_equal_what_pyg_reads(real_data):
    from torch_geometric.io import read_tu_data

    source = resolve("Fingerprint", data=real_data("Fingerprint"), download=False)
    data, slices, _ = read_tu_data(str(real_data("Fingerprint") / "Fingerprint" / "raw"), "Fingerprint")
    raw = source.read()
    graphs = canonicalize(raw)
    first = np.repeat(graphs.node_ptr[:-1], slices["edge_index"].diff().numpy())
    theirs = data.edge_index.numpy() + first
    np.testing.assert_array_equal(graphs.edge_attr, data.edge_attr.numpy()[np.lexsort(theirs[::-1])])
    assert source.fingerprint()["version"] == 2
    bare = replace(graphs, edge_attr=None)
    assert plan_dataset(graphs, 20_000) == plan_dataset(bare, 20_000)


def test_labels_of_edges_are_one_hot_behind_their_attributes(write_tu, tmp_path):
    labels, attributes = "4\n4\n2\n2\n3\n3\n", "0.5\n0.5\n1.5\n1.5\n2.5\n2.5\n"
    source = TUSource(write_tu(tmp_path, edge_labels=labels, edge_attributes=attributes), "toy")
    assert source.read().edge_attr[::2].tolist() == [[0.5, 0, 0, 1], [1.5, 1, 0, 0], [2.5, 0, 1, 0]]
    assert source.fingerprint()["version"] == 2
    bare = TUSource(write_tu(tmp_path / "bare"), "toy")
    assert bare.read().edge_attr is None
    assert bare.fingerprint()["version"] == 1


def test_labels_of_edges_that_span_too_much_are_left_out_with_a_remark(write_tu, tmp_path):
    raw = read_tu(write_tu(tmp_path, edge_labels="0\n0\n1\n1\n9000000000\n0\n"), "toy")
    assert raw.edge_attr is None
    assert raw.remarks[0].startswith("labels of edges are left out: ")


def test_lines_of_edges_that_are_missing_are_refused(write_tu, tmp_path):
    with pytest.raises(InvalidInputError, match=r"toy_edge_labels.txt has 2 lines, but .*toy_A.txt has 6"):
        read_tu(write_tu(tmp_path, edge_labels="1\n1\n"), "toy")


def test_a_small_dataset_is_read_with_its_gap(write_tu, tmp_path):
    graphs = canonicalize(read_tu(write_tu(tmp_path), "toy"))
    assert graphs.node_ptr.tolist() == [0, 3, 3, 5]
    assert (graphs.y.tolist(), graphs.classes) == ([0, 1, 1], [-1, 1])
    np.testing.assert_allclose(graphs.x[:, :2], [[0.5, 1], [1.5, -2], [2.5, 0.3], [3.5, 4], [4.5, 5]])
    np.testing.assert_array_equal(graphs.x[:, 2:], np.eye(3)[[0, 2, 0, 2, 2]])  # code 4 is unused but spanned
    assert graphs.feature_source == "attributes+labels"


def test_every_label_column_gets_its_own_one_hot_block(write_tu, tmp_path):
    folder = write_tu(tmp_path, node_attributes=None, node_labels="0, 7\n1, 9\n0, 7\n1, 9\n1, 8\n")
    x = read_tu(folder, "toy").x
    expected = np.concatenate([np.eye(2)[[0, 1, 0, 1, 1]], np.eye(3)[[0, 2, 0, 2, 1]]], axis=1)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("label", [2**20 + 7, 10**12, 2**63 - 1])
def test_labels_that_would_make_too_many_columns_are_refused_with_column_and_value(label, write_tu, tmp_path):
    folder = write_tu(tmp_path, node_labels=f"0, 7\n1, 9\n0, {label}\n1, 9\n1, 8\n")
    message = rf"toy_node_labels.txt, column 2: labels span 7 \(line 1\) to {label} \(line 3\), too many"
    with pytest.raises(InvalidInputError, match=message):
        read_tu(folder, "toy")


def test_graph_attributes_are_targets_without_graph_labels(write_tu, tmp_path):
    folder = write_tu(tmp_path, graph_labels=None, graph_attributes="1.5, 2\n0, 1\n-3, 4\n")
    graphs = canonicalize(read_tu(folder, "toy"))
    assert graphs.task == "graph-regression"
    np.testing.assert_array_equal(graphs.y, np.array([[1.5, 2], [0, 1], [-3, 4]], np.float32))


def test_no_labels_at_all_is_no_task(write_tu, tmp_path):
    folder = write_tu(tmp_path, graph_labels=None, node_labels=None, node_attributes=None)
    graphs = canonicalize(read_tu(folder, "toy"))
    assert graphs.task == "none"
    assert graphs.y is None
    assert graphs.feature_source == "degree"


def test_scattered_nodes_are_gathered_graph_by_graph(write_tu, tmp_path):
    folder = write_tu(tmp_path, graph_indicator="3\n1\n3\n1\n1\n", A="1,3\n2,4\n4,5\n")
    raw = read_tu(folder, "toy")
    graphs = canonicalize(raw)
    assert graphs.node_ptr.tolist() == [0, 3, 3, 5]
    np.testing.assert_allclose(graphs.x[:, 0], [1.5, 3.5, 4.5, 0.5, 2.5])
    assert np.diff(graphs.indptr).tolist() == [1, 2, 1, 1, 1]
    assert "graph_indicator" in raw.notes


@pytest.mark.parametrize("text", ["1,2\r\n2,3\r\n", "\ufeff1,2\n2 ,\t3\n\n\n", "1.0,2\n2,3e0", "+1,2\n2,3"])
def test_spellings_of_numbers_that_are_accepted(text, write_tu, tmp_path):
    folder = write_tu(tmp_path)
    (folder / "toy_A.txt").write_bytes(text.encode())
    assert read_tu(folder, "toy").edges.tolist() == [[0, 1], [1, 2]]


def test_a_graph_without_any_edge_line_is_read(write_tu, tmp_path):
    assert canonicalize(read_tu(write_tu(tmp_path, A=""), "toy")).summary["edges"] == 0


BAD = {
    "text for a number": ({"node_attributes": "0,1\n1,2\nfish,3\n4,5\n5,6\n"}, "attributes.txt, line 3: 'fish'"),
    "text for an id": ({"A": "1, 2\n2, x\n"}, r"A\.txt, line 2: 'x' is not a whole number"),
    "broken number": ({"A": "1, 2\n2, 1.5\n"}, r"A\.txt, line 2: '1.5' is not a whole number"),
    "nan feature": ({"node_attributes": "0,1\n1,nan\n2,2\n3,3\n4,4\n"}, "line 2: 'nan' is not finite"),
    "infinite feature": ({"node_attributes": "0,1\n1,1\n2,2\n-inf,3\n4,4\n"}, "line 4: '-inf'"),
    "missing number": ({"node_attributes": "0,1\n1,\n2,2\n3,3\n4,4\n"}, "line 2: '' is not a number"),
    "ragged": ({"node_attributes": "0,1\n1,2\n2\n3,3\n4,4\n"}, "line 3: 1 value, but line 1 has 2"),
    "empty line": ({"graph_labels": "1\n\n1\n"}, "labels.txt, line 2: the line is empty"),
    "too few graph labels": ({"graph_labels": "1\n1\n"}, "graph_labels.txt has 2 lines.*describes 3 graphs"),
    "too many graph labels": ({"graph_labels": "1\n1\n1\n1\n"}, "has 4 lines.*describes 3 graphs"),
    "too few node labels": ({"node_labels": "1\n1\n"}, "node_labels.txt has 2 lines.*describes 5 nodes"),
    "too many attributes": ({"node_attributes": "1\n" * 6}, "node_attributes.txt has 6 lines.*5 nodes"),
    "id too large": ({"A": "1, 2\n2, 6\n"}, r"A\.txt, line 2: node 6 does not exist"),
    "id zero": ({"A": "0, 1\n"}, r"A\.txt, line 1: node 0 does not exist"),
    "three columns of ids": ({"A": "1, 2, 3\n"}, "line 1: 3 values, expected 2"),
    "indicator from zero": ({"graph_indicator": "0\n1\n1\n2\n2\n"}, "line 1: graphs are numbered from 1"),
    "absurd indicator": ({"graph_indicator": "1\n1\n1\n3\n9000000000\n"}, "line 5: graph 9,000,000,000"),
    "empty indicator": ({"graph_indicator": ""}, "is empty"),
    "absurd label range": (
        {"node_labels": "0\n0\n0\n0\n9000000000\n"},
        "1: labels span 0 .* to 9000000000",
    ),
    "two labels a graph": ({"graph_labels": "0,1\n0,1\n1,1\n"}, "2 columns"),
    "underscore": ({"A": "1, 2\n2, 1_0\n"}, "'1_0' is not a whole number"),
    "not text": ({"A": "1, 2\n2, \x00\n"}, "line 2"),
}


@pytest.mark.parametrize("case", BAD)
def test_malformed_files_are_named_with_line_and_value(case, write_tu, tmp_path):
    files, message = BAD[case]
    with pytest.raises(InvalidInputError, match=message) as caught:
        read_tu(write_tu(tmp_path, **files), "toy")
    assert caught.value.exit_code == 2


def test_an_edge_between_two_graphs_is_refused(write_tu, tmp_path):
    with pytest.raises(InvalidInputError, match="joins node 2 of graph 0 and node 3 of graph 2"):
        canonicalize(read_tu(write_tu(tmp_path, A="1,2\n3,4\n"), "toy"))


@pytest.mark.parametrize("inner", ["raw", "."])
def test_a_folder_under_the_data_folder_answers_to_its_name(inner, write_tu, tmp_path):
    write_tu(tmp_path / "toy" / inner)
    assert resolve("toy", data=tmp_path).read().node_counts.tolist() == [3, 0, 2]
    (info,) = [info for info in catalog(tmp_path) if info.name == "toy"]
    assert info.presence == "present"
    assert info.bytes == sum(path.stat().st_size for path in (tmp_path / "toy" / inner).iterdir())


def test_missing_files_are_named_with_the_folder_they_belong_to(tmp_path):
    with pytest.raises(MissingRawFilesError) as caught:
        resolve("MUTAG", data=tmp_path, download=False)
    assert str(tmp_path / "MUTAG" / "raw") in str(caught.value)
    assert "MUTAG_A.txt, MUTAG_graph_indicator.txt" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_one_changed_byte_changes_the_fingerprint_and_a_copy_does_not(write_tu, tmp_path):
    write_tu(tmp_path / "one" / "toy")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    one, two = (resolve("toy", data=tmp_path / side) for side in ("one", "two"))
    assert json.loads(json.dumps(one.fingerprint())) == one.fingerprint() == two.fingerprint()
    attributes = tmp_path / "two" / "toy" / "toy_node_attributes.txt"
    attributes.write_text(attributes.read_text().replace("4.5", "4.6"))
    assert one.fingerprint() != two.fingerprint()


def test_the_collection_is_listed_once_each_and_safely_named():
    assert len(TU_NAMES) == len(set(TU_NAMES)) > 130
    assert {"Letter-high", "alchemy_full", "IMDB-BINARY", "Cuneiform", "FIRSTMM_DB", "Synthie"} <= set(TU_NAMES)
    assert not any(set(name) & set("/\\ ") or name.startswith(".") for name in TU_NAMES)
