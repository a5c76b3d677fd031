"""`GraphStream`: batches of a stored dataset, epoch after epoch, in bounded memory.

Each concern has its module: `leap.store.order` says which graphs come when, `leap.store.shards` reads them, and
`leap.store.collate` assembles batches. This one puts them together and decides what stays in memory.
"""

import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leap.store.artifact import Artifact
from leap.store.blocks import Block, gather, join
from leap.store.collate import ArrayBatch, Collator, HoodNames
from leap.store.errors import InvalidInputError
from leap.store.order import Order, Window
from leap.store.selection import Selection, select
from leap.store.shards import ShardReader, read_ahead, shards_of

__all__ = ["ArrayBatch", "GraphStream"]


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
        self._selection = select(dataset, neighborhoods, encodings, with_stats)
        self._shards, starts = shards_of(dataset)
        self.dataset, self.memory_bytes = dataset, memory_bytes
        total = int(starts[-1])
        if self._selection.is_node_task:
            if graphs is not None:
                raise InvalidInputError("a node task is one batch with all nodes; choose among them by its masks.")
            self._order = Order(starts, np.arange(total), max(1, total), max(1, len(self._shards)), shuffle=False)
        else:
            subset = np.arange(total) if graphs is None else _subset(graphs)
            self._order = Order(starts, subset, batch_size, window, shuffle, seed)
        self._forget()

    def _forget(self) -> None:
        self._reader = ShardReader(self._selection)
        self._collator: Collator | None = None
        self._everything: Block | None = None
        self._kept: dict[int, Block] = {}
        self._kept_bytes = 0
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        dropped = {"_reader", "_collator", "_everything", "_kept", "_kept_bytes", "_lock"}
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
        return self._selection.nbytes() * self.num_graphs // max(1, int(self.dataset.manifest.summary["graphs"]))

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
                    yield self._assemble(block, places[cut])
            return
        with closing(read_ahead(partial(self._load_window, window) for window, _ in visits)) as blocks:
            for window, cuts in visits:
                places = order.places(number, window)
                block = next(blocks)
                for cut in cuts:
                    yield self._assemble(block, places[cut])
                del block  # before the next one is waited for

    def _assemble(self, block: Block, places: NDArray[np.int64]) -> ArrayBatch:
        if self._collator is None:
            self._collator = _collator(self._selection)
        return self._collator.assemble(block, places)

    def _load_everything(self) -> Block:
        with self._lock:
            if self._everything is None:
                shards = np.flatnonzero(np.diff(self._order.spans)).tolist()
                self._everything = gather(map(self._read, shards), self._selection.rows())
            return self._everything

    def _load_window(self, window: Window) -> Block:
        return join([self._kept[shard].copy() if shard in self._kept else self._read(shard) for shard in window.shards])

    def _read(self, number: int) -> Block:
        low, high = self._order.spans[number : number + 2]
        block = self._reader.read(self._shards[number], self._order.subset[low:high])
        if not self.fits_in_memory:
            self._keep(number, block)
        return block

    def _keep(self, number: int, block: Block) -> None:
        """Keep a shard for later epochs while there is room; order is random, so whichever came first is as good."""
        size = block.nbytes()
        with self._lock:
            room = self.memory_bytes - 2 * self.window_bytes - self._kept_bytes
            if size <= room and number not in self._kept:
                self._kept[number] = block.copy()
                self._kept_bytes += size


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


def _collator(selection: Selection) -> Collator:
    hoods = []
    for hops, artifact in selection.neighborhoods.items():
        columns = (f"mean{hops}", f"scale{hops}") if hops in selection.stats else (None, None)
        hoods.append(HoodNames(hops, artifact.params["cap"], f"members{hops}", f"edges{hops}", *columns))
    masks = {name.removesuffix("_mask"): name for name in selection.node_columns if name.endswith("_mask")}
    return Collator(
        hoods,
        {name: f"encoding {name}" for name in selection.encodings},
        masks or None,
        node_labels="y" in selection.node_columns,
        shares=selection.is_node_task,
    )
