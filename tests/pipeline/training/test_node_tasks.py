"""Node tasks: defaults of their own, which count where nothing was chosen, and presets that keep the paper's."""

import json

import pytest

from leap.models.network_config import NetworkConfig
from leap.pipeline import TrainOptions, train
from leap.pipeline.datasets import dataset_card
from leap.pipeline.engine.results import History
from leap.pipeline.engine.train import plan_training
from leap.pipeline.experiments.expand import expand
from leap.pipeline.experiments.sweep_file import load, parse
from leap.pipeline.training.options import ON_NODES, OPTIONS
from tests.pipeline.training.test_stacks import work

NODES, GRAPHS = "node-classification", "graph-classification"
PLAIN = NetworkConfig(encoding="none")


def test_what_was_not_chosen_has_the_defaults_of_the_task():
    options = TrainOptions.of({"encoding": "rwpe", "lr": 0.5, "norm": "none"})
    values = options.on(NODES).flat()
    assert {name: values[name] for name in ON_NODES} == ON_NODES | {"lr": 0.5, "norm": "none"}
    assert values["encoding"] == "rwpe"
    assert options.on(NODES).on(NODES) == options.on(NODES)
    assert options.on(GRAPHS) == options.on("graph-regression") == options.on(None) == options


def test_defaults_that_are_chosen_by_name_count_too():
    same = TrainOptions.of({name: OPTIONS[name].default for name in ON_NODES})
    assert same == TrainOptions()
    assert same.on(NODES) == same
    assert same.on(NODES).fingerprint("nodes", []) == TrainOptions().fingerprint("nodes", [])


@pytest.mark.parametrize("backbone", ["nomp", "gps"])
def test_a_backbone_takes_the_defaults_that_mean_something_to_it(backbone):
    network = TrainOptions.of({"backbone": backbone}).on(NODES).network
    assert (network.norm, network.residual, network.feed_forward) == ("none", False, False)
    assert (network.hidden, network.dropout) == (ON_NODES["hidden"], ON_NODES["dropout"])


def test_a_run_on_nodes_has_them_and_says_so(context, nodes, shapes, tmp_path):
    asked = TrainOptions(network=PLAIN, epochs=2)
    first, again = (train(nodes, asked, context, runs=tmp_path) for _ in range(2))
    assert (first.cached, again.cached) == (False, True)
    assert first.metrics["options"]["network"]["norm"] == "layer"
    assert first.metrics["options"]["epochs"] == 2
    assert len(first.metrics["folds"]) == 3  # all its splits
    plain = train(nodes, TrainOptions.of({"encoding": "none", "epochs": 2, "norm": "none"}), context, runs=tmp_path)
    assert plain.metrics["parameters"]["total"] < first.metrics["parameters"]["total"]
    graphs = train(shapes, TrainOptions(network=PLAIN, epochs=1, folds=2), context, runs=tmp_path).metrics["options"]
    assert (graphs["network"]["norm"], graphs["lr"]) == ("none", 1e-3)


def test_a_short_training_is_not_all_warm_up():
    on = TrainOptions(epochs=20).on("node-classification")
    assert (on.epochs, on.warm_up) == (20, 2)
    assert TrainOptions(epochs=1000).on("node-classification").warm_up == ON_NODES["warm_up"]
    assert TrainOptions(epochs=20, warm_up=7).on("node-classification").warm_up == 7


def test_a_plan_and_a_result_without_its_data_have_them_too(context, nodes, tmp_path):
    asked = TrainOptions(network=PLAIN, epochs=2)
    plan = plan_training(nodes, asked, context, runs=tmp_path).as_json()
    assert (plan["options"]["lr"], plan["options"]["network"]["residual"]) == (ON_NODES["lr"], True)
    path = train(nodes, asked, context, runs=tmp_path).path
    found = History.read(tmp_path).by_name("nodes", asked)
    assert found is not None
    assert found[0].path == path
    assert History.read(tmp_path).by_name("nodes", TrainOptions(network=PLAIN, epochs=2, lr=1e-3)) is None


def test_runs_that_only_node_tasks_tell_apart_are_both_done(context, nodes, tmp_path):
    rate = OPTIONS["lr"].default
    grids = [{"dataset": "nodes", "encoding": "none", "epochs": 1, **more} for more in ({}, {"lr": rate}, {"lr": rate})]
    runs = expand(parse({"grids": grids}, "here"))
    assert len(runs) == 2
    done = work(context, tmp_path, *((nodes, run.options) for run in runs))
    assert [outcome.request.options.lr for outcome in done] == [ON_NODES["lr"], rate]


@pytest.mark.parametrize(
    ("preset", "dataset", "prints"),
    [
        (
            "paper-time",
            "roman-empire",
            ["42475142d38ae6f7", "4b673fd69fe997c1", "c8a6bcfb30fffeb7", "40be3a8df59d383c", "a7c4381841332e8a"],
        ),
        ("quick", "romanesque", ["56597df7367eeb1e", "45155e17e5281437"]),
    ],
)
def test_presets_keep_the_runs_that_they_had(preset, dataset, prints):
    """Fingerprints of before node tasks had defaults of their own."""
    runs = [run.on(NODES).options for run in expand(load(preset)) if run.name == dataset]
    assert [options.fingerprint(dataset, ["k"])[:16] for options in runs] == prints


def test_cards_say_what_chooses_the_tested_epoch():
    chosen = {name: dataset_card(name).select for name in ("minesweeper", "tolokers", "amazon-ratings", "roman-empire")}
    assert list(chosen.values()) == ["auroc", "auroc", "accuracy", "loss"]
    assert dataset_card("minesweeper").metric == "auroc"
    assert dataset_card("minesweeper").task == dataset_card("romanesque").task == NODES
    assert dataset_card("letters-high").task is dataset_card("my-graphs").task is None


def test_accuracy_chooses_the_epoch_where_asked_to(context, nodes, options, tmp_path):
    run = train(nodes, options(encoding="none", epochs=8, select="accuracy"), context, runs=tmp_path)
    for fold in run.metrics["folds"]:
        accuracies = run.path / f"fold-{fold['fold']}" / "epochs.jsonl"
        values = [json.loads(line)["val_accuracy"] for line in accuracies.read_text().splitlines()]
        assert fold["best_epoch"] == values.index(max(values))
