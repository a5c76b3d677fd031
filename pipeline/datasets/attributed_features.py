"""Node attributes to features: which are taken where none are named, and a matrix of their numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.datasets.attributed_graph import AttributedGraph, node_of_row
from leap.pipeline.datasets.remarks import left_out_for_x
from leap.store.errors import InvalidInputError
from leap.store.suggestion import alternatives

REMARKS_AT_MOST = 4
Rows = Sequence[Mapping[str, Any]]


def choose_features(rows: Rows, label: str | None) -> list[str]:
    """Return the attributes to use where none are named: "x", else all numeric ones that every node has, by name.

    Parameters
    ----------
    rows : attributes of every node.
    label : the attribute that is the node's label and so no feature.
    """
    if any("x" in row for row in rows) and label != "x":
        return ["x"]
    common = set(rows[0]).intersection(*rows[1:]) if rows else set()
    return sorted(name for name in common - {label} if all(_numbers(row[name]) for row in rows))


def left_out_remarks(
    graphs: Sequence[AttributedGraph], rows: Rows, taken: Sequence[str], left_out: Sequence[str]
) -> list[str]:
    """Return a sentence for every attribute that was not chosen, and why; many share the last one."""
    if not left_out:
        return []
    if list(taken) == ["x"]:
        return [left_out_for_x("attribute", left_out, "x")]
    told, rest = left_out[:REMARKS_AT_MOST], left_out[REMARKS_AT_MOST:]
    remarks = [f"node attribute {name!r} is left out: {_objection(graphs, rows, name)}" for name in told]
    return [*remarks, f"also left out: {', '.join(rest)}."] if rest else remarks


def _objection(graphs: Sequence[AttributedGraph], rows: Rows, name: str) -> str:
    for at, row in enumerate(rows):
        if name in row and _numbers(row[name]) is None:
            value = row[name]
            kind = "text" if isinstance(value, str) else "no number"
            return f"it is {kind} ({value!r:.40} at {_node(graphs, at)})."
    lacking = [at for at, row in enumerate(rows) if name not in row]
    count = f"{len(lacking):,} of {len(rows):,} nodes lack{'s' if len(lacking) == 1 else ''} it"
    first = f"{'' if len(lacking) == 1 else 'the first is '}{_node(graphs, lacking[0])}"
    return f"{count}, {first}. Name it with --node-attribute to make that an error."


def feature_matrix(graphs: Sequence[AttributedGraph], rows: Rows, names: Sequence[str]) -> NDArray[Any]:
    """Return the attributes side by side, (N, d): int64 if all are whole numbers, else float64.

    Raises
    ------
    InvalidInputError
        An attribute that is unknown, that some nodes lack, or that is no finite number or list of equal length.
    """
    blocks = []
    for name in names:
        values = [_numbers(row.get(name)) for row in rows]
        if rows and not any(name in row for row in rows):
            known = {known for row in rows for known in row}
            raise InvalidInputError(f"there is no node attribute {name!r}.{alternatives(name, known)}")
        width = len(values[0] or ())
        for at, numbers in enumerate(values):
            if numbers is None or len(numbers) != width:
                met = repr(rows[at][name]) if name in rows[at] else "missing"
                raise InvalidInputError(
                    f"{_where(graphs, at)}: the attribute {name!r} is {met}; it must be "
                    f"{'a number' if width == 1 else f'a list of {width} numbers' if width else 'a number or a list'}, "
                    "as for every node."
                )
        block = np.array(values)
        if not np.issubdtype(block.dtype, np.integer):
            with np.errstate(over="ignore"):
                finite = np.isfinite(block.astype(np.float32)).all(axis=1)
            if not finite.all():
                at = int(np.argmin(finite))
                raise InvalidInputError(
                    f"{_where(graphs, at)}: the attribute {name!r} is {rows[at][name]!r:.60}; features must be finite "
                    "float32 numbers. Repair or remove it."
                )
        blocks.append(block)
    whole = all(np.issubdtype(block.dtype, np.integer) for block in blocks)
    return np.concatenate(blocks, axis=1).astype(np.int64 if whole else np.float64)


def _numbers(value: Any) -> list[Any] | None:
    """Return a number or numbers as a list, None for anything else."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    values = list(value) if isinstance(value, list | tuple) else [value]
    return values if values and all(isinstance(item, bool | int | float) for item in values) else None


def _node(graphs: Sequence[AttributedGraph], row: int) -> str:
    origin, node = node_of_row(graphs, row)
    return f"node {node!r} of {origin}"


def _where(graphs: Sequence[AttributedGraph], row: int) -> str:
    origin, node = node_of_row(graphs, row)
    return f"{origin}, node {node!r}"
