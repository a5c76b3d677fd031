"""OGB's layout: real files against independent reads and RDKit, small files in the exact layout, damaged ones."""

import csv
import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from leap.pipeline.datasets import catalog, dataset_card, ogb, resolve
from leap.pipeline.datasets.number_table import read_gzipped
from leap.store.errors import DownloadError, InvalidInputError, MissingRawFilesError

GRAPHS = {"ogbg-molesol": 1128, "ogbg-molbace": 1513}


def rows(path):
    """Lines of a gzipped CSV file as lists of texts, read by Python alone."""
    with gzip.open(path, "rt", newline="") as stream:
        return list(csv.reader(stream))


@pytest.mark.parametrize("name", GRAPHS)
def test_real_files_are_read_as_they_are(name, real_data):
    data = real_data(name)
    raw = resolve(name, data=data, download=False).read()
    folder = data / name / "raw"
    counts, entries = ([int(row[0]) for row in rows(folder / f"num-{part}-list.csv.gz")] for part in ("node", "edge"))
    assert raw.node_counts.tolist() == counts
    assert len(counts) == GRAPHS[name]
    assert raw.x.tolist() == [list(map(int, row)) for row in rows(folder / "node-feat.csv.gz")]
    assert raw.edge_attr.tolist() == [list(map(int, row)) for row in rows(folder / "edge-feat.csv.gz")]
    pairs, expected, first = iter(rows(folder / "edge.csv.gz")), [], 0
    for nodes, lines in zip(counts, entries, strict=True):
        expected += [[int(end) + first for end in next(pairs)] for _ in range(lines)]
        first += nodes
    assert raw.edges.T.tolist() == expected
    labels = [float(row[0]) for row in rows(folder / "graph-label.csv.gz")]
    assert np.ravel(raw.y).tolist() == labels
    is_regression = name == "ogbg-molesol"
    assert raw.task == ("graph-regression" if is_regression else "graph-classification")
    assert raw.y.shape == ((len(counts), 1) if is_regression else (len(counts),))
    for part, file in (("train", "train"), ("val", "valid"), ("test", "test")):
        official = [int(row[0]) for row in rows(data / name / "split" / "scaffold" / f"{file}.csv.gz")]
        assert np.flatnonzero(raw.masks[part][:, 0]).tolist() == sorted(official)
    assert dataset_card(name).size == (len(counts), sum(counts))


def test_molesol_holds_the_molecules_that_rdkit_reads_from_moleculenets_table(real_data):
    pytest.importorskip("rdkit")
    real_data("esol")
    ours = resolve("ogbg-molesol", data=real_data("ogbg-molesol"), download=False).read()
    theirs = resolve("esol", data=real_data("esol"), download=False).read()
    np.testing.assert_array_equal(ours.node_counts, theirs.node_counts)
    np.testing.assert_array_equal(ours.edges, theirs.edges)
    np.testing.assert_allclose(ours.y, theirs.y, rtol=1e-12)
    # OGB counts elements from 0 and hybridizations from SP; other features have the same codes.
    np.testing.assert_array_equal(ours.x + np.array([1, 0, 0, 0, 0, 0, 2, 0, 0]), theirs.x)
    # The lists of bonds are SINGLE, DOUBLE, TRIPLE, AROMATIC and NONE, Z, E in OGB, longer ones in PyG.
    known = [np.array([1, 2, 3, 12]), np.array([0, 2, 3]), np.array([0, 1])]
    translated = np.stack([codes[column] for codes, column in zip(known, ours.edge_attr.T, strict=True)], axis=1)
    np.testing.assert_array_equal(translated, theirs.edge_attr)


