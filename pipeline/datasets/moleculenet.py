"""MoleculeNet's tables of molecules and what was measured of them, read with RDKit: hiv, tox21, esol and the others.

RDKit decides what is a molecule: versions since about 2024 refuse the valences of seven molecules of hiv (aluminium,
boron, germanium), which PyG's MoleculeNet then leaves out, and so do we. 41,120 graphs remain, with 54 distinct
elements.
"""

import csv
import gzip
import math
import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.datasets.download import Download, keep_as
from leap.pipeline.datasets.family import DatasetCard, FileFamily, raw_folders
from leap.pipeline.datasets.smiles import (
    ATOM_FEATURES,
    BOND_FEATURES,
    Molecules,
    import_rdkit,
    rdkit_version,
    read_smiles,
)
from leap.pipeline.datasets.source import Executor, Progress, Source, fingerprint_files
from leap.pipeline.graphs import RawGraphs, Task
from leap.store.errors import InvalidInputError

URL = "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets"

_CHUNK = 1024  # molecules in one task: about a second of work


@dataclass(frozen=True)
class SmilesTable:
    """One of the tables.

    Attributes
    ----------
    file : as it is distributed; one that is gzipped may lie unpacked, too, as PyG leaves it.
    size : molecules and roughly their atoms, once those are left out that RDKit refuses.
    targets : its columns of targets; None for all but `smiles` and `mol_id`.
    measured : whether targets are measurements, not 0 and 1.
    smiles : its column of molecules.
    metric : what the table is judged by; None for RMSE, which R² ranks alike and the loss selects by.
    """

    file: str
    size: tuple[int, int]
    targets: tuple[str, ...] | None = None
    measured: bool = False
    smiles: str = "smiles"
    metric: Literal["auroc", "average_precision"] | None = "auroc"


TABLES = {
    "hiv": SmilesTable("HIV.csv", (41_120, 1_049_000), ("HIV_active",)),
    "bace": SmilesTable("bace.csv", (1_513, 51_600), ("Class",), smiles="mol"),
    "bbbp": SmilesTable("BBBP.csv", (2_039, 49_100), ("p_np",)),
    "clintox": SmilesTable("clintox.csv.gz", (1_478, 38_600), ("FDA_APPROVED", "CT_TOX")),
    "muv": SmilesTable("muv.csv.gz", (93_087, 2_256_000), metric="average_precision"),
    "pcba": SmilesTable("pcba.csv.gz", (437_929, 11_386_000), metric="average_precision"),
    "sider": SmilesTable("sider.csv.gz", (1_427, 48_000)),
    "tox21": SmilesTable("tox21.csv.gz", (8_006, 148_000)),
    "toxcast": SmilesTable("toxcast_data.csv.gz", (8_577, 161_000)),
    "esol": SmilesTable(
        "delaney-processed.csv",
        (1_128, 14_991),
        ("measured log solubility in mols per litre",),
        measured=True,
        metric=None,
    ),
    "freesolv": SmilesTable("SAMPL.csv", (642, 5_600), ("expt",), measured=True, metric=None),
    "lipo": SmilesTable("Lipophilicity.csv", (4_200, 113_600), ("exp",), measured=True, metric=None),
}


class MoleculeNetSource(Source):
    """One table with a row per molecule: its SMILES and its targets."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path

    def fingerprint(self) -> dict[str, Any]:
        """Reader (as it was called when hiv was all it read), version, RDKit's version (see above), the table."""
        files = fingerprint_files(self.path.parent, [self.path])
        return {"reader": "hiv", "version": 2, "options": {"rdkit": rdkit_version()}, "files": files}

    def read(self, progress: Progress | None = None, executor: Executor | None = None) -> RawGraphs:
        """Read every molecule, in parallel where an executor is given.

        Molecules that RDKit cannot read, or that have no atoms, are left out as PyG leaves them out; `notes`
        lists their lines, and for each atom feature the distinct codes and the range they span (largest + 1).
        One column of 0 and 1 without gaps is a class; several, or one with gaps, are labels of their own.

        Raises
        ------
        InvalidInputError
            RDKit is missing, the table lacks a column, a label is neither 0 nor 1, a measurement is no number.
        """
        import_rdkit()
        table = TABLES[self.name]
        smiles, targets, names = _read_table(self.path, table)
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
        y, task = _labelled(targets[atoms > 0], table)
        return RawGraphs(
            node_counts=atoms[atoms > 0],
            edges=np.concatenate([part.bonds for part in parts], axis=1),
            x=x,
            y=y,
            task=task,
            edge_attr=np.concatenate([part.bond_features for part in parts]),
            plans_edge_attr=False,
            feature_source="atom features",
            notes={
                "rdkit": rdkit_version(),
                "left_out_lines": (np.flatnonzero(atoms == 0) + 2).tolist(),  # the first line is the header
                "atom_features": list(ATOM_FEATURES),
                "codes": (x.max(axis=0, initial=-1) + 1).tolist(),
                "distinct_codes": [len(np.unique(x[:, i])) for i in range(x.shape[1])],
                "edge_attributes": list(BOND_FEATURES),
                "targets": names,
            },
        )


