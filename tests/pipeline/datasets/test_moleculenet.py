"""Molecules: the atom and bond features of PyG, in order, in parallel, quietly; every table in its own layout."""

import csv
import gzip
import math
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from leap.pipeline.canonical import canonicalize
from leap.pipeline.datasets import moleculenet, resolve
from leap.pipeline.datasets import smiles as smiles_module
from leap.pipeline.datasets.smiles import read_smiles
from leap.store.errors import InvalidInputError, MissingRawFilesError

ODD = [
    "CCO",
    "[Na+].[Cl-]",
    "C",
    "c1ccccc1[N+](=O)[O-]",
    "F[P-](F)(F)(F)(F)F",
    "[CH3]",
    "N[C@@H](C)C(=O)O",
    "[2H]O[2H]",
    "F/C=C/F",
    "F/C=C\\F",
    "[NH3]->[Cu]",
]


def assert_equal_to_pyg(smiles):
    from torch_geometric.utils import from_smiles

    ours = read_smiles(smiles)
    first = 0
    for text, atoms in zip(smiles, ours.atoms.tolist(), strict=True):
        theirs = from_smiles(text)
        assert atoms == theirs.num_nodes
        np.testing.assert_array_equal(ours.features[first : first + atoms], theirs.x.numpy())
        inside = (ours.bonds[0] >= first) & (ours.bonds[0] < first + atoms)
        bonds = ours.bonds[:, inside] - first
        both = np.concatenate([bonds, bonds[::-1]], axis=1)
        order = np.lexsort(both[::-1])
        np.testing.assert_array_equal(both[:, order], theirs.edge_index.numpy())
        np.testing.assert_array_equal(np.tile(ours.bond_features[inside], (2, 1))[order], theirs.edge_attr.numpy())
        first += atoms


def test_atom_features_and_bonds_are_those_of_pyg_on_odd_molecules():
    pytest.importorskip("rdkit")
    assert_equal_to_pyg(ODD)


def test_atom_features_and_bonds_are_those_of_pyg_on_a_sample_of_hiv(real_data):
    pytest.importorskip("rdkit")
    with (real_data("hiv") / "hiv/raw/HIV.csv").open() as stream:
        smiles = [row["smiles"] for row in csv.DictReader(stream)]
    assert_equal_to_pyg(smiles[:50] + smiles[100:41_000:173])


@pytest.mark.slow
def test_the_whole_screen_has_the_published_numbers_of_values(real_data):
    pytest.importorskip("rdkit")
    raw = resolve("hiv", data=real_data("hiv"), download=False).read()
    assert raw.notes["distinct_codes"] == [54, 1, 11, 9, 5, 2, 7, 2, 2]
    assert len(raw.node_counts) + len(raw.notes["left_out_lines"]) == 41_127
    graphs = canonicalize(raw)
    assert graphs.is_categorical
    assert np.bincount(graphs.y)[1] == 1443


@pytest.fixture
def table(tmp_path):
    def write(*rows: str, header: str = "smiles,activity,HIV_active"):
        path = tmp_path / "hiv" / "raw" / "HIV.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([header, *rows]) + "\n")
        return tmp_path

    return write


def test_unreadable_molecules_are_left_out_with_their_labels(table, capfd):
    pytest.importorskip("rdkit")
    raw = resolve("hiv", data=table("CC,CI,0", "C(,CI,1", ",CI,1", '"CCO",CA,1')).read()
    assert raw.node_counts.tolist() == [2, 3]
    assert raw.y.tolist() == [0, 1]
    assert raw.notes["left_out_lines"] == [3, 4]
    assert capfd.readouterr().err == ""


def test_an_executor_changes_nothing_but_the_time(table, monkeypatch):
    pytest.importorskip("rdkit")
    monkeypatch.setattr(moleculenet, "_CHUNK", 3)
    source = resolve("hiv", data=table(*(f"{smiles},CI,{i % 2}" for i, smiles in enumerate(ODD[:8]))))
    seen = []
    with ThreadPoolExecutor(2) as executor:
        parallel = source.read(progress=lambda *step: seen.append(step), executor=executor)
    serial = source.read()
    assert seen == [(3, 8), (6, 8), (8, 8)]
    for name in ("node_counts", "edges", "x", "y", "edge_attr"):
        np.testing.assert_array_equal(getattr(parallel, name), getattr(serial, name))


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (("CC,CI,2",), "smiles,activity,HIV_active", "line 2: HIV_active is '2'"),
        (("CC,CI",), "smiles,activity,HIV_active", "line 2: 2 values, but there are 3 columns"),
        (("CC,0",), "smiles,active", "lacks the column HIV_active"),
        ((), "smiles,activity,HIV_active", "no molecules"),
    ],
)
def test_malformed_tables_are_refused(rows, header, message, table):
    pytest.importorskip("rdkit")
    with pytest.raises(InvalidInputError, match=message):
        resolve("hiv", data=table(*rows, header=header)).read()


