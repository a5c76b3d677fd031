"""Batches: graphs picked from blocks, put side by side and numbered through.

Picks of many folds become one batch, which costs hardly more than the batch of one. Nothing here runs once per graph.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leap.store.errors import InvalidInputError
from leap.store.graphs.blocks import Block, Selection, join_window
from leap.store.graphs.dataset import PARTS
from leap.store.graphs.neighborhoods import Neighborhoods
from leap.store.graphs.ragged import Array, Ids, pointers


@dataclass(frozen=True, eq=False)
class ArrayBatch:
    """Graphs of a batch side by side, as numpy arrays.

    They are the receiver's own, to keep or to change, except for a node task's, which share memory with what the stream
    keeps.

    Attributes
    ----------
    graphs : (g,) int64, numbers of the graphs in the dataset, in the order of the batch.
    ptr : (g + 1,) int64, graph i owns the nodes ptr[i] to ptr[i + 1] of the batch.
    batch : (n,) int64, graph of each node, 0…g-1.
    x : (n, d) float32, or int64 for categorical features.
    edge_index : (2, 2E) int64, both directions of every edge, sorted by source and target.
    y : (g,) int64 labels or (g, t) float32 targets of graphs, (n,) int64 labels of nodes, or None.
    neighborhoods : by hops, with ids of the batch.
    stats : by hops where they are stored, mean (n, d) and scale (n,) float32.
    encodings : by name, (n, …) float32.
    masks : for node tasks {"train", "val", "test"} -> (n, splits) bool, else None.
    """

    graphs: Ids
    ptr: Ids
    batch: Ids
    x: Array
    edge_index: Ids
    y: Array | None
    neighborhoods: dict[int, Neighborhoods]
    stats: dict[int, tuple[Array, Array]]
    encodings: dict[str, Array]
    masks: dict[str, NDArray[np.bool_]] | None

    @property
    def num_graphs(self) -> int:
        """Number of graphs, empty ones included."""
        return len(self.graphs)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all graphs together."""
        return len(self.x)


class Pick(NamedTuple):
    """The graphs of a batch before it is assembled, which holds on to the block they lie in.

    Attributes
    ----------
    places : (g,) int64, places of the graphs in the block, in the order of the batch.
    """

    selection: Selection
    block: Block
    places: Ids

    @property
    def graphs(self) -> Ids:
        """Numbers of the graphs in the dataset."""
        return self.block.graphs.take(self.places)


def assemble(picks: Sequence[Pick]) -> tuple[ArrayBatch, Ids, Ids]:
    """Return the batches of picks as one batch, their disjoint union in the order of the picks.

    The single batch of a node task is not copied.

    Parameters
    ----------
    picks : at least one; of any streams whose batches have the same columns.

    Returns
    -------
    The union, and two int64 pointers of shape (n + 1,): pick i owns the nodes rows[i] to rows[i + 1] of the union and
    its graphs graphs[i] to graphs[i + 1].

    Raises
    ------
    InvalidInputError
        If there are no picks, or some differ in features, labels, neighbourhoods or encodings.
    """
    if not picks:
        raise InvalidInputError("a batch is assembled from at least one pick. Got none.")
    selection, first = picks[0].selection, picks[0].block
    if len(picks) == 1 and selection.dataset.is_node_task and len(first.graphs) == 1:
        block = first
    else:
        block = join_window(list(_runs(picks)))
    batch = _numbered(selection, block)
    graphs = pointers([len(pick.places) for pick in picks])
    return batch, batch.ptr.take(graphs), graphs


def _runs(picks: Sequence[Pick]) -> Iterator[Block]:
    """Yield the graphs of consecutive picks from one block, taken from it at once."""
    first = picks[0]
    for _, group in groupby(picks, lambda pick: id(pick.block)):
        run = list(group)
        if run[0].selection is not first.selection:
            _check_same_columns(first, run[0])
        yield run[0].block.take(np.concatenate([pick.places for pick in run]) if len(run) > 1 else run[0].places)


def _check_same_columns(one: Pick, other: Pick) -> None:
    mine, theirs = _columns(one), _columns(other)
    if mine == theirs:
        return
    name = next(name for name in (mine | theirs) if mine.get(name) != theirs.get(name))
    datasets = [pick.selection.dataset.manifest.dataset for pick in (one, other)]
    raise InvalidInputError(
        f"batches of {datasets[0]!r} and {datasets[1]!r} cannot be one: {name} is {mine.get(name, 'missing')} in the "
        f"first and {theirs.get(name, 'missing')} in the second. Stream the same columns of both."
    )


def _columns(pick: Pick) -> dict[str, str]:
    """Return what each row of a batch has, in words."""
    arrays: dict[Any, Array] = dict(pick.block.tables["nodes"].columns)
    if pick.block.y is not None:
        arrays["y of graphs"] = pick.block.y
    found = {" ".join(map(str, name)) if isinstance(name, tuple) else name: array for name, array in arrays.items()}
    words = {name: f"{array.dtype} of shape {('n', *array.shape[1:])}" for name, array in found.items()}
    return words | {f"cap of {hops} hops": str(hoods.cap) for hops, hoods in pick.selection.neighborhoods.items()}


def _numbered(selection: Selection, block: Block) -> ArrayBatch:
    """Return all graphs of a block as a batch: ids that were counted in each graph are counted in the batch."""
    nodes, entries = block.tables["nodes"], block.tables["entries"]
    first = nodes.ptr[:-1]
    hoods, stats = {}, {}
    for hops, stored in selection.neighborhoods.items():
        members, edges = block.tables["members", hops], block.tables["edges", hops]
        if len(block.graphs) > 1:
            moved = first.astype(members["ids"].dtype, copy=False)
            members, edges = members.shift(moved), edges.shift(moved)
        node_ptr, edge_ptr = pointers(nodes["members", hops]), pointers(nodes["edges", hops])
        hoods[hops] = Neighborhoods(node_ptr, members["ids"], edge_ptr, edges["ids"], hops, stored.cap)
        if ("mean", hops) in nodes.columns:
            stats[hops] = (nodes["mean", hops], nodes["scale", hops])
    masks = {part: nodes[part] for part in PARTS if part in nodes.columns}
    return ArrayBatch(
        block.graphs,
        nodes.ptr,
        np.arange(len(first)).repeat(nodes.lengths),
        nodes["x"],
        entries.shift(first)["ids"],
        nodes.columns.get("y") if block.y is None else block.y,
        hoods,
        stats,
        {name: nodes["encoding", name] for name in selection.encodings},
        masks or None,
    )