MOLECULES = {
    "raw/num-node-list": "3\n0\n2\n",
    "raw/num-edge-list": "2\n0\n1\n",
    "raw/edge": "0,1\n1,2\n1,0\n",
    "raw/node-feat": "".join(f"{i},0,2,5,1,0,2,0,0\n" for i in range(5)),
    "raw/edge-feat": "0,0,0\n3,0,1\n1,2,0\n",
    "raw/graph-label": "1\n0\n1\n",
    "split/scaffold/train": "2\n",
    "split/scaffold/valid": "0\n",
    "split/scaffold/test": "1\n",
}
PAPERS = {
    "raw/num-node-list": "4\n",
    "raw/num-edge-list": "3\n",
    "raw/edge": "0,1\n1,0\n3,2\n",
    "raw/node-feat": "0.5,-1\n1.5,2e-3\n0.1,4.0\n5,6\n",
    "raw/node-label": "7\n3\n3\n39\n",
    "raw/node_year": "2010\n2011\n2012\n2013\n",
    "split/time/train": "3\n0\n",
    "split/time/valid": "1\n",
    "split/time/test": "2\n",
}


def write(data: Path, name: str, files: dict[str, str | bytes | None]) -> Path:
    for file, content in files.items():
        if content is not None:
            path = data / name / f"{file}.csv.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else gzip.compress(content.encode()))
    return data


def test_nodes_are_numbered_through_graphs_without_nodes_too(tmp_path):
    raw = resolve("ogbg-molhiv", data=write(tmp_path, "ogbg-molhiv", MOLECULES)).read()
    assert raw.node_counts.tolist() == [3, 0, 2]
    assert raw.edges.tolist() == [[0, 1, 4], [1, 2, 3]]
    assert raw.edge_attr.tolist() == [[0, 0, 0], [3, 0, 1], [1, 2, 0]]
    assert (raw.x.dtype, raw.x[3].tolist()) == (np.int64, [3, 0, 2, 5, 1, 0, 2, 0, 0])
    assert (raw.task, raw.y.tolist()) == ("graph-classification", [1, 0, 1])
    assert {part: mask.tolist() for part, mask in raw.masks.items()} == {
        "train": [[False], [False], [True]],
        "val": [[True], [False], [False]],
        "test": [[False], [True], [False]],
    }


@pytest.mark.parametrize("stretch", [1, 2])
def test_graphs_are_checked_a_stretch_at_a_time(stretch, tmp_path, monkeypatch):
    monkeypatch.setattr(ogb, "_GRAPHS", stretch)
    write(tmp_path, "ogbg-molhiv", MOLECULES)
    assert resolve("ogbg-molhiv", data=tmp_path).read().edges.tolist() == [[0, 1, 4], [1, 2, 3]]
    write(tmp_path, "ogbg-molhiv", {"raw/edge": "0,1\n1,2\n1,2\n"})
    with pytest.raises(InvalidInputError, match=r"edge\.csv\.gz, line 3: node 2 does not exist; graph 2 has 2 nodes"):
        resolve("ogbg-molhiv", data=tmp_path).read()


def test_gaps_make_labels_of_their_own(tmp_path):
    labels = {"raw/graph-label": "1.0,\n,0.0\nnan,1\n"}
    raw = resolve("ogbg-moltox21", data=write(tmp_path, "ogbg-moltox21", MOLECULES | labels)).read()
    assert raw.task == "graph-multilabel"
    np.testing.assert_array_equal(raw.y, [[1, np.nan], [np.nan, 0], [np.nan, 1]])
    one = {"raw/graph-label": '1\n""\n0\n'}
    raw = resolve("ogbg-molhiv", data=write(tmp_path, "ogbg-molhiv", MOLECULES | one)).read()
    assert raw.task == "graph-multilabel"
    np.testing.assert_array_equal(raw.y, [[1], [np.nan], [0]])


