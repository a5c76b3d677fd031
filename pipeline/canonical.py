"""Raw graphs to canonical ones: undirected, coalesced, loop-free, checked, with features and coded labels."""

import itertools
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leap.models import kernels
from leap.pipeline.datasets.labels import check_codes
from leap.pipeline.graphs import RawGraphs
from leap.store.errors import InvalidInputError
from leap.store.graphs import Graphs
from leap.store.graphs.ragged import pointers
from leap.store.graphs.tasks import NO_LABEL, is_graph_task, is_node_task, is_regression

FeatureChoice = Literal["degree", "constant", "rwpe"]

RWPE_FEATURE_STEPS = 10
"""Columns of the random-walk features that stand in for missing ones."""

_ROWS_AT_ONCE = 1 << 20
MOST_SPLITS = 100
"""Official splits of a graph task; as many as folds of cross-validation."""

_DIGITS = 1e12  # to which targets are told apart; float64 has nearly 16 digits, float32 seven
_LEAST_KEPT = 0.5  # of the distinct values of a target; some are equal in float32 in ordinary data, too


def canonicalize(raw: RawGraphs, *, features: FeatureChoice = "degree", drop_empty: bool = False) -> Graphs:
    """Bring raw graphs into canonical form, or say what is wrong with them.

    Parameters
    ----------
    raw : as a reader returned them.
    features : what stands in where the data has no features: "degree" (one column), "constant" (ones, one
        column) or "rwpe" (return probabilities of `RWPE_FEATURE_STEPS` random-walk steps).
    drop_empty : remove graphs without nodes, together with their labels.

    Returns
    -------
    Graphs
        Float features become float32, integer ones int64 (categories); labels become 0…C-1 by the sorted
        original values, kept in `classes`. `summary` holds JSON values:

        graphs, nodes, edges : counts, each undirected edge once;
        features, classes, targets : columns, and whichever of the other two the task has;
        empty_graphs : graphs without nodes that are kept;
        official_splits : how many a graph task has, if any;
        dropped_empty_graphs : graphs that `drop_empty` removed;
        isolated_nodes, max_degree : after clean-up;
        self_loops_dropped : listed entries (i, i);
        duplicate_edges_merged : listed entries, self-loops apart, beyond the first of each *ordered* pair
            (i, j). An edge listed once, or once in each direction, counts 0; listed as (i, j), (i, j), (j, i)
            it counts 1;
        notes : what the reader had to say.

    Raises
    ------
    InvalidInputError
        Node ids out of range, an edge between two graphs, features that are not finite or do not fit the
        nodes, labels that do not fit the graphs or nodes, targets that float32 does not hold or tell apart,
        labels of a multi-label task that are neither 0 nor 1 nor missing, masks of another shape, official splits
        whose parts overlap or are empty, targets missing where a mask needs them, no node at all.
    """
    counts = _checked_counts(raw.node_counts)
    num_nodes = int(counts.sum())
    _check_edges(raw.edges, counts, num_nodes)
    _check_rows(raw, num_nodes)
    y, classes = _coded_labels(raw, len(counts), num_nodes)
    masks = _checked_masks(raw, len(counts), num_nodes)
    _check_masked_targets(y, masks, raw.task)

    adjacency = kernels.build_csr(raw.edges, num_nodes)
    degrees = np.diff(adjacency.indptr)
    if raw.x is None:
        x = _substitute(features, adjacency.indptr, adjacency.indices)
        source: str = features
    else:
        x, source = _checked_features(raw.x, raw.node_counts), raw.feature_source

    edge_attr, merged = _sorted_attributes(raw, adjacency.indptr, adjacency.indices)
    empty = counts == 0
    dropped = int(empty.sum()) if drop_empty else 0
    if dropped:
        counts = counts[~empty]
        if is_graph_task(raw.task):
            y = None if y is None else y[~empty]
            masks = None if masks is None else {part: mask[~empty] for part, mask in masks.items()}
    summary: dict[str, Any] = {
        "graphs": len(counts),
        "nodes": num_nodes,
        "edges": len(adjacency.indices) // 2,
        "features": int(x.shape[1]),
        "empty_graphs": int(empty.sum()) - dropped,
        "dropped_empty_graphs": dropped,
        "isolated_nodes": int((degrees == 0).sum()),
        "max_degree": int(degrees.max(initial=0)),
        "self_loops_dropped": adjacency.self_loops,
        "duplicate_edges_merged": adjacency.duplicates,
        "notes": dict(raw.notes),
    }
    if classes is not None:
        summary["classes"] = len(classes)
    elif y is not None:
        summary["targets"] = int(y.shape[1])
    if masks is not None and is_graph_task(raw.task):
        _check_splits(masks)
        summary["official_splits"] = int(masks["train"].shape[1])
    return Graphs(
        node_ptr=pointers(counts),
        indptr=adjacency.indptr,
        indices=adjacency.indices,
        x=x,
        y=y,
        task=raw.task,
        classes=classes,
        masks=masks,
        feature_source=source,
        summary=summary,
        edge_attr=edge_attr,
        plans_edge_attr=raw.plans_edge_attr,
        pos=raw.pos,
        remarks=(*raw.remarks, *merged),
    )


