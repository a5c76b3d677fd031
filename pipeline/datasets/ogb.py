"""Datasets of the Open Graph Benchmark in its raw layout of CSV files, with their official splits, without its package.

Molecules (ogbg-mol…) have nine columns of codes per atom and three per bond, ogbn-arxiv and ogbn-products real
features.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leap.pipeline import datasets
from leap.pipeline.datasets.download import Download, unzip_inner
from leap.pipeline.datasets.family import DatasetCard, FileFamily
from leap.pipeline.datasets.source import Executor, Progress, Source, checked_name, fingerprint_files
from leap.pipeline.graphs import RawGraphs, Task
from leap.store.errors import InvalidInputError

Judge = Literal["auroc", "average_precision", "accuracy"]

URL = "https://snap.stanford.edu/ogb/data"

_GRAPHS = 1 << 16  # whose edges are checked at a time
_MOST = 1 << 40  # nodes or edges
_PARTS = {"train": "train", "val": "valid", "test": "test"}  # ours, and the names of the files


@dataclass(frozen=True)
class Known:
    """What is known about one dataset.

    Attributes
    ----------
    archive : below the address of all.
    split : folder of the official split.
    size : graphs and roughly their nodes.
    metric : that OGB judges by; None for its RMSE, which R² ranks alike and the loss selects by.
    task : what is learned; "graph-classification" stands for any labels of 0 and 1.
    """

    archive: str
    size: tuple[int, int]
    metric: Judge | None
    task: Task = "graph-classification"
    split: str = "scaffold"
    licence: str = "MIT (OGB); cite MoleculeNet too"

    @property
    def is_molecular(self) -> bool:
        """Whether features are codes of atoms and bonds."""
        return self.split == "scaffold"


def _molecules(
    file: str, graphs: int, nodes: int, metric: Judge | None = "auroc", task: Task = "graph-classification"
) -> Known:
    return Known(f"graphproppred/csv_mol_download/{file}.zip", (graphs, nodes), metric, task)


KNOWN = {
    "ogbg-molhiv": _molecules("hiv", 41_127, 1_049_000),
    "ogbg-molbace": _molecules("bace", 1_513, 51_577),
    "ogbg-molbbbp": _molecules("bbbp", 2_039, 49_000),
    "ogbg-molclintox": _molecules("clintox", 1_477, 38_600),
    "ogbg-molmuv": _molecules("muv", 93_087, 2_256_000, "average_precision"),
    "ogbg-molpcba": _molecules("pcba", 437_929, 11_386_000, "average_precision"),
    "ogbg-molsider": _molecules("sider", 1_427, 48_000),
    "ogbg-moltox21": _molecules("tox21", 7_831, 145_000),
    "ogbg-moltoxcast": _molecules("toxcast", 8_576, 161_000),
    "ogbg-molesol": _molecules("esol", 1_128, 14_991, None, "graph-regression"),
    "ogbg-molfreesolv": _molecules("freesolv", 642, 5_600, None, "graph-regression"),
    "ogbg-mollipo": _molecules("lipophilicity", 4_200, 113_600, None, "graph-regression"),
    "ogbn-arxiv": Known(
        "nodeproppred/arxiv.zip", (1, 169_343), "accuracy", "node-classification", "time", "ODC-BY (OGB, MAG)"
    ),
    "ogbn-products": Known(
        "nodeproppred/products.zip",
        (1, 2_449_029),
        "accuracy",
        "node-classification",
        "sales_ranking",
        "Amazon's licence for research",
    ),
}


class OgbSource(Source):
    """A folder with `raw` and `split`.

    Files in `raw` have no header: edge (two node ids, counted from 0 in each graph), num-node-list and num-edge-list (a
    number per graph), node-feat, graph-label or node-label; edge-feat for molecules. Files in `split/NAME` hold the
    numbers of the graphs or nodes of each part.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._known = KNOWN[name]

    def fingerprint(self) -> dict[str, Any]:
        """Reader, version and the content of every file that is read."""
        files = fingerprint_files(self._folder, [self._folder / file for file in _files(self._known)])
        return {"reader": "ogb", "version": 1, "options": {}, "files": files}

    def read(self, progress: Progress | None = None, executor: Executor | None = None) -> RawGraphs:
        """Read all files.

        Labels of 0 and 1 in one column without gaps are classes; several columns, or one with gaps, are labels of their
        own, with NaN in the gaps. The official split is the only column of the masks.

        Raises
        ------
        MissingRawFilesError
            A file is missing.
        InvalidInputError
            One that is cut off or damaged, text or NaN where a number belongs, lines that are not as many as another
            file says, node ids that their graph does not have, parts of the split that overlap or leave something out.
        """
        known, steps = self._known, _Steps(progress, len(_files(self._known)))
        counts, nodes = self._counts("num-node-list", None, steps)
        if not nodes:
            raise InvalidInputError(f"{self._raw('num-node-list')} names no node at all.")
        entries, num_entries = self._counts("num-edge-list", len(counts), steps)
        x = steps.read(self._raw("node-feat"), np.int64 if known.is_molecular else np.float32, nodes)
        edges = steps.read(self._raw("edge"), np.int64, num_entries, 2, order="F").T
        edge_attr = steps.read(self._raw("edge-feat"), np.int64, num_entries) if known.is_molecular else None
        _number_through(edges, counts, entries, self._raw("edge"))
        is_node_task, is_regression = known.task == "node-classification", known.task == "graph-regression"
        items = nodes if is_node_task else len(counts)
        path = self._raw("node-label" if is_node_task else "graph-label")
        if is_node_task:
            y, task = steps.read(path, np.int64, items, 1)[:, 0], known.task
        else:
            values = steps.read(path, np.float64, items, 1 if is_regression else None, gaps=not is_regression)
            y, task = (values, known.task) if is_regression else _labels(values, path)
        return RawGraphs(
            node_counts=counts,
            edges=edges,
            x=x,
            y=y,
            task=task,
            masks=self._masks(items, "node" if is_node_task else "graph", steps),
            edge_attr=edge_attr,
            feature_source="atom features" if known.is_molecular else "given",
            notes={"split": known.split},
        )

    def _raw(self, part: str) -> Path:
        return self._folder / "raw" / f"{part}.csv.gz"

    def _counts(self, part: str, graphs: int | None, steps: "_Steps") -> tuple[NDArray[np.int64], int]:
        """Return numbers per graph, and their sum."""
        counts = steps.read(self._raw(part), np.int64, graphs, 1)[:, 0]
        odd = (counts < 0) | (counts > _MOST)
        if odd.any() or counts.sum(dtype=np.float64) > _MOST:
            line = int(np.argmax(odd if odd.any() else counts))
            raise InvalidInputError(
                f"{self._raw(part)}, line {line + 1}: a graph cannot have {counts[line]:,} of them."
            )
        return counts, int(counts.sum())

    def _masks(self, items: int, noun: str, steps: "_Steps") -> dict[str, NDArray[np.bool_]]:
        folder = self._folder / "split" / self._known.split
        owner = np.zeros(items, np.int8)  # number of the part that has an item, from 1
        for number, file in enumerate(_PARTS.values(), start=1):
            path = folder / f"{file}.csv.gz"
            ids = steps.read(path, np.int64, columns=1)[:, 0]
            if len(ids) and (ids.min() < 0 or ids.max() >= items):
                line = int(np.argmax((ids < 0) | (ids >= items)))
                raise InvalidInputError(
                    f"{path}, line {line + 1}: {noun} {ids[line]} does not exist; {noun}s are numbered 0 to "
                    f"{items - 1:,}."
                )
            if (taken := owner[ids] > 0).any() or len(np.unique(ids)) < len(ids):
                line = int(np.argmax(taken)) if taken.any() else int(np.argmax(np.bincount(ids)[ids] > 1))
                raise InvalidInputError(f"{path}, line {line + 1}: {noun} {ids[line]} is in the split twice.")
            owner[ids] = number
        if not owner.all():
            raise InvalidInputError(
                f"{folder} leaves {(owner == 0).sum():,} of {items:,} {noun}s out, {noun} {np.argmin(owner)} first. "
                "Download it again."
            )
        return {part: (owner == number)[:, None] for number, part in enumerate(_PARTS, start=1)}


