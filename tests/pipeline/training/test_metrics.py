"""Metrics are those of scikit-learn, ties and missing classes included."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference

from leap.pipeline.training.metrics import classification_metrics, mean_and_std, regression_metrics


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=60))
def test_auroc_and_average_precision_equal_scikit_learn(pairs):
    scores = np.array([score / 6 for score, _ in pairs])
    labels = np.array([int(label) for _, label in pairs])
    found = classification_metrics(np.stack([1 - scores, scores], axis=1), labels)
    if len(set(labels)) < 2:
        assert found["auroc"] is found["average_precision"] is None
    else:
        assert found["auroc"] == pytest.approx(reference.roc_auc_score(labels, scores))
        assert found["average_precision"] == pytest.approx(reference.average_precision_score(labels, scores))


def test_several_classes_are_averaged_one_against_the_rest():
    rng = np.random.default_rng(0)
    probabilities, labels = rng.dirichlet(np.ones(4), 200), rng.integers(0, 4, 200)
    found = classification_metrics(probabilities, labels)
    assert found["accuracy"] == reference.accuracy_score(labels, probabilities.argmax(1))
    assert found["auroc"] == pytest.approx(reference.roc_auc_score(labels, probabilities, multi_class="ovr"))
    assert found["average_precision"] == pytest.approx(
        reference.average_precision_score(np.eye(4)[labels], probabilities, average="macro")
    )


def test_regression_metrics_equal_scikit_learn():
    rng = np.random.default_rng(0)
    targets, predicted = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    found = regression_metrics(predicted, targets)
    assert found["r2"] == pytest.approx(reference.r2_score(targets, predicted))
    assert found["mae"] == pytest.approx(reference.mean_absolute_error(targets, predicted))
    assert found["mse"] == pytest.approx(reference.mean_squared_error(targets, predicted))
    assert regression_metrics(predicted, np.ones((50, 3)))["r2"] is None


def test_standard_deviations_have_one_degree_of_freedom_less():
    folds = [{"accuracy": 0.5, "auroc": None}, {"accuracy": 0.7, "auroc": 0.9}, {"accuracy": 0.6, "auroc": None}]
    found = mean_and_std(folds)
    assert found["accuracy"] == {"mean": pytest.approx(0.6), "std": pytest.approx(np.std([0.5, 0.7, 0.6], ddof=1))}
    assert found["auroc"] == {"mean": 0.9, "std": None}


def test_predictions_that_are_no_numbers_are_judged_without_an_error():
    labels = np.array([0, 1, 2, 1])
    for some in (slice(None), slice(1, 3)):
        probabilities = np.full((4, 3), 1 / 3, np.float32)
        probabilities[some] = np.nan
        assert set(classification_metrics(probabilities, labels)) == {"accuracy", "auroc", "average_precision"}
        assert set(classification_metrics(probabilities[:, :2], labels % 2)) == {
            "accuracy",
            "auroc",
            "average_precision",
        }
        assert not np.isfinite(regression_metrics(probabilities, np.ones((4, 3)))["mse"])
