"""Attach what is stored of a dataset to your own PyG graphs."""

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from leap.models import kernels
from leap.pipeline.pyg.edges import edge_pairs
from leap.pipeline.pyg.reading import as_list, node_counts
from leap.store import Artifact
from leap.store.errors import InvalidInputError
from leap.store.graphs import StoredGraphs, StoredNeighborhoods
from leap.store.graphs.attachment import (
    attachment,
    attribute_name,
    graph_fingerprints,
    stored_fingerprints,
)
from leap.store.graphs.blocks import Selection
from leap.store.graphs.ragged import Ids, pointers


def attach(graphs: Any, dataset: Artifact, *artifacts: Artifact, numbers: Any = None) -> Any:
    """Return your own graphs with stored neighbourhoods and encodings attached, having checked that they are the same.

    Encodings become attributes named after their kind, such as `data.rwpe`; `Neighborhoods.from_data` finds
    neighbourhoods. Nothing else about the graphs changes, and the objects that are given stay as they were.
    Features are not compared: encodings that depend on them, such as lect, are of the features that were ingested.

    Parameters
    ----------
    graphs : one `Data`, or several: a list, a dataset or a `Batch`.
    dataset : the dataset artifact that was ingested from these graphs.
    artifacts : neighbourhoods and encodings of that dataset.
    numbers : numbers of the graphs in the dataset; default: all of it, in its order.

    Returns
    -------
    A `Data` for a `Data`, otherwise a list.

    Raises
    ------
    InvalidInputError
        If a graph has other nodes or edges than the stored one, or an artifact belongs to another dataset.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from leap.pipeline import Context, attach, encode, from_pyg
    >>> from leap.store import Store
    >>> path = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 2]]), name="abc")
    >>> context = Context(store=Store.open(tempfile.mkdtemp()))
    >>> made = encode(from_pyg([path, path], "paths"), "rwpe", params={"dim": 2}, context=context)
    >>> dataset, rwpe = (context.store.get(made[kind].key) for kind in ("dataset", "rwpe"))
    >>> attach([path, path], dataset, rwpe)[1].rwpe[:, 1].tolist()
    [0.5, 1.0, 0.5]
    """
    several = as_list(graphs)
    hoods = [artifact for artifact in artifacts if isinstance(artifact, StoredNeighborhoods)]
    chosen = Selection.of(dataset, hoods, [artifact for artifact in artifacts if artifact not in hoods])
    stored = chosen.dataset
    places = np.arange(stored.num_graphs) if numbers is None else _checked_numbers(numbers)
    sizes = node_counts(several)
    ptr, edges = pointers(sizes), edge_pairs(several, sizes).pairs
    _check_same(stored, places, ptr, edges)
    starts = stored.node_ptr()[places]
    result = [copy.copy(graph) for graph in several]
    for name, encoding in chosen.encodings.items():
        values = torch.from_numpy(encoding.values())
        for graph, start, size in zip(result, starts.tolist(), sizes.tolist(), strict=True):
            # A copy, as a slice would be saved and sent with everything around it.
            graph[name] = values[start : start + size].clone().to(_device(graph))
    prints = graph_fingerprints(edges, ptr)
    for hops, neighborhoods in chosen.neighborhoods.items():
        found = neighborhoods.neighborhoods().take(starts, starts + sizes)
        parts = attachment(found.shifted(-ptr[:-1].repeat(sizes)), ptr, prints)
        for number, graph in enumerate(result):
            own = parts.of(number)
            graph[attribute_name(hops)] = {name: part.clone().to(_device(graph)) for name, part in own.items()}
    return result[0] if type(graphs) is Data else result


def _device(graph: Data) -> torch.device:
    tensors = (value for value in graph.to_dict().values() if isinstance(value, torch.Tensor))
    return next((value.device for value in tensors), torch.device("cpu"))


def _checked_numbers(numbers: Any) -> Ids:
    found = np.atleast_1d(np.asarray(numbers))
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise InvalidInputError(
            f"`numbers` must be whole numbers, one per graph. Got {found.dtype} of shape {found.shape}."
        )
    return found.astype(np.int64)


def _check_same(stored: StoredGraphs, places: Ids, ptr: Ids, edges: NDArray[np.int64]) -> None:
    name, sizes, node_ptr = stored.manifest.dataset, np.diff(ptr), stored.node_ptr()
    if len(places) != len(sizes) or (len(places) and not 0 <= places.min() <= places.max() < stored.num_graphs):
        raise InvalidInputError(
            f"{len(sizes):,} graphs were given for {len(places):,} of the {stored.num_graphs:,} graphs of {name!r}. "
            "Give those that were ingested, or the number of each with `numbers`."
        )
    expected = np.diff(node_ptr)[places]
    if (sizes != expected).any():
        at = int(np.argmax(sizes != expected))
        raise InvalidInputError(
            f"graph {at} is not graph {places[at]} of {name!r}: it has {sizes[at]} nodes instead of {expected[at]}."
        )
    adjacency = kernels.build_csr(edges, int(ptr[-1]))
    source = np.arange(ptr[-1]).repeat(np.diff(adjacency.indptr))
    found = graph_fingerprints(np.stack([source, adjacency.indices]), ptr)
    differs = found != stored_fingerprints(stored)[places]
    if differs.any():
        at = int(np.argmax(differs))
        raise InvalidInputError(f"graph {at} is not graph {places[at]} of {name!r}: its edges are others.")
