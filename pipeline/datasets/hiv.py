"""MoleculeNet's HIV screen: 41,127 molecules and whether they inhibit the virus, read with RDKit.

RDKit decides what is a molecule: versions since about 2024 refuse the valences of seven of them (aluminium,
boron, germanium), which PyG's MoleculeNet then leaves out, and so do we. 41,120 graphs remain, with 54
distinct elements.
"""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.datasets.download import fetch_into, keep_as
from leap.pipeline.datasets.fingerprint import fingerprint_files
from leap.pipeline.datasets.molecules import ATOM_FEATURES, Molecules, import_rdkit, read_smiles
from leap.pipeline.datasets.raw_files import raw_folder, raw_folders, total_bytes
from leap.pipeline.datasets.source import DatasetInfo, Executor, Family, Lookup, Progress, Source
from leap.pipeline.graphs import RawGraphs
from leap.store.errors import InvalidInputError, MissingRawFilesError

URL = "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets/HIV.csv"
FILE = "HIV.csv"
COLUMNS = ("smiles", "HIV_active")

_CHUNK = 1024  # molecules in one task: about a second of work


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
    from importlib.metadata import PackageNotFoundError, version

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


class MoleculeNetFamily(Family):
    """The HIV screen, from DATA/hiv/raw/HIV.csv."""

    name = "MoleculeNet"

    def names(self) -> tuple[str, ...]:
        """Only hiv."""
        return ("hiv",)

    def source(self, name: str, lookup: Lookup) -> Source:
        """Source of the screen; downloads its table where it is missing.

        Raises
        ------
        MissingRawFilesError
            No table, and no download wanted or no connection: what to put where.
        DownloadError
            What arrived is something else.
        """
        if (found := _find(lookup.data)) is not None:
            return HivSource(found)
        folder = raw_folder(lookup.data, name)
        if not lookup.download:
            raise MissingRawFilesError(
                f"no raw files of {name!r}. Put {FILE} into {folder}, or allow the download of {URL}."
            )
        fetch_into(
            folder,
            URL,
            wanted=FILE,
            unpack=keep_as(FILE),
            complete=lambda content: _is_table(content / FILE),
            on_progress=lookup.on_progress,
        )
        return HivSource(folder / FILE)

    def info(self, name: str, data: Path) -> DatasetInfo:
        """Line of `leap datasets`."""
        found = _find(data)
        return DatasetInfo(
            name=name,
            family=self.name,
            source=URL,
            licence="NCI DTP AIDS antiviral screen, public; MoleculeNet asks to be cited",
            presence="absent" if found is None else "present",
            bytes=0 if found is None else total_bytes([found]),
            path=raw_folder(data, name) if found is None else found.parent,
        )


def _find(data: Path) -> Path | None:
    return next((folder / FILE for folder in raw_folders(data, "hiv") if (folder / FILE).is_file()), None)


def _is_table(path: Path) -> bool:
    try:
        return bool(_table(path))
    except InvalidInputError:
        return False
