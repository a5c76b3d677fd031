"""GraphLand: industrial graphs, one each, with tables of measured and categorical features and of labels of nodes.

Features are prepared as GraphLand's own code prepares them by default: measurements take the quantiles of a normal
distribution, fractions stay as they are but in two datasets, gaps get the most frequent value of their column, and
categories become one column each (one for two categories).
"""

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.datasets.download import Download, unzip
from leap.pipeline.datasets.family import DatasetCard, FileFamily, raw_folder, raw_folders
from leap.pipeline.datasets.source import Executor, Progress, Source, cannot_read, fingerprint_files
from leap.pipeline.graphs import RawGraphs, Task
from leap.store.errors import InvalidInputError
from leap.store.lazy import lazy_module

pa = lazy_module("pyarrow")
csv = lazy_module("pyarrow.csv")
preprocessing = lazy_module("sklearn.preprocessing")
yaml = lazy_module("yaml")

URL = "https://zenodo.org/records/16895532/files"

# Nodes of each, and what its authors judge by: accuracy of several classes, average precision of two, R² of a target.
KNOWN = {
    "hm-categories": (46_563, "accuracy"),
    "pokec-regions": (1_632_803, "accuracy"),
    "web-topics": (2_890_331, "accuracy"),
    "tolokers-2": (11_758, "average_precision"),
    "city-reviews": (148_801, "average_precision"),
    "artnet-exp": (50_405, "average_precision"),
    "web-fraud": (2_890_331, "average_precision"),
    "hm-prices": (46_563, "r2"),
    "avazu-ctr": (76_269, "r2"),
    "city-roads-M": (57_073, "r2"),
    "city-roads-L": (142_257, "r2"),
    "twitch-views": (168_114, "r2"),
    "artnet-views": (50_405, "r2"),
    "web-traffic": (2_890_331, "r2"),
}
_WITHOUT_TIME = ("city-reviews", "city-roads-M", "city-roads-L", "web-traffic")
_QUANTILES_OF_FRACTIONS = ("artnet-views", "avazu-ctr")
_TASKS: dict[str, Task] = {
    "multiclass_classification": "node-classification",
    "binary_classification": "node-classification",
    "regression": "node-regression",
}
_MASKS = ("train", "val", "test")
_LISTS = ("numerical_features_names", "fraction_features_names", "categorical_features_names")

_BLOCK = 1 << 24  # bytes of text that are parsed at a time
_QUANTILES = 1000
_LARGEST_ONE_HOT = 1 << 31  # entries; 8 GiB of float32


