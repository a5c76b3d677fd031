"""Datasets: from a name or a path to raw graphs."""

from leap.pipeline.datasets.registry import catalog, resolve
from leap.pipeline.datasets.source import DatasetInfo, Source, SourceOptions

__all__ = ["DatasetInfo", "Source", "SourceOptions", "catalog", "resolve"]
