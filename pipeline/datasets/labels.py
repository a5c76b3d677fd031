"""What labels and categories of your own graphs mean, and sentences about what was left aside.

Whole numbers and text are classes, real numbers are regression targets.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.graphs import Task
from leap.store.errors import InvalidInputError
from leap.store.graphs.dataset import LARGEST_CODE as LARGEST_CODE

CODES_END = (
    f"Whole numbers are categories, which end at {LARGEST_CODE:,}: number them from 0, or write measurements as real "
    "numbers (1.0)."
)

_RULE = "labels must be all whole numbers or all text, targets must be numbers."
_SMALLEST_LABEL, _LARGEST_LABEL = -(2**63), 2**63 - 1


def graph_targets(
    values: Sequence[Any], where: str, owner: Callable[[int], str] = "graph {}".format
) -> tuple[NDArray[Any], Task]:
    """Turn one label per graph into an array and the task that it sets.

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
        _check_labels(plain, where, owner)
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
    """Return the names whose values, one per graph, could be learned; those that name each graph come last."""
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
    """Turn one label per node into whole numbers or texts.

    Raises
    ------
    InvalidInputError
        Anything else, such as real numbers: regression of nodes is not supported.
    """
    plain = values if isinstance(values, np.ndarray) else [_plain(value) for value in values]
    if not isinstance(plain, np.ndarray):
        _check_labels(plain, where, "node {}".format)
    elif plain.dtype == np.uint64:  # other types cannot hold what is too large
        is_large = plain > _LARGEST_LABEL
        _check_labels(plain[is_large].tolist(), where, lambda _: f"node {np.argmax(is_large)}")
    array = np.asarray(plain)
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
    raise InvalidInputError(f"{where} must be whole numbers or text, one per node. Got {array.dtype} {array.shape}.")


def _check_labels(values: Sequence[Any], where: str, owner: Callable[[int], str]) -> None:
    for at, value in enumerate(values):
        if isinstance(value, int) and not _SMALLEST_LABEL <= value <= _LARGEST_LABEL:
            raise InvalidInputError(f"{where} of {owner(at)} is {value}; labels must fit 64 bits with a sign.")


def check_codes(codes: NDArray[Any], name: str) -> None:
    """Refuse whole-number features whose values are too large for categories.

    Parameters
    ----------
    codes : (N,) or (N, d) whole numbers.
    name : what the column is called, for messages.

    Raises
    ------
    InvalidInputError
        With the first value that is too large and its node.
    """
    if codes.size and int(codes.max()) >= LARGEST_CODE:
        node = int(np.argmax(codes.reshape(len(codes), -1).max(axis=1) >= LARGEST_CODE))
        raise InvalidInputError(f"{name} has the value {int(codes[node].max())} at node {node}. {CODES_END}")


def truth_values(values: NDArray[Any], name: str) -> NDArray[np.bool_]:
    """Turn a mask of truth values, or of zeros and ones, into truth values.

    Raises
    ------
    InvalidInputError
        With the first value that is neither 0 nor 1, and its node.
    """
    odd = (values != 0) & (values != 1)
    if odd.any():
        node = int(np.argmax(odd.reshape(len(odd), -1).any(axis=1)))
        met = values[node][odd[node]] if values.ndim > 1 else values[node]
        raise InvalidInputError(f"{name} has {np.ravel(met)[0]} at node {node}; a mask holds truth values, or 0 and 1.")
    return values.astype(np.bool_)


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


def left_out_for_x(noun: str, names: Sequence[str], taken: str) -> str:
    """Tell of node attributes or columns that are no features because there is `taken`."""
    are = f"{noun} {names[0]!r} is" if len(names) == 1 else f"{noun}s {', '.join(names)} are"
    return f"node {are} left out, because there is {taken!r}; --node-attribute NAME chooses others."


def unlabelled(noun: str, names: Sequence[str]) -> str:
    """Tell of graph attributes or columns that could be the label."""
    if len(names) == 1:
        return f"graphs have no label; --graph-label {names[0]} would take the graph {noun} {names[0]!r}."
    return f"graphs have no label; --graph-label NAME would take one of the graph {noun}s {', '.join(names)}."
