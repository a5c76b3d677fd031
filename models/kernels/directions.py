"""Where every Euler characteristic transform starts from: seeded unit directions and an even grid of thresholds."""

import numpy as np
from numpy.typing import NDArray

from leap.store.errors import InvalidInputError


def random_directions(dim: int, count: int, seed: int = 0) -> NDArray[np.float64]:
    """Directions drawn uniformly from the unit sphere.

    Parameters
    ----------
    dim : dimension of the features, at least 1.
    count : number of directions, at least 1.
    seed : of NumPy's PCG64 generator.

    Returns
    -------
    (dim, count) float64 with unit columns. The first columns do not depend on `count`.
    """
    if dim < 1 or count < 1:
        raise InvalidInputError(f"directions need a dimension and a count of at least 1, got {dim} and {count}.")
    gaussian = np.random.Generator(np.random.PCG64(seed)).standard_normal((count, dim))
    lengths = np.sqrt(np.sum(gaussian * gaussian, axis=1, keepdims=True))
    return np.ascontiguousarray((gaussian / lengths).T)


def threshold_grid(count: int, radius: float) -> NDArray[np.float64]:
    """Thresholds evenly spaced on [-radius, radius], both ends included; a single one lies at 0.

    Parameters
    ----------
    count : number of thresholds, at least 1.
    radius : positive. Normalized features lie in the unit ball, so that 1 or a little more covers all heights.

    Returns
    -------
    (count,) float64 ascending, exactly antisymmetric (the middle of an odd count is exactly 0).
    """
    if count < 1 or not 0.0 < radius < np.inf:
        raise InvalidInputError(
            f"thresholds need a count of at least 1 and a positive radius, got {count} and {radius}."
        )
    steps = np.arange(count, dtype=np.float64) * 2.0 - (count - 1)
    return radius * (steps / max(count - 1, 1))
