"""Top eigenpairs of a symmetric operator outside a known subspace: restarted block Lanczos, reproducible bit by bit."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
PATIENCE = 3  # restarts after which missing copies of converged eigenvalues are no longer waited for


@dataclass(frozen=True)
class TopPairs:
    """What `top_eigenpairs` found: all that was wanted, or some of it with only further copies of its values missing.

    Attributes
    ----------
    values : (k,) descending.
    vectors : (n, k) orthonormal, orthogonal to the fixed subspace.
    converged : False if the allowed products did not suffice.
    """

    values: NDArray[np.float64]
    vectors: Matrix
    converged: bool


def top_eigenpairs(
    apply: Callable[[Matrix], Matrix],
    fixed: Matrix,
    count: int,
    *,
    norm: float | None = None,
    above: float = -np.inf,
    block: int = 1,
    basis: int = 48,
    tolerance: float = 1e-14,
    max_products: int,
) -> TopPairs:
    """Largest eigenpairs of `apply` restricted to the orthogonal complement of `fixed`.

    Krylov-Schur restarts with full reorthogonalization. ARPACK would do the same but draws from a generator of its
    own when a Krylov space is exhausted, and knows neither blocks (several copies of an eigenvalue at once) nor
    `above` (a cheap proof that nothing more is there).

    Parameters
    ----------
    apply : maps (n, b) to (n, b); symmetric, and the span of `fixed` is invariant under it.
    fixed : (n, f) orthonormal. n must be at least f + basis + 2 block.
    count : pairs wanted.
    norm : size of the operator's largest eigenvalue, with which residuals are compared; None: the largest found.
    above : if given, all pairs are wanted that are not certainly below this, and the search ends with any of them,
        or with none once it is certain that there are none; `count` then only says how many to keep in restarts.
    block : start vectors, hence copies of one eigenvalue that are seen at once.
    basis : vectors kept, at least count + 4 block.
    max_products : stop unconverged after this many columns were multiplied.
    """
    n, f = fixed.shape
    space = np.empty((n, f + basis + block), order="F")
    space[:, :f] = fixed
    start = np.random.default_rng(0).standard_normal((n, block))
    space[:, f : f + block] = _extend(space[:, :f], start)[0]
    projected = np.zeros((basis + block, basis + block))
    keep = min(count + max(block, count // 2), basis - 2 * block)
    cycles = 0
    size, products = 0, 0  # size: columns already multiplied; the block after them is orthonormal to them
    while True:
        while size + block <= basis:
            image = apply(space[:, f + size : f + size + block])
            products += block
            after = size + block
            following, rest, inside = _extend(space[:, : f + after], image)
            space[:, f + after : f + after + block] = following
            projected[:after, size:after] = inside[f:]
            projected[size:after, :after] = inside[f:].T
            size = after
        ritz, coordinates = np.linalg.eigh(projected[:size, :size])
        ritz, coordinates = ritz[::-1], coordinates[:, ::-1].copy()
        largest = ritz[0] if norm is None else norm
        residuals = _separate_copies(ritz, coordinates, rest, largest)
        limit = count if above == -np.inf else size
        wanted = int(np.sum(np.logical_and.accumulate((ritz + residuals)[:limit] >= above)))
        good = residuals[:wanted] <= tolerance * largest
        cycles += 1
        some = bool(good.any())
        enough = some if above > -np.inf else some and cycles > PATIENCE and _only_copies_lack(ritz[:wanted], good)
        if good.all() or enough or products >= max_products:
            chosen = np.flatnonzero(good)
            vectors = space[:, f : f + size] @ coordinates[:, chosen]
            return TopPairs(ritz[chosen], vectors, bool(good.all()) or enough)
        space[:, f : f + keep] = space[:, f : f + size] @ coordinates[:, :keep]
        space[:, f + keep : f + keep + block] = space[:, f + size : f + size + block].copy()
        projected[:] = 0.0
        np.fill_diagonal(projected[:keep, :keep], ritz[:keep])
        size = keep


def _separate_copies(ritz: NDArray[np.float64], coordinates: Matrix, rest: Matrix, largest: float) -> Matrix:
    """Residual norms of the Ritz pairs, after turning equal ones so that the least residuals come first.

    The residuals of m equal pairs span no more than `block` dimensions: all but that many of a suitable basis have
    none, whereas the basis that an eigensolver happens to give spreads them over all. Changes `coordinates`.
    """
    block = len(rest)
    residuals = rest @ coordinates[-block:]
    norms: NDArray[np.float64] = np.linalg.norm(residuals, axis=0)
    cuts = np.flatnonzero(-np.diff(ritz) > 1e-12 * largest) + 1
    for begin, end in pairwise([0, *cuts.tolist(), len(ritz)]):
        if end - begin > 1:
            _, sizes, turns = np.linalg.svd(residuals[:, begin:end])
            coordinates[:, begin:end] = coordinates[:, begin:end] @ turns[::-1].T
            norms[begin:end] = 0.0
            norms[end - len(sizes) : end] = sizes[::-1]
    return norms


def _only_copies_lack(values: NDArray[np.float64], good: NDArray[np.bool_]) -> bool:
    """Whether every value that has not converged repeats one that has.

    Where an eigenvalue has very many copies, each restart brings in further ones that are not yet accurate; waiting
    for all of them would never end.
    """
    distances = np.abs(values[~good][:, None] - values[good][None, :]).min(axis=1)
    return bool(np.all(distances <= 1e-9 * np.abs(values[~good])))


def _extend(space: Matrix, image: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Split image = space @ inside + following @ rest with `following` orthonormal and orthogonal to `space`.

    Two rounds of Gram-Schmidt leave orthogonality at rounding level. A rank-deficient image (an invariant subspace
    was reached) yields directions made of rounding noise, which serve as new start vectors; they need more rounds.
    """
    inside = space.T @ image
    image = image - space @ inside
    correction = space.T @ image
    image -= space @ correction
    inside += correction
    following, rest = np.linalg.qr(image)
    diagonal = np.abs(np.diag(rest))
    rounds = 1 if diagonal.min(initial=np.inf) > 1e-6 * diagonal.max(initial=0.0) > 0.0 else 3
    for _ in range(rounds):
        following = following - space @ (space.T @ following)
        following, change = np.linalg.qr(following)
        rest = change @ rest
    return following, rest, inside
