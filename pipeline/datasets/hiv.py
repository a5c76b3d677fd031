"""MoleculeNet's HIV screen: 41,127 molecules and whether they inhibit the virus, read with RDKit.

RDKit decides what is a molecule: versions since about 2024 refuse the valences of seven of them (aluminium,
boron, germanium), which PyG's MoleculeNet then leaves out, and so do we. 41,120 graphs remain, with 54
distinct elements.
"""

import csv
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.datasets.download import Download, keep_as
from leap.pipeline.datasets.family import DatasetCard, FileFamily, raw_folders
from leap.pipeline.datasets.source import Executor, Progress, Source, fingerprint_files
from leap.pipeline.graphs import RawGraphs
from leap.store.errors import InvalidInputError

URL = "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets/HIV.csv"
FILE = "HIV.csv"
COLUMNS = ("smiles", "HIV_active")

_CHUNK = 1024  # molecules in one task: about a second of work

ATOM_FEATURES = (
    "atomic number",
    "chirality",
    "degree",
    "formal charge",
    "hydrogens",
    "radical electrons",
    "hybridization",
    "aromatic",
    "in a ring",
)
"""Columns of the atom features, in order."""

# A code is the position in these lists; ranges of whole numbers are given as (lowest, highest).
_CHIRALITIES = (
    "CHI_UNSPECIFIED",
    "CHI_TETRAHEDRAL_CW",
    "CHI_TETRAHEDRAL_CCW",
    "CHI_OTHER",
    "CHI_TETRAHEDRAL",
    "CHI_ALLENE",
    "CHI_SQUAREPLANAR",
    "CHI_TRIGONALBIPYRAMIDAL",
    "CHI_OCTAHEDRAL",
)
_HYBRIDIZATIONS = ("UNSPECIFIED", "S", "SP", "SP2", "SP3", "SP3D", "SP3D2", "OTHER")
_LOWEST = np.array([0, 0, 0, -5, 0, 0, 0, 0, 0])
_HIGHEST = np.array([118, 8, 10, 6, 8, 4, 7, 1, 1])


class HivSource(Source):
    """HIV.csv with the columns smiles and HIV_active."""

    name = "hiv"

    def __init__(self, path: Path) -> None:
        self.path = path

    def fingerprint(self) -> dict[str, Any]:
        """Reader, version, RDKit's version (see above) and the table's content."""
        files = fingerprint_files(self.path.parent, [self.path])
        return {"reader": "hiv", "version": 1, "options": {"rdkit": _rdkit_version()}, "files": files}

    def read(self, progress: Progress | None = None, executor: Executor | None = None) -> RawGraphs:
        """Read every molecule, in parallel where an executor is given.

        Molecules that RDKit cannot read, or that have no atoms, are left out as PyG leaves them out; `notes`
        lists their lines, and for each atom feature the distinct codes and the range they span (largest + 1).

        Raises
        ------
        InvalidInputError
            RDKit is missing, the table lacks a column, a label is neither 0 nor 1.
        """
        import_rdkit()
        smiles, labels = _table(self.path)
        chunks = [smiles[first : first + _CHUNK] for first in range(0, len(smiles), _CHUNK)]
        results: Iterable[Molecules]
        results = map(read_smiles, chunks) if executor is None else executor.map(read_smiles, chunks)
        parts, first_atom, done = [], 0, 0
        for part in results:
            parts.append(part._replace(bonds=part.bonds + first_atom))
            first_atom += len(part.features)
            done += len(part.atoms)
            if progress is not None:
                progress(done, len(smiles))
        atoms = np.concatenate([part.atoms for part in parts])
        x = np.concatenate([part.features for part in parts])
        return RawGraphs(
            node_counts=atoms[atoms > 0],
            edges=np.concatenate([part.bonds for part in parts], axis=1),
            x=x,
            y=labels[atoms > 0],
            task="graph-classification",
            feature_source="atom features",
            notes={
                "rdkit": _rdkit_version(),
                "left_out_lines": (np.flatnonzero(atoms == 0) + 2).tolist(),  # the first line is the header
                "atom_features": list(ATOM_FEATURES),
                "codes": (x.max(axis=0, initial=-1) + 1).tolist(),
                "distinct_codes": [len(np.unique(x[:, i])) for i in range(x.shape[1])],
                "edge_attributes": "bond types are not used",
            },
        )


def _rdkit_version() -> str | None:
    """Without importing RDKit, which takes longer than everything else that a cached command does."""
    try:
        return version("rdkit")
    except PackageNotFoundError:
        return None


