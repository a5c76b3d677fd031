"""Datasets: from a name, a path or graphs in memory to raw graphs."""

from leap.pipeline.datasets.own_networkx import from_networkx
from leap.pipeline.datasets.own_pyg import from_pyg
from leap.pipeline.datasets.raw_files import default_data_dir
from leap.pipeline.datasets.registry import catalog, resolve
from leap.pipeline.datasets.source import DatasetInfo, Source, SourceOptions

__all__ = [
    "DatasetInfo",
    "Source",
    "SourceOptions",
    "catalog",
    "default_data_dir",
    "from_networkx",
    "from_pyg",
    "resolve",
]
