"""A finished run predicts for other graphs, by original labels."""

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch_geometric.data import Data

from leap.pipeline import IngestOptions, load_run, predict, train
from leap.store.errors import DamagedCheckpointWarning, InvalidInputError
from tests.pipeline.training.conftest import coordinates, graphs_source


@pytest.fixture
def trained(context, options, shapes, run):
    return train(shapes, options(backbone="gcn", encoding="rwpe+leap-l", epochs=15, lr=0.02), context, run=run)


def new_graphs(y, task="graph-classification", count=20):
    graphs = [(nx.cycle_graph if i % 2 else nx.path_graph)(4 + i // 2 % 4) for i in range(count)]
    return graphs_source(graphs, "new", coordinates(graphs), y, task)


def test_new_graphs_are_encoded_and_predicted(context, trained):
    result = predict(trained.path, new_graphs([i % 2 for i in range(20)]), context)
    table = pq.read_table(result.path).to_pydict()
    assert table["graph"] == list(range(20))
    assert result.metrics["accuracy"] == np.mean([p == i % 2 for i, p in enumerate(table["predicted"])])
    assert result.metrics["accuracy"] > 0.6
    assert not result.was_trained_on
    assert result.folds == [0, 1]


def test_one_fold_repeats_its_own_test_predictions(context, trained, shapes):
    result = predict(trained.path, shapes, context, fold=1)
    assert result.was_trained_on
    ours = pq.read_table(result.path).to_pydict()
    kept = pq.read_table(trained.path / "predictions.parquet").to_pydict()
    for fold, graph, value in zip(kept["fold"], kept["graph"], kept["probability_1"], strict=True):
        if fold == 1:
            assert ours["probability_1"][graph] == pytest.approx(value, abs=1e-5)


@pytest.mark.parametrize(
    ("y", "task", "reason"),
    [
        ([0, 7] * 10, "graph-classification", "the run knows the labels 0, 1 and 'new' has 0, 7, so there are no"),
        ([-1, 1] * 10, "graph-classification", "the run knows the labels 0, 1 and 'new' has -1, 1, so there are no"),
        (np.ones((20, 1)), "graph-regression", "the run is of graph-classification and 'new' of graph-regression"),
    ],
)
def test_labels_that_the_run_does_not_know_are_named_and_not_judged(context, trained, y, task, reason):
    result = predict(trained.path, new_graphs(y, task), context)
    assert result.metrics == {}
    assert reason in result.unjudged
    assert result.as_json()["unjudged"] == result.unjudged
    assert pq.read_table(result.path).num_rows == 20


def test_some_of_the_runs_labels_are_enough_to_judge(context, trained):
    result = predict(trained.path, new_graphs([1] * 20), context)
    assert result.unjudged is None
    assert 0 <= result.metrics["accuracy"] <= 1


def test_targets_are_judged_only_by_as_many(context, options, sizes, run):
    regression = train(sizes, options(backbone="gin", encoding="none"), context, run=run)
    result = predict(regression.path, new_graphs(np.arange(20.0)[:, None], "graph-regression"), context)
    assert result.metrics == {}
    assert "the run predicts 2 targets and 'new' has 1" in result.unjudged
    labelled = predict(regression.path, new_graphs([0, 1] * 10), context)
    assert labelled.metrics == {}
    assert "'new' of graph-classification" in labelled.unjudged


def test_wrong_runs_folds_and_features_are_refused(context, trained, atoms, tmp_path, shapes):
    with pytest.raises(InvalidInputError, match="no finished run"):
        predict(tmp_path / "nothing", shapes, context)
    with pytest.raises(InvalidInputError, match="no fold 9"):
        predict(trained.path, shapes, context, fold=9)
    with pytest.raises(InvalidInputError, match="2 categorical features"):
        predict(trained.path, atoms, context)


def test_regression_and_node_runs_predict_too(context, options, sizes, nodes, run):
    regression = train(sizes, options(backbone="gin", encoding="none"), context, run=run.with_name("regression"))
    result = predict(regression.path, sizes, context)
    assert set(result.metrics) == {"r2", "mae", "mse"}
    assert pq.read_table(result.path).column_names == ["graph", "predicted_0", "predicted_1"]
    of_nodes = train(nodes, options(backbone="gcn", encoding="rwpe"), context, run=run.with_name("nodes"))
    result = predict(of_nodes.path, nodes, context)
    assert pq.read_table(result.path)["node"].to_pylist() == list(range(80))


def test_a_loaded_run_predicts_what_predict_writes(context, trained):
    graphs = new_graphs([i % 2 for i in range(20)])
    table = pq.read_table(predict(trained.path, graphs, context).path)
    loaded = load_run(trained.path)
    assert loaded.classes == [0, 1]
    written = np.stack([table[f"probability_{label}"].to_numpy() for label in loaded.classes], axis=1)
    assert np.array_equal(loaded(graphs, context).numpy(), written)
    assert np.array_equal(loaded(graphs).numpy(), written)  # in a store that is gone afterwards
    assert sorted(loaded.networks) == [0, 1]
    assert not any(network.training for network in loaded.networks.values())
    folds = [load_run(trained.path, fold)(graphs, context).numpy() for fold in (0, 1)]
    assert np.array_equal((folds[0] + folds[1]) / 2, written)
    assert not np.array_equal(folds[0], folds[1])


def test_a_loaded_run_takes_pyg_graphs(context, trained):
    generator = torch.Generator().manual_seed(0)
    graphs = [
        Data(x=torch.rand(n, 2, generator=generator), edge_index=torch.tensor([range(n - 1), range(1, n)]))
        for n in (3, 4, 5)
    ]
    probabilities = load_run(trained.path)(graphs)
    assert probabilities.shape == (3, 2)
    assert torch.allclose(probabilities.sum(1), torch.ones(3))
    wide = [Data(x=torch.rand(3, 7), edge_index=torch.tensor([[0, 1], [1, 2]]))]
    with pytest.raises(InvalidInputError, match="7 features, and the run one was trained on 2"):
        load_run(trained.path)(wide)


def test_graphs_without_features_get_what_the_runs_got(context, options, run):
    graphs = [(nx.cycle_graph if i % 2 else nx.path_graph)(4 + i // 2 % 4) for i in range(20)]
    bare = graphs_source(graphs, "bare", None, [i % 2 for i in range(20)], "graph-classification")
    constant = IngestOptions(features="constant")
    blank = run.with_name("blank")
    train(bare, options(backbone="gcn", encoding="none"), context, run=blank, ingest_options=constant)
    with pytest.raises(InvalidInputError, match=r"degree instead; the run blank was trained on constant. Read"):
        predict(blank, bare, context)
    table = pq.read_table(predict(blank, bare, context, ingest_options=constant).path)
    assert np.array_equal(load_run(blank)(bare)[:, 0].numpy(), table["probability_0"].to_numpy())


def test_graphs_without_features_are_not_predicted_by_a_run_that_had_some(context, options, run):
    graphs = [nx.path_graph(3 + i % 3) for i in range(20)]
    y = [i % 2 for i in range(20)]
    measured = graphs_source(graphs, "measured", coordinates(graphs, 1), y, "graph-classification")
    train(measured, options(backbone="gcn", encoding="none"), context, run=run)
    with pytest.raises(InvalidInputError, match=r"was trained on given. Give it such features"):
        load_run(run)(graphs_source(graphs, "bare", None, y, "graph-classification"))


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("a checkpoint ran code",))


def test_loading_a_run_runs_no_code_of_its_checkpoints(trained):
    path = trained.path / "fold-0" / "best.pt"
    torch.save(torch.load(path, weights_only=True) | {"trap": Trap()}, path)
    with (
        pytest.warns(DamagedCheckpointWarning, match="UnpicklingError"),
        pytest.raises(InvalidInputError, match="no checkpoint that can be read"),
    ):
        load_run(trained.path)
