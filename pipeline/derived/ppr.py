"""PageRank encoding: how probable it is that a walk which may end before each step ends where it began."""

from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from leap.models import kernels
from leap.pipeline.derived.dense import DenseRecipe
from leap.store.option import Option


class PprRecipe(DenseRecipe):
    """Diagonal of personalized PageRank for `dim` probabilities of ending, of which each is half the one before.

    With probability alpha the matrix is alpha (I - (1 - alpha) D^-1 A)^-1: walks of 1 / alpha - 1 steps on average, so
    that the default of 1/2, 1/4, … sees one step, three, seven and so on. D^-1 is 0 for an isolated node, which has
    alpha. Nothing depends on other components.
    """

    kind: ClassVar[str] = "ppr"
    algorithm: ClassVar[int] = 1
    viewable: ClassVar[bool] = True

    dim: Annotated[int, Field(ge=1, le=1024), Option(help="Dimension.", metavar="K")] = 10
    first_alpha: Annotated[
        float,
        Field(gt=1e-15, lt=1),
        Option(help="The first probability of ending; each further one is half of it.", metavar="P"),
    ] = 0.5

    @property
    def columns(self) -> int:
        """One for each probability."""
        return self.dim

    @property
    def alphas(self) -> NDArray[np.float64]:
        """The probabilities, (dim,)."""
        return np.asarray(self.first_alpha * 0.5 ** np.arange(self.dim), dtype=np.float64)

    def encode(self, indptr: NDArray[np.int64], indices: NDArray[Any]) -> NDArray[np.float64]:
        """Return the diagonals, (N, dim)."""
        return kernels.pagerank_diagonals(indptr, indices, self.alphas)