class _Steps:
    """Reads files, and tells how many of all are read."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._done, self._total = progress, 0, total

    def read(self, path: Path, *args: Any, **options: Any) -> NDArray[Any]:
        values: NDArray[Any] = datasets.number_table.read_gzipped(path, *args, **options)
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)
        return values


def _number_through(edges: NDArray[np.int64], counts: NDArray[Any], entries: NDArray[Any], path: Path) -> None:
    """Number nodes through the dataset, in place, a stretch of graphs at a time."""
    firsts, ends = np.cumsum(counts) - counts, np.cumsum(entries)
    for low in range(0, len(counts), _GRAPHS):
        part = slice(low, low + _GRAPHS)
        at = int(ends[low] - entries[low])
        stretch = edges[:, at : int(ends[part][-1])]
        size, first = (
            (counts[low], firsts[low])
            if len(counts) == 1
            else (counts[part].repeat(entries[part]), firsts[part].repeat(entries[part]))
        )
        outside = (stretch < 0) | (stretch >= size)
        if outside.any():
            end, column = (int(i) for i in np.argwhere(outside)[0])
            line = at + column
            graph = int(np.searchsorted(ends, line, side="right"))
            raise InvalidInputError(
                f"{path}, line {line + 1}: node {stretch[end, column]} does not exist; graph {graph} has "
                f"{counts[graph]:,} nodes, counted from 0."
            )
        stretch += first


def _labels(values: NDArray[np.float64], path: Path) -> tuple[NDArray[Any], Task]:
    odd = ~((values == 0) | (values == 1) | np.isnan(values))
    if odd.any():
        line, column = (int(i) for i in np.argwhere(odd)[0])
        raise InvalidInputError(
            f"{path}, line {line + 1}: the label {values[line, column]:g} is neither 0 nor 1. Download it again."
        )
    if values.shape[1] == 1 and not np.isnan(values).any():
        return values[:, 0].astype(np.int64), "graph-classification"
    return values, "graph-multilabel"


def _files(known: Known) -> list[str]:
    """All files that are read, from the dataset's folder."""
    parts = ["edge", "num-node-list", "num-edge-list", "node-feat"]
    parts += ["graph-label", "edge-feat"] if known.is_molecular else ["node-label"]
    return [f"raw/{part}.csv.gz" for part in parts] + [f"split/{known.split}/{part}.csv.gz" for part in _PARTS.values()]


