"""From a sweep file to its runs: every combination of every grid, without what does not matter, each run once."""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leap.models.network_config import LEAP_PARTS, Kind, NetworkConfig
from leap.pipeline.datasets import dataset_card
from leap.pipeline.engine.requests import RunRequest
from leap.pipeline.experiments.sweep_file import PUBLISHED_BEST, Axes, Grid, SweepFile, axes_of, first_seed
from leap.pipeline.published import best_projection
from leap.pipeline.training.options import OPTIONS, TrainOptions, relevant
from leap.store.errors import InvalidInputError
from leap.store.suggestion import suggestion


@dataclass(frozen=True)
class SweepSelection:
    """Which runs of a sweep to do, and the values that replace those of its file.

    Attributes
    ----------
    only : keep the runs with one of these values of every option named; "dataset" is one of them.
    instead : values to use instead of the file's; an option of the network stays where a grid compares several of it.
        Of "seeds", a number says how many: the file's first and those that follow it.
    """

    only: Mapping[str, Any] = field(default_factory=dict)
    instead: Mapping[str, Any] = field(default_factory=dict)

    def applied(self, grid: Grid) -> Grid:
        """Return a grid with the values that replace its own."""
        changed = {
            name: values
            for name, values in axes_of(self.instead, "the options given", None, first_seed(grid.axes)).items()
            if name not in NetworkConfig.model_fields or len(grid.axes.get(name, ())) <= 1
        }
        return grid.model_copy(update={"axes": grid.axes | changed})

    def filtered(self, runs: Sequence[RunRequest]) -> list[RunRequest]:
        """Return the runs that are wanted; a value that no run has is an error."""
        kept = list(runs)
        for what, wanted in axes_of(self.only, "the options given").items():
            there = dict.fromkeys(str(run.values().get(what)) for run in runs)
            spelled = {os.path.normpath(name): name for name in there} if what == "dataset" else {}
            wanted = tuple(spelled.get(os.path.normpath(str(name)), str(name)) for name in wanted)
            for name in wanted:
                if name not in there:
                    raise InvalidInputError(
                        f"the sweep has no {what} {name!r}.{suggestion(name, there)} It has {', '.join(there)}."
                    )
            kept = [run for run in kept if str(run.values().get(what)) in wanted]
        if not kept:
            raise InvalidInputError(f"no run of the sweep fits all of {', '.join(f'--{name}' for name in self.only)}.")
        return kept


def expand(file: SweepFile, selection: SweepSelection | None = None) -> list[RunRequest]:
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
    chosen = selection or SweepSelection()
    runs = [run for grid in file.grids for run in _expanded(chosen.applied(grid))]
    # What looks the same may differ on node tasks, where what was not chosen has other defaults.
    return chosen.filtered(list({(run, run.on("node-classification")): run for run in runs}.values()))


def _expanded(grid: Grid) -> Iterator[RunRequest]:
    for combination in itertools.product(*grid.axes.values()):
        values = dict(zip(grid.axes, combination, strict=True))
        if any(_fits(values, condition) for condition in grid.exclude):
            continue
        if grid.only and not any(_fits(values, condition) for condition in grid.only):
            continue
        yield _run(values)


def _fits(values: Mapping[str, Any], condition: Axes) -> bool:
    return all(name in values and values[name] in wanted for name, wanted in condition.items())


def _run(values: dict[str, Any]) -> RunRequest:
    kept = relevant(values)
    dataset = str(kept.pop("dataset"))
    if kept.get("projection") == PUBLISHED_BEST:
        kept["projection"] = _published_best(dataset, Kind.of(kept))
    return RunRequest(dataset, TrainOptions.of(kept))


def _published_best(dataset: str, kind: Kind) -> str:
    """Projection of the paper's cell; a stand-in takes that of what it stands in for."""
    leap = next(iter(kind.parts & LEAP_PARTS))
    found = best_projection(dataset_card(dataset).stand_in_for or dataset, kind.backbone, leap)
    if found is None:
        raise InvalidInputError(
            f"the paper's main table has no cell for {dataset!r}, {kind.backbone} and {leap}, so there is no "
            f"{PUBLISHED_BEST} projection. Name one of {', '.join(OPTIONS['projection'].choices)}."
        )
    return found