def test_esol_is_what_pyg_reads(real_data, tmp_path):
    pytest.importorskip("rdkit")
    from torch_geometric.datasets import MoleculeNet

    data = real_data("esol")
    (tmp_path / "esol").mkdir()
    (tmp_path / "esol/raw").symlink_to(data / "esol/raw")
    theirs = MoleculeNet(str(tmp_path), "ESOL")
    raw = resolve("esol", data=data, download=False).read()
    graphs = canonicalize(raw)
    assert (raw.task, raw.notes["targets"]) == ("graph-regression", ["measured log solubility in mols per litre"])
    np.testing.assert_array_equal(np.diff(graphs.node_ptr), [graph.num_nodes for graph in theirs])
    np.testing.assert_array_equal(graphs.x, theirs.x.numpy())
    np.testing.assert_array_equal(graphs.edge_attr, theirs.edge_attr.numpy())
    np.testing.assert_array_equal(graphs.y, theirs.y.numpy())


def test_tox21_has_the_labels_of_its_table_and_nan_where_there_is_none(real_data):
    pytest.importorskip("rdkit")
    data = real_data("tox21")
    with gzip.open(data / "tox21/raw/tox21.csv.gz", "rt") as stream:
        rows = list(csv.DictReader(stream))
    raw = resolve("tox21", data=data, download=False).read()
    names = [name for name in rows[0] if name.startswith(("NR-", "SR-"))]
    assert raw.notes["targets"] == names
    assert len(names) == 12
    kept = [row for line, row in enumerate(rows, start=2) if line not in raw.notes["left_out_lines"]]
    assert len(rows) - len(kept) == 8
    expected = [[float(row[name] or "nan") for name in names] for row in kept]
    assert (raw.task, raw.y.shape) == ("graph-multilabel", (len(kept), 12))
    np.testing.assert_array_equal(raw.y, expected)
    assert np.isnan(raw.y).sum() == sum(not row[name] for row in kept for name in names)
    assert_equal_to_pyg([row["smiles"] for row in kept[::40]])
    assert canonicalize(raw).summary["targets"] == 12


HEADERS = {
    "bace": ("mol,CID,Class,Model,pIC50", "{smiles},BACE_1,{y},Test,7.5", 1),
    "bbbp": ("num,name,p_np,smiles", '1,"a, b",{y},{smiles}', 1),
    "clintox": ("smiles,FDA_APPROVED,CT_TOX", "{smiles},{y},{y}", 2),
    "esol": (
        "Compound ID,ESOL predicted log solubility in mols per litre,measured log solubility in mols per litre,smiles",
        "a,-1.5,{y},{smiles}",
        1,
    ),
    "freesolv": ("iupac,smiles,expt,calc", '"4-x, y",{smiles},{y},-9.1', 1),
    "hiv": ("smiles,activity,HIV_active", "{smiles},CI,{y}", 1),
    "lipo": ("CMPD_CHEMBLID,exp,smiles", "CHEMBL1,{y},{smiles}", 1),
    "muv": ("MUV-466,MUV-548,mol_id,smiles", "{y},,CID1,{smiles}", 2),
    "pcba": ("PCBA-1030,PCBA-1379,mol_id,smiles", "{y},,CID1,{smiles}", 2),
    "sider": ("smiles,Hepatobiliary disorders,Eye disorders", "{smiles},{y},0", 2),
    "tox21": ("NR-AR,NR-AhR,mol_id,smiles", "{y},,TOX1,{smiles}", 2),
    "toxcast": ("smiles,ACEA_T47D,APR_Hepat", "{smiles},{y}.0,", 2),
}


