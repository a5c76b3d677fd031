"""Folds are the published ones unless others are asked for."""

import networkx as nx
import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold, train_test_split

from leap.pipeline import ingest
from leap.pipeline.training.splits import class_frequencies, labels_of, make_splits
from leap.store.errors import InvalidInputError
from tests.pipeline.training.conftest import coordinates, graphs_source


def test_stored_folds_are_the_published_protocol(context, options, shapes):
    dataset = context.store.get(ingest(shapes, context=context)["dataset"].key)
    labels = labels_of(dataset)
    splitter = StratifiedKFold(5, shuffle=True, random_state=42)
    splits = make_splits(dataset, options(folds=5))
    assert len(splits) == 5
    for split, (rest, test) in zip(splits, splitter.split(labels, labels), strict=True):
        train, val = train_test_split(rest, test_size=0.25, random_state=42)
        for name, expected in (("train", train), ("val", val), ("test", test)):
            assert np.array_equal(split.graphs[name], expected)


def test_other_folds_and_seeds_are_cut_likewise(context, options, shapes):
    dataset = context.store.get(ingest(shapes, context=context)["dataset"].key)
    usual = make_splits(dataset, options(folds=5))
    other = make_splits(dataset, options(folds=5, split_seed=1))
    assert not np.array_equal(usual[0].graphs["test"], other[0].graphs["test"])
    three = make_splits(dataset, options(folds=3))
    tested = np.sort(np.concatenate([split.graphs["test"] for split in three]))
    assert np.array_equal(tested, np.arange(121))


def test_more_folds_than_a_class_has_graphs_are_refused_with_fewer_as_the_way_out(context, options):
    graphs = [nx.path_graph(3)] * 50
    few = graphs_source(graphs, "few", coordinates(graphs), [0] * 20 + [1] * 12 + [2] * 18, "graph-classification")
    dataset = context.store.get(ingest(few, context=context)["dataset"].key)
    message = (
        r"no class of 'few' has more than 20 graphs \(the smallest has 12\), fewer than the 40 folds. Use at most 20 "
        r"--folds, a label with fewer classes \(it has 3\), or more graphs"
    )
    with pytest.raises(InvalidInputError, match=message):
        make_splits(dataset, options(folds=40))
    assert len(make_splits(dataset, options(folds=20))) == 20


def test_node_tasks_use_the_dataset_s_splits(context, options, nodes):
    dataset = context.store.get(ingest(nodes, context=context)["dataset"].key)
    assert [split.mask for split in make_splits(dataset, options(folds=5))] == [0, 1, 2]
    assert [split.mask for split in make_splits(dataset, options(folds=2))] == [0, 1]


def test_frequencies_are_those_of_the_whole_dataset(context, shapes):
    dataset = context.store.get(ingest(shapes, context=context)["dataset"].key)
    assert class_frequencies(dataset) == [61 / 121, 60 / 121]
