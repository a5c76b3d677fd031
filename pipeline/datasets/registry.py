"""All datasets by name: what `leap datasets` lists and what a name or path given by the user means."""

import os
from pathlib import Path

from leap.pipeline.datasets.generated import GeneratedFamily
from leap.pipeline.datasets.heterophilous import HeterophilousFamily
from leap.pipeline.datasets.hiv import MoleculeNetFamily
from leap.pipeline.datasets.letters import LETTERS
from leap.pipeline.datasets.own import find_own
from leap.pipeline.datasets.raw_files import default_data_dir
from leap.pipeline.datasets.romanesque import ROMANESQUE
from leap.pipeline.datasets.source import DatasetInfo, Family, Lookup, Progress, Source, SourceOptions, checked_name
from leap.pipeline.datasets.triads import TRIADS
from leap.pipeline.datasets.tudataset import TUFamily
from leap.store.errors import UnknownDatasetError
from leap.store.suggestion import suggestion

# A new family is one new file and one line here; the first that knows a name answers to it.
FAMILIES: tuple[Family, ...] = (
    GeneratedFamily(TRIADS, *LETTERS, ROMANESQUE),
    MoleculeNetFamily(),
    HeterophilousFamily(),
    TUFamily(),
)


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
    name_or_path : a known name; or the path of own data, which is anything with a separator and any existing
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
        return _own(name_or_path, options)
    for family in FAMILIES:
        if name_or_path in family.names():
            return family.source(name_or_path, lookup)
    if name_or_path and os.path.exists(name_or_path):  # unlike Path.exists, False also for impossible names
        return _own(name_or_path, options)
    discovered = {name: family for family in FAMILIES for name in family.discover(lookup.data)}
    if name_or_path in discovered:
        return discovered[name_or_path].source(checked_name(name_or_path), lookup)
    known = [*(name for family in FAMILIES for name in family.names()), *discovered]
    raise UnknownDatasetError(
        f"no dataset {name_or_path!r}.{suggestion(name_or_path, known)} 'leap datasets' lists all; "
        "a path to your own data contains a '/'."
    )


def catalog(data: Path | None = None) -> list[DatasetInfo]:
    """Every dataset that has a name, with the state of its files under `data`."""
    folder = default_data_dir() if data is None else Path(data)
    return [family.info(name, folder) for family in FAMILIES for name in (*family.names(), *family.discover(folder))]


def known_names() -> frozenset[str]:
    """Names that own data does not take."""
    return frozenset(name for family in FAMILIES for name in family.names())


def _own(path: str, options: SourceOptions) -> Source:
    return find_own(Path(path).expanduser(), options, known_names())