@pytest.mark.parametrize("is_gzipped", [True, False])
@pytest.mark.parametrize("name", HEADERS)
def test_each_table_is_read_by_its_own_columns(name, is_gzipped, tmp_path):
    pytest.importorskip("rdkit")
    header, line, columns = HEADERS[name]
    table = moleculenet.TABLES[name]
    lines = [header, *(line.format(smiles=smiles, y=i % 2) for i, smiles in enumerate(["CC", "C(", "CCO", "O"]))]
    content = ("\n".join(lines) + "\n").encode()
    is_gzipped &= table.file.endswith(".gz")
    path = tmp_path / name / "raw" / (table.file if is_gzipped else table.file.removesuffix(".gz"))
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(content) if is_gzipped else content)
    raw = resolve(name, data=tmp_path, download=False).read()
    assert raw.node_counts.tolist() == [2, 3, 1]
    assert raw.notes["left_out_lines"] == [3]
    assert raw.edge_attr.tolist() == [[1, 0, 0]] * 3
    y = np.asarray(raw.y, np.float64).reshape(3, -1)
    assert y.shape == (3, columns)
    assert y[:, 0].tolist() == [0, 0, 1]
    if table.measured:
        assert (raw.task, raw.y.dtype) == ("graph-regression", np.float64)
    elif columns == 1:
        assert (raw.task, raw.y.dtype) == ("graph-classification", np.int64)
    else:
        assert raw.task == "graph-multilabel"
    canonicalize(raw)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tox21", gzip.compress(b"NR-AR,smiles\n1,CC\n", mtime=0)[:-9], "not a CSV table that can be read"),
        ("tox21", b"NR-AR,smiles\n1,CC\n", "not a CSV table that can be read"),
        ("tox21", gzip.compress(b"NR-AR,smiles\n0.5,CC\n", mtime=0), r"line 2: NR-AR is '0\.5', neither 0 nor 1"),
        ("tox21", gzip.compress(b"mol_id,smiles\nT1,CC\n", mtime=0), "lacks the column of any target"),
        ("tox21", gzip.compress(b"NR-AR,smile\n1,CC\n", mtime=0), "lacks the column smiles"),
        ("tox21", gzip.compress(b"", mtime=0), "lacks the column smiles"),
        ("lipo", b"exp,smiles\n,CC\n", "line 2: exp is '', not a finite number"),
        ("lipo", b"exp,smiles\nnan,CC\n", "line 2: exp is 'nan', not a finite number"),
        ("lipo", b"exp,smiles\nlow,CC\n", "line 2: exp is 'low', not a finite number"),
    ],
)
def test_damaged_tables_are_refused(name, content, message, tmp_path):
    pytest.importorskip("rdkit")
    path = tmp_path / name / "raw" / moleculenet.TABLES[name].file
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=message):
        resolve(name, data=tmp_path).read()


def test_one_column_with_gaps_is_a_label_of_its_own(table):
    pytest.importorskip("rdkit")
    raw = resolve("hiv", data=table("CC,CI,1", "CCO,CI,")).read()
    assert raw.task == "graph-multilabel"
    assert raw.y[0].tolist() == [1]
    assert math.isnan(raw.y[1, 0])


def test_bonds_of_unknown_kinds_are_named(monkeypatch):
    chem = pytest.importorskip("rdkit.Chem")
    chirality, hybridization, _, stereo = smiles_module._codes(chem)
    monkeypatch.setattr(smiles_module, "_codes", lambda _: (chirality, hybridization, {}, stereo))
    with pytest.raises(InvalidInputError, match="a bond of 'CCO' has a type that is none of the 22 known ones"):
        read_smiles(["C", "CCO"])


def test_atoms_outside_the_known_ranges_are_named():
    pytest.importorskip("rdkit")
    with pytest.raises(InvalidInputError, match=r"'\[Fe-6\]' has formal charge -6, outside -5 to 6"):
        read_smiles(["CC", "[Fe-6]"])


def test_without_rdkit_the_error_names_the_extra_to_install(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'leap-graph\[hiv\]'"):
        resolve("hiv", data=table("CC,CI,0")).read()


def test_another_version_of_rdkit_gives_another_fingerprint(table, monkeypatch):
    source = resolve("hiv", data=table("CC,CI,0"))
    before = source.fingerprint()
    monkeypatch.setattr(moleculenet, "rdkit_version", lambda: "1.0")
    assert source.fingerprint() != before


def test_a_missing_table_is_named_with_its_folder(tmp_path):
    with pytest.raises(MissingRawFilesError, match=r"Put HIV\.csv into"):
        resolve("hiv", data=tmp_path, download=False)
