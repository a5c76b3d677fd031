import networkx as nx
import numpy as np

from leap.pipeline.bench.letter_like import letter_like


def test_letters_are_connected_strokes_of_three_to_eight_nodes() -> None:
    batch = letter_like(300)
    graph = nx.Graph(batch.edge_index.T.tolist())
    sizes = [len(part) for part in nx.connected_components(graph)]
    assert len(sizes) == 300
    assert set(sizes) == set(range(3, 9))
    assert graph.number_of_nodes() == len(batch.x)
    assert nx.number_of_selfloops(graph) == 0
    assert batch.edge_index.shape[1] == 2 * graph.number_of_edges()  # nothing is listed twice
    chords = graph.number_of_edges() - (len(batch.x) - 300)
    assert 0 < chords <= sum(size // 3 for size in sizes)


def test_neighbourhoods_and_statistics_are_those_of_the_graphs() -> None:
    batch = letter_like(20)
    graph = nx.Graph(batch.edge_index.T.tolist())
    for node in graph:
        members = sorted(nx.ego_graph(graph, node))
        assert sorted(batch.neighborhoods.members(node).tolist()) == members
        points = batch.x.numpy()[members].astype(np.float64)
        centred = points - points.mean(0)
        np.testing.assert_allclose(batch.stats.mean[node], points.mean(0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(batch.stats.scale[node], np.linalg.norm(centred, axis=1).max(), rtol=1e-5)
