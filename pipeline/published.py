"""The numbers that the paper prints, as data of the package: accuracies in percent, times in seconds."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Published:
    """One printed number.

    Attributes
    ----------
    table : main, projections, hops, dimension, dect, synthetic, time or best.
    hops : "1", "2" or "1,2"; None without LEAP.
    std : over folds; None where the paper prints none.
    note : what to know about it, such as two tables that contradict each other.
    """

    table: str
    dataset: str
    backbone: str | None
    encoding: str
    projection: str | None
    hops: str | None
    dim: int | None
    metric: str
    mean: float
    std: float | None
    note: str


@cache
def published() -> tuple[Published, ...]:
    """Return all printed numbers, in the order of the paper's tables."""
    text = (files("leap.pipeline") / "published.csv").read_text(encoding="utf-8")
    return tuple(_parse(row) for row in csv.DictReader(text.splitlines()))


def _parse(row: dict[str, str]) -> Published:
    return Published(
        row["table"],
        row["dataset"],
        row["backbone"] or None,
        row["encoding"],
        row["projection"] or None,
        row["hops"] or None,
        int(row["dim"]) if row["dim"] else None,
        row["metric"],
        float(row["mean"]),
        float(row["std"]) if row["std"] else None,
        row["note"],
    )


def find(table: str, **values: object) -> Iterator[Published]:
    """Yield the numbers of one table whose fields have these values."""
    for entry in published():
        if entry.table == table and all(getattr(entry, name) == value for name, value in values.items()):
            yield entry


def lookup(table: str, **values: object) -> Published | None:
    """Return the one number of a table with these values; None if the paper has none."""
    return next(find(table, **values), None)


def best_projection(dataset: str, backbone: str, encoding: str) -> str | None:
    """Return the projection behind a LEAP cell of the paper's main table, its best by test accuracy.

    None where the main table has no such cell.

    Examples
    --------
    >>> best_projection("Letter-high", "nomp", "leap-l")
    'conv1d'
    """
    cell = lookup("main", dataset=dataset, backbone=backbone, encoding=encoding)
    return cell.projection if cell is not None else None
