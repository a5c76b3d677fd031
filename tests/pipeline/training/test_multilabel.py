"""Several labels per graph, some missing: what is minimized, how it is judged, and what has nothing to learn."""

import itertools

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from torch.nn.functional import binary_cross_entropy_with_logits

from leap.pipeline import load_run, predict, train
from leap.pipeline.events import Note, Reporter
from leap.pipeline.training.metrics import multilabel_metrics
from leap.pipeline.training.objective import BinaryCrossEntropy
from leap.store.errors import InvalidInputError
from tests.pipeline.training.conftest import coordinates, graphs_source

RNG = np.random.default_rng(3)
NAN = np.nan


def gapped(count=40, columns=3, seed=1):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, (count, columns)).astype(np.float64)
    y[rng.random(y.shape) < 0.3] = NAN
    return y


@pytest.fixture(scope="module")
def labelled():
    """Cycles and paths of two colours: whether it is a cycle, whether it is large, and noise; a third is missing."""
    graphs = [(nx.cycle_graph if i % 2 else nx.path_graph)(3 + i // 2 % 6) for i in range(60)]
    y = np.array([[i % 2, i // 2 % 6 > 2, i % 3 == 0] for i in range(60)], np.float64)
    y[RNG.random(y.shape) < 0.3] = NAN
    y[4] = NAN
    return graphs_source(graphs, "labelled", coordinates(graphs), y, "graph-multilabel")


def oracle(y, scores):
    """Return the means that OGB's evaluators take, column by column."""
    areas, precisions = [], []
    for column in range(y.shape[1]):
        if (y[:, column] == 1).sum() > 0 and (y[:, column] == 0).sum() > 0:
            is_labelled = y[:, column] == y[:, column]
            truth, said = y[is_labelled, column], scores[is_labelled, column]
            areas.append(roc_auc_score(truth, said))
            precisions.append(average_precision_score(truth, said))
    return np.mean(areas), np.mean(precisions)


@pytest.mark.parametrize("seed", range(5))
def test_areas_and_precisions_are_those_of_scikit_learn_over_columns_with_both_labels(seed):
    y, scores = gapped(seed=seed, columns=5), np.random.default_rng(seed).random((40, 5)).round(1)
    y[:, 3], y[:, 4] = NAN, np.where(np.isnan(y[:, 4]), NAN, 1)
    found = multilabel_metrics(scores, y)
    assert (found["auroc"], found["average_precision"]) == pytest.approx(oracle(y, scores), abs=1e-12)
    is_there = ~np.isnan(y)
    assert found["accuracy"] == pytest.approx(((scores > 0.5) == (y == 1))[is_there].mean())


def test_metrics_without_anything_to_compare_are_none():
    nothing = {"accuracy": None, "auroc": None, "average_precision": None}
    assert multilabel_metrics(np.zeros((0, 2)), np.zeros((0, 2))) == nothing
    assert multilabel_metrics(np.ones((2, 2)), np.full((2, 2), NAN)) == nothing
    assert multilabel_metrics(np.ones((2, 1)), np.ones((2, 1))) == nothing | {"accuracy": 1.0}


def test_the_loss_is_the_mean_over_labels_that_are_there():
    y, scores = torch.tensor(gapped(), dtype=torch.float32), torch.randn(40, 3, requires_grad=True)
    is_there = ~y.isnan()
    expected = binary_cross_entropy_with_logits(scores[is_there], y[is_there])
    loss = BinaryCrossEntropy().loss(scores, y)
    torch.testing.assert_close(loss, expected)
    (gradient,) = torch.autograd.grad(loss, scores)
    (wanted,) = torch.autograd.grad(expected, scores)
    torch.testing.assert_close(gradient, wanted)
    assert (gradient[~is_there] == 0).all()


def test_losses_of_a_stack_have_the_bits_of_each_alone_and_none_without_labels_is_zero():
    y, scores = torch.tensor(gapped(50), dtype=torch.float32), torch.randn(50, 3, requires_grad=True)
    ptr = np.array([0, 7, 20, 23, 50])
    y[20:23] = NAN
    objectives = [BinaryCrossEntropy() for _ in range(4)]
    losses = BinaryCrossEntropy.together(objectives)(scores, y, ptr)
    (gradient,) = torch.autograd.grad(losses.sum(), scores)
    assert losses[2] == 0
    assert (gradient[20:23] == 0).all()
    for number, (low, high) in enumerate(itertools.pairwise(ptr)):
        own = scores[low:high].detach().clone().requires_grad_()
        (alone,) = BinaryCrossEntropy.together(objectives[:1])(own, y[low:high].clone(), np.array([0, high - low]))
        assert torch.equal(alone, losses[number])
        assert torch.equal(torch.autograd.grad(alone, own)[0], gradient[low:high])
        torch.testing.assert_close(alone, BinaryCrossEntropy().loss(own, y[low:high]))


def test_a_run_is_judged_by_the_labels_that_are_there_and_predicts_all(context, labelled, options, run):
    result = train(labelled, options(backbone="gcn", encoding="rwpe", epochs=2), context, run=run)
    assert result.metrics["task"] == "graph-multilabel"
    y = labelled.read().y
    table = {name: np.array(column) for name, column in pq.read_table(run / "predictions.parquet").to_pydict().items()}
    for fold, entry in zip(range(2), result.metrics["folds"], strict=True):
        rows = table["fold"] == fold
        scores, labels = (
            np.stack([table[f"{name}_{column}"][rows] for column in range(3)], 1) for name in ("probability", "label")
        )
        np.testing.assert_array_equal(labels, y[table["graph"][rows]])
        found = (entry["test"]["auroc"], entry["test"]["average_precision"])
        assert found == pytest.approx(oracle(labels, scores), abs=1e-12)
        assert np.isfinite([entry["test"]["loss"], entry["val"]["loss"]]).all()
    predicted = predict(run, labelled, context)
    written = pq.read_table(predicted.path)
    assert written.column_names == ["graph", "probability_0", "probability_1", "probability_2"]
    scores = np.stack([written[name].to_numpy() for name in written.column_names[1:]], 1)
    assert (predicted.metrics["auroc"], predicted.metrics["average_precision"]) == pytest.approx(oracle(y, scores))
    assert load_run(run)(labelled, context).shape == (60, 3)


@pytest.mark.parametrize("encoding", ["none", "leap-l"])
def test_a_run_is_the_same_alone_and_in_stacks(context, labelled, options, tmp_path, encoding):
    chosen = options(backbone="gcn", encoding=encoding, projection="linear", folds=4, epochs=2)
    alone, stacked = (
        train(labelled, chosen, context, run=tmp_path / f"runs-{size}" / "one", stack=size, force=True)
        for size in (1, 4)
    )
    for one, other in zip(alone.metrics["folds"], stacked.metrics["folds"], strict=True):
        assert (one["test"], one["val"]) == (other["test"], other["val"])
    for fold in range(4):
        one, other = (torch.load(result.path / f"fold-{fold}" / "best.pt") for result in (alone, stacked))
        assert all(torch.equal(one["network"][name], other["network"][name]) for name in one["network"])


def test_metrics_other_than_the_loss_may_choose_the_epoch(context, labelled, options, run):
    result = train(labelled, options(backbone="gcn", encoding="none", select="average_precision"), context, run=run)
    assert all(entry["val"]["average_precision"] is not None for entry in result.metrics["folds"])


def few(y, name="few"):
    graphs = [nx.path_graph(3)] * len(y)
    return graphs_source(graphs, name, coordinates(graphs), y, "graph-multilabel")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full((20, 2), NAN), "all labels of the 20 graphs of 'few' are missing"),
        (np.ones((20, 1)), "all 20 graphs of 'few' have the label 1: there is nothing to learn"),
        (
            np.array([[0.0], [1.0]] + [[NAN]] * 18),
            r"the \w+ part of split 0 of 'few' has no label at all.*--split-seed",
        ),
    ],
)
def test_labels_that_teach_nothing_are_refused(context, options, run, y, message):
    with pytest.raises(InvalidInputError, match=message):
        train(few(y), options(backbone="gcn", encoding="none"), context, run=run)


def test_a_column_without_labels_in_a_training_part_is_told_and_no_number_is_lost(context, options, run):
    y = np.stack([np.arange(20) % 2, np.full(20, NAN)], 1)
    y[5, 1] = 1
    heard = []
    reporter = Reporter(lambda event: heard.append(str(event)) if isinstance(event, Note) else None)
    chosen = options(backbone="gcn", encoding="none")
    result = train(
        few(y, "sparse"), chosen, type(context)(context.store, workforce=context.workforce, reporter=reporter), run=run
    )
    assert any("the training part has no label of 1 column, counted from 0: 1." in text for text in heard)
    assert np.isfinite(result.metrics["test"]["loss"]["mean"])
