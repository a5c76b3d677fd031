"""Batches: graphs picked from blocks, put side by side and numbered through.

Picks of many folds become one batch, which costs hardly more than the batch of one. Nothing here runs once per graph.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leap.store.errors import InvalidInputError
from leap.store.graphs.blocks import Block, Selection, concatenate
from leap.store.graphs.dataset import PARTS
from leap.store.graphs.neighborhoods import Neighborhoods
from leap.store.graphs.ragged import Array, Ids, pointers, spread


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
    edge_attr : (2E, columns) attributes in the order of `edge_index`, float32 or int64 for categories; None where they
        are not read.
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
    edge_attr: Array | None = None

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

    @property
    def columns(self) -> dict[str, str]:
        """What the batch has for each node and graph, in words."""
        caps = {f"cap of {hops} hops": str(hoods.cap) for hops, hoods in self.selection.neighborhoods.items()}
        return self.block.columns | caps

    @property
    def num_nodes(self) -> int:
        """Number of nodes of its graphs."""
        return int(self.block.tables["nodes"].lengths.take(self.places).sum())


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
    selection, block, places = picks[0]
    if len(picks) > 1:
        block = _gathered(picks)
    elif not (selection.dataset.is_node_task and len(block.graphs) == 1):
        block = block.take(places)
    batch = _numbered(selection, block)
    graphs = pointers([len(pick.places) for pick in picks])
    return batch, batch.ptr.take(graphs), graphs


def _gathered(picks: Sequence[Pick]) -> Block:
    """Return the graphs of all picks in order. What lies in one block is taken at once, whatever comes in between."""
    numbers: dict[int, list[int]] = {}  # of the picks of each block
    for number, pick in enumerate(picks):
        numbers.setdefault(id(pick.block), []).append(number)
    if len(numbers) == 1:
        return picks[0].block.take(np.concatenate([pick.places for pick in picks]))
    taken = []
    for own in numbers.values():
        pick = picks[own[0]]
        _check_same_columns(picks[0], pick)
        taken.append(pick.block.take(np.concatenate([picks[number].places for number in own])))
    block, came = concatenate(taken), np.concatenate([*numbers.values()])
    if (came[1:] > came[:-1]).all():
        return block
    sizes = np.array([len(pick.places) for pick in picks])
    starts = np.empty_like(sizes)
    starts[came] = pointers(sizes[came])[:-1]
    return block.take(spread(starts, sizes))


def _check_same_columns(one: Pick, other: Pick) -> None:
    if one.selection is other.selection:
        return
    mine, theirs = one.columns, other.columns
    if mine == theirs:
        return
    name = next(name for name in (mine | theirs) if mine.get(name) != theirs.get(name))
    datasets = [pick.selection.dataset.manifest.dataset for pick in (one, other)]
    raise InvalidInputError(
        f"batches of {datasets[0]!r} and {datasets[1]!r} cannot be one: {name} is {mine.get(name, 'missing')} in the "
        f"first and {theirs.get(name, 'missing')} in the second. Stream the same columns of both."
    )


def _numbered(selection: Selection, block: Block) -> ArrayBatch:
    """Return all graphs of a block as a batch: ids that were counted in each graph are counted in the batch."""
    nodes = block.tables["nodes"]
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
        block.tables["entries"].shift(first)["ids"],
        nodes.columns.get("y") if block.y is None else block.y,
        hoods,
        stats,
        {name: nodes["encoding", name] for name in selection.encodings},
        masks or None,
        block.tables["edge_attr"]["values"] if selection.has_edge_attr else None,
    )