class GraphLandSource(Source):
    """A folder with info.yaml, features.csv, targets.csv, edgelist.csv and split_masks_SPLIT.csv.

    Parameters
    ----------
    name : of the dataset, with the split unless that is RL.
    folder : where the files lie.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._dataset, self._split = _parts(name)

    def fingerprint(self) -> dict[str, Any]:
        """Reader, version, split, the version of scikit-learn, which maps to quantiles, and every file that is read."""
        files = fingerprint_files(self._folder, [self._folder / file for file in _files(self.name)])
        options = {"split": self._split, "scikit-learn": version("scikit-learn")}
        return {"reader": "graphland", "version": 1, "options": options, "files": files}

    def read(self, progress: Progress | None = None, executor: Executor | None = None) -> RawGraphs:
        """Read all files; nodes without a label keep NaN and leave the masks.

        Raises
        ------
        MissingRawFilesError
            A file is missing.
        InvalidInputError
            One that cannot be read, columns or rows that do not fit each other, text or infinity where a number
            belongs, a category that is missing, a feature without any value, ids of nodes that there are not.
        """
        info = _info(self._folder / "info.yaml")
        fractions = info["fraction_features_names"]
        measured = [name for name in info["numerical_features_names"] if name not in fractions]
        categories = info["categorical_features_names"]
        target_path, features = self._folder / "targets.csv", self._folder / "features.csv"
        ids, targets = _table(target_path, [info["target_name"]], np.float64)
        y = targets[:, 0]
        if not len(y):
            raise InvalidInputError(f"{target_path} has no nodes.")
        feature_ids, x = _table(features, [*measured, *fractions, *categories], np.float32)
        split = self._folder / f"split_masks_{self._split}.csv"
        split_ids, parts = _table(split, list(_MASKS), np.float32, truths=True)
        for path, other in ((features, feature_ids), (split, split_ids)):
            if not other.equals(ids):
                raise InvalidInputError(
                    f"{path} ({len(other):,} rows) and {target_path} ({len(ids):,} rows) do not name the same nodes in "
                    "the same order in their first columns. Download them again."
                )
        ends = np.cumsum([len(measured), len(fractions)])
        has_quantiles = self._dataset in _QUANTILES_OF_FRACTIONS
        blocks = {
            "quantiles": _filled(x[:, : ends[0]], measured, features, as_quantiles=True),
            "fractions": _filled(x[:, ends[0] : ends[1]], fractions, features, as_quantiles=has_quantiles),
            "categories": _one_hot(x[:, ends[1] :], categories, features),
        }
        is_labelled = ~np.isnan(y)
        edges = _edges(self._folder / "edgelist.csv", len(y))
        task = _TASKS[info["task"]]
        is_code = (y == np.floor(y)) & (np.abs(y) < 2.0**53)
        if task == "node-classification" and (odd := is_labelled & ~is_code).any():
            row = int(np.argmax(odd))
            raise InvalidInputError(
                f"{target_path}, line {row + 2}: the label {y[row]:g} is not a whole number below 2⁵³."
            )
        return RawGraphs(
            node_counts=np.array([len(y)], dtype=np.int64),
            edges=edges,
            x=np.concatenate(list(blocks.values()), axis=1) if x.shape[1] else None,
            y=y.astype(np.int64) if task == "node-classification" and is_labelled.all() else y,
            task=task,
            masks={part: (mask & is_labelled)[:, None] for part, mask in zip(_MASKS, parts.T == 1, strict=True)},
            feature_source="features",
            notes={
                "split": self._split,
                "unlabelled_nodes": int((~is_labelled).sum()),
                "columns": {kind: block.shape[1] for kind, block in blocks.items()},
            },
        )


def _info(path: Path) -> dict[str, Any]:
    try:
        info = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise cannot_read(path, error) from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:  # dates and numbers that are none, endless nesting
        raise InvalidInputError(
            f"{path} is not a YAML file that can be read ({' '.join(str(error).split())})."
        ) from None
    fields = info if isinstance(info, dict) else {}
    for name in _LISTS:
        names = fields.get(name)
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise InvalidInputError(f"{path} must have a list of names {name}. Got {names!r:.60}.")
    if str(fields.get("task")) not in _TASKS:
        raise InvalidInputError(f"{path} must have a task, one of {', '.join(_TASKS)}. Got {fields.get('task')!r:.60}.")
    if not isinstance(fields.get("target_name"), str):
        raise InvalidInputError(f"{path} must have a target_name. Got {fields.get('target_name')!r:.60}.")
    return fields


def _table(
    path: Path, names: Sequence[str], dtype: type[np.floating[Any]], *, truths: bool = False
) -> tuple[Any, NDArray[Any]]:
    """Read columns of a table whose first one names the nodes, a stretch of lines at a time.

    Returns
    -------
    The first column as texts, and (rows, columns) finite numbers, NaN for gaps.
    """
    ids, blocks, rows = [], [np.empty((0, len(names)), dtype)], 0
    index, *columns = _header(path)
    if missing := [name for name in names if columns.count(name) != 1 or name == index]:
        raise InvalidInputError(f"{path} must have one column {missing[0]} after the first. Download it again.")
    kinds = dict.fromkeys(names, pa.bool_() if truths else pa.float64())
    for batch in _batches(path, {index: pa.string(), **kinds}):
        block = np.empty((batch.num_rows, len(names)), dtype)
        for i, column in enumerate(batch.columns[1:]):
            with np.errstate(over="ignore"):
                block[:, i] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        odd = np.isnan(block) if truths else np.isinf(block)
        if odd.any():
            row, column = (int(i) for i in np.argwhere(odd)[0])
            wanted = "there is no truth value" if truths else f"the number is too large for {np.dtype(dtype)}"
            raise InvalidInputError(f"{path}, line {rows + row + 2}: {wanted} in the column {names[column]}.")
        ids.append(batch.columns[0])
        blocks.append(block)
        rows += len(block)
    return pa.chunked_array(ids, pa.string()), np.concatenate(blocks)


def _header(path: Path) -> list[str]:
    try:
        with path.open("rb") as stream:
            header: list[str] = csv.read_csv(pa.BufferReader(stream.readline())).column_names
    except OSError as error:
        raise cannot_read(path, error) from error
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path} is not a table that can be read ({error}).") from None
    return header


def _batches(path: Path, columns: dict[str, Any]) -> Iterator[Any]:
    """Columns of a table by name, of the types given, a stretch of lines at a time."""
    try:
        yield from csv.open_csv(
            path,
            read_options=csv.ReadOptions(block_size=_BLOCK),
            convert_options=csv.ConvertOptions(column_types=columns, include_columns=list(columns)),
        )
    except OSError as error:
        raise cannot_read(path, error) from error
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"{path} is not a table that can be read ({error}).") from None


def _edges(path: Path, nodes: int) -> NDArray[np.int64]:
    """Read the first two columns; others, such as weights, are left."""
    ends = _header(path)[:2]
    if len(set(ends)) != 2:
        raise InvalidInputError(f"{path} must have two columns, the ends of edges. Got {', '.join(ends)}.")
    blocks, rows = [np.empty((2, 0), dtype=np.int64)], 0
    for batch in _batches(path, dict.fromkeys(ends, pa.int64())):
        if any(column.null_count for column in batch.columns):
            line = rows + min(column.is_null().index(True).as_py() for column in batch.columns if column.null_count)
            raise InvalidInputError(f"{path}, line {line + 2}: an end of the edge is missing.")
        block = np.stack([column.to_numpy() for column in batch.columns])
        outside = (block < 0) | (block >= nodes)
        if outside.any():
            end, column = (int(i) for i in np.argwhere(outside)[0])
            raise InvalidInputError(
                f"{path}, line {rows + column + 2}: node {block[end, column]} does not exist; nodes are numbered 0 to "
                f"{nodes - 1:,}."
            )
        blocks.append(block)
        rows += block.shape[1]
    return np.concatenate(blocks, axis=1)


def _filled(values: NDArray[Any], names: Sequence[str], path: Path, *, as_quantiles: bool) -> NDArray[Any]:
    """Return measurements, mapped to the quantiles of a normal distribution or not, without gaps."""
    gaps = np.isnan(values)
    if (empty := gaps.all(axis=0)).any():
        raise InvalidInputError(f"{path} has no value at all in the column {names[int(np.argmax(empty))]}.")
    out = values.copy()
    if as_quantiles and values.size:
        mapping = preprocessing.QuantileTransformer(
            n_quantiles=min(_QUANTILES, len(values)), output_distribution="normal", subsample=None, random_state=0
        )
        out = np.asarray(mapping.fit_transform(out), dtype=values.dtype)
    for column in np.flatnonzero(gaps.any(axis=0)):
        met, counts = np.unique(out[~gaps[:, column], column], return_counts=True)
        out[gaps[:, column], column] = met[np.argmax(counts)]  # the smallest of the most frequent
    return out


def _one_hot(values: NDArray[Any], names: Sequence[str], path: Path) -> NDArray[Any]:
    """Return a column per category, ascending; of two categories only the second has one."""
    if (odd := np.isnan(values) | (values != np.floor(values))).any():
        row, column = (int(i) for i in np.argwhere(odd)[0])
        raise InvalidInputError(
            f"{path}, line {row + 2}: the category {names[column]} is {values[row, column]}, not a whole number."
        )
    kinds = [np.unique(column, return_inverse=True) for column in values.T]
    kept = [codes if len(met) == 2 else codes + 1 for met, codes in kinds]  # 0 has no column
    widths = [1 if len(met) == 2 else len(met) for met, _ in kinds]
    if len(values) * sum(widths) > _LARGEST_ONE_HOT:
        widest = int(np.argmax(widths))
        raise InvalidInputError(
            f"{path}: {names[widest]} has {widths[widest]:,} categories, too many for a column each."
        )
    out = np.zeros((len(values), sum(widths)), dtype=np.float32)
    for first, codes in zip(np.cumsum(widths) - widths, kept, strict=True):
        rows = np.flatnonzero(codes)
        out[rows, first + codes[rows] - 1] = 1.0
    return out


class GraphLandFamily(FileFamily):
    """The graphs by name, with their split RL, and as NAME-RH and NAME-TH; DATA/NAME/raw has the files of all."""

    def names(self) -> tuple[str, ...]:
        """Names of the graphs, then of those with another split."""
        high = [f"{name}-RH" for name in KNOWN]
        return (*KNOWN, *high, *(f"{name}-TH" for name in KNOWN if name not in _WITHOUT_TIME))

    def card(self, name: str) -> DatasetCard:
        """Return what is known about one graph."""
        nodes, metric = KNOWN[_parts(name)[0]]
        return DatasetCard(
            name,
            "GraphLand",
            f"{URL}/{_parts(name)[0]}.zip",
            "see the record on Zenodo; cite GraphLand",
            metric=metric,
            select="accuracy" if metric == "accuracy" else "loss" if metric == "r2" else "average_precision",
            size=(1, nodes),
        )

    def folder(self, data: Path, name: str) -> Path:
        """Folder of the graph, whatever the split."""
        return raw_folder(data, _parts(name)[0])

    def find(self, data: Path, name: str) -> Sequence[Path]:
        """Return all files that are read; they may lie in a folder of the graph's name, as PyG leaves them."""
        dataset = _parts(name)[0]
        for folder in (*raw_folders(data, dataset), raw_folder(data, dataset) / dataset):
            files = [folder / file for file in _files(name)]
            if all(path.is_file() for path in files):
                return files
        return []

    def open(self, name: str, files: Sequence[Path]) -> Source:
        """Source of the files."""
        return GraphLandSource(name, files[0].parent)

    def download(self, name: str) -> Download:
        """One archive for each graph, with all its splits."""
        files = _files(name)
        return Download(
            f"{URL}/{_parts(name)[0]}.zip",
            ", ".join(files),
            unzip,
            lambda folder: all((folder / file).is_file() for file in files),
        )


FAMILY = GraphLandFamily()


def _parts(name: str) -> tuple[str, str]:
    """Return the graph and the split that a name means."""
    if name in KNOWN:
        return name, "RL"
    dataset, _, split = name.rpartition("-")
    return dataset, split


def _files(name: str) -> list[str]:
    """All files that are read."""
    return ["info.yaml", "features.csv", "targets.csv", "edgelist.csv", f"split_masks_{_parts(name)[1]}.csv"]