def _sorted_attributes(
    raw: RawGraphs, indptr: NDArray[np.int64], indices: NDArray[Any]
) -> tuple[NDArray[Any] | None, list[str]]:
    """Return the attributes of each entry of the adjacency, and a remark where repeated entries contradict each other.

    An entry has the attributes of the first listed pair (i, j), else of the first (j, i).
    """
    if raw.edge_attr is None or not len(raw.edge_attr):
        return raw.edge_attr, []
    nodes = np.int64(len(indptr) - 1)
    source, target = raw.edges.astype(np.int64)
    pairs, first, number = np.unique(source * nodes + target, return_index=True, return_inverse=True)
    owner = np.arange(nodes).repeat(np.diff(indptr))
    place = np.searchsorted(pairs, owner * nodes + indices)
    is_listed = pairs.take(place, mode="clip") == owner * nodes + indices
    reverse = np.searchsorted(pairs, indices * nodes + owner)
    rows = np.where(is_listed, first.take(place, mode="clip"), first.take(reverse, mode="clip"))
    kept = raw.edge_attr[first[number.reshape(-1)]]
    is_same = (kept == raw.edge_attr) | ((kept != kept) & (raw.edge_attr != raw.edge_attr))
    others = int((~is_same.reshape(len(is_same), -1).all(axis=1) & (source != target)).sum())
    if not others:
        return raw.edge_attr[rows], []
    entries = "1 repeated entry" if others == 1 else f"{others:,} repeated entries"
    return raw.edge_attr[rows], [
        f"{entries} of edge_index with other edge_attr than the first for the same two nodes: the first counts."
    ]


def _checked_counts(node_counts: NDArray[Any]) -> NDArray[np.int64]:
    counts = np.asarray(node_counts, dtype=np.int64)
    if counts.ndim != 1 or (counts < 0).any():
        raise InvalidInputError(f"node counts must be one non-negative number per graph. Got shape {counts.shape}.")
    if not counts.sum():
        raise InvalidInputError(f"{len(counts):,} graphs without a single node: there is nothing to work on.")
    return counts


def _check_edges(edges: NDArray[Any], counts: NDArray[np.int64], num_nodes: int) -> None:
    """Check shape, range and that both ends lie in one graph, a stretch at a time to stay lean."""
    if edges.ndim != 2 or edges.shape[0] != 2 or not np.issubdtype(edges.dtype, np.integer):
        raise InvalidInputError(f"edges must be integers of shape (2, E). Got {edges.dtype} of shape {edges.shape}.")
    if edges.shape[1] == 0:
        return
    graph_of = np.repeat(np.arange(len(counts), dtype=np.int64), counts) if len(counts) > 1 else None
    for first in range(0, edges.shape[1], _ROWS_AT_ONCE):
        part = edges[:, first : first + _ROWS_AT_ONCE]
        if part.min() < 0 or part.max() >= num_nodes:
            end, at = np.argwhere((part < 0) | (part >= num_nodes))[0]
            raise InvalidInputError(
                f"edge {first + at} names node {part[end, at]}, but nodes are numbered 0 to {num_nodes - 1}. "
                "Correct the edge list or the number of nodes."
            )
        if graph_of is not None and (across := graph_of[part[0]] != graph_of[part[1]]).any():
            at = int(np.argmax(across))
            a, b = int(part[0, at]), int(part[1, at])
            raise InvalidInputError(
                f"edge {first + at} joins node {a} of graph {graph_of[a]} and node {b} of graph "
                f"{graph_of[b]}: an edge must stay inside one graph. Correct the edge list or the node counts."
            )


def _check_rows(raw: RawGraphs, num_nodes: int) -> None:
    for name, array, rows in (("edge_attr", raw.edge_attr, raw.edges.shape[1]), ("pos", raw.pos, num_nodes)):
        if array is not None and (array.ndim == 0 or len(array) != rows):
            raise InvalidInputError(f"{name} must have {rows:,} rows. Got shape {array.shape}.")


