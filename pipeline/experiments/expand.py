"""From a sweep file to its runs: every combination of every grid, without what does not matter, each run once."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from leap.models.network_config import ENCODING_PARTS, LEAP_PARTS, BackboneName, NetworkConfig, ProjectionName
from leap.pipeline.datasets import dataset_card
from leap.pipeline.experiments.sweep_file import (
    NETWORK_FIELDS,
    PROTOCOL_FIELDS,
    PUBLISHED_BEST,
    Axes,
    Grid,
    SweepFile,
)
from leap.pipeline.published import best_projection
from leap.pipeline.stages.options import validated
from leap.pipeline.training.options import TrainOptions
from leap.pipeline.training.relevance import Kind, relevant
from leap.store.errors import InvalidInputError
from leap.store.suggestion import suggestion

# Options with few possible values, for suggestions.
CHOICES: dict[str, tuple[str, ...]] = {
    "backbone": get_args(BackboneName),
    "encoding": ("none", *ENCODING_PARTS),
    "projection": (*get_args(ProjectionName), PUBLISHED_BEST),
}


@dataclass(frozen=True)
class RunSpec:
    """One run of a sweep: a dataset's name or path, and everything that changes the result."""

    dataset: str
    options: TrainOptions

    def values(self) -> dict[str, Any]:
        """Return the options that matter, by name, with the dataset."""
        return {"dataset": self.dataset, **relevant(self.options.flat())}

    @property
    def label(self) -> str:
        """A few words that tell what the run is."""
        network = self.options.network
        words = [self.dataset, network.backbone, *(() if network.encoding == "none" else (network.encoding,))]
        return " ".join(words + ([network.projection] if network.leap else []))


@dataclass(frozen=True)
class Selection:
    """A part of a sweep, and what is done otherwise than its file says.

    Attributes
    ----------
    datasets, backbones, encodings : keep the runs with one of these; empty keeps all.
    on : datasets to use instead of the file's.
    projection : instead of the file's, except where projections are compared.
    seeds, epochs, folds : instead of the file's.
    """

    datasets: tuple[str, ...] = ()
    backbones: tuple[str, ...] = ()
    encodings: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    epochs: int | None = None
    folds: int | None = None
    projection: str | None = None

    def applied(self, grid: Grid) -> Grid:
        """Return a grid with what is to be done otherwise."""
        axes: Axes = dict(grid.axes)
        if self.on:
            axes["dataset"] = self.on
        if self.seeds:
            axes["seed"] = self.seeds
        if self.epochs is not None:
            axes["epochs"] = (self.epochs,)
        if self.folds is not None:
            axes["folds"] = (self.folds,)
        if self.projection is not None and len(axes.get("projection", ())) <= 1:
            axes["projection"] = (self.projection,)
        return grid.model_copy(update={"axes": axes})

    def filtered(self, runs: Sequence[RunSpec]) -> list[RunSpec]:
        """Return the runs that are wanted; a name that no run has is an error."""
        kept = list(runs)
        for what, wanted in (("dataset", self.datasets), ("backbone", self.backbones), ("encoding", self.encodings)):
            there = dict.fromkeys(str(run.values()[what]) for run in runs)
            for name in wanted:
                if name not in there:
                    raise InvalidInputError(
                        f"the sweep has no {what} {name!r}.{suggestion(name, there)} It has {', '.join(there)}."
                    )
            kept = [run for run in kept if not wanted or str(run.values()[what]) in wanted]
        if not kept:
            raise InvalidInputError("no run of the sweep fits all of --dataset, --backbone and --encoding.")
        return kept


def expand(file: SweepFile, selection: Selection | None = None) -> list[RunSpec]:
    """Return the runs of a sweep in the order of its grids, each once.

    Raises
    ------
    InvalidInputError
        If a combination of values makes no network, or a filter fits nothing.

    Examples
    --------
    >>> from leap.pipeline.experiments.sweep_file import load
    >>> len(expand(load("paper-hops")))
    18
    """
    chosen = selection or Selection()
    runs = [run for grid in file.grids for run in _expanded(chosen.applied(grid), file.name)]
    return chosen.filtered(list(dict.fromkeys(runs)))


def _expanded(grid: Grid, where: str) -> Iterator[RunSpec]:
    for name, allowed in CHOICES.items():
        for value in grid.axes.get(name, ()):
            _check_choice(name, value, allowed, where)
    for combination in itertools.product(*grid.axes.values()):
        values = dict(zip(grid.axes, combination, strict=True))
        if any(_fits(values, condition) for condition in grid.exclude):
            continue
        if grid.only and not any(_fits(values, condition) for condition in grid.only):
            continue
        yield _run(values)


def _check_choice(name: str, value: Any, allowed: tuple[str, ...], where: str) -> None:
    parts = str(value).split("+") if name == "encoding" else [str(value)]
    for part in parts:
        if part not in allowed:
            raise InvalidInputError(
                f"{where} has no {name} {part!r}.{suggestion(part, allowed)} Choose from {', '.join(allowed)}."
            )


def _fits(values: Mapping[str, Any], condition: Axes) -> bool:
    return all(name in values and values[name] in wanted for name, wanted in condition.items())


def _run(values: dict[str, Any]) -> RunSpec:
    kept = relevant(values)
    dataset = str(kept.pop("dataset"))
    if kept.get("projection") == PUBLISHED_BEST:
        kept["projection"] = _published_best(dataset, Kind.of(kept))
    network = validated(NetworkConfig, **{name: kept[name] for name in NETWORK_FIELDS if name in kept})
    protocol = {name: kept[name] for name in PROTOCOL_FIELDS if name in kept}
    return RunSpec(dataset, validated(TrainOptions, network=network, **protocol))


def _published_best(dataset: str, kind: Kind) -> str:
    """Projection of the paper's cell; a stand-in takes that of what it stands in for."""
    leap = next(iter(kind.parts & LEAP_PARTS))
    found = best_projection(dataset_card(dataset).stand_in_for or dataset, kind.backbone, leap)
    if found is None:
        raise InvalidInputError(
            f"the paper's main table has no cell for {dataset!r}, {kind.backbone} and {leap}, so there is no "
            f"{PUBLISHED_BEST} projection. Name one of {', '.join(get_args(ProjectionName))}."
        )
    return found
