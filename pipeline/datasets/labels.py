"""What labels of own data mean: whole numbers and text are classes, real numbers are regression targets."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.graphs import Task
from leap.store.errors import InvalidInputError


def graph_targets(values: Sequence[Any], where: str) -> tuple[NDArray[Any], Task]:
    """Turn one label a graph into an array and the task that it sets.

    Parameters
    ----------
    values : numbers, texts, truth values or equally long lists of numbers.
    where : what they are called, for messages.

    Returns
    -------
    (G,) whole numbers or texts for classification, (G, t) float64 for regression.

    Raises
    ------
    InvalidInputError
        Lists of different length, or values that are none of these.
    """
    plain = [_plain(value) for value in values]
    if all(isinstance(value, str) for value in plain):
        return np.array(plain), "graph-classification"
    if all(isinstance(value, bool | int) for value in plain):
        return np.array(plain, dtype=np.int64), "graph-classification"
    rows = [value if isinstance(value, list) else [value] for value in plain]
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise InvalidInputError(f"{where} has {len(row)} values for graph {number} and {len(rows[0])} for graph 0.")
        for value in row:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidInputError(
                    f"{where} of graph {number} is {values[number]!r}; labels must be all whole numbers or all text, "
                    "targets must be numbers."
                )
    return np.array(rows, dtype=np.float64), "graph-regression"


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
            raise InvalidInputError(f"{where} mixes text and numbers: labels must be of one kind.")
        return array
    if array.ndim == 1 and np.issubdtype(array.dtype, np.floating):
        broken = ~(np.floor(array) == array)
        if not broken.any():
            return array.astype(np.int64)
        at = int(np.argmax(broken))
        raise InvalidInputError(f"{where} of node {at} is {array[at]}; node labels must be whole numbers or text.")
    raise InvalidInputError(f"{where} must be whole numbers or text, one a node. Got {array.dtype} {array.shape}.")


def _plain(value: Any) -> Any:
    """Python's own value for NumPy scalars and arrays; lists of one number become that number."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, tuple):
        value = list(value)
    if isinstance(value, list) and len(value) == 1:
        return _plain(value[0])
    return [_plain(item) for item in value] if isinstance(value, list) else value
