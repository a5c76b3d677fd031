"""Your own graphs from NetworkX: objects, GraphML, GML or node-link JSON; nothing is ever unpickled."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leap.pipeline.datasets.attributed import AttributedGraph, assemble
from leap.pipeline.datasets.source import (
    Executor,
    MemorySource,
    Progress,
    Source,
    SourceOptions,
    cannot_read,
    fingerprint_files,
)
from leap.pipeline.folds import with_splits
from leap.pipeline.graphs import RawGraphs, Task
from leap.store.errors import InvalidInputError
from leap.store.lazy import lazy_module

if TYPE_CHECKING:
    import networkx as nx
else:
    nx = lazy_module("networkx")


def from_networkx(
    graphs: "nx.Graph | Iterable[nx.Graph]",
    name: str,
    options: SourceOptions | None = None,
    *,
    node_attributes: str | Sequence[str] | None = None,
    graph_label: str | None = None,
    node_label: str | None = None,
    task: Task | None = None,
    splits: Any = None,
    edge_attributes: str | Sequence[str] | None = None,
) -> Source:
    """Make a source of NetworkX graphs in memory, one or several; see `assemble` for features and labels.

    Parameters
    ----------
    name : of the dataset in the store.
    options : the four that follow as one object; give either it or them.
    node_attributes : node attributes to use as features; None takes "x", else all numeric ones that every node has.
    graph_label : graph attribute that holds the label or targets; None takes "y", else "label".
    node_label : node attribute that holds node labels when graphs have none; None takes "y".
    task : what the labels are, such as "graph-multilabel"; None: their kind says.
    splits : official splits of a graph task: for each the numbers of the graphs of its three parts, as (train, val,
        test) or by these names. Several, or one.
    edge_attributes : edge attributes to keep, numbers that every edge has; None takes none.

    Raises
    ------
    InvalidInputError
        As `assemble`, a name that cannot be a folder's, or choices given twice.

    Examples
    --------
    >>> import networkx as nx
    >>> graphs = [nx.path_graph(3), nx.cycle_graph(4)]
    >>> for graph, shape in zip(graphs, ("path", "cycle")):
    ...     graph.graph["shape"] = shape
    >>> source = from_networkx(graphs, "two-shapes", graph_label="shape")
    >>> source.read().y.tolist()
    ['path', 'cycle']
    """
    at_nodes, at_edges = (
        None if names is None else (names,) if isinstance(names, str) else tuple(names)
        for names in (node_attributes, edge_attributes)
    )
    given = SourceOptions(at_nodes, graph_label, node_label, task, at_edges)
    if options is not None and given != SourceOptions():
        raise InvalidInputError(
            "from_networkx was given options and also node_attributes, graph_label, node_label, task or "
            "edge_attributes. Give one or the other."
        )
    several = [graphs] if hasattr(graphs, "nodes") else list(graphs)
    attributed = [_convert(graph, f"graph {i}") for i, graph in enumerate(several)]
    return MemorySource(name, "networkx", with_splits(assemble(attributed, options or given), splits))


class NetworkXFiles(Source):
    """Files in GraphML, GML or node-link JSON, one graph per file; a JSON file may hold a list of graphs.

    Files are taken in the order of their names, numbers by value: g2 comes before g10.
    """

    def __init__(self, name: str, root: Path, files: list[Path], options: SourceOptions) -> None:
        self.name = name
        self._root = root
        self._files = sorted(files, key=_natural)
        self._options = options

    def fingerprint(self) -> dict[str, Any]:
        """Reader, version, options and the content of every file."""
        files = fingerprint_files(self._root, self._files)
        return {"reader": "networkx-files", "version": 1, "options": self._options.as_dict(), "files": files}

    def read(self, progress: Progress | None = None, executor: Executor | None = None) -> RawGraphs:
        """Read all files.

        Raises
        ------
        InvalidInputError
            A file that is not in its format, or as `assemble`.
        """
        graphs: list[AttributedGraph] = []
        for number, path in enumerate(self._files, start=1):
            graphs.extend(_read(path))
            if progress is not None:
                progress(number, len(self._files))
        if not graphs:
            raise InvalidInputError(
                f"{self._files[0]} holds no graph: a graph in node-link form or a list of such graphs is expected, as "
                "networkx.node_link_data makes them."
            )
        return assemble(graphs, self._options)


def find_networkx(path: Path, name: str, options: SourceOptions) -> Source | None:
    """Source of a file or folder in one of the formats, None for anything else."""
    if path.is_file():
        return NetworkXFiles(name, path.parent, [path], options) if path.suffix.lower() in READERS else None
    files = [file for file in path.iterdir() if file.is_file() and file.suffix.lower() in READERS]
    return NetworkXFiles(name, path, files, options) if files else None


def _read(path: Path) -> list[AttributedGraph]:
    try:
        return READERS[path.suffix.lower()](path)
    except InvalidInputError:
        raise
    except OSError as error:
        raise cannot_read(path, error) from error
    except Exception as error:  # the parsers raise a dozen kinds, some of them bare
        kind = path.suffix.lower().lstrip(".")
        raise InvalidInputError(
            f"{path} is not a {kind} file that can be read ({type(error).__name__}: {error})."
        ) from error


def _read_graphml(path: Path) -> list[AttributedGraph]:
    return [_convert(nx.read_graphml(path), str(path))]


def _read_gml(path: Path) -> list[AttributedGraph]:
    return [_convert(nx.read_gml(path, label="id"), str(path))]


def _read_json(path: Path) -> list[AttributedGraph]:
    content = json.loads(path.read_bytes())
    if isinstance(content, list):
        return [_node_link(graph, f"{path}, graph {i}") for i, graph in enumerate(content)]
    return [_node_link(content, str(path))]


READERS: dict[str, Callable[[Path], list[AttributedGraph]]] = {
    ".graphml": _read_graphml,
    ".gml": _read_gml,
    ".json": _read_json,
}


def _convert(graph: Any, origin: str) -> AttributedGraph:
    if not hasattr(graph, "nodes") or not hasattr(graph, "edges"):
        raise InvalidInputError(f"{origin} is a {type(graph).__name__}, not a NetworkX graph.")
    edges = [(a, b, dict(attributes)) for a, b, attributes in graph.edges(data=True)]
    return AttributedGraph(origin, dict(graph.nodes(data=True)), edges, dict(graph.graph))


def _node_link(content: Any, origin: str) -> AttributedGraph:
    """Read the node-link form directly: NetworkX would silently add nodes that only edges name."""
    links = next((key for key in ("links", "edges") if isinstance(content, dict) and key in content), None)
    if links is None or not isinstance(content.get("nodes"), list) or not isinstance(content[links], list):
        raise InvalidInputError(
            f"{origin} is not in node-link form: it needs the lists 'nodes' and 'links' or 'edges'."
        )
    nodes: dict[Any, dict[str, Any]] = {}
    for position, entry in enumerate(content["nodes"]):
        if not isinstance(entry, dict) or "id" not in entry:
            raise InvalidInputError(f"{origin}: entry {position} of 'nodes' has no 'id'.")
        node = _hashable(entry["id"])
        if node in nodes:
            raise InvalidInputError(f"{origin}: two nodes have the id {node!r}.")
        nodes[node] = {key: value for key, value in entry.items() if key != "id"}
    edges = []
    for position, entry in enumerate(content[links]):
        if not isinstance(entry, dict) or not {"source", "target"} <= entry.keys():
            raise InvalidInputError(f"{origin}: entry {position} of {links!r} lacks 'source' or 'target'.")
        attributes = {key: value for key, value in entry.items() if key not in ("source", "target")}
        edges.append((_hashable(entry["source"]), _hashable(entry["target"]), attributes))
    return AttributedGraph(origin, nodes, edges, dict(content.get("graph") or {}))


def _hashable(value: Any) -> Any:
    """JSON turns tuples, which are common as node ids, into lists."""
    return tuple(_hashable(item) for item in value) if isinstance(value, list) else value


def _natural(path: Path) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", path.name) if part]