class OgbFamily(FileFamily):
    """The datasets by name: NAME/raw and NAME/split, with '-' or '_' in the names, as OGB's package stores them too."""

    def names(self) -> tuple[str, ...]:
        """Names of the datasets."""
        return tuple(KNOWN)

    def card(self, name: str) -> DatasetCard:
        """Return what is known about one dataset."""
        known = KNOWN[name]
        return DatasetCard(
            name,
            "OGB",
            f"{URL}/{known.archive}",
            known.licence,
            metric=known.metric,
            select=known.metric or "loss",
            size=known.size,
            is_categorical=known.is_molecular,
        )

    def folder(self, data: Path, name: str) -> Path:
        """Folder that holds `raw` and `split`."""
        return data / checked_name(name)

    def find(self, data: Path, name: str) -> Sequence[Path]:
        """Return all files that are read."""
        for spelling in dict.fromkeys((name, name.replace("-", "_"))):
            files = [self.folder(data, spelling) / file for file in _files(KNOWN[name])]
            if all(path.is_file() for path in files):
                return files
        return []

    def open(self, name: str, files: Sequence[Path]) -> Source:
        """Source of the files."""
        return OgbSource(name, files[0].parent.parent)

    def download(self, name: str) -> Download:
        """One archive for each dataset, of a folder that holds `raw`, `split` and more."""
        known = KNOWN[name]
        files = _files(known)
        return Download(
            f"{URL}/{known.archive}",
            ", ".join(files),
            unzip_inner("raw", "split"),
            lambda folder: all((folder / file).is_file() for file in files),
        )


FAMILY = OgbFamily()
