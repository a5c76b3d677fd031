"""Own data by path: which format a file or folder is in."""

import os
import re
from collections.abc import Callable
from pathlib import Path

from leap.pipeline.datasets.own_networkx import find_networkx
from leap.pipeline.datasets.own_parquet import find_parquet
from leap.pipeline.datasets.own_pyg import find_pyg
from leap.pipeline.datasets.own_tu import find_tu
from leap.pipeline.datasets.raw_files import cannot_read
from leap.pipeline.datasets.source import Source, SourceOptions
from leap.store.errors import InvalidInputError, MissingRawFilesError

# A new format is one new file and one line here; the first that recognizes a path reads it.
FORMATS: tuple[Callable[[Path, str, SourceOptions], Source | None], ...] = (
    find_tu,
    find_parquet,
    find_pyg,
    find_networkx,
)


def find_own(path: Path, options: SourceOptions, taken: frozenset[str]) -> Source:
    """Source of the file or folder at `path`, named after it.

    Parameters
    ----------
    taken : names of known datasets; own data of such a name is reported as "own-NAME".

    Raises
    ------
    MissingRawFilesError
        Nothing there.
    InvalidInputError
        None of the formats, or not for us to read.
    """
    if not os.path.exists(path):
        raise MissingRawFilesError(f"there is no file or folder {path}.")
    name = _name(path)
    name = f"own-{name}" if name in taken else name
    try:
        for find in FORMATS:
            if (source := find(path, name, options)) is not None:
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
