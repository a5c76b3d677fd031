"""What labels of own data mean: whole numbers and text are classes, real numbers are regression targets."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.graphs import Task
from leap.store.errors import InvalidInputError

_RULE = "labels must be all whole numbers or all text, targets must be numbers."


def graph_targets(
    values: Sequence[Any], where: str, owner: Callable[[int], str] = "graph {}".format
) -> tuple[NDArray[Any], Task]:
    """Turn one label a graph into an array and the task that it sets.

    Parameters
    ----------
    values : numbers, texts, truth values or equally long lists of numbers.
    where : what they are called, for messages.
    owner : what the graph of a number is called there.

    Returns
    -------
    (G,) whole numbers or texts for classification, (G, t) float64 for regression.

    Raises
    ------
    InvalidInputError
        Lists of different length, values of two kinds, or values that are none of these.
    """
    plain = [_plain(value) for value in values]
    if all(isinstance(value, str) for value in plain):
        return np.array(plain), "graph-classification"
    if all(isinstance(value, bool | int) for value in plain):
        return np.array(plain, dtype=np.int64), "graph-classification"
    kinds = [_kind(value) for value in plain]
    if None in kinds:
        at = kinds.index(None)
        raise InvalidInputError(f"{where} of {owner(at)} is {values[at]!r:.60}; {_RULE}")
    if (other := next((i for i, kind in enumerate(kinds) if kind != kinds[0]), None)) is not None:
        raise InvalidInputError(
            f"{where} is of two kinds: {owner(0)} has {values[0]!r:.60}, {owner(other)} has {values[other]!r:.60}; "
            f"{_RULE}"
        )
    rows = [value if isinstance(value, list) else [value] for value in plain]
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise InvalidInputError(
                f"{where} has {len(row)} values for {owner(number)} and {len(rows[0])} for {owner(0)}."
            )
    return np.array(rows, dtype=np.float64), "graph-regression"


def possible_graph_labels(candidates: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the names whose values, one a graph, could be learned; those that name each graph come last."""
    ranked = []
    for name, values in candidates.items():
        try:
            y, task = graph_targets(values, name)
        except InvalidInputError:
            continue
        distinct = len(np.unique(y, axis=0))
        if distinct > 1:
            ranked.append((task == "graph-classification" and distinct == len(y), name))
    return [name for _, name in sorted(ranked)]


def node_classes(values: Sequence[Any] | NDArray[Any], where: str) -> NDArray[Any]:
    """Turn one label a node into whole numbers or texts.

    Raises
    ------
    InvalidInputError
        Anything else, such as real numbers: regression of nodes is not supported.
    """
    array = np.asarray([_plain(value) for value in values] if not isinstance(values, np.ndarray) else values)
    if array.dtype == np.bool_:
        return array.astype(np.int64)
    if array.ndim == 1 and (np.issubdtype(array.dtype, np.integer) or array.dtype.kind == "U"):
        if array.dtype.kind == "U" and not all(isinstance(_plain(value), str) for value in values):
            kinds = [isinstance(_plain(value), str) for value in values]
            at = kinds.index(not kinds[0])
            raise InvalidInputError(
                f"{where} mixes text and numbers: node 0 of all has {values[0]!r:.60}, node {at} has "
                f"{values[at]!r:.60}; labels must be of one kind."
            )
        return array
    if array.ndim == 1 and np.issubdtype(array.dtype, np.floating):
        broken = ~((np.floor(array) == array) & (np.abs(array) < 2.0**53))  # beyond, neighbours are the same number
        if not broken.any():
            return array.astype(np.int64)
        at = int(np.argmax(broken))
        raise InvalidInputError(f"{where} of node {at} is {array[at]}; node labels must be whole numbers or text.")
    raise InvalidInputError(f"{where} must be whole numbers or text, one a node. Got {array.dtype} {array.shape}.")


def _kind(value: Any) -> str | None:
    """Text, truth value or number, None for anything else; whole numbers stand among real ones."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "truth value"
    items = value if isinstance(value, list) else [value]
    numeric = all(isinstance(item, int | float) and not isinstance(item, bool) for item in items)
    return "number" if items and numeric else None


def _plain(value: Any) -> Any:
    """Python's own value for NumPy scalars and arrays; lists of one number become that number."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, list) and len(value) == 1:
        return _plain(value[0])
    return [_plain(item) for item in value] if isinstance(value, list) else value
