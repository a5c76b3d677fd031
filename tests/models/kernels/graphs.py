"""Named graphs of many shapes, and their adjacency, for tests of kernels that encode nodes."""

import networkx as nx
import numpy as np

from leap.models.kernels.adjacency import build_csr

GRAPHS = {
    "nothing": lambda: nx.empty_graph(0),
    "one node": lambda: nx.empty_graph(1),
    "isolated": lambda: nx.empty_graph(4),
    "edge": lambda: nx.path_graph(2),
    "triangle": lambda: nx.cycle_graph(3),
    "path": lambda: nx.path_graph(9),
    "star": lambda: nx.star_graph(7),
    "complete": lambda: nx.complete_graph(7),
    "cycle": lambda: nx.cycle_graph(12),
    "grid": lambda: nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 5)),
    "wheel": lambda: nx.wheel_graph(8),
    "bipartite": lambda: nx.complete_bipartite_graph(3, 4),
    "petersen": nx.petersen_graph,
    "tree": lambda: nx.balanced_tree(2, 3),
    "barbell": lambda: nx.barbell_graph(4, 2),
    "hubs": lambda: nx.barabasi_albert_graph(25, 2, seed=1),
    "dense": lambda: nx.gnp_random_graph(11, 0.5, seed=2),
    "mixed parts": lambda: nx.disjoint_union_all(
        [nx.star_graph(3), nx.path_graph(5), nx.empty_graph(2), nx.complete_graph(4), nx.cycle_graph(6)]
    ),
}


def adjacency(graph: nx.Graph):
    """CSR arrays of a graph with nodes 0…n-1."""
    edges = np.array(list(graph.edges), np.int64).reshape(-1, 2).T
    csr = build_csr(edges, graph.number_of_nodes())
    return csr.indptr, csr.indices


def matrix(graph: nx.Graph):
    """Dense adjacency of a graph with nodes 0…n-1."""
    n = graph.number_of_nodes()
    return nx.to_numpy_array(graph, nodelist=range(n)) if n else np.zeros((0, 0))