def test_one_graph_has_real_features_and_labels_of_nodes(tmp_path):
    raw = resolve("ogbn-arxiv", data=write(tmp_path, "ogbn-arxiv", PAPERS)).read()
    assert (raw.task, raw.y.tolist(), raw.y.dtype) == ("node-classification", [7, 3, 3, 39], np.int64)
    assert raw.x.dtype == np.float32
    np.testing.assert_array_equal(raw.x, np.array([[0.5, -1], [1.5, 2e-3], [0.1, 4], [5, 6]], np.float32))
    assert raw.edges.tolist() == [[0, 1, 3], [1, 0, 2]]
    assert raw.edge_attr is None
    assert raw.masks["train"].tolist() == [[True], [False], [False], [True]]


def test_both_spellings_of_a_name_are_found_and_give_one_key(tmp_path):
    one = resolve("ogbn-arxiv", data=write(tmp_path / "a", "ogbn-arxiv", PAPERS), download=False)
    other = resolve("ogbn-arxiv", data=write(tmp_path / "b", "ogbn_arxiv", PAPERS), download=False)
    assert one.fingerprint() == other.fingerprint()
    assert "raw/node_year.csv.gz" not in [file["name"] for file in one.fingerprint()["files"]]


@pytest.mark.parametrize("file", [file for file in MOLECULES if file != "raw/num-node-list"])
def test_every_byte_that_is_read_is_in_the_key(file, tmp_path):
    source = resolve("ogbg-molhiv", data=write(tmp_path, "ogbg-molhiv", MOLECULES))
    before = source.fingerprint()
    write(tmp_path, "ogbg-molhiv", {file: "9\n"})
    assert source.fingerprint() != before


@pytest.mark.parametrize("file", MOLECULES)
def test_a_missing_file_is_named_with_the_folder_to_put_it_in(file, tmp_path):
    write(tmp_path, "ogbg-molhiv", MOLECULES | {file: None})
    with pytest.raises(MissingRawFilesError, match=rf"Put .*{file}\.csv\.gz.* into ") as caught:
        resolve("ogbg-molhiv", data=tmp_path, download=False)
    assert f"into {tmp_path / 'ogbg-molhiv'}," in str(caught.value)


