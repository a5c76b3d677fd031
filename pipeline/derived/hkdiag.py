"""Heat-kernel encoding: how much of the heat of a node is still there after some times."""

from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, model_validator

from leap.models import kernels
from leap.pipeline.derived.dense import DenseRecipe
from leap.store.option import Option


class HkdiagRecipe(DenseRecipe):
    """Diagonal of the heat kernel exp(-t L) at `dim` times, of which each is twice the one before.

    L = I - D^-1/2 A D^-1/2, as for LaPE. Its eigenvalues are at most 2, so that the kernel is nearly linear in t below
    the default first time of 1/4, and later times need only follow its logarithm: ten of them reach t = 128, when heat
    has spread over graphs of dozens of nodes. An isolated node has exp(-t). Nothing depends on other components.
    """

    kind: ClassVar[str] = "hkdiag"
    algorithm: ClassVar[int] = 1
    viewable: ClassVar[bool] = True

    dim: Annotated[int, Field(ge=1, le=1024), Option(help="Dimension.", metavar="K")] = 10
    first_time: Annotated[
        FiniteFloat, Field(gt=0), Option(help="The first time; each further one is twice as long.", metavar="T")
    ] = 0.25

    @model_validator(mode="after")
    def _times_are_finite(self) -> "HkdiagRecipe":
        if not np.isfinite(self.times[-1]):
            raise ValueError(
                f"the last of {self.dim} times from {self.first_time} on, each twice the one before, is no finite "
                "number; use fewer dimensions or a shorter first_time"
            )
        return self

    @property
    def columns(self) -> int:
        """One for each time."""
        return self.dim

    @property
    def times(self) -> NDArray[np.float64]:
        """The times, (dim,)."""
        with np.errstate(over="ignore"):
            return np.asarray(self.first_time * 2.0 ** np.arange(self.dim), dtype=np.float64)

    def encode(self, indptr: NDArray[np.int64], indices: NDArray[Any]) -> NDArray[np.float64]:
        """Return the diagonals, (N, dim)."""
        return kernels.heat_diagonals(indptr, indices, self.times)