def _checked_features(x: NDArray[Any], node_counts: NDArray[np.int64]) -> NDArray[Any]:
    num_nodes = int(node_counts.sum())
    if x.ndim != 2 or len(x) != num_nodes:
        raise InvalidInputError(f"features must have shape ({num_nodes}, d), one row per node. Got shape {x.shape}.")
    if x.shape[1] == 0:
        raise InvalidInputError("features have no column at all; leave them out to get degree features.")
    if np.issubdtype(x.dtype, np.integer):
        for column in range(x.shape[1]):  # readers that know its name have said so already
            check_codes(x[:, column], f"column {column} of the features")
        return np.ascontiguousarray(x, dtype=np.int64)
    if not (np.issubdtype(x.dtype, np.floating) or x.dtype == np.bool_):
        raise InvalidInputError(f"features must be numbers. Got {x.dtype}.")
    out = np.empty(x.shape, dtype=np.float32)
    rows = max(1, _ROWS_AT_ONCE // x.shape[1])
    for first in range(0, len(x), rows):
        part = out[first : first + rows]
        with np.errstate(over="ignore", invalid="ignore"):
            part[...] = x[first : first + rows]
        if not np.isfinite(part).all():
            row, column = np.argwhere(~np.isfinite(part))[0]
            ends = np.cumsum(node_counts)
            graph = int(np.searchsorted(ends, first + row, side="right"))
            local = first + row - (ends[graph] - node_counts[graph])
            raise InvalidInputError(
                f"features must be finite float32 numbers, but node {local} of graph {graph} (node {first + row} of "
                f"all) has {x[first + row, column]} in column {column}, counted from 0. Repair or remove it."
            )
    return out


def _substitute(features: FeatureChoice, indptr: NDArray[np.int64], indices: NDArray[Any]) -> NDArray[np.float32]:
    if features == "degree":
        return np.diff(indptr).astype(np.float32)[:, None]
    if features == "constant":
        return np.ones((len(indptr) - 1, 1), dtype=np.float32)
    if features == "rwpe":
        return np.asarray(kernels.rwpe(indptr, indices, RWPE_FEATURE_STEPS), dtype=np.float32)
    raise InvalidInputError(f"no features {features!r}: choose 'degree', 'constant' or 'rwpe'.")


def _coded_labels(raw: RawGraphs, num_graphs: int, num_nodes: int) -> tuple[NDArray[Any] | None, list[Any] | None]:
    if raw.task == "none" or raw.y is None:
        if raw.task != "none":
            raise InvalidInputError(f"the task is {raw.task}, but there are no labels.")
        return None, None
    y = np.asarray(raw.y)
    count, owner = (num_nodes, "node") if is_node_task(raw.task) else (num_graphs, "graph")
    if len(y) != count:
        raise InvalidInputError(f"{len(y):,} labels for {count:,} {owner}s: each {owner} needs exactly one.")
    if raw.task == "graph-multilabel":
        return _checked_multilabel(y), None
    if is_regression(raw.task):
        return _checked_targets(y.reshape(count, -1), owner), None
    if y.ndim != 1:
        raise InvalidInputError(f"labels must be one value a {owner}. Got shape {y.shape}.")
    if raw.task == "node-classification" and raw.masks is not None and np.issubdtype(y.dtype, np.floating):
        is_labelled = ~np.isnan(y)
        if is_labelled.any() and not is_labelled.all():
            return _partly_labelled(y, is_labelled)
    if np.issubdtype(y.dtype, np.floating) and not np.isfinite(y).all():
        at = int(np.flatnonzero(~np.isfinite(y))[0])
        raise InvalidInputError(f"the label of {owner} {at} is {y[at]}. Give every {owner} a label.")
    try:
        values, codes = np.unique(y, return_inverse=True)
    except TypeError as error:
        kinds = ", ".join(sorted({type(value).__name__ for value in y.tolist()}))
        raise InvalidInputError(f"labels must be of one kind, but are {kinds}.") from error
    return codes.astype(np.int64).reshape(-1), values.tolist()


def _partly_labelled(y: NDArray[Any], is_labelled: NDArray[np.bool_]) -> tuple[NDArray[np.int64], list[Any]]:
    """Return codes of the nodes that have a label, `NO_LABEL` for the others, and the labels."""
    met, codes = np.unique(y[is_labelled], return_inverse=True)
    if (odd := ~np.isfinite(met) | (met != np.floor(met)) | (np.abs(met) >= 2.0**53)).any():
        raise InvalidInputError(f"the label of a node is {met[odd][0]}. Labels must be whole numbers, or NaN for none.")
    out = np.full(len(y), NO_LABEL, dtype=np.int64)
    out[is_labelled] = codes.reshape(-1)
    return out, met.astype(np.int64).tolist()


def _checked_multilabel(y: NDArray[Any]) -> NDArray[np.float32]:
    """Return labels 0 and 1 as float32, NaN where they are missing."""
    if y.ndim != 2 or y.shape[1] == 0 or y.dtype.kind not in "biuf":
        raise InvalidInputError(
            f"labels of a multi-label task must be numbers of shape (graphs, labels). Got {y.dtype} of shape {y.shape}."
        )
    odd = (y != 0) & (y != 1) & ~np.isnan(y)
    if odd.any():
        row, column = np.argwhere(odd)[0]
        raise InvalidInputError(
            f"labels of a multi-label task are 0, 1 or NaN for a missing one, but graph {row} has {y[row, column]} in "
            f"column {column}, counted from 0. Repair it."
        )
    return np.ascontiguousarray(y, dtype=np.float32)


def _checked_targets(y: NDArray[Any], owner: str) -> NDArray[np.float32]:
    """Return targets as float32, in which they are learnt; refuse those that it cannot hold or tell apart.

    Nodes may lack their targets, as NaN; whether a mask needs one is checked with the masks.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        targets = np.asarray(y, dtype=np.float32)
    is_missing = np.isnan(np.asarray(y, dtype=np.float64)) if owner == "node" else np.zeros(y.shape, np.bool_)
    broken = ~np.isfinite(targets) & ~is_missing
    if broken.any():
        row, column = np.argwhere(broken)[0]
        raise InvalidInputError(
            f"targets must be finite float32 numbers, but {owner} {row} has {y[row, column]} in column {column}, "
            "counted from 0. Repair or remove it."
        )
    for column, present in enumerate(~is_missing.T):
        kept, values = targets[present, column], np.asarray(y[present, column], dtype=np.float64)
        largest = np.abs(values).max(initial=0.0)
        if not largest:
            continue
        # What differs in the last digits alone, such as 0.3 and 0.1 + 0.2, is one value.
        before, after = len(np.unique(np.rint(values / largest * _DIGITS))), len(np.unique(kept))
        if before > 1 and after <= before * _LEAST_KEPT:
            raise InvalidInputError(
                f"column {column} of the targets, counted from 0, has {before:,} distinct values from {values.min()} "
                f"to {values.max()}, of which float32, in which they are learnt, keeps only {after:,}. Subtract an "
                "offset, such as their mean, or rescale them."
            )
    return targets


def _checked_masks(raw: RawGraphs, num_graphs: int, num_nodes: int) -> dict[str, NDArray[np.bool_]] | None:
    if raw.masks is None:
        return None
    if set(raw.masks) != {"train", "val", "test"}:
        raise InvalidInputError(f"masks must be train, val and test. Got {', '.join(sorted(raw.masks)) or 'none'}.")
    shapes = {part: mask.shape for part, mask in raw.masks.items()}
    rows = num_graphs if is_graph_task(raw.task) else num_nodes
    if len(set(shapes.values())) > 1 or shapes["train"][:1] != (rows,) or len(shapes["train"]) != 2:
        raise InvalidInputError(f"masks must all have shape ({rows}, splits). Got {shapes}.")
    return {part: np.ascontiguousarray(mask, dtype=np.bool_) for part, mask in raw.masks.items()}


def _check_splits(masks: dict[str, NDArray[np.bool_]]) -> None:
    """Refuse official splits of graphs that cannot be trained and judged on."""
    splits = masks["train"].shape[1]
    if not 1 <= splits <= MOST_SPLITS:
        raise InvalidInputError(f"there must be 1 to {MOST_SPLITS} official splits. Got {splits}.")
    for part, mask in masks.items():
        if not (filled := mask.any(axis=0)).all():
            raise InvalidInputError(
                f"the {part} part of official split {int(np.argmin(filled))} has no graph. Give it some, or leave the "
                "masks out to have cross-validation."
            )
    for one, other in itertools.combinations(masks, 2):
        if (both := masks[one] & masks[other]).any():
            graph, split = np.argwhere(both)[0]
            raise InvalidInputError(
                f"graph {graph} is in the {one} part and in the {other} part of official split {split}. Make the parts "
                "disjoint."
            )


def _check_masked_targets(y: NDArray[Any] | None, masks: dict[str, NDArray[np.bool_]] | None, task: str) -> None:
    """Refuse nodes without a target that a mask has, and datasets without any target at all."""
    if y is None or not is_node_task(task):
        return
    lacks = np.isnan(y).any(axis=1) if is_regression(task) else y == NO_LABEL
    if lacks.all():
        raise InvalidInputError("no node has all its targets: there is nothing to learn.")
    noun = "target" if is_regression(task) else "label"
    for part, mask in (masks or {}).items():
        if (both := mask & lacks[:, None]).any():
            node, split = np.argwhere(both)[0]
            raise InvalidInputError(
                f"node {node} is in the {part} mask of split {split}, but its {noun} is missing (NaN). Give it "
                "one, or take it out of the masks."
            )
