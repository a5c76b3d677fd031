"""What labels and categories of your own graphs mean, and sentences about what was left aside.

Whole numbers and text are classes, real numbers are regression targets; truth values in a list, and zeros and ones some
of which are missing, are several labels. A task that was asked for goes before.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.graphs import Task
from leap.store.errors import InvalidInputError
from leap.store.graphs.dataset import LARGEST_CODE as LARGEST_CODE
from leap.store.graphs.tasks import is_graph_task

CODES_END = (
    f"Whole numbers are categories, which end at {LARGEST_CODE:,}: number them from 0, or write measurements as real "
    "numbers (1.0)."
)

_RULE = "labels must be all whole numbers or all text, targets must be numbers."
_SMALLEST_LABEL, _LARGEST_LABEL = -(2**63), 2**63 - 1


def graph_targets(
    values: Sequence[Any],
    where: str,
    owner: Callable[[int], str] = "graph {}".format,
    wanted: Task | None = None,
) -> tuple[NDArray[Any], Task]:
    """Turn one label per graph into an array and the task that it sets.

    Parameters
    ----------
    values : numbers, texts, truth values or equally long lists of numbers.
    where : what they are called, for messages.
    owner : what the graph of a number is called there.
    wanted : task that was asked for, of graphs; None: the values say.

    Returns
    -------
    (G,) whole numbers or texts for classification, (G, t) float64 for regression and several labels, of which missing
    ones are NaN.

    Raises
    ------
    InvalidInputError
        Lists of different length, values of two kinds, values that are none of these or do not suit the task.
    """
    plain = [_plain(value) for value in values]
    if wanted == "graph-multilabel" or (wanted is None and _are_several_labels(plain)):
        return _several_labels(plain, where, owner), "graph-multilabel"
    if all(isinstance(value, str) for value in plain):
        if wanted is not None:
            check_wanted("graph-classification", wanted, where)
        return np.array(plain), "graph-classification"
    if wanted == "graph-classification" and all(isinstance(value, float) and value.is_integer() for value in plain):
        plain = [int(value) for value in plain]
    if wanted != "graph-regression" and all(isinstance(value, bool | int) for value in plain):
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
    if wanted is not None:
        check_wanted("graph-regression", wanted, where)
    return np.array(_rows(plain, where, owner), dtype=np.float64), "graph-regression"


def _rows(plain: Sequence[Any], where: str, owner: Callable[[int], str]) -> list[list[Any]]:
    rows = [value if isinstance(value, list) else [value] for value in plain]
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise InvalidInputError(
                f"{where} has {len(row)} values for {owner(number)} and {len(rows[0])} for {owner(0)}."
            )
    return rows


def check_wanted(met: Task, wanted: Task, where: str) -> None:
    """Refuse labels that set another task than the one asked for."""
    if met != wanted:
        raise InvalidInputError(
            f"--task {wanted}: {where} holds labels of {met}. Leave --task out, or change the labels."
        )


def check_wanted_level(wanted: Task | None) -> None:
    """Say that labels for a task that was asked for are missing."""
    if wanted is not None:
        option = "--graph-label" if is_graph_task(wanted) else "--node-label"
        raise InvalidInputError(f"--task {wanted}: there are no labels for it. Name them with {option}.")


def binary_targets(y: NDArray[Any] | None, task: Task, wanted: Task | None) -> list[str]:
    """Tell of targets of a regression that may have been meant as several labels."""
    if wanted is not None or task != "graph-regression" or y is None or y.shape[1] < 2 or not np.isin(y, (0, 1)).all():
        return []
    return [
        f"all {y.shape[1]} targets of each graph are 0 or 1; they are read as real numbers. --task graph-multilabel "
        "reads them as labels."
    ]


def _are_several_labels(plain: Sequence[Any]) -> bool:
    """Whether values are 0, 1 or missing, some of them truth values in lists or missing."""
    items = [
        (item, isinstance(value, list)) for value in plain for item in (value if isinstance(value, list) else [value])
    ]
    is_binary = all(_is_missing(item) or (isinstance(item, bool | int | float) and item in (0, 1)) for item, _ in items)
    are_known = any(not _is_missing(item) for item, _ in items)
    return is_binary and are_known and any(_is_missing(i) or (of_list and isinstance(i, bool)) for i, of_list in items)


def _is_missing(item: Any) -> bool:
    return item is None or (isinstance(item, float) and math.isnan(item))


def _several_labels(plain: Sequence[Any], where: str, owner: Callable[[int], str]) -> NDArray[np.float64]:
    rows = _rows(plain, where, owner)
    for number, row in enumerate(rows):
        for item in row:
            if not _is_missing(item) and not (isinstance(item, bool | int | float) and item in (0, 1)):
                raise InvalidInputError(
                    f"{where} of {owner(number)} has {item!r:.60}; several labels are 0 and 1, or NaN for none."
                )
    return np.array([[math.nan if item is None else float(item) for item in row] for row in rows])


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


def node_targets(
    values: Sequence[Any] | NDArray[Any], where: str, wanted: Task | None = None
) -> tuple[NDArray[Any], Task]:
    """Turn one label, or the targets, of each node into an array and the task that it sets.

    Parameters
    ----------
    values : texts, truth values, numbers, or lists of as many real numbers; NaN for nodes without a target.
    where : what they are called, for messages.
    wanted : task that was asked for, of nodes; None: real numbers that are not all whole are targets.

    Raises
    ------
    InvalidInputError
        Values of two kinds, whole numbers some of which are missing, or values that do not suit the task.
    """
    array = values if isinstance(values, np.ndarray) else _numbers(values)
    if array is not None and array.ndim in (1, 2) and array.dtype.kind in "biuf":
        known = array[np.isfinite(array)] if array.dtype.kind == "f" else array
        are_reals = array.dtype.kind == "f" and bool((np.floor(known) != known).any())
        if wanted == "node-regression" or (wanted is None and are_reals):
            return array.astype(np.float64), "node-regression"
    if wanted is not None:
        check_wanted("node-classification", wanted, where)
    return node_classes(values, where), "node-classification"


def _numbers(values: Sequence[Any]) -> NDArray[Any] | None:
    """Return numbers, or lists of as many, as an array; None for anything else."""
    plain = [_plain(value) for value in values]
    rows = [value if isinstance(value, list) else [value] for value in plain]
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        return None
    if not all(isinstance(item, int | float) for row in rows for item in row):
        return None
    try:
        array: NDArray[Any] = np.array(rows)
    except OverflowError:
        return None
    return array if len(rows[0]) > 1 else array[:, 0]


def node_classes(values: Sequence[Any] | NDArray[Any], where: str) -> NDArray[Any]:
    """Turn one label per node into whole numbers or texts.

    Raises
    ------
    InvalidInputError
        Anything else, such as real numbers.
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
        raise InvalidInputError(
            f"{where} of node {at} is {array[at]}; node labels must be whole numbers or text. --task "
            "node-regression reads numbers as targets."
        )
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
