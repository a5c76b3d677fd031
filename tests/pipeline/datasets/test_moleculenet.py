"""Molecules: the atom features of PyG, in order, in parallel, quietly."""

import csv
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from leap.pipeline.canonical import canonicalize
from leap.pipeline.datasets import moleculenet, resolve
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
