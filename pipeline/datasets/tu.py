"""The TU format, and the TUDataset collection by name (www.chrsmrrs.com/graphkerneldatasets)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leap.pipeline import datasets
from leap.pipeline.datasets.download import Download, unzip
from leap.pipeline.datasets.family import DatasetCard, FileFamily, raw_folders
from leap.pipeline.datasets.source import Executor, Progress, Source, SourceOptions, fingerprint_files, is_safe_name
from leap.pipeline.graphs import RawGraphs, Task
from leap.store.errors import InvalidInputError, MissingRawFilesError

URL = "https://www.chrsmrrs.com/graphkerneldatasets"
REQUIRED = ("A", "graph_indicator")
EDGES = ("edge_labels", "edge_attributes")
OPTIONAL = ("graph_labels", "graph_attributes", "node_labels", "node_attributes", *EDGES)

_MOST_LABELS = 1 << 20
_LARGEST_ONE_HOT = 1 << 31  # entries; 8 GiB of float32

_CELL_LINES = (
    "MCF-7 MOLT-4 NCI-H23 OVCAR-8 P388 PC-3 SF-295 SN12C SW-620 UACC257 Yeast"  # each also with hydrogens: NAMEH
)
_TOX21 = "AhR AR AR-LBD ARE aromatase ATAD5 ER ER-LBD HSE MMP p53 PPAR-gamma"
_TEMPORAL = "dblp facebook highschool infectious mit tumblr"

_MOLECULES = """
    AIDS alchemy_full BZR BZR_MD COX2 COX2_MD DHFR DHFR_MD ER_MD FRANKENSTEIN MUTAG Mutagenicity NCI1 NCI109
    PTC_FM PTC_FR PTC_MM PTC_MR QM9 ZINC_full ZINC_test ZINC_train ZINC_val
    aspirin benzene ethanol malonaldehyde naphthalene salicylic_acid toluene uracil
"""
_BIOINFORMATICS = "DD ENZYMES KKI OHSU Peking_1 PROTEINS PROTEINS_full"
_VISION = """
    COIL-DEL COIL-RAG Cuneiform Fingerprint FIRSTMM_DB Letter-high Letter-low Letter-med MSRC_9 MSRC_21
    MSRC_21C
"""
_SOCIAL = """
    COLLAB DBLP_v1 deezer_ego_nets github_stargazers IMDB-BINARY IMDB-MULTI REDDIT-BINARY REDDIT-MULTI-5K
    REDDIT-MULTI-12K reddit_threads twitch_egos TWITTER-Real-Graph-Partial
