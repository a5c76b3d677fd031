"""The published folds, and masks for nodes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

from leap.pipeline.folds import folds, node_masks
from leap.store.graphs.dataset import fold_table

LABELS = np.random.default_rng(0).integers(0, 4, 203)


def test_classification_folds_are_scikit_learns_stratified_ones():
    expected = StratifiedKFold(5, shuffle=True, random_state=42).split(LABELS, LABELS)
    for fold, (rest, held_out) in zip(folds(LABELS, "graph-classification", 203), expected, strict=True):
        train, val, test = fold.values()
        left, right = train_test_split(rest, test_size=0.25, random_state=42)
        assert test.tolist() == held_out.tolist()
        assert (train.tolist(), val.tolist()) == (left.tolist(), right.tolist())


def test_regression_folds_are_scikit_learns_plain_ones():
    expected = [test.tolist() for _, test in KFold(5, shuffle=True, random_state=42).split(np.zeros(50))]
    assert [fold["test"].tolist() for fold in folds(np.zeros((50, 3)), "graph-regression", 50)] == expected


def test_folds_do_not_depend_on_how_labels_are_coded():
    renamed = np.array(["d", "a", "c", "b"])[LABELS]
    for one, other in zip(
        folds(LABELS, "graph-classification", 203), folds(renamed, "graph-classification", 203), strict=True
    ):
        assert all(one[part].tolist() == other[part].tolist() for part in one)


def test_the_seed_changes_the_folds():
    one, other = (folds(LABELS, "graph-classification", 203, seed=seed)[0]["test"].tolist() for seed in (42, 43))
    assert one != other


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 30), st.integers(1, 6), st.integers(2, 6), st.booleans())
def test_every_graph_is_tested_once_and_never_in_two_parts(count, classes, n_folds, regression):
    y = np.arange(count) % classes
    result = folds(y, "graph-regression" if regression else "graph-classification", count, n_folds=n_folds)
    assert len(result) in (0, n_folds)
    for parts in result:
        assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(count))
    if result:
        assert sorted(np.concatenate([parts["test"] for parts in result]).tolist()) == list(range(count))


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (np.zeros(4), "graph-classification"),
        (np.arange(12) // 3, "graph-classification"),
        (np.zeros(4), "graph-regression"),
        (np.zeros(100), "node-classification"),
        (None, "none"),
    ],
)
def test_no_folds_where_the_protocol_cannot_be_followed(y, task):
    count = 1 if y is None else len(y)
    assert folds(y, task, count) == []
    assert fold_table(folds(y, task, count)).num_rows == 0


def test_two_graphs_in_two_folds_leave_nothing_to_validate_on():
    assert folds(np.zeros(2), "graph-regression", 2, n_folds=2) == []


def test_small_classes_do_not_warn(recwarn):
    assert len(folds(np.array([0] * 20 + [1]), "graph-classification", 21)) == 5
    assert not recwarn.list


def test_the_table_holds_the_folds_in_order():
    table = fold_table(folds(LABELS, "graph-classification", 203))
    assert [str(field.type) for field in table.schema] == [
        "int64",
        "int8",
        "dictionary<values=string, indices=int8, ordered=0>",
    ]
    rows = table.to_pydict()
    for number, parts in enumerate(folds(LABELS, "graph-classification", 203)):
        for part, members in parts.items():
            chosen = [
                graph
                for graph, fold, name in zip(rows["graph"], rows["fold"], rows["part"], strict=True)
                if (fold, name) == (number, part)
            ]
            assert chosen == members.tolist()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=200), st.integers(0, 5))
def test_masks_are_disjoint_halves_and_quarters_also_inside_classes(labels, seed):
    y = np.array(labels)
    masks = node_masks(y, seed=seed, splits=3)
    together = np.stack([masks[part] for part in ("train", "val", "test")])
    assert (together.sum(axis=0) == 1).all()
    for label in [None, *set(labels)]:
        members = np.ones(len(y), bool) if label is None else y == label
        sizes = together[:, members].sum(axis=1)
        for share, size in zip((0.5, 0.25, 0.25), sizes, strict=True):
            assert (np.abs(size - share * members.sum()) <= 1).all()


def test_more_splits_leave_the_first_ones_as_they_are():
    few, many = node_masks(LABELS, splits=2), node_masks(LABELS, splits=10)
    assert all((few[part] == many[part][:, :2]).all() for part in few)
    assert not (many["train"][:, 0] == many["train"][:, 1]).all()


def test_nodes_with_targets_are_dealt_out_as_one_class_and_those_without_left_out():
    y = np.arange(24.0).reshape(12, 2)
    y[[0, 7], [0, 1]] = np.nan
    masks, labelled = node_masks(y, splits=3), np.flatnonzero(~np.isnan(y).any(axis=1))
    of_one_class = node_masks(np.zeros(10), splits=3)
    for part, mask in masks.items():
        assert not mask[[0, 7]].any()
        assert (mask[labelled] == of_one_class[part]).all()


def test_folds_of_a_multi_label_task_are_those_of_a_regression():
    y = np.array([[0.0, np.nan]] * 50)
    one, other = folds(y, "graph-multilabel", 50), folds(np.zeros((50, 2)), "graph-regression", 50)
    assert [{name: part.tolist() for name, part in fold.items()} for fold in one] == [
        {name: part.tolist() for name, part in fold.items()} for fold in other
    ]