def _labelled(targets: NDArray[np.float64], table: SmilesTable) -> tuple[NDArray[Any], Task]:
    if table.measured:
        return targets, "graph-regression"
    if targets.shape[1] == 1 and not np.isnan(targets).any():
        return targets[:, 0].astype(np.int64), "graph-classification"
    return targets, "graph-multilabel"


def _read_table(path: Path, table: SmilesTable) -> tuple[list[str], NDArray[np.float64], list[str]]:
    """Return the SMILES, (molecules, columns) targets with NaN for gaps, and the names of the columns."""
    value = _measurement if table.measured else _truth
    smiles, targets = [], array("d")
    try:
        with _open(path) as stream:
            rows = csv.reader(stream)
            header = next(rows, [])
            missing = [column for column in (table.smiles, *(table.targets or ())) if column not in header]
            names = list(table.targets or (column for column in header if column not in (table.smiles, "mol_id")))
            if missing or not names:
                lacking = " and ".join(missing) or "of any target"
                raise InvalidInputError(f"{path} lacks the column {lacking}. Download it again.")
            molecule, *places = (header.index(name) for name in (table.smiles, *names))
            for row in rows:
                if not row:
                    continue
                if len(row) < len(header):
                    raise InvalidInputError(
                        f"{path}, line {rows.line_num}: {len(row)} values, but there are {len(header)} columns. "
                        "Download it again."
                    )
                for name, place in zip(names, places, strict=True):
                    try:
                        targets.append(value(row[place]))
                    except ValueError as error:
                        raise InvalidInputError(
                            f"{path}, line {rows.line_num}: {name} is {row[place]!r}, {error}."
                        ) from None
                smiles.append(row[molecule])
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInputError(f"{path} is not a CSV table that can be read ({error}).") from error
    if not smiles:
        raise InvalidInputError(f"{path} holds no molecules.")
    return smiles, np.array(targets).reshape(len(smiles), len(names)), names


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


_TRUTHS = {"0": 0.0, "0.0": 0.0, "1": 1.0, "1.0": 1.0, "": math.nan}


def _truth(text: str) -> float:
    if text not in _TRUTHS:
        raise ValueError("neither 0 nor 1")
    return _TRUTHS[text]


def _measurement(text: str) -> float:
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan  # Python would read 1_0 as 10
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


class MoleculeNetFamily(FileFamily):
    """The tables by name, from DATA/NAME/raw/FILE."""

    def names(self) -> tuple[str, ...]:
        """Names of the tables."""
        return tuple(TABLES)

    def card(self, name: str) -> DatasetCard:
        """Return what is known about a table; classes are of very different size, so AUROC decides."""
        table = TABLES[name]
        known: dict[str, Any] = {"licence": "MIT (DeepChem); MoleculeNet and its source ask to be cited"}
        if name == "hiv":
            known = {
                "licence": "NCI DTP AIDS antiviral screen, public; MoleculeNet asks to be cited",
                "title": "HIV",
                "published_as": "boxes",
                "edges": 1_129_000,
            }
        return DatasetCard(
            name,
            "MoleculeNet",
            f"{URL}/{table.file}",
            metric=table.metric,
            select=table.metric or "loss",
            size=table.size,
            is_categorical=True,
            **known,
        )

    def find(self, data: Path, name: str) -> Sequence[Path]:
        """Return the table."""
        file = TABLES[name].file
        spellings = dict.fromkeys((file, file.removesuffix(".gz")))
        candidates = (folder / spelling for folder in raw_folders(data, name) for spelling in spellings)
        return [path for path in candidates if path.is_file()][:1]

    def open(self, name: str, files: Sequence[Path]) -> Source:
        """Source of the table."""
        return MoleculeNetSource(name, files[0])

    def download(self, name: str) -> Download:
        """One file for each table."""
        file = TABLES[name].file
        return Download(f"{URL}/{file}", file, keep_as(file), _is_table(name))


FAMILY = MoleculeNetFamily()


def _is_table(name: str) -> Callable[[Path], bool]:
    def is_complete(folder: Path) -> bool:
        try:
            return bool(_read_table(folder / TABLES[name].file, TABLES[name]))
        except InvalidInputError:
            return False

    return is_complete