"""
_SYNTHETIC = "COLORS-3 SYNTHETIC SYNTHETICnew Synthie TRIANGLES"

TU_NAMES: tuple[str, ...] = tuple(
    sorted(
        [
            *" ".join((_MOLECULES, _BIOINFORMATICS, _VISION, _SOCIAL, _SYNTHETIC, _CELL_LINES)).split(),
            *(f"{name}H" for name in _CELL_LINES.split()),
            *(f"Tox21_{assay}_{part}" for assay in _TOX21.split() for part in ("training", "testing", "evaluation")),
            *(f"{name}_ct{task}" for name in _TEMPORAL.split() for task in (1, 2)),
        ],
        key=str.lower,
    )
)

# What is known about single datasets: graphs and nodes, and what the paper did on them.
_KNOWN: dict[str, dict[str, Any]] = {
    "alchemy_full": {
        "title": "Alchemy",
        "size": (202_579, 2_048_000),
        "published_as": "boxes",
        "published_settings": {"hidden": 64, "layers": 10, "batch_size": 32, "class_weight": "none"},
    },
    "BZR": {"size": (405, 14_479)},
    "COX2": {"size": (467, 19_252)},
    "DHFR": {"size": (756, 32_075)},
    "Fingerprint": {"size": (2_800, 15_167)},
    "Letter-high": {"size": (2_250, 10_507)},
    "Letter-low": {"size": (2_250, 10_522)},
    "Letter-med": {"size": (2_250, 10_500)},
}


class TUSource(Source):
    """A folder of TU-format files.

    Parameters
    ----------
    folder : where the files lie.
    prefix : of the files, PREFIX_A.txt and so on.
    name : as reported; the prefix unless given.
    """

    def __init__(self, folder: Path, prefix: str, name: str | None = None) -> None:
        self.name = name or prefix
        self.folder = folder
        self.prefix = prefix

    def fingerprint(self) -> dict[str, Any]:
        """Reader, version and the content of every file PREFIX_*.txt."""
        files = fingerprint_files(self.folder, tu_files(self.folder, self.prefix))
        names = {file["name"] for file in files}
        version = 2 if names & {f"{self.prefix}_{part}.txt" for part in EDGES} else 1  # which left them out
        return {"reader": "tu", "version": version, "options": {}, "files": files}

    def read(self, progress: Progress | None = None, executor: Executor | None = None) -> RawGraphs:
        """Read all files; see `read_tu`."""
        return read_tu(self.folder, self.prefix)


class TUFamily(FileFamily):
    """Every dataset of the collection, and any other whose files lie in the data folder under its name."""

    def names(self) -> tuple[str, ...]:
        """Names of the collection."""
        return TU_NAMES

    def discover(self, data: Path) -> tuple[str, ...]:
        """Names of folders in TU format that the collection does not know."""
        try:
            folders = sorted(path.name for path in data.iterdir() if path.is_dir())
        except (FileNotFoundError, NotADirectoryError, PermissionError):  # nothing there that we could discover
            return ()
        others = [name for name in folders if name not in TU_NAMES and is_safe_name(name)]
        return tuple(name for name in others if self.find(data, name))

    def card(self, name: str) -> DatasetCard:
        """Return what is known about a dataset; little, for most of them."""
        return DatasetCard(
            name,
            "TU",
            f"{URL}/{name}.zip" if name in TU_NAMES else "raw files",
            "no common licence; cite TUDataset and the dataset's own source",
            **_KNOWN.get(name, {}),
        )

    def find(self, data: Path, name: str) -> Sequence[Path]:
        """Return all files of a dataset, used or not."""
        return next((tu_files(folder, name) for folder in raw_folders(data, name) if has_tu_files(folder, name)), ())

    def open(self, name: str, files: Sequence[Path]) -> Source:
        """Source of the files."""
        return TUSource(files[0].parent, name)

    def download(self, name: str) -> Download:
        """One archive for each dataset."""
        wanted = ", ".join(f"{name}_{part}.txt" for part in REQUIRED)
        wanted += " and, where the dataset has them, " + ", ".join(f"{name}_{part}.txt" for part in OPTIONAL)
        return Download(f"{URL}/{name}.zip", wanted, unzip, lambda folder: has_tu_files(folder, name))


FAMILY = TUFamily()


def find_tu(path: Path, name: str, options: SourceOptions) -> Source | None:
    """Source of a folder with PREFIX_A.txt and PREFIX_graph_indicator.txt, itself or in `raw`; None without.

    Raises
    ------
    InvalidInputError
        Several datasets in one folder.
    """
    if not path.is_dir():
        return None
    for folder in (path, path / "raw"):
        candidates = [file.name.removesuffix("_A.txt") for file in sorted(folder.glob("*_A.txt"))]
        prefixes = [prefix for prefix in candidates if prefix and has_tu_files(folder, prefix)]
        if len(prefixes) > 1:
            raise InvalidInputError(
                f"{folder} holds several datasets ({', '.join(prefixes)}): give each a folder of its own."
            )
        if prefixes:
            return TUSource(folder, prefixes[0], name=name)
    return None


def tu_files(folder: Path, name: str) -> list[Path]:
    """All files of the dataset `name` in `folder`, used or not, sorted."""
    return sorted(path for path in folder.glob(f"{name}_*.txt") if path.is_file())


def has_tu_files(folder: Path, name: str) -> bool:
    """Whether the two files that no TU dataset lacks are there."""
    return all((folder / f"{name}_{part}.txt").is_file() for part in REQUIRED)


def read_tu(folder: Path, name: str) -> RawGraphs:
    """Read a dataset in TU format.

    Features are the node attributes followed by the one-hot node labels, as PyG's
    ``TUDataset(use_node_attr=True)`` arranges them: each label column spans its whole range, unused codes
    included. Graphs are numbered by the indicator; one that it skips has no nodes and keeps its label.
    Attributes of edges are made of the edges' attributes and labels in the same way. Without graph labels, graph
    attributes are regression targets.

    Raises
    ------
    MissingRawFilesError
        NAME_A.txt or NAME_graph_indicator.txt is missing.
    InvalidInputError
        Anything malformed, with file, line and value: text where a number belongs, files of different length,
        ids out of range, features that are not finite.
    """

    def path(part: str) -> Path:
        return folder / f"{name}_{part}.txt"

    def table(part: str, kind: Literal["int", "float"], rows: int, owner: str) -> NDArray[Any] | None:
        if not path(part).is_file():
            return None
        values = datasets.number_table.read_numbers(path(part), kind)
        if len(values) != rows:
            raise InvalidInputError(
                f"{path(part)} has {len(values):,} lines, but {path('graph_indicator')} describes {rows:,} "
                f"{owner}s: there must be one line for each {owner}."
            )
        return values

    missing = [path(part).name for part in REQUIRED if not path(part).is_file()]
    if missing:
        raise MissingRawFilesError(f"{folder} lacks {' and '.join(missing)}, which a TU dataset needs.")
    indicator = datasets.number_table.read_numbers(path("graph_indicator"), "int", columns=1)[:, 0]
    if not len(indicator):
        raise InvalidInputError(f"{path('graph_indicator')} is empty: the dataset has no nodes.")
    if (indicator < 1).any():
        line = int(np.argmax(indicator < 1))
        raise InvalidInputError(
            f"{path('graph_indicator')}, line {line + 1}: graphs are numbered from 1, but here is {indicator[line]}."
        )
    num_nodes, num_graphs = len(indicator), int(indicator.max())
    if num_graphs > _plausible_graphs(path("graph_labels"), num_nodes):
        line = int(np.argmax(indicator))
        raise InvalidInputError(
            f"{path('graph_indicator')}, line {line + 1}: graph {num_graphs:,} cannot exist in a dataset of "
            f"{num_nodes:,} nodes without as many graph labels."
        )
    edges = _edges(path("A"), num_nodes)
    edge_attr, edge_source, remarks = _edge_attributes(folder, name, edges.shape[1])
    attributes = table("node_attributes", "float", num_nodes, "node")
    labels = table("node_labels", "int", num_nodes, "node")
    x, feature_source = _features(attributes, labels, path("node_labels"))
    y, task = _targets(
        table("graph_labels", "int", num_graphs, "graph"),
        table("graph_attributes", "float", num_graphs, "graph"),
        path("graph_labels"),
    )
    notes: dict[str, Any] = {} if edge_attr is None else {"edge_attributes": edge_source}
    if y is not None and task == "graph-classification" and path("graph_attributes").is_file():
        notes["graph_attributes"] = "present in the raw files, not used: graph labels take precedence"
    if (np.diff(indicator) < 0).any():
        order = np.argsort(indicator, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(num_nodes)
        edges = rank[edges]
        x = None if x is None else x[order]
        notes["graph_indicator"] = "nodes of a graph were scattered; they are now listed graph by graph"
    return RawGraphs(
        node_counts=np.bincount(indicator - 1, minlength=num_graphs).astype(np.int64),
        edges=edges,
        x=x,
        y=y,
        task=task,
        feature_source=feature_source,
        notes=notes,
        edge_attr=edge_attr,
        plans_edge_attr=False,
        remarks=remarks,
    )


def _edge_attributes(folder: Path, name: str, edges: int) -> tuple[NDArray[np.float32] | None, str, tuple[str, ...]]:
    """Return the attributes of all entries, where they come from, and a sentence if labels cannot be among them."""
    tables: dict[str, NDArray[Any]] = {}
    kinds: dict[str, Literal["int", "float"]] = {"edge_attributes": "float", "edge_labels": "int"}
    for part, kind in kinds.items():
        path = folder / f"{name}_{part}.txt"
        if path.is_file():
            tables[part] = datasets.number_table.read_numbers(path, kind)
            if len(tables[part]) != edges:
                raise InvalidInputError(
                    f"{path} has {len(tables[part]):,} lines, but {folder / f'{name}_A.txt'} has {edges:,}: there must "
                    "be one line for each entry."
                )
    attributes, labels = tables.get("edge_attributes"), tables.get("edge_labels") if edges else None
    try:
        return *_features(attributes, labels, folder / f"{name}_edge_labels.txt"), ()
    except InvalidInputError as error:  # no reason to refuse the graphs
        return *_features(attributes, None, folder), (f"labels of edges are left out: {error}",)


def _plausible_graphs(labels: Path, num_nodes: int) -> int:
    """Bound the number of graphs before allocating by it; the exact comparison follows."""
    return max(10 * num_nodes, labels.stat().st_size if labels.is_file() else 0)


def _edges(path: Path, num_nodes: int) -> NDArray[np.int64]:
    pairs = datasets.number_table.read_numbers(path, "int", columns=2)
    outside = (pairs < 1) | (pairs > num_nodes)
    if outside.any():
        line, end = (int(i) for i in np.argwhere(outside)[0])
        raise InvalidInputError(
            f"{path}, line {line + 1}: node {pairs[line, end]} does not exist; nodes are numbered 1 to {num_nodes:,}, "
            "one for each line of the graph indicator. Repair the file."
        )
    edges = np.ascontiguousarray(pairs.T)
    edges -= 1
    return edges


def _features(
    attributes: NDArray[Any] | None, labels: NDArray[Any] | None, label_path: Path
) -> tuple[NDArray[np.float32] | None, str]:
    blocks, names = [], []
    if attributes is not None:
        blocks.append(attributes.astype(np.float32))
        names.append("attributes")
    if labels is not None:
        widths = [int(column.max()) - int(column.min()) + 1 for column in labels.T]
        for column, width in enumerate(widths):
            if width > _MOST_LABELS or width * len(labels) > _LARGEST_ONE_HOT:
                values = labels[:, column]
                raise InvalidInputError(
                    f"{label_path}, column {column + 1}: labels span {values.min()} (line {np.argmin(values) + 1}) to "
                    f"{values.max()} (line {np.argmax(values) + 1}), too many values for one-hot features. Number them "
                    "from 0."
                )
        blocks += [_one_hot(labels[:, i], width) for i, width in enumerate(widths)]
        names.append("labels")
    if not blocks:
        return None, "none"
    return np.concatenate(blocks, axis=1), "+".join(names)


def _one_hot(labels: NDArray[np.int64], width: int) -> NDArray[np.float32]:
    out = np.zeros((len(labels), width), dtype=np.float32)
    out[np.arange(len(labels)), labels - labels.min()] = 1.0
    return out


def _targets(
    labels: NDArray[Any] | None, attributes: NDArray[Any] | None, label_path: Path
) -> tuple[NDArray[Any] | None, Task]:
    if labels is not None:
        if labels.shape[1] != 1:
            raise InvalidInputError(
                f"{label_path} has {labels.shape[1]} columns: only one label per graph is supported."
            )
        return labels[:, 0], "graph-classification"
    if attributes is not None:
        return attributes, "graph-regression"
    return None, "none"
