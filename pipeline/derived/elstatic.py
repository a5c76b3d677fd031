"""Electrostatic encoding: the potentials of unit charges at the nodes (Kreuzer et al. 2021)."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from leap.models import kernels
from leap.pipeline.derived.dense import DenseRecipe


class ElstaticRecipe(DenseRecipe):
    """Seven statistics of V(i, j) = G(i, j) - G(j, j), where G is the pseudo-inverse of the Laplacian D - A.

    For node v: minimum, mean and standard deviation of V(i, v) over the nodes i of its component; minimum and standard
    deviation of V(v, i); the sum of V(i, v) / d_i and of V(v, i) / d_v over its neighbours i. Deviations of n values
    divide by n - 1. An isolated node has zeros. Nothing depends on other components.
    """

    kind: ClassVar[str] = "elstatic"
    algorithm: ClassVar[int] = 1

    @property
    def columns(self) -> int:
        """One for each statistic."""
        return 7

    def encode(self, indptr: NDArray[np.int64], indices: NDArray[Any]) -> NDArray[np.float64]:
        """Return the statistics, (N, 7)."""
        return kernels.potential_statistics(indptr, indices)