def test_a_file_that_has_gone_is_a_missing_one(tmp_path):
    source = resolve("ogbg-molhiv", data=write(tmp_path, "ogbg-molhiv", MOLECULES))
    (tmp_path / "ogbg-molhiv/raw/edge.csv.gz").unlink()
    with pytest.raises(MissingRawFilesError, match="edge"):
        source.read()


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("raw/num-node-list", "", "names no node at all"),
        ("raw/num-node-list", "0\n0\n0\n", "names no node at all"),
        ("raw/num-node-list", "3\n-1\n2\n", "line 2: a graph cannot have -1 of them"),
        ("raw/num-node-list", "3\n9000000000000000000\n9000000000000000000\n", "line 2: a graph cannot have 9,000"),
        (
            "raw/num-node-list",
            "3\n900000000\n2\n",
            r"node-feat\.csv\.gz has .* bytes, too few for the 900,000,005 lines",
        ),
        ("raw/num-node-list", "3\n2\n", r"num-edge-list\.csv\.gz has more than the 2 lines"),
        ("raw/num-node-list", "3\n1\n2\n", r"node-feat\.csv\.gz has 5 lines and should have 6"),
        ("raw/num-node-list", "3,1\n0,1\n2,1\n", "line 1: 2 values, expected 1"),
        ("raw/num-edge-list", "2\n0\n2\n", r"edge\.csv\.gz has 3 lines and should have 4"),
        ("raw/num-edge-list", "2\n0\n0\n", r"edge\.csv\.gz has more than the 2 lines"),
        ("raw/num-edge-list", "1\n1\n1\n", "line 2: node 1 does not exist; graph 1 has 0 nodes"),
        ("raw/edge", "0,1\n1,3\n1,0\n", "line 2: node 3 does not exist; graph 0 has 3 nodes"),
        ("raw/edge", "0,1\n-1,2\n1,0\n", "line 2: node -1 does not exist"),
        ("raw/edge", "0,1\n1,x\n1,0\n", "line 2: 'x' is not a whole number"),
        ("raw/edge", "0,1\n1,1.5\n1,0\n", "line 2: '1.5' is not a whole number"),
        ("raw/edge", "0,1\n1\n1,0\n", "line 2: 1 value, but line 1 has 2"),
        ("raw/edge", "0,1\n\n1,2\n1,0\n", "line 2: the line is empty"),
        ("raw/edge", "0,1,2\n1,2,2\n1,0,2\n", "line 1: 3 values, expected 2"),
        ("raw/edge", "0,1\n1,99999999999999999999\n1,0\n", "does not fit 64 bits"),
        ("raw/node-feat", MOLECULES["raw/node-feat"].replace("3,0,2", "3,nan,2"), "line 4: 'nan' is not finite"),
        ("raw/node-feat", MOLECULES["raw/node-feat"].replace("3,0,2", "3,,2"), "line 4: '' is not a whole number"),
        ("raw/edge-feat", "0,0,0\n3,0,1\n", r"edge-feat\.csv\.gz has 2 lines and should have 3"),
        ("raw/graph-label", "1\n0\n", r"graph-label\.csv\.gz has 2 lines and should have 3"),
        ("raw/graph-label", "1\n2\n0\n", "line 2: the label 2 is neither 0 nor 1"),
        ("raw/graph-label", "1\ninf\n0\n", "line 2: 'inf' is not finite"),
        ("split/scaffold/train", "2\n3\n", "line 2: graph 3 does not exist; graphs are numbered 0 to 2"),
        ("split/scaffold/train", "2\n-1\n", "line 2: graph -1 does not exist"),
        ("split/scaffold/train", "2\n0\n", r"valid\.csv\.gz, line 1: graph 0 is in the split twice"),
        ("split/scaffold/train", "2\n2\n", r"train\.csv\.gz, line 1: graph 2 is in the split twice"),
        ("split/scaffold/train", "", "leaves 1 of 3 graphs out, graph 2 first"),
        ("raw/edge", b"0,1\n1,2\n1,0\n", "no gzip file"),
        ("raw/edge", gzip.compress(MOLECULES["raw/edge"].encode(), mtime=0)[:-9], "not a whole one"),
        ("raw/edge", gzip.compress(MOLECULES["raw/edge"].encode(), mtime=0)[:-8] + b"12345678", "not a whole one"),
        ("raw/edge", b"", r"edge\.csv\.gz has 0 bytes, too few for the 3 lines"),
    ],
)
def test_damaged_files_are_refused_with_file_line_and_value(file, content, message, tmp_path):
    source = resolve("ogbg-molhiv", data=write(tmp_path, "ogbg-molhiv", MOLECULES | {file: content}))
    with pytest.raises(InvalidInputError, match=message) as caught:
        source.read()
    assert caught.value.exit_code == 2


def test_features_that_are_no_float32_are_refused(tmp_path):
    for text, message in (("nan", "line 3: 'nan' is not finite"), ("1e39", r"line 3: 1e\+39 is too large for float32")):
        files = PAPERS | {"raw/node-feat": f"0.5,-1\n1.5,2e-3\n0.1,{text}\n5,6\n"}
        source = resolve("ogbn-arxiv", data=write(tmp_path, "ogbn-arxiv", files))
        with pytest.raises(InvalidInputError, match=message):
            source.read()


