"""Which runs stand side by side: one protocol for a dataset, one setting of the transform for a cell of a table."""

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from leap.pipeline.reports.names import metric_of
from leap.pipeline.reports.runs import OWN, PROTOCOL, SIZE, TRANSFORM, Cell, Run
from leap.pipeline.training.run_folder import METRICS


def on_latest_data(runs: Iterable[Run]) -> list[Run]:
    """Return, for each dataset, the runs on the data that was trained on last: a name may have meant other graphs."""
    kept: list[Run] = []
    for of_dataset in grouped(runs, lambda run: run.dataset).values():
        versions = grouped(of_dataset, lambda run: run.data)
        kept += max(versions.values(), key=lambda group: max(map(_finished, group)))
    return sorted(kept, key=lambda run: run.name)


def last_day(runs: Iterable[Run]) -> str:
    """Return the day, in UTC, on which the last of some runs was finished."""
    return datetime.fromtimestamp(max(map(_finished, runs)), tz=UTC).date().isoformat()


def _finished(run: Run) -> float:
    metrics = run.path / METRICS
    return metrics.stat().st_mtime if metrics.exists() else 0.0


def comparable(runs: Iterable[Run]) -> list[Run]:
    """Return the runs that can be compared: for each dataset those of its most widely used protocol.

    Between protocols, the one that covers more networks wins; then the paper's; then the longer training. Sizes of a
    backbone and settings that only an encoding has, such as the weight of edges, are chosen in the same way.
    """
    kept: list[Run] = []
    for of_dataset in grouped(runs, lambda run: run.dataset).values():
        chosen = _widest(of_dataset, lambda run: run.protocol, PROTOCOL)
        sized = [
            run
            for of_backbone in grouped(chosen, lambda run: run.backbone).values()
            for run in _widest(of_backbone, lambda run: run.size, SIZE)
        ]
        for of_encoding in grouped(sized, lambda run: run.encoding).values():
            kept += _widest(of_encoding, lambda run: run.own, OWN)
    return sorted(kept, key=lambda run: run.name)


def usual(runs: Iterable[Run]) -> list[Run]:
    """Return, for each dataset, backbone and encoding, the runs with the paper's transform, else the most common."""
    kept: list[Run] = []
    for group in grouped(runs, lambda run: (run.dataset, run.backbone, run.encoding)).values():
        kept += _widest(group, lambda run: run.transform, TRANSFORM, reference_first=True)
    return sorted(kept, key=lambda run: run.name)


def cells(runs: Iterable[Run]) -> list[Cell]:
    """Return runs gathered over their seeds."""

    def configuration(run: Run) -> Hashable:
        return (run.dataset, run.backbone, run.encoding, run.projection, _text(run.settings))

    return [Cell(tuple(group)) for group in grouped(runs, configuration).values()]


def best_by(candidates: Sequence[Cell], part: str) -> Cell | None:
    """Return the cell with the best mean, by "test" as in the paper or by "val"; the first of equal ones."""
    if not candidates:
        return None
    metric = metric_of(candidates[0].first).name

    def score(cell: Cell) -> float:
        value = cell.mean(metric, part)
        return float("-inf") if value is None else value

    return max(candidates, key=score)


def grouped(runs: Iterable[Run], key: Callable[[Run], Hashable]) -> dict[Any, list[Run]]:
    """Return runs by a key, in the order in which the keys occur."""
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def _widest(
    runs: list[Run],
    settings: Callable[[Run], dict[str, Any]],
    reference: dict[str, Any],
    *,
    reference_first: bool = False,
) -> list[Run]:
    def merit(group: list[Run]) -> tuple[Any, ...]:
        values = settings(group[0])
        covered = len({(run.backbone, run.encoding, run.projection) for run in group})
        is_reference = all(value == reference[name] for name, value in values.items())
        order: tuple[Any, ...] = (is_reference, covered) if reference_first else (covered, is_reference)
        return (*order, group[0].settings.get("epochs_at_most") or 0, len(group), _text(values))

    groups = grouped(runs, lambda run: _text(settings(run)))
    return max(groups.values(), key=merit)


def _text(values: dict[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, default=str)
