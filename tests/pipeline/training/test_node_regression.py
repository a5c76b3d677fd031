"""Targets of nodes: standardized by the training nodes, judged on those that have targets."""

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

from leap.pipeline import load_run, predict, train
from leap.pipeline.training.checkpoint import load
from leap.store.errors import InvalidInputError
from tests.pipeline.training.conftest import coordinates, graphs_source

GRAPH = nx.barabasi_albert_graph(80, 2, seed=0)
LACKING = [3, 40]


def targets():
    """Degrees, and a thousand times a coordinate; two nodes have none."""
    y = np.stack([[float(degree) for _, degree in GRAPH.degree], 1000.0 * coordinates([GRAPH], 3)[:, 0]], 1)
    y[LACKING] = np.nan
    return y


@pytest.fixture(scope="module")
def measured():
    dealt = np.random.default_rng(0).choice(3, size=(80, 2), p=[0.5, 0.25, 0.25])
    dealt[LACKING] = 3
    masks = {name: dealt == code for code, name in enumerate(("train", "val", "test"))}
    return graphs_source([GRAPH], "measured", coordinates([GRAPH], 3), targets(), "node-regression", masks)


def test_a_run_is_judged_in_the_units_of_the_targets(context, measured, options, run):
    result = train(measured, options(backbone="mlp", encoding="rwpe", epochs=40), context, run=run)
    metrics, masks, y = result.metrics, measured.read().masks, targets()
    assert (metrics["task"], metrics["splits"], len(metrics["folds"])) == ("node-regression", "official", 2)
    assert metrics["options"]["lr"] == 0.01
    table = {name: np.array(column) for name, column in pq.read_table(run / "predictions.parquet").to_pydict().items()}
    for split, entry in enumerate(metrics["folds"]):
        rows = table["fold"] == split
        assert sorted(table["node"][rows]) == np.flatnonzero(masks["test"][:, split]).tolist()
        true, said = (np.stack([table[f"{name}_{t}"][rows] for t in (0, 1)], 1) for name in ("target", "predicted"))
        np.testing.assert_allclose(true, y[table["node"][rows]], rtol=1e-6)
        judges = {"r2": r2_score, "mae": mean_absolute_error, "mse": mean_squared_error}
        assert {name: entry["test"][name] for name in judges} == pytest.approx(
            {name: judge(true, said) for name, judge in judges.items()}, rel=1e-5
        )
        best = load(run / f"fold-{split}" / "best.pt", f"{metrics['fingerprint']} fold {split}")
        trained = y[masks["train"][:, split]]
        assert best["objective"]["mean"] == pytest.approx(trained.mean(0), rel=1e-5)
        assert best["objective"]["std"] == pytest.approx(trained.std(0), rel=1e-5)


def test_predictions_are_of_all_nodes_and_judged_on_those_with_targets(context, measured, options, run):
    train(measured, options(backbone="gcn", encoding="none"), context, run=run)
    result = predict(run, measured, context)
    said = load_run(run)(measured, context).numpy()
    has_targets = ~np.isnan(targets()).any(1)
    assert (result.items, said.shape) == (80, (80, 2))
    assert result.metrics["r2"] == pytest.approx(r2_score(targets()[has_targets], said[has_targets]), rel=1e-5)


def test_data_without_masks_gets_some(context, options, run):
    source = graphs_source([GRAPH], "bare", coordinates([GRAPH], 3), targets(), "node-regression")
    metrics = train(source, options(backbone="gcn", encoding="none"), context, run=run).metrics
    assert (metrics["splits"], metrics["folds"][0]["sizes"]) == ("generated", {"train": 39, "val": 20, "test": 19})


def test_equal_targets_are_refused(context, options, run):
    source = graphs_source([GRAPH], "equal", coordinates([GRAPH], 3), np.full(80, 2.5), "node-regression")
    with pytest.raises(InvalidInputError, match=r"all 80 nodes of .equal. have the target 2\.5"):
        train(source, options(), context, run=run)
    with pytest.raises(InvalidInputError, match="is a regression, whose epochs are chosen by their loss"):
        train(source, options(select="auroc"), context, run=run)
