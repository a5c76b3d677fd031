"""The order of graphs in every epoch: a pure function of seed, epoch, subset and window, and of nothing else.

Shards, runs of whole graphs, are shuffled and dealt into windows; graphs are shuffled inside their window and cut into
batches there. How much memory there is and who reads the batches never enters.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leap.store.errors import InvalidInputError


@dataclass(frozen=True)
class Window:
    """Shards whose graphs are mixed with each other, and the batches that they become.

    Attributes
    ----------
    number : position of the window in its epoch.
    shards : numbers of its shards, ascending.
    size : its graphs, of the subset.
    first_batch, batches : number of its first batch in the epoch, and how many it has.
    """

    number: int
    shards: tuple[int, ...]
    size: int
    first_batch: int
    batches: int


class Order:
    """The order in which a subset of the graphs is visited.

    Parameters
    ----------
    starts : (S + 1,) first graph of each shard, and the end of the last; ascending.
    subset : (n,) int64, ascending numbers of the graphs to visit.
    batch_size : graphs of a batch; the last batch of a window may have fewer.
    window : shards that are mixed with each other. No more shards than this: everything is shuffled completely.
    shuffle : without it, graphs come in ascending order.
    seed : of the shuffling.

    Raises
    ------
    InvalidInputError
        For a subset that is not ascending or names graphs that are not there, and for sizes that mean nothing.

    Examples
    --------
    >>> import numpy as np
    >>> order = Order(np.array([0, 4, 8]), np.arange(8), batch_size=3, window=1, shuffle=False)
    >>> [order.graphs(0, window).tolist() for window in order.windows(0)]
    [[0, 1, 2, 3], [4, 5, 6, 7]]
    >>> order.batches(0)
    4
    """

    def __init__(
        self,
        starts: NDArray[np.int64],
        subset: NDArray[np.int64],
        batch_size: int,
        window: int,
        shuffle: bool = True,
        seed: int = 0,
    ) -> None:
        for name, value, least in (("batch_size", batch_size, 1), ("window", window, 1), ("seed", seed, 0)):
            if value < least:
                raise InvalidInputError(f"{name} must be at least {least}. Got {value}.")
        if subset.ndim != 1 or (len(subset) > 1 and not (subset[1:] > subset[:-1]).all()):
            raise InvalidInputError("a subset has the number of each of its graphs once, in ascending order.")
        if len(subset) and not starts[0] <= subset[0] <= subset[-1] < starts[-1]:
            raise InvalidInputError(
                f"graphs are numbered {starts[0]} to {starts[-1] - 1}, and the subset has {subset[0]} to {subset[-1]}."
            )
        self.subset = subset
        self.batch_size, self.window, self.shuffle, self.seed = batch_size, window, shuffle, seed
        # Shard s owns the positions spans[s] to spans[s + 1] of the subset.
        self.spans: NDArray[np.int64] = np.searchsorted(subset, starts).astype(np.int64)
        self._used = np.flatnonzero(self.spans[1:] > self.spans[:-1])

    def windows(self, epoch: int) -> list[Window]:
        """Return the windows of an epoch, in order; shards without a graph of the subset are left out."""
        shards = self._used[self._permutation(len(self._used), epoch)] if self.shuffle else self._used
        found, at = [], 0
        for number, first in enumerate(range(0, len(shards), self.window)):
            chosen = np.sort(shards[first : first + self.window])
            size = int((self.spans[chosen + 1] - self.spans[chosen]).sum())
            batches = -(-size // self.batch_size)
            found.append(Window(number, tuple(chosen.tolist()), size, at, batches))
            at += batches
        return found

    def batches(self, epoch: int) -> int:
        """Return the number of batches of an epoch; windows of other shards may round up differently."""
        return sum(window.batches for window in self.windows(epoch))

    def members(self, shard: int) -> NDArray[np.int64]:
        """Return the numbers of a shard's graphs that are in the subset, ascending."""
        return self.subset[self.spans[shard] : self.spans[shard + 1]]

    def places(self, epoch: int, window: Window) -> NDArray[np.int64]:
        """Return the order of a window's graphs as (size,) positions among them, counted in ascending order."""
        if not self.shuffle:
            return np.arange(window.size, dtype=np.int64)
        return self._permutation(window.size, epoch, window.number + 1)

    def positions(self, epoch: int, window: Window) -> NDArray[np.int64]:
        """Return the order of a window's graphs as (size,) positions in the subset."""
        members = np.concatenate([np.arange(self.spans[s], self.spans[s + 1]) for s in window.shards])
        return members[self.places(epoch, window)]

    def graphs(self, epoch: int, window: Window) -> NDArray[np.int64]:
        """Return the numbers of a window's graphs in their order."""
        return self.subset[self.positions(epoch, window)]

    def cuts(self, window: Window, start: int = 0, step: int = 1) -> Iterator[slice]:
        """Yield what belongs to each batch of a window, of those numbered start, start + step, … in the epoch."""
        end = window.first_batch + window.batches
        first = start if start >= window.first_batch else window.first_batch + (start - window.first_batch) % step
        for batch in range(first, end, step):
            at = (batch - window.first_batch) * self.batch_size
            yield slice(at, min(at + self.batch_size, window.size))

    def _permutation(self, size: int, *path: int) -> NDArray[np.int64]:
        # Sorting raw random bits, because NumPy promises their stream for all its versions and no other.
        source = np.random.PCG64(np.random.SeedSequence([self.seed, *path]))
        keys = source.random_raw(size)
        return np.argsort(keys, kind="stable").astype(np.int64, copy=False)
