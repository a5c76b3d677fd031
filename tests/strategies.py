"""Hypothesis strategies that tests of every layer share: graphs and edge lists of many shapes."""

from dataclasses import dataclass

import networkx as nx
import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray


@dataclass(frozen=True)
class SimpleGraph:
    """An undirected simple graph: nodes 0…num_nodes-1, `edges` (2, E) int64, each once, unordered."""

    num_nodes: int
    edges: NDArray[np.int64]

    def to_networkx(self) -> nx.Graph:
        graph = nx.Graph()
        graph.add_nodes_from(range(self.num_nodes))
        graph.add_edges_from(self.edges.T.tolist())
        return graph

    @property
    def edge_index(self) -> NDArray[np.int64]:
        """Both directions of every edge, as PyG lists them."""
        return np.concatenate([self.edges, self.edges[::-1]], axis=1)


def _shape(kind: str, n: int, seed: int) -> nx.Graph:
    makers = {
        "empty": lambda: nx.empty_graph(n),
        "path": lambda: nx.path_graph(n),
        "cycle": lambda: nx.cycle_graph(n) if n > 2 else nx.path_graph(n),
        "star": lambda: nx.star_graph(n - 1) if n else nx.empty_graph(0),
        "complete": lambda: nx.complete_graph(n),
        "grid": lambda: (
            nx.convert_node_labels_to_integers(nx.grid_2d_graph(max(n // 4, 1), 4)) if n else nx.empty_graph(0)
        ),
        "tree": lambda: nx.random_labeled_tree(n, seed=seed) if n else nx.empty_graph(0),
        "sparse": lambda: nx.gnp_random_graph(n, min(1.0, 1.5 / max(n, 1)), seed=seed),
        "dense": lambda: nx.gnp_random_graph(n, 0.5, seed=seed),
        "hubs": lambda: nx.barabasi_albert_graph(n, 2, seed=seed) if n > 2 else nx.empty_graph(n),
    }
    return makers[kind]()


SHAPES = ("empty", "path", "cycle", "star", "complete", "grid", "tree", "sparse", "dense", "hubs")


@st.composite
def simple_graphs(draw: st.DrawFn, max_nodes: int = 24, max_components: int = 3) -> SimpleGraph:
    """Random simple graphs: unions of several shapes with isolated nodes, under a random numbering."""
    parts = draw(
        st.lists(
            st.tuples(st.sampled_from(SHAPES), st.integers(0, max_nodes // max_components), st.integers(0, 2**16)),
            max_size=max_components,
        )
    )
    graph = nx.disjoint_union_all([_shape(*part) for part in parts]) if parts else nx.empty_graph(0)
    graph = nx.disjoint_union(graph, nx.empty_graph(draw(st.integers(0, 3))))
    n = graph.number_of_nodes()
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    edges = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2).T
    edges = rng.permutation(n)[edges] if n else edges
    return SimpleGraph(n, np.ascontiguousarray(edges[:, rng.permutation(edges.shape[1])]))


@st.composite
def edge_lists(draw: st.DrawFn, max_nodes: int = 12, max_entries: int = 40) -> tuple[NDArray[np.int64], int]:
    """Arbitrary edge lists (2, E) and their number of nodes: any direction, repeats, self-loops."""
    n = draw(st.integers(0, max_nodes))
    pair = st.tuples(st.integers(0, max(n - 1, 0)), st.integers(0, max(n - 1, 0)))
    pairs = draw(st.lists(pair, max_size=max_entries if n else 0))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T, n