def _table(path: Path) -> tuple[list[str], NDArray[np.int64]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = csv.DictReader(stream)
            missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
            if missing:
                raise InvalidInputError(f"{path} lacks the column {' and '.join(missing)}. Download it again.")
            smiles, labels = [], []
            for row in rows:
                if row["HIV_active"] not in ("0", "1"):
                    raise InvalidInputError(
                        f"{path}, line {rows.line_num}: HIV_active is {row['HIV_active']!r}, neither 0 nor 1."
                    )
                smiles.append(row["smiles"])
                labels.append(int(row["HIV_active"]))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInputError(f"{path} is not a CSV table that can be read ({error}).") from error
    if not smiles:
        raise InvalidInputError(f"{path} holds no molecules.")
    return smiles, np.array(labels, dtype=np.int64)


class MoleculeNetFamily(FileFamily):
    """The HIV screen, from DATA/hiv/raw/HIV.csv."""

    def names(self) -> tuple[str, ...]:
        """Only hiv."""
        return ("hiv",)

    def card(self, name: str) -> DatasetCard:
        """Return what is known about the screen; its classes are of very different size, so AUROC decides."""
        return DatasetCard(
            name,
            "MoleculeNet",
            URL,
            "NCI DTP AIDS antiviral screen, public; MoleculeNet asks to be cited",
            title="HIV",
            metric="auroc",
            select="auroc",
            size=(41_120, 1_049_000),
            is_categorical=True,
            published_as="boxes",
        )

    def find(self, data: Path, name: str) -> Sequence[Path]:
        """Return the table."""
        return [path for folder in raw_folders(data, name) if (path := folder / FILE).is_file()][:1]

    def open(self, name: str, files: Sequence[Path]) -> Source:
        """Source of the table."""
        return HivSource(files[0])

    def download(self, name: str) -> Download:
        """One table."""
        return Download(URL, FILE, keep_as(FILE), lambda folder: _is_table(folder / FILE))


FAMILY = MoleculeNetFamily()


def _is_table(path: Path) -> bool:
    try:
        return bool(_table(path))
    except InvalidInputError:
        return False


class Molecules(NamedTuple):
    """A run of molecules.

    Attributes
    ----------
    atoms : (M,) int64, atoms of each molecule; 0 where the SMILES cannot be read.
    bonds : (2, B) int64, each bond once, atoms numbered through the run.
    features : (sum of atoms, 9) int64, codes from 0.
    """

    atoms: NDArray[np.int64]
    bonds: NDArray[np.int64]
    features: NDArray[np.int64]


def read_smiles(smiles: Sequence[str]) -> Molecules:
    """Turn SMILES into graphs.

    Raises
    ------
    InvalidInputError
        RDKit is not installed, or an atom has a property outside the known range.
    """
    chem = import_rdkit()
    chirality, hybridization = _codes(chem)
    atoms: list[int] = []
    rows: list[tuple[int, ...]] = []
    bonds: list[tuple[int, int]] = []
    with _silenced():
        for text in smiles:
            molecule = chem.MolFromSmiles(text)
            if molecule is None:
                atoms.append(0)
                continue
            first = len(rows)
            rows.extend(
                (
                    atom.GetAtomicNum(),
                    chirality.get(atom.GetChiralTag(), -1),
                    atom.GetTotalDegree(),
                    atom.GetFormalCharge(),
                    atom.GetTotalNumHs(),
                    atom.GetNumRadicalElectrons(),
                    hybridization.get(atom.GetHybridization(), -1),
                    atom.GetIsAromatic(),
                    atom.IsInRing(),
                )
                for atom in molecule.GetAtoms()
            )
            bonds.extend((first + bond.GetBeginAtomIdx(), first + bond.GetEndAtomIdx()) for bond in molecule.GetBonds())
            atoms.append(len(rows) - first)
    counts = np.array(atoms, dtype=np.int64)
    return Molecules(
        counts,
        np.ascontiguousarray(np.array(bonds, dtype=np.int64).reshape(-1, 2).T),
        _coded(np.array(rows, dtype=np.int64).reshape(-1, len(ATOM_FEATURES)), smiles, counts),
    )


def _coded(rows: NDArray[np.int64], smiles: Sequence[str], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    outside = (rows < _LOWEST) | (rows > _HIGHEST)
    if outside.any():
        atom, column = (int(i) for i in np.argwhere(outside)[0])
        molecule = smiles[int(np.searchsorted(np.cumsum(counts), atom, side="right"))]
        raise InvalidInputError(
            f"an atom of {molecule!r} has {ATOM_FEATURES[column]} {rows[atom, column]}, "
            f"outside {_LOWEST[column]} to {_HIGHEST[column]}."
        )
    return np.asarray(rows - _LOWEST, dtype=np.int64)


def import_rdkit() -> Any:
    """RDKit's `Chem`, or an error that says how to install it."""
    try:
        from rdkit import Chem
    except ImportError as error:
        raise InvalidInputError(
            "molecules are read with RDKit, which is not installed. Install it: pip install 'leap-graph[hiv]'"
        ) from error
    return Chem


@cache
def _codes(chem: Any) -> tuple[dict[Any, int], dict[Any, int]]:
    """Codes by RDKit's own constants; asking each atom for the constant's name would take as long as the rest."""

    def codes(kinds: Any, names: tuple[str, ...]) -> dict[Any, int]:
        return {kind: names.index(str(kind)) for kind in kinds.values.values() if str(kind) in names}

    return codes(chem.ChiralType, _CHIRALITIES), codes(chem.HybridizationType, _HYBRIDIZATIONS)


def _silenced() -> Any:
    from rdkit.rdBase import BlockLogs

    return BlockLogs()
