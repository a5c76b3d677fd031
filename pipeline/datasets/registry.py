"""All datasets by name: what `leap datasets` lists, and what a name or path given by the user means."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from leap.pipeline.datasets.family import DatasetCard, DatasetInfo, Family, Lookup, default_data_dir
from leap.pipeline.datasets.source import Progress, Source, SourceOptions, cannot_read, checked_name
from leap.store.errors import InvalidInputError, MissingRawFilesError, UnknownDatasetError
from leap.store.registry import Registry
from leap.store.suggestion import suggestion

Finder = Callable[[Path, str, SourceOptions], Source | None]

# A new family is one new file and one line here; the first that knows a name answers to it.
FAMILIES: Registry[Family | type[Family]] = Registry(
    "family of datasets",
    "leap.datasets",
    {
        "triads": "leap.pipeline.datasets.triads:FAMILY",
        "letters": "leap.pipeline.datasets.letters:FAMILY",
        "romanesque": "leap.pipeline.datasets.romanesque:FAMILY",
        "MoleculeNet": "leap.pipeline.datasets.moleculenet:FAMILY",
        "OGB": "leap.pipeline.datasets.ogb:FAMILY",
        "GraphLand": "leap.pipeline.datasets.graphland:FAMILY",
        "heterophilous": "leap.pipeline.datasets.heterophilous:FAMILY",
        "TU": "leap.pipeline.datasets.tu:FAMILY",
    },
)
# So is a new format of your own graphs; the first that recognizes a path reads it.
FORMATS: Registry[Finder] = Registry(
    "format of graphs",
    "leap.formats",
    {
        "TU": "leap.pipeline.datasets.tu:find_tu",
        "Parquet": "leap.pipeline.datasets.parquet_tables:find_parquet",
        "PyG": "leap.pipeline.pyg.source:find_pyg",
        "NetworkX": "leap.pipeline.datasets.networkx_graphs:find_networkx",
    },
)


def dataset_card(name: str) -> DatasetCard:
    """Return what is known about a dataset; for a name that nothing answers to, such as your own graphs', the defaults.

    Examples
    --------
    >>> dataset_card("letters-high").stand_in_for, dataset_card("hiv").select, dataset_card("my-graphs").select
    ('Letter-high', 'auroc', 'loss')
    """
    known = (family.card(name) for family in _families() if name in family.names())
    return next(known, DatasetCard(name))


def resolve(
    name_or_path: str,
    *,
    data: Path | None = None,
    options: SourceOptions = SourceOptions(),  # noqa: B008  frozen
    download: bool = True,
    on_progress: Progress | None = None,
) -> Source:
    """Find what a name or path stands for.

    Parameters
    ----------
    name_or_path : a known name; or the path of your own graphs, which is anything with a separator and any existing
        file or folder that no name shadows ("./NAME" reaches a shadowed one).
    data : folder of raw files, looked at before any download; `default_data_dir()` unless given.
    download : whether missing raw files may be fetched.
    on_progress : called with (bytes so far, bytes in all) while downloading.

    Raises
    ------
    UnknownDatasetError
        Nothing answers to the name; the message suggests a similar one.
    MissingRawFilesError, DownloadError
        Raw files are not there and do not come; the message says where to put what.
    InvalidInputError
        A path to something that is no dataset.
    """
    lookup = Lookup(default_data_dir() if data is None else Path(data), options, download, on_progress)
    if "/" in name_or_path or "\\" in name_or_path:
        return _own(Path(name_or_path).expanduser(), options)
    for family in _families():
        if name_or_path in family.names():
            return family.source(name_or_path, lookup)
    if name_or_path and os.path.exists(name_or_path):  # unlike Path.exists, False also for impossible names
        return _own(Path(name_or_path), options)
    discovered = {name: family for family in _families() for name in family.discover(lookup.data)}
    if name_or_path in discovered:
        return discovered[name_or_path].source(checked_name(name_or_path), lookup)
    raise UnknownDatasetError(
        f"no dataset {name_or_path!r}.{suggestion(name_or_path, [*known_names(), *discovered])} 'leap datasets' lists "
        "all; no file or folder here has that name either."
    )


def catalog(data: Path | None = None) -> list[DatasetInfo]:
    """Every dataset that has a name, with the state of its files under `data`."""
    folder = default_data_dir() if data is None else Path(data)
    return [family.info(name, folder) for family in _families() for name in (*family.names(), *family.discover(folder))]


def known_names() -> frozenset[str]:
    """Names that your own graphs do not take."""
    return frozenset(name for family in _families() for name in family.names())


def _families() -> Iterator[Family]:
    for name in FAMILIES:
        found = FAMILIES[name]
        family = found() if isinstance(found, type) else found
        if not isinstance(family, Family):
            raise InvalidInputError(f"the family of datasets {name!r} is a {type(family).__name__}, not a Family.")
        yield family


def _own(path: Path, options: SourceOptions) -> Source:
    """Source of the user's own file or folder, named after it; "own-NAME" where a known dataset has that name."""
    if not os.path.exists(path):
        raise MissingRawFilesError(f"there is no file or folder {path}.")
    name = _name(path)
    name = f"own-{name}" if name in known_names() else name
    try:
        for form in FORMATS:
            if (source := FORMATS[form](path, name, options)) is not None:
                return source
        found = [entry.name for entry in sorted(path.iterdir())[:5]] if path.is_dir() else [path.name]
    except PermissionError as error:
        raise cannot_read(error.filename or path, error) from error
    raise InvalidInputError(
        f"{path} is no dataset in a known format (found: {', '.join(found) or 'an empty folder'}). Known are: a folder "
        "with NAME_A.txt and NAME_graph_indicator.txt (TU); a folder with edges.parquet; .graphml, .gml or "
        "node-link .json files; PyG's processed/*.pt."
    )


def _name(path: Path) -> str:
    absolute = path.resolve()
    inner = absolute.parent if absolute.name in ("raw", "processed") else absolute
    stem = inner.name if inner.is_dir() else inner.stem
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", stem).strip("-._+") or "own-data"
