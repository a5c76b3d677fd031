"""The picture of a neighbourhood shows the graph of the store and the directions of the checkpoint."""

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

from leap.models.kernels.directions import random_directions
from leap.models.network_config import NetworkConfig
from leap.pipeline import Context, TrainOptions, Workforce, from_networkx, report, train
from leap.pipeline.reports.closeup import Look, draw_graph, look_at
from leap.pipeline.reports.runs import FinishedRun, read_runs
from leap.store import Store
from leap.store.errors import InvalidInputError


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Path]:
    """A store and runs of LEAP-L and no encoding on small graphs; the first two are too small for a picture."""
    folder = tmp_path_factory.mktemp("trained")
    draw = np.random.default_rng(0)
    graphs = []
    for number in range(20):
        graph = nx.path_graph(3) if number < 2 else nx.wheel_graph(5 + number % 3)
        graph.graph["y"] = number % 2
        for node in graph:
            graph.nodes[node]["x"] = draw.normal(size=2).tolist()
        graphs.append(graph)
    store = Store.open(folder / "store")
    context = Context(store, workforce=Workforce(0))
    for encoding in ("leap-l", "none"):
        network = NetworkConfig(backbone="gcn", encoding=encoding, edge_weight=2.0)
        options = TrainOptions(network=network, epochs=2, folds=2, lr=0.05)
        train(from_networkx(graphs, name="wheels"), options, context, run=folder / "runs" / encoding)
    return store, folder / "runs"


@pytest.fixture(scope="module")
def leap_run(trained: tuple[Store, Path]) -> FinishedRun:
    return next(run for run in read_runs(trained[1]) if run.encoding == "leap-l")


def naive_dect(look: Look, directions: Any, scale: float, edge_weight: float) -> np.ndarray:
    """The definition, written with loops."""
    graph = nx.Graph(look.edges.T.tolist())
    inside = nx.ego_graph(graph, look.node, look.hops)
    points = {node: look.x[node] for node in inside}
    centre = np.mean(list(points.values()), axis=0)
    largest = max(np.linalg.norm(point - centre) for point in points.values())
    heights = {node: (point - centre) / (largest + 1e-6) @ directions for node, point in points.items()}

    def rise(height: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-scale * (look.thresholds[None, :] - height[:, None])))

    nodes = sum(rise(height) for height in heights.values())
    edges = sum(rise(np.maximum(heights[a], heights[b])) for a, b in inside.edges)
    return nodes - edge_weight * edges


def test_the_first_graph_with_five_nodes_is_looked_at(trained, leap_run):
    look = look_at(leap_run, trained[0], None)
    assert (look.graph, len(look.x)) == (2, 7)
    assert look.node == 0  # the hub of the wheel
    assert sorted(look.members.tolist()) == list(range(7))
    assert look_at(leap_run, trained[0], 0).graph == 0


def test_transforms_are_those_of_the_first_and_of_the_learned_directions(trained, leap_run):
    look = look_at(leap_run, trained[0], None)
    weights = torch.load(leap_run.path / "fold-0" / "best.pt", weights_only=True)["network"]
    learned = weights["encodings.leap-l.leap.encoders.0.parametrizations.directions.original"].double().numpy()
    learned = learned / np.linalg.norm(learned, axis=0)
    np.testing.assert_allclose(look.learned, learned)
    np.testing.assert_allclose(look.start, random_directions(2, 16, 0))
    assert np.abs(look.learned - look.start).max() > 1e-3
    np.testing.assert_allclose(look.before, naive_dect(look, look.start, 128.0, 2.0), atol=1e-5)
    np.testing.assert_allclose(look.after, naive_dect(look, learned, 128.0, 2.0), atol=1e-5)


def test_the_report_has_four_pictures(trained, tmp_path):
    written = report(trained[1], tmp_path / "out", store=trained[0], graph=5)
    names = [name for name in written.figures if name.startswith("neighborhood")]
    assert [name.split("-")[-1] for name in names] == ["graph", "before", "after", "directions"]
    assert 'id="neighborhood"' in written.index.read_text()
    assert "graph 5" in written.index.read_text().lower()


def test_a_graph_that_is_not_there_is_refused(trained, tmp_path):
    with pytest.raises(InvalidInputError, match=r"no graph 20.*0 to 19"):
        report(trained[1], tmp_path / "out", store=trained[0], graph=20)


def test_without_the_dataset_or_the_checkpoint_a_note_says_so(trained, tmp_path, made):
    empty = report(trained[1], tmp_path / "out", store=Store.open(tmp_path / "other"))
    assert any(note.startswith("a picture of a neighbourhood: ") for note in empty.notes)
    assert "neighborhood" not in "".join(empty.figures)
    made(("BZR", {"encoding": "leap-l"}, [0.7, 0.8]))
    without = report(tmp_path / "runs", tmp_path / "out2", store=trained[0])
    assert any("no checkpoint" in note for note in without.notes)


@pytest.mark.parametrize(
    "graph",
    [
        nx.path_graph(4),
        nx.disjoint_union(nx.cycle_graph(4), nx.star_graph(3)),
        nx.empty_graph(3),
        nx.empty_graph(1),
        nx.disjoint_union(nx.complete_graph(3), nx.empty_graph(5)),
    ],
    ids=["connected", "two components", "no edges", "one node", "lonely nodes"],
)
def test_a_graph_without_coordinates_gets_places_that_keep_nodes_apart(graph):
    edges = np.array(list(graph.edges), np.int64).reshape(-1, 2).T
    figure = draw_graph(np.zeros((len(graph), 3)), edges, 0, np.array([0]), "title")
    points = np.concatenate([np.asarray(drawn.get_offsets()) for drawn in figure.axes[0].collections[2:]])
    others = np.unique(points.round(9), axis=0)
    assert len(others) == len(graph)
    assert np.isfinite(others).all()
    if len(others) > 1:
        gaps = np.linalg.norm(others[:, None] - others[None], axis=2) + np.eye(len(others)) * 9
        assert gaps.min() > 0.2
