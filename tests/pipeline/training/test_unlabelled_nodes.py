"""Nodes without a class: no class of their own, in no mask, not judged."""

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest

from leap.pipeline import predict, to_pyg, train
from leap.pipeline.canonical import canonicalize
from leap.pipeline.training.splits import class_frequencies
from leap.store.errors import InvalidInputError
from tests.pipeline.training.conftest import coordinates, graphs_source

GRAPH = nx.barabasi_albert_graph(80, 2, seed=0)
LACKING = [3, 40, 79]


def source(**changes):
    y = np.where(coordinates([GRAPH], 3)[:, 0] > 0, 7.0, -1.0)
    y[LACKING] = np.nan
    dealt = np.random.default_rng(0).choice(3, size=(80, 1), p=[0.5, 0.25, 0.25])
    dealt[LACKING] = 3
    masks = {name: dealt == code for code, name in enumerate(("train", "val", "test"))}
    given = {"y": y, "masks": masks} | changes
    x = coordinates([GRAPH], 3)
    return graphs_source([GRAPH], "partly", x, given["y"], "node-classification", given["masks"])


def test_codes_are_those_of_the_labels_that_are_there():
    raw = source().read()
    graphs = canonicalize(raw)
    assert graphs.classes == [-1, 7]
    assert np.flatnonzero(graphs.y == -1).tolist() == LACKING
    is_there = graphs.y >= 0
    np.testing.assert_array_equal(np.array(graphs.classes)[graphs.y[is_there]], raw.y[is_there])


def test_training_and_prediction_pass_over_them(context, options, run):
    result = train(source(), options(backbone="gcn", encoding="none", class_weight="frequency"), context, run=run)
    stored = context.store.find("dataset", "partly")
    labels = to_pyg(stored)[0].y.numpy()
    assert np.flatnonzero(labels == -1).tolist() == LACKING
    shares = [float((labels == code).sum()) / 77 for code in (0, 1)]
    assert class_frequencies(stored) == pytest.approx(shares)
    assert result.metrics["test"]["accuracy"]["mean"] is not None
    judged = predict(run, source(), context)
    said = pq.read_table(judged.path)["predicted"].to_numpy()
    is_there = labels >= 0
    assert len(said) == 80
    assert judged.metrics["accuracy"] == pytest.approx(
        (said[is_there] == np.array([-1, 7])[labels[is_there]]).mean(), abs=1e-9
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"masks": {part: np.ones((80, 1), bool) for part in ("train", "val", "test")}}, "node 3 is in the train mask"),
        ({"masks": None}, "the label of node 3 is nan. Give every node a label"),
        ({"y": np.full(80, np.nan)}, "the label of node 0 is nan"),
        ({"y": np.where(np.arange(80) < 5, np.nan, 0.5)}, r"the label of a node is 0\.5"),
    ],
)
def test_what_cannot_be_learned_is_refused(changes, message):
    with pytest.raises(InvalidInputError, match=message):
        canonicalize(source(**changes).read())
