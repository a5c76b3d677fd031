"""What generated datasets have in common: nothing to download, a fingerprint made of their parameters."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from leap.pipeline.datasets.source import DatasetInfo, Executor, Family, Lookup, Progress, Source
from leap.pipeline.graphs import RawGraphs


class GeneratedSource(Source):
    """A dataset that a function of its parameters generates.

    Generators draw only from ``Generator(PCG64(seed)).random()`` and combine the draws with correctly rounded
    operations (+ - * / sqrt, comparisons), so that every machine gets the same bytes.
    """

    def __init__(
        self, name: str, version: int, parameters: Mapping[str, Any], generate: Callable[..., RawGraphs]
    ) -> None:
        self.name = name
        self._version = version
        self._parameters = dict(parameters)
        self._generate = generate

    def fingerprint(self) -> dict[str, Any]:
        """Name of the generator, its version and its parameters."""
        return {
            "reader": self.name,
            "version": self._version,
            "options": {},
            "parameters": self._parameters,
        }

    def read(self, progress: Progress | None = None, executor: Executor | None = None) -> RawGraphs:
        """Generate the graphs."""
        return self._generate(**self._parameters)


class GeneratedFamily(Family):
    """Generated datasets, each given by its source."""

    name = "generated"

    def __init__(self, *sources: GeneratedSource) -> None:
        self._sources = {source.name: source for source in sources}

    def names(self) -> tuple[str, ...]:
        """Names of all generated datasets."""
        return tuple(self._sources)

    def source(self, name: str, lookup: Lookup) -> Source:
        """Source of a generated dataset; nothing is looked up."""
        return self._sources[name]

    def info(self, name: str, data: Path) -> DatasetInfo:
        """Line of `leap datasets`."""
        return DatasetInfo(name, self.name, "generated", "BSD-3-Clause, as this package", "embedded")
