"""What generated datasets have in common: nothing to download, a fingerprint made of their parameters."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from leap.pipeline.datasets.family import DatasetCard, DatasetInfo, Family, Lookup
from leap.pipeline.datasets.source import Executor, Progress, Source
from leap.pipeline.graphs import RawGraphs


class GeneratedSource(Source):
    """A dataset that a function of its parameters generates.

    Generators draw only from ``Generator(PCG64(seed)).random()`` and combine the draws with correctly rounded
    operations (+ - * / sqrt, comparisons), so that every machine gets the same bytes.

    Parameters
    ----------
    card : what is known about the dataset, its name first of all.
    version : raised when the same parameters give other graphs.
    """

    def __init__(
        self, card: DatasetCard, version: int, parameters: Mapping[str, Any], generate: Callable[..., RawGraphs]
    ) -> None:
        self.name, self.card = card.name, card
        self._version = version
        self._parameters = dict(parameters)
        self._generate = generate

    def fingerprint(self) -> dict[str, Any]:
        """Name of the generator, its version and its parameters."""
        return {"reader": self.name, "version": self._version, "options": {}, "parameters": self._parameters}

    def read(self, progress: Progress | None = None, executor: Executor | None = None) -> RawGraphs:
        """Generate the graphs."""
        return self._generate(**self._parameters)


class GeneratedFamily(Family):
    """Generated datasets, each given by its source."""

    def __init__(self, *sources: GeneratedSource) -> None:
        self._sources = {source.name: source for source in sources}

    def names(self) -> tuple[str, ...]:
        """Names of the sources."""
        return tuple(self._sources)

    def card(self, name: str) -> DatasetCard:
        """Return the card that the source was given."""
        return self._sources[name].card

    def source(self, name: str, lookup: Lookup) -> Source:
        """Source of a generated dataset; nothing is looked up."""
        return self._sources[name]

    def info(self, name: str, data: Path) -> DatasetInfo:
        """Line of `leap datasets`."""
        return DatasetInfo(self.card(name), "embedded")


def embedded_card(name: str, **known: Any) -> DatasetCard:
    """Return the card of a dataset that this package generates."""
    return DatasetCard(name, "generated", "generated", "BSD-3-Clause, as this package", **known)
