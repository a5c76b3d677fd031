"""Molecules: SMILES to graphs with RDKit, with the atom and bond features of PyG's `from_smiles`."""

from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leap.store.errors import InvalidInputError

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

BOND_FEATURES = ("type", "stereo", "conjugated")
"""Columns of the bond features, in order."""

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
_BONDS = (
    "UNSPECIFIED",
    "SINGLE",
    "DOUBLE",
    "TRIPLE",
    "QUADRUPLE",
    "QUINTUPLE",
    "HEXTUPLE",
    "ONEANDAHALF",
    "TWOANDAHALF",
    "THREEANDAHALF",
    "FOURANDAHALF",
    "FIVEANDAHALF",
    "AROMATIC",
    "IONIC",
    "HYDROGEN",
    "THREECENTER",
    "DATIVEONE",
    "DATIVE",
    "DATIVEL",
    "DATIVER",
    "OTHER",
    "ZERO",
)
_STEREO = ("STEREONONE", "STEREOANY", "STEREOZ", "STEREOE", "STEREOCIS", "STEREOTRANS")
_LOWEST = np.array([0, 0, 0, -5, 0, 0, 0, 0, 0])
_HIGHEST = np.array([118, 8, 10, 6, 8, 4, 7, 1, 1])


class Molecules(NamedTuple):
    """A run of molecules.

    Attributes
    ----------
    atoms : (M,) int64, atoms of each molecule; 0 where the SMILES cannot be read.
    bonds : (2, B) int64, each bond once, atoms numbered through the run.
    features : (sum of atoms, 9) int64, codes from 0.
    bond_features : (B, 3) int64, codes from 0.
    """

    atoms: NDArray[np.int64]
    bonds: NDArray[np.int64]
    features: NDArray[np.int64]
    bond_features: NDArray[np.int64]


def read_smiles(smiles: Sequence[str]) -> Molecules:
    """Turn SMILES into graphs.

    Raises
    ------
    InvalidInputError
        RDKit is not installed, or an atom or bond has a property outside the known range.
    """
    chem = import_rdkit()
    chirality, hybridization, kinds, stereo = _codes(chem)
    atoms: list[int] = []
    rows: list[tuple[int, ...]] = []
    bonds: list[tuple[int, ...]] = []
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
            bonds.extend(
                (
                    first + bond.GetBeginAtomIdx(),
                    first + bond.GetEndAtomIdx(),
                    kinds.get(bond.GetBondType(), -1),
                    stereo.get(bond.GetStereo(), -1),
                    bond.GetIsConjugated(),
                )
                for bond in molecule.GetBonds()
            )
            atoms.append(len(rows) - first)
    counts = np.array(atoms, dtype=np.int64)
    table = np.array(bonds, dtype=np.int64).reshape(-1, 2 + len(BOND_FEATURES))
    if (table < 0).any():
        bond, column = (int(i) for i in np.argwhere(table < 0)[0])
        raise InvalidInputError(
            f"a bond of {_owner(smiles, counts, int(table[bond, 0]))!r} has a {BOND_FEATURES[column - 2]} that is none "
            f"of the {len(_BONDS if column == 2 else _STEREO)} known ones."
        )
    return Molecules(
        counts,
        np.ascontiguousarray(table[:, :2].T),
        _coded(np.array(rows, dtype=np.int64).reshape(-1, len(ATOM_FEATURES)), smiles, counts),
        np.ascontiguousarray(table[:, 2:]),
    )


def _owner(smiles: Sequence[str], counts: NDArray[np.int64], atom: int) -> str:
    return smiles[int(np.searchsorted(np.cumsum(counts), atom, side="right"))]


def _coded(rows: NDArray[np.int64], smiles: Sequence[str], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    outside = (rows < _LOWEST) | (rows > _HIGHEST)
    if outside.any():
        atom, column = (int(i) for i in np.argwhere(outside)[0])
        raise InvalidInputError(
            f"an atom of {_owner(smiles, counts, atom)!r} has {ATOM_FEATURES[column]} {rows[atom, column]}, "
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
def _codes(chem: Any) -> tuple[dict[Any, int], ...]:
    """Codes by RDKit's own constants; asking each atom for the constant's name would take as long as the rest."""

    def codes(kinds: Any, names: tuple[str, ...]) -> dict[Any, int]:
        return {kind: names.index(str(kind)) for kind in kinds.values.values() if str(kind) in names}

    return (
        codes(chem.ChiralType, _CHIRALITIES),
        codes(chem.HybridizationType, _HYBRIDIZATIONS),
        codes(chem.BondType, _BONDS),
        codes(chem.BondStereo, _STEREO),
    )


def _silenced() -> Any:
    from rdkit.rdBase import BlockLogs

    return BlockLogs()


def rdkit_version() -> str | None:
    """Without importing RDKit, which takes longer than everything else that a cached command does."""
    try:
        return version("rdkit")
    except PackageNotFoundError:
        return None
