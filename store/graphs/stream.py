"""`GraphStream`: batches of a stored dataset, epoch after epoch, in bounded memory.

Each concern has its module: `order` says which graphs come when, `blocks` reads them, `batches` assembles them. This
one puts the three together and decides what stays in memory.
"""

import copy
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
from leap.store.graphs.batches import ArrayBatch, Pick, assemble
from leap.store.graphs.blocks import Block, Selection, join, join_window
from leap.store.graphs.dataset import StoredGraphs
from leap.store.graphs.order import Order, Window
from leap.store.graphs.ragged import Array, Ids

T = TypeVar("T")


class Memory:
    """What a stream and all its parts have in memory together.

    Parameters
    ----------
    graphs : ascending numbers of the graphs that the streams visit.
    window : shards that a stream reads at a time where not everything fits.
    """

    def __init__(self, selection: Selection, graphs: Ids, window: int, limit: int) -> None:
        self.selection, self.graphs, self.window, self.limit = selection, graphs, window, limit
        self.shards = selection.dataset.shards
        # Shard s owns the positions spans[s] to spans[s + 1] of the graphs.
        self.spans: Ids = np.searchsorted(graphs, selection.dataset.graph_ranges).astype(np.int64)
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

    def bytes_of(self, graphs: int) -> int:
        """Bytes that so many graphs take, estimated as if all were of one size."""
        return self.selection.nbytes * graphs // max(1, self.selection.dataset.num_graphs)

    @property
    def holds_everything(self) -> bool:
        """Whether all graphs fit."""
        return self.bytes_of(len(self.graphs)) <= self.limit

    def everything(self) -> Block:
        """Return all graphs, read when first asked for."""
        with self._lock:
            if self._everything is None:
                used = np.flatnonzero(np.diff(self.spans)).tolist()
                self._everything = join(map(self._read, used), self.selection.rows())
            return self._everything

    def some(self, number: int, graphs: Ids) -> Block:
        """Return graphs of a shard, by their ascending numbers in the dataset."""
        block = self._kept.get(number)
        if block is None:
            block = self._read(number)
            self._keep(number, block)
        return block if len(graphs) == len(block.graphs) else block.take(np.searchsorted(block.graphs, graphs))

    def _read(self, number: int) -> Block:
        if self._labels is None and not self.selection.dataset.is_node_task:
            self._labels = self.selection.dataset.labels()
        low, high = self.spans[number : number + 2]
        return self.selection.read(self.shards[number], self.graphs[low:high], self._labels)

    def _keep(self, number: int, block: Block) -> None:
        """Keep a shard for later epochs while there is room; order is random, so whichever came first is as good."""
        size, needed = block.nbytes, 2 * _window_bytes(self.bytes_of(len(self.graphs)), self.spans, self.window)
        with self._lock:
            if size <= self.limit - needed - self._kept_bytes and number not in self._kept:
                self._kept[number] = block
                self._kept_bytes += size


