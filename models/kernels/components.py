"""Connected components, for what is computed from a dense matrix of each."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse.linalg  # noqa: F401  its BLAS must be loaded before it can be limited
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from threadpoolctl import threadpool_limits

from leap.models.kernels.border import graphs_arrays
from leap.store.errors import InvalidInputError
from leap.store.graphs.ragged import pointers

LARGEST_DENSE = 2048  # nodes of a component up to which all of its matrix is computed, in seconds
SECONDS = 5e-10  # times the cube of the nodes: all eigenvectors
STACK_BYTES = 16 * 2**20
# The number of BLAS threads is the process's, and the first thread that leaves would lift the limit for the others:
# threads of one process take turns. Processes are what solves in parallel.
_LIMITING_BLAS = Lock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, so that no bit depends on their number; threads that ask at once take turns."""
    with _LIMITING_BLAS, threadpool_limits(limits=1, user_api="blas"):
        yield


@dataclass(frozen=True)
class Components:
    """Connected components of all graphs, ordered by their lowest node.

    Attributes
    ----------
    member_ptr : (C + 1,) component c owns members[member_ptr[c]:member_ptr[c + 1]].
    members : (N,) nodes, ascending inside a component.
    rank : (N,) place of a node in its component.
    """

    member_ptr: NDArray[np.int64]
    members: NDArray[np.int64]
    rank: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Nodes of each component."""
        return np.diff(self.member_ptr)

    def stacks(self, largest: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the numbers (b,) and members (b, n) of components of 2 to `largest` nodes, equally large ones together.

        A dense matrix of each component of a stack takes at most `STACK_BYTES` in all, unless it is one component.
        """
        sizes = self.sizes
        for size in np.unique(sizes[(sizes > 1) & (sizes <= largest)]):
            which = np.flatnonzero(sizes == size)
            stack = max(1, STACK_BYTES // (8 * int(size) ** 2))
            for begin in range(0, len(which), stack):
                some = which[begin : begin + stack]
                yield some, self.members[self.member_ptr[some][:, None] + np.arange(size)]


def components_of(indptr: NDArray[np.int64], indices: NDArray[Any]) -> Components:
    """Return the components of a symmetric CSR adjacency."""
    n = len(indptr) - 1
    graph = csr_array((np.ones(len(indices), np.int8), indices, indptr), shape=(n, n))
    _, label = connected_components(graph, directed=False)
    _, first, label = np.unique(label, return_index=True, return_inverse=True)
    by_first = np.empty(len(first), np.int64)
    by_first[np.argsort(first)] = np.arange(len(first))
    label = by_first[label]
    members = np.argsort(label, kind="stable")
    member_ptr = pointers(np.bincount(label, minlength=len(first)))
    rank = np.empty(n, np.int64)
    rank[members] = np.arange(n) - member_ptr[label[members]]
    return Components(member_ptr, members, rank)


def small_components(
    indptr: ArrayLike, indices: ArrayLike, *, largest: int = LARGEST_DENSE, where: str = "the graph"
) -> tuple[NDArray[np.int64], NDArray[Any], Components]:
    """Return an adjacency in the form that kernels take, and its components, none with more than `largest` nodes.

    Raises
    ------
    InvalidInputError
        If a component has more, with what it would take; or for arrays that are no symmetric adjacency.
    """
    indptr, indices, _ = graphs_arrays(indptr, indices, np.array([0, max(np.size(indptr) - 1, 0)]))
    parts = components_of(indptr, indices)
    size = int(parts.sizes.max(initial=0))
    if size > largest:
        raise InvalidInputError(
            f"{where} has a component of {size:,} nodes, and exact numbers need a dense matrix of each component: here "
            f"about {_duration(SECONDS * float(size) ** 3)} and {24 * float(size) ** 2 / 2**30:.3g} GiB of memory. The "
            f"limit is {largest:,} nodes. Use an encoding without this limit, such as rwpe or lape."
        )
    return indptr, indices, parts


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"
