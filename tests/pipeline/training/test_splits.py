"""Folds are the published ones unless others are asked for."""

import networkx as nx
import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from sklearn.model_selection import StratifiedKFold, train_test_split

from leap.pipeline import ingest, train
from leap.pipeline.engine.train import plan_training
from leap.pipeline.folds import folds
from leap.pipeline.training.options import identity
from leap.pipeline.training.splits import class_frequencies, labels_of, make_splits
from leap.store.errors import InvalidInputError
from leap.store.graphs.dataset import PARTS
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


@pytest.fixture(scope="module")
def official():
    """Fifty graphs with three official splits, which leave out the last ten."""
    graphs = [nx.path_graph(2 + i % 3) for i in range(50)]
    dealt = np.random.default_rng(0).choice(3, size=(50, 3), p=[0.5, 0.25, 0.25])
    dealt[40:] = 3
    masks = {name: dealt == code for code, name in enumerate(PARTS)}
    return graphs_source(
        graphs, "official", coordinates(graphs), [i % 2 for i in range(50)], "graph-classification", masks
    )


def trained_on(source, context, run, options):
    metrics = train(source, options, context, run=run).metrics
    table = pq.read_table(run / "predictions.parquet")
    tested = [table.filter(pc.equal(table["fold"], n))["graph"].to_pylist() for n in range(len(metrics["folds"]))]
    return metrics, [sorted(graphs) for graphs in tested]


def test_official_splits_take_the_place_of_folds(context, official, options, run):
    masks = official.read().masks
    own = [np.flatnonzero(masks["test"][:, split]).tolist() for split in range(3)]
    metrics, tested = trained_on(official, context, run, options(backbone="gcn", encoding="none", folds=5))
    assert (metrics["splits"], tested) == ("official", own)
    sizes = [{part: int(masks[part][:, split].sum()) for part in PARTS} for split in range(3)]
    assert [fold["sizes"] for fold in metrics["folds"]] == sizes


def test_fewer_folds_are_the_first_official_splits_and_a_split_seed_changes_none(context, official, options, run):
    chosen = options(backbone="gcn", encoding="none", folds=2, split_seed=7)
    _, tested = trained_on(official, context, run, chosen)
    masks = official.read().masks
    assert tested == [np.flatnonzero(masks["test"][:, split]).tolist() for split in range(2)]


def test_cross_validation_can_be_had_instead(context, official, options, run):
    chosen = options(backbone="gcn", encoding="none", folds=5, cross_validation=True)
    metrics, tested = trained_on(official, context, run, chosen)
    published = folds(np.arange(50) % 2, "graph-classification", 50)
    assert metrics["splits"] == "cross-validation"
    assert tested == [fold["test"].tolist() for fold in published]


def test_cross_validation_of_a_node_task_is_refused(context, nodes, options, run):
    with pytest.raises(InvalidInputError, match=r"'nodes' is a node task.*Leave --cross-validation out"):
        train(nodes, options(cross_validation=True), context, run=run)


def test_a_plan_counts_the_splits_that_there_are(context, official, options, tmp_path):
    chosen = options(backbone="gcn", encoding="none", folds=5)
    plan = plan_training(official, chosen, context, runs=tmp_path)
    assert (plan.datasets[0].as_json()["folds"], len(plan.details.folds)) == (3, 3)


def test_asking_for_cross_validation_later_keeps_the_fingerprints_of_old_runs(options):
    assert "cross_validation" not in identity(options().flat())
    assert options().fingerprint("d", ["k"]) != options(cross_validation=True).fingerprint("d", ["k"])
