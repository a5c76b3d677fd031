"""How sizes, parameters and tables are written for people."""

from collections.abc import Sequence
from typing import Any

from leap import pipeline
from leap.pipeline.derived import RECIPES


def human_bytes(size: float) -> str:
    """Return a size such as "4.2 MiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def human_params(params: dict[str, Any], kind: str | None = None) -> str:
    """Return parameters in one line; what is not set, or means nothing without something else, is left out.

    With a kind, so are those that have their default, except what artifacts are told apart by at a glance.
    """
    shown = []
    defaults = _defaults(kind)
    for name, value in params.items():
        if name in defaults and defaults[name] == value:
            continue
        if value is None or value is False or (name == "cap_seed" and params.get("cap") is None):
            continue
        if name == "partition_bytes":
            name, value = "partition", human_bytes(value).replace(".0 ", " ")
        elif name == "direction_values":
            name, value = "directions", "given"
        shown.append(f"{name}={value}")
    return " ".join(shown)


def _defaults(kind: str | None) -> dict[str, Any]:
    if kind == "dataset":
        return pipeline.IngestOptions().params
    if kind is None or kind not in RECIPES:
        return {}
    fields = RECIPES[kind].model_fields
    return {name: field.default for name, field in fields.items() if name not in ("hops", "dim")}


def plural(count: int, noun: str) -> str:
    """Return "1 artifact", "2 artifacts"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Return a table as text, the columns `right` aligned for numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [">" if number in right else "<" for number in range(len(widths))]
    lines = [[f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)] for row in rows]
    return "\n".join("  ".join(line).rstrip() for line in lines)