def test_targets_of_a_regression_have_no_gaps(tmp_path):
    files = MOLECULES | {"raw/graph-label": "1.5\nnan\n0\n"}
    with pytest.raises(InvalidInputError, match="line 2: 'nan' is not finite"):
        resolve("ogbg-molesol", data=write(tmp_path, "ogbg-molesol", files)).read()


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_many_blocks_are_one_table_and_the_careful_reader_goes_on_where_arrow_stops(end, tmp_path, monkeypatch):
    monkeypatch.setattr("leap.pipeline.datasets.number_table._BLOCK", 256)
    monkeypatch.setattr("leap.pipeline.datasets.number_table._ROWS", 7)
    values = np.arange(600).reshape(300, 2)
    lines = [f"{a},{b}" for a, b in values.tolist()]
    lines[250] = f"{values[250, 0]}.0, {values[250, 1]}"  # whole, but not as Arrow takes it
    path = tmp_path / "numbers.csv.gz"
    path.write_bytes(gzip.compress(((end or "\n").join(lines) + end).encode()))
    for options in ({}, {"rows": 300, "columns": 2}, {"rows": 300, "order": "F"}):
        np.testing.assert_array_equal(read_gzipped(path, np.int64, **options), values)
    lines[270] = "1,one"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    with pytest.raises(InvalidInputError, match="line 271: 'one' is not a whole number"):
        read_gzipped(path, np.int64)


def zipped(files, outer="hiv/"):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for file, content in files.items():
            archive.writestr(f"{outer}{file}.csv.gz", gzip.compress(content.encode()))
        archive.writestr(f"{outer}RELEASE_v1.txt", "")
        archive.writestr(f"{outer}mapping/mol.csv.gz", "")
        archive.writestr(f"{outer}mapping/README.md", "")
    return out.getvalue()


@pytest.fixture
def archives(serve, monkeypatch):
    url, folder = serve
    monkeypatch.setattr(ogb, "URL", url)
    place = folder / "graphproppred/csv_mol_download"
    place.mkdir(parents=True)
    return place


def test_an_archive_is_unpacked_with_its_folders(archives, tmp_path):
    (archives / "hiv.zip").write_bytes(zipped(MOLECULES))
    source = resolve("ogbg-molhiv", data=tmp_path / "data")
    assert source.read().node_counts.tolist() == [3, 0, 2]
    assert sorted(path.name for path in (tmp_path / "data/ogbg-molhiv").iterdir()) == ["raw", "split"]
    (info,) = [info for info in catalog(tmp_path / "data") if info.name == "ogbg-molhiv"]
    assert info.presence == "present"


def test_a_download_fills_up_what_was_there_incomplete(archives, tmp_path):
    (archives / "hiv.zip").write_bytes(zipped(MOLECULES))
    write(tmp_path, "ogbg-molhiv", MOLECULES | {"raw/edge": None, "split/scaffold/test": None})
    assert len(resolve("ogbg-molhiv", data=tmp_path).read().node_counts) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>", "not a ZIP archive"),
        (zipped(MOLECULES)[:-40], "not a ZIP archive"),
        (zipped({"../../raw/edge": "0,1\n"}), r"leaves its folder: 'hiv/\.\./\.\./raw/edge\.csv\.gz'"),
        (zipped(MOLECULES, outer="/hiv/"), "leaves its folder"),
        (zipped({file: text for file, text in MOLECULES.items() if file != "raw/edge"}), "It holds raw, split"),
        (zipped(MOLECULES, outer=""), "It holds nothing|It holds scaffold"),
    ],
)
def test_archives_of_something_else_are_refused_and_leave_nothing(content, message, archives, tmp_path):
    (archives / "hiv.zip").write_bytes(content)
    with pytest.raises(DownloadError, match=message):
        resolve("ogbg-molhiv", data=tmp_path / "data")
    assert not (tmp_path / "data").exists()
    assert not (tmp_path / "raw").exists()


def test_cards_say_what_ogb_judges_by():
    assert (dataset_card("ogbg-molhiv").metric, dataset_card("ogbg-molhiv").select) == ("auroc", "auroc")
    assert (dataset_card("ogbg-molpcba").metric, dataset_card("ogbg-molmuv").select) == ("average_precision",) * 2
    assert (dataset_card("ogbg-mollipo").metric, dataset_card("ogbg-mollipo").select) == (None, "loss")
    assert dataset_card("ogbn-products").metric == "accuracy"
    assert (dataset_card("ogbg-molhiv").is_categorical, dataset_card("ogbn-arxiv").is_categorical) == (True, False)
