"""`GraphStream`: batches of a stored dataset, epoch after epoch, in bounded memory.

Each concern has its module: `order` says which graphs come when, `blocks` reads them and assembles batches. This one
puts the two together and decides what stays in memory.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leap.store.artifact import Artifact
from leap.store.errors import InvalidInputError
from leap.store.graphs.blocks import ArrayBatch, Block, Selection, join, join_window
from leap.store.graphs.order import Order, Window
from leap.store.graphs.ragged import Array

__all__ = ["ArrayBatch", "GraphStream"]

T = TypeVar("T")


class GraphStream:
    """Batches of a dataset with its neighbourhoods and encodings.

    Which graphs a batch has, and their order, depend on `graphs`, `batch_size`, `shuffle`, `seed`, `window` and the
    epoch alone: never on the memory or on who reads. What fits into `memory_bytes` stays in memory from one epoch to
    the next. If that is not everything, the windows are read one ahead in the background, and two of them are in
    memory at a time even if `memory_bytes` is less: choose `window`, and the size of the dataset's partitions, by that.

    A stream reads nothing before its first batch. It can be sent to another process, without what it has in memory.

    Parameters
    ----------
    dataset : a dataset artifact.
    neighborhoods : artifacts of neighbourhoods, of different hops.
    encodings : artifacts of encodings. A batch has them under their kinds, or under the names of a mapping.
    graphs : numbers of the graphs to visit, in any order, such as the training part of a fold. Default: all.
    batch_size : graphs of a batch. Batches are cut inside a window, whose last batch may be smaller.
    shuffle : without it, graphs come in ascending order.
    seed : of the shuffling.
    window : how many partitions of the dataset are mixed with each other; a dataset of no more is shuffled completely.
    memory_bytes : memory for what is read.
    with_stats : read mean and scale of each neighbourhood where they are stored.

    Raises
    ------
    InvalidInputError
        If an artifact belongs to another dataset, two have the same name, or a parameter means nothing.

    Notes
    -----
    A node task is a single batch with all nodes in their order, whatever the other parameters.

    Examples
    --------
    >>> import tempfile
    >>> from leap.pipeline import Context, extract
    >>> from leap.store import Store
    >>> store = Store.open(tempfile.mkdtemp())
    >>> made = extract("letters-low", hops=1, context=Context(store=store))
    >>> stream = GraphStream(store.get(made["dataset"].key), [store.get(made["neighborhoods"].key)], batch_size=32)
    >>> stream.batches(0)
    71
    >>> batch = next(stream.epoch(0))
    >>> batch.num_graphs, batch.neighborhoods[1].num_nodes == batch.num_nodes
    (32, True)
    """

    def __init__(
        self,
        dataset: Artifact,
        neighborhoods: Sequence[Artifact] = (),
        encodings: Sequence[Artifact] | Mapping[str, Artifact] = (),
        *,
        graphs: ArrayLike | None = None,
        batch_size: int = 16,
        shuffle: bool = True,
        seed: int = 0,
        window: int = 8,
        memory_bytes: int = 2 * 2**30,
        with_stats: bool = True,
    ) -> None:
        self._selection = Selection.of(dataset, neighborhoods, encodings, with_stats)
        self.dataset, self.memory_bytes = self._selection.dataset, memory_bytes
        self._shards, starts = self.dataset.shards, self.dataset.graph_ranges
        total = self.dataset.num_graphs
        if self.dataset.is_node_task:
            if graphs is not None:
                raise InvalidInputError("a node task is one batch with all nodes; choose among them by its masks.")
            self._order = Order(starts, np.arange(total), max(1, total), max(1, len(self._shards)), shuffle=False)
        else:
            subset = np.arange(total) if graphs is None else _subset(graphs)
            self._order = Order(starts, subset, batch_size, window, shuffle, seed)
        self._forget()

    def _forget(self) -> None:
        self._labels: Array | None = None
        self._everything: Block | None = None
        self._kept: dict[int, Block] = {}
        self._kept_bytes = 0
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        dropped = {"_labels", "_everything", "_kept", "_kept_bytes", "_lock"}
        return {name: value for name, value in self.__dict__.items() if name not in dropped}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __repr__(self) -> str:
        order, chosen = self._order, self._selection
        names = [*(f"{hops}-hop" for hops in chosen.neighborhoods), *chosen.encodings]
        return (
            f"GraphStream({self.dataset.manifest.dataset!r}, [{', '.join(names)}], graphs={self.num_graphs}, "
            f"batch_size={order.batch_size}, shuffle={order.shuffle}, seed={order.seed}, window={order.window})"
        )

    @property
    def num_graphs(self) -> int:
        """Graphs that an epoch visits."""
        return len(self._order.subset)

    @property
    def encoding_names(self) -> list[str]:
        """Names under which a batch has its encodings."""
        return list(self._selection.encodings)

    @property
    def nbytes(self) -> int:
        """Bytes that all of it takes in memory, estimated as if all graphs were of one size."""
        return self._selection.nbytes * self.num_graphs // max(1, self.dataset.num_graphs)

    @property
    def window_bytes(self) -> int:
        """Bytes of one window, estimated likewise; where not everything fits, two are in memory at a time."""
        shards = int(np.count_nonzero(np.diff(self._order.spans)))
        return self.nbytes * min(self._order.window, shards) // max(1, shards)

    @property
    def fits_in_memory(self) -> bool:
        """Whether everything stays in memory after it was read once."""
        return self.nbytes <= self.memory_bytes

    def batches(self, number: int) -> int:
        """Return how many batches an epoch has; with several windows, epochs may differ by a few."""
        return self._order.batches(number)

    def epoch(self, number: int, start: int = 0, *, step: int = 1) -> Iterator[ArrayBatch]:
        """Return the batches start, start + step, … of an epoch; those left out are not assembled.

        Close the iterator to end early: that stops reading ahead.

        Raises
        ------
        DamagedArtifactError
            While iterating, if stored bytes are not those that were published.
        """
        for name, value, least in (("epoch number", number, 0), ("start", start, 0), ("step", step, 1)):
            if value < least:
                raise InvalidInputError(f"{name} must be at least {least}. Got {value}.")
        return self._iterate(number, start, step)

    def _iterate(self, number: int, start: int, step: int) -> Generator[ArrayBatch, None, None]:
        order = self._order
        visits = [(window, cuts) for window in order.windows(number) if (cuts := list(order.cuts(window, start, step)))]
        if not visits:
            return
        if self.fits_in_memory:
            block = self._load_everything()
            for window, cuts in visits:
                places = order.positions(number, window)
                for cut in cuts:
                    yield self._selection.collate(block, places[cut])
            return
        with closing(read_ahead(partial(self._load_window, window) for window, _ in visits)) as blocks:
            for window, cuts in visits:
                places = order.places(number, window)
                block = next(blocks)
                for cut in cuts:
                    yield self._selection.collate(block, places[cut])
                del block  # before the next one is waited for

    def _load_everything(self) -> Block:
        with self._lock:
            if self._everything is None:
                shards = np.flatnonzero(np.diff(self._order.spans)).tolist()
                self._everything = join(map(self._read, shards), self._selection.rows())
            return self._everything

    def _load_window(self, window: Window) -> Block:
        return join_window([self._kept.get(shard) or self._read(shard) for shard in window.shards])

    def _read(self, number: int) -> Block:
        if self._labels is None and not self.dataset.is_node_task:
            self._labels = self.dataset.labels()
        low, high = self._order.spans[number : number + 2]
        block = self._selection.read(self._shards[number], self._order.subset[low:high], self._labels)
        if not self.fits_in_memory:
            self._keep(number, block)
        return block

    def _keep(self, number: int, block: Block) -> None:
        """Keep a shard for later epochs while there is room; order is random, so whichever came first is as good."""
        size = block.nbytes
        with self._lock:
            room = self.memory_bytes - 2 * self.window_bytes - self._kept_bytes
            if size <= room and number not in self._kept:
                self._kept[number] = block
                self._kept_bytes += size


def read_ahead(jobs: Iterable[Callable[[], T]]) -> Generator[T, None, None]:
    """Yield the results of the jobs in order, each worked on in a thread while the one before it is used.

    No more than one result waits. Closing the generator waits for the job under way and leaves no thread behind.
    """
    with ThreadPoolExecutor(1, "leap-read-ahead") as thread:
        pending: Future[T] | None = None
        for job in jobs:
            result = None if pending is None else pending.result()
            is_first, pending = pending is None, thread.submit(job)
            if not is_first:
                yield cast(T, result)
            del result  # the one who asked for it may drop it now
        if pending is not None:
            yield pending.result()


def _subset(graphs: ArrayLike) -> NDArray[np.int64]:
    given = np.asarray(graphs)
    if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
        raise InvalidInputError(
            f"graphs must be integers of shape (n,). Got {given.dtype} of shape {given.shape}; "
            "np.flatnonzero turns a mask into numbers."
        )
    chosen: NDArray[np.int64] = np.unique(given.astype(np.int64))
    if len(chosen) != len(given):
        raise InvalidInputError(f"graphs names {len(given) - len(chosen)} graphs more than once. Name each once.")
    return chosen
