"""Own graphs as a folder in TU format, anywhere."""

from pathlib import Path

from leap.pipeline.datasets.source import Source, SourceOptions
from leap.pipeline.datasets.tu_format import has_tu_files
from leap.pipeline.datasets.tudataset import TUSource
from leap.store.errors import InvalidInputError


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