def _window_bytes(nbytes: int, spans: Ids, window: int) -> int:
    shards = int(np.count_nonzero(np.diff(spans)))
    return nbytes * min(window, shards) // max(1, shards)


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
    with_edge_attr : read the attributes of the edges, which the dataset must have then.

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

    Parts of a stream, such as folds, share its memory, and their batches can be made one:

    >>> folds = [stream.part(range(first, 2250, 2), batch_size=16, seed=first) for first in range(2)]
    >>> union, rows, graphs = assemble([next(fold.picks(0)) for fold in folds])
    >>> graphs.tolist(), int(rows[2]) == union.num_nodes
    ([0, 16, 32], True)
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
        with_edge_attr: bool = False,
    ) -> None:
        self._selection = Selection.of(dataset, neighborhoods, encodings, with_stats, with_edge_attr)
        self._order = _order(self._selection.dataset, graphs, batch_size, window, shuffle, seed)
        self._memory = Memory(self._selection, self._order.subset, self._order.window, memory_bytes)

    def part(
        self, graphs: ArrayLike | None = None, *, batch_size: int = 16, shuffle: bool = True, seed: int = 0
    ) -> "GraphStream":
        """Return a stream over some of the graphs that has everything in memory together with this one.

        Its batches are those of a stream made for these graphs alone. Where all graphs of this stream fit into its
        `memory_bytes`, they are read once for all parts, by whichever needs them first; otherwise parts share the
        partitions that are kept, and each has two windows of its own while it is iterated.

        Parameters
        ----------
        graphs : numbers of graphs that this stream visits, in any order. Default: all of them.
        batch_size, shuffle, seed : as for a stream.

        Raises
        ------
        InvalidInputError
            If this stream does not visit one of the graphs, or a parameter means nothing.
        """
        own = self._order.subset
        chosen = own if graphs is None and not self.dataset.is_node_task else graphs
        order = _order(self.dataset, chosen, batch_size, self._order.window, shuffle, seed)
        missing = np.setdiff1d(order.subset, own)
        if len(missing):
            raise InvalidInputError(
                f"a part has graphs of its stream only, and {self!r} does not visit graph {missing[0]}."
            )
        part = copy.copy(self)
        part._order = order
        return part

    def __repr__(self) -> str:
        order, chosen = self._order, self._selection
        names = [*(f"{hops}-hop" for hops in chosen.neighborhoods), *chosen.encodings]
        return (
            f"GraphStream({self.dataset.manifest.dataset!r}, [{', '.join(names)}], graphs={self.num_graphs}, "
            f"batch_size={order.batch_size}, shuffle={order.shuffle}, seed={order.seed}, window={order.window})"
        )

    @property
    def dataset(self) -> StoredGraphs:
        """The dataset whose graphs are visited."""
        return self._selection.dataset

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
        """Bytes that its graphs take in memory, estimated as if all graphs were of one size."""
        return self._memory.bytes_of(self.num_graphs)

    @property
    def window_bytes(self) -> int:
        """Bytes of one window, estimated likewise; where not everything fits, two are in memory at a time."""
        return _window_bytes(self.nbytes, self._order.spans, self._order.window)

    @property
    def fits_in_memory(self) -> bool:
        """Whether everything stays in memory after it was read once; of a part, everything of its stream."""
        return self._memory.holds_everything

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
        return _assembled(self.picks(number, start, step=step))

    def picks(self, number: int, start: int = 0, *, step: int = 1) -> Generator[Pick, None, None]:
        """Return what `epoch` does before it is assembled: `assemble` makes one batch of the picks of many streams.

        A pick holds on to the window that it was read with, so drop it before the next one where memory is scarce.
        """
        for name, value, least in (("epoch number", number, 0), ("start", start, 0), ("step", step, 1)):
            if value < least:
                raise InvalidInputError(f"{name} must be at least {least}. Got {value}.")
        return self._picks(number, start, step)

    def _picks(self, number: int, start: int, step: int) -> Generator[Pick, None, None]:
        order, selection = self._order, self._selection
        visits = [(window, cuts) for window in order.windows(number) if (cuts := list(order.cuts(window, start, step)))]
        if not visits:
            return
        if self.fits_in_memory:
            block = self._memory.everything()
            own = np.searchsorted(block.graphs, order.subset)
            for window, cuts in visits:
                places = own[order.positions(number, window)]
                for cut in cuts:
                    yield Pick(selection, block, places[cut])
            return
        with closing(read_ahead(partial(self._load_window, window) for window, _ in visits)) as blocks:
            for window, cuts in visits:
                places = order.places(number, window)
                block = next(blocks)
                for cut in cuts:
                    yield Pick(selection, block, places[cut])
                del block  # before the next one is waited for

    def _load_window(self, window: Window) -> Block:
        return join_window([self._memory.some(shard, self._order.members(shard)) for shard in window.shards])


def _assembled(picks: Generator[Pick, None, None]) -> Generator[ArrayBatch, None, None]:
    with closing(picks):
        for pick in picks:
            batch, _, _ = assemble([pick])
            del pick  # before the next window is waited for
            yield batch
            del batch


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


def _order(
    dataset: StoredGraphs, graphs: ArrayLike | None, batch_size: int, window: int, shuffle: bool, seed: int
) -> Order:
    starts, total = dataset.graph_ranges, dataset.num_graphs
    if dataset.is_node_task:
        if graphs is not None:
            raise InvalidInputError("a node task is one batch with all nodes; choose among them by its masks.")
        return Order(starts, np.arange(total), max(1, total), max(1, len(dataset.shards)), shuffle=False)
    subset = np.arange(total) if graphs is None else _subset(graphs)
    return Order(starts, subset, batch_size, window, shuffle, seed)


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
