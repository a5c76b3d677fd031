"""Training: every task and encoding runs, results are kept and repeated exactly, interruptions change nothing."""

import json
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from sklearn.metrics import mean_absolute_error, r2_score

from leap.models.network_config import NetworkConfig
from leap.pipeline import Context, TrainOptions, Workforce, train
from leap.pipeline.engine.run_folder import RunFolder
from leap.pipeline.events import EpochEnded
from leap.pipeline.training import loop, trainee
from leap.pipeline.training.loop import StackAdam, StackTrainer
from leap.store.errors import DamagedCheckpointWarning, InvalidInputError, WorkFailedError


def without_times(metrics):
    text = json.dumps(metrics, sort_keys=True)
    return {
        name: value
        for name, value in json.loads(text, object_hook=_drop_times).items()
        if name not in ("seconds", "run", "artifacts")
    }


def _drop_times(entry):
    return {name: value for name, value in entry.items() if not name.startswith("seconds")}


def weights(path, number=0, name="best"):
    return torch.load(path / f"fold-{number}" / f"{name}.pt", weights_only=True)["network"]


def same_weights(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_a_run_leaves_everything_worth_keeping(context, options, shapes, run):
    events: list[EpochEnded] = []
    chosen = options(backbone="gcn", encoding="leap-l", epochs=4)
    result = train(shapes, chosen, context, run=run, on_epoch=events.append)
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics == result.metrics
    assert metrics["parameters"] == {"backbone": 3650, "leap-l": 826, "total": 4476}
    assert {name: len(set(entry)) for name, entry in metrics["test"].items()}["accuracy"] == 2
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["options"] == chosen.model_dump(mode="json")
    assert [entry["kind"] for entry in config["artifacts"]] == ["dataset", "neighborhoods"]
    curves = pq.read_table(run / "curves.parquet").to_pydict()
    assert curves["fold"] == [0] * 4 + [1] * 4
    assert curves["epoch"] == [0, 1, 2, 3] * 2
    assert sorted((event.fold, event.values["epoch"]) for event in events) == [(f, e) for f in (0, 1) for e in range(4)]
    predictions = pq.read_table(run / "predictions.parquet").to_pydict()
    assert sorted(predictions["graph"]) == list(range(121))
    right = np.array(predictions["label"]) == np.array(predictions["predicted"])
    fold = np.array(predictions["fold"])
    assert [right[fold == n].mean() for n in (0, 1)] == [entry["test"]["accuracy"] for entry in metrics["folds"]]
    record = f"one-{metrics['fingerprint'][:10]}"  # runs of that name elsewhere have records of their own
    assert context.store.references.runs()[record] == {entry["key"] for entry in metrics["keys"]}


def test_the_tested_epoch_is_the_one_with_the_lowest_validation_loss(context, options, shapes, run):
    metrics = train(shapes, options(backbone="gin", encoding="none", epochs=12, lr=0.05), context, run=run).metrics
    curves = pq.read_table(run / "curves.parquet").to_pydict()
    for entry in metrics["folds"]:
        losses = [loss for loss, fold in zip(curves["val_loss"], curves["fold"], strict=True) if fold == entry["fold"]]
        assert entry["best_epoch"] == int(np.argmin(losses))
        assert entry["val"]["loss"] == pytest.approx(min(losses))


def test_training_stops_ten_epochs_after_the_lowest_loss(context, options, shapes, run):
    chosen = options(backbone="gin", encoding="none", epochs=100, lr=0.5)
    for entry in train(shapes, chosen, context, run=run).metrics["folds"]:
        assert entry["epochs"] < 100
        assert entry["epochs"] == entry["best_epoch"] + 11


def test_auroc_chooses_the_epoch_where_asked_to(context, options, shapes, run):
    chosen = options(backbone="gcn", encoding="none", epochs=12, lr=0.02, select="auroc")
    metrics = train(shapes, chosen, context, run=run).metrics
    curves = pq.read_table(run / "curves.parquet").to_pydict()
    for entry in metrics["folds"]:
        values = [v for v, fold in zip(curves["val_auroc"], curves["fold"], strict=True) if fold == entry["fold"]]
        assert entry["best_epoch"] == int(np.argmax(values))
    assert options().selection("hiv") == "auroc"
    assert options().selection("Letter-high") == "loss"


@pytest.mark.parametrize(
    "network",
    [
        {"backbone": "gcn", "encoding": "leap-f"},
        {"backbone": "nomp", "encoding": "lape+leap-l", "projection": "linear"},
        {"backbone": "gat", "encoding": "lect"},
        {"backbone": "gin", "encoding": "leap-l", "leap_on": "rwpe", "hops": (1, 2)},
        {"backbone": "gcn", "encoding": "leap-l", "leap_on": "lect", "directions": 3, "thresholds": 4},
        {"backbone": "gcn", "encoding": "leap-f", "leap_every_layer": True, "projection": "deepsets"},
        {"backbone": "gps", "encoding": "rwpe"},
        {"backbone": "dect-4k", "encoding": "none"},
    ],
    ids=lambda network: "-".join(map(str, network.values())),
)
def test_every_kind_of_network_trains(context, options, shapes, run, network):
    result = train(shapes, options(**network, epochs=2), context, run=run)
    losses = pq.read_table(run / "curves.parquet")["train_loss"].to_numpy()
    assert np.isfinite(losses).all()
    assert losses[1] < losses[0]
    assert not result.cached


def test_regression_is_judged_in_the_targets_own_units(context, options, sizes, run):
    metrics = train(sizes, options(backbone="gcn", encoding="none", epochs=20, lr=0.01), context, run=run).metrics
    rows = pq.read_table(run / "predictions.parquet")
    assert max(rows["target_1"].to_pylist()) > 1000
    for entry in metrics["folds"]:
        part = rows.filter(rows["fold"].to_numpy() == entry["fold"])
        targets, predicted = (
            np.stack([part[f"{name}_{column}"].to_numpy() for column in (0, 1)], axis=1)
            for name in ("target", "predicted")
        )
        assert entry["test"]["r2"] == pytest.approx(r2_score(targets, predicted))
        assert entry["test"]["mae"] == pytest.approx(mean_absolute_error(targets, predicted))
    losses = pq.read_table(run / "curves.parquet")["train_loss"].to_numpy()
    assert losses[0] < 10  # of standardized targets
    assert losses.min() < 0.5


def test_categorical_features_are_embedded(context, options, atoms, run):
    chosen = options(backbone="gin", encoding="leap-l", epochs=30, lr=0.02)
    metrics = train(atoms, chosen, context, run=run).metrics
    assert metrics["parameters"]["embedding"] == 4 * 2 + (2 * 16 + 16) + (16 * 3 + 3)
    assert metrics["test"]["auroc"]["mean"] > 0.9


def test_node_tasks_train_on_the_whole_graph(context, options, nodes, run):
    metrics = train(nodes, options(backbone="gin", encoding="leap-l", epochs=60), context, run=run).metrics
    predictions = pq.read_table(run / "predictions.parquet").to_pydict()
    masks = nodes.read().masks["test"]
    for fold in (0, 1):
        chosen = [node for node, number in zip(predictions["node"], predictions["fold"], strict=True) if number == fold]
        assert np.array_equal(chosen, np.flatnonzero(masks[:, fold]))
    assert metrics["test"]["auroc"]["mean"] > 0.8


def test_frequency_weights_change_the_loss_of_uneven_classes_only(context, options, atoms, run):
    kind = {"backbone": "gin", "encoding": "none"}
    plain = train(atoms, options(**kind), context, run=run.with_name("plain")).metrics
    weighted = train(atoms, options(**kind, class_weight="frequency"), context, run=run.with_name("weighted")).metrics
    assert plain["folds"][0]["test"]["loss"] != weighted["folds"][0]["test"]["loss"]


def test_training_loads_neither_torchs_compiler_nor_pyg(context, run):
    """Each takes about a second, in every process that trains."""
    code = f"""
import sys
from leap.pipeline import Context, TrainOptions, Workforce, train
from leap.store import Store
chosen = TrainOptions.of({{"encoding": "leap-l", "epochs": 1, "batch_size": 256}})
train("letters-low", chosen, Context(Store.open({context.store.url!r}), workforce=Workforce(0)), run={str(run)!r})
print({{"torch._dynamo", "sympy", "torch_geometric"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["set()"], done.stderr


def test_the_same_seed_gives_the_same_bits_whoever_works(context, options, shapes, run):
    chosen = options(backbone="nomp", encoding="lape+leap-l")
    before = torch.get_rng_state()
    one = train(shapes, chosen, context, run=run.with_name("one"))
    assert torch.equal(torch.get_rng_state(), before)
    elsewhere = Context(context.store, workforce=Workforce(2))
    two = train(shapes, chosen, elsewhere, run=run.with_name("two"), force=True)  # "one" would be the answer
    assert without_times(one.metrics) == without_times(two.metrics)
    for fold in (0, 1):
        assert same_weights(weights(one.path, fold, "last"), weights(two.path, fold, "last"))
    other = train(shapes, options(backbone="nomp", encoding="lape+leap-l", seed=1), context, run=run.with_name("three"))
    assert not same_weights(weights(one.path), weights(other.path))


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("writes", [1, 2, 3, 5, 8])
def test_a_resumed_run_ends_with_the_same_bits(context, options, shapes, run, monkeypatch, writes):
    """Stop at any write of a checkpoint, inside an epoch or after it, before or after the bytes are there."""
    chosen = options(backbone="nomp", encoding="lape+leap-l", batch_size=8)
    whole = train(shapes, chosen, context, run=run.parents[1] / "whole", checkpoint_steps=2)
    save, count = trainee.save, 0

    def failing(path, content):
        nonlocal count
        count += 1
        if count == writes and writes % 2:
            raise Interrupted
        save(path, content)
        if count == writes:
            raise Interrupted

    monkeypatch.setattr(trainee, "save", failing)
    with pytest.raises(Interrupted):
        train(shapes, chosen, context, run=run, force=True, checkpoint_steps=2)
    monkeypatch.setattr(trainee, "save", save)
    with pytest.raises(InvalidInputError, match="--resume"):
        train(shapes, chosen, context, run=run)
    resumed = train(shapes, chosen, context, run=run, resume=True, checkpoint_steps=2)
    assert without_times(resumed.metrics) == without_times(whole.metrics)
    for fold in (0, 1):
        assert same_weights(weights(resumed.path, fold, "last"), weights(whole.path, fold, "last"))
    curves = [pq.read_table(path / "curves.parquet").drop(["seconds"]) for path in (resumed.path, whole.path)]
    assert curves[0].equals(curves[1])


def test_a_resume_repeats_no_more_steps_than_stated(context, options, shapes, run, monkeypatch):
    chosen = options(backbone="gcn", encoding="none", batch_size=8, folds=2)
    taken = []
    step = StackAdam.step

    def counted(self, *args, **kwargs):
        taken.append(1)
        if len(taken) == 10:
            raise KeyboardInterrupt
        return step(self, *args, **kwargs)

    monkeypatch.setattr(StackAdam, "step", counted)
    with pytest.raises(KeyboardInterrupt):
        train(shapes, chosen, context, run=run, force=True, checkpoint_steps=4)
    monkeypatch.setattr(StackAdam, "step", step)
    last = torch.load(run / "fold-0" / "last.pt", weights_only=True)["progress"]
    steps_an_epoch = -(-45 // 8)
    assert last["epoch"] * steps_an_epoch + last["step"] >= 9 - 4


@pytest.mark.parametrize(("seconds", "wanted"), [(0.0, 9), (1e9, None)])
def test_checkpoints_are_written_by_time_unless_steps_are_given(
    context, options, shapes, run, monkeypatch, seconds, wanted
):
    """After 9 of 12 steps; whatever the time between checkpoints, the resumed run is that of an unbroken one."""
    chosen = options(backbone="gcn", encoding="none", batch_size=8, folds=2)
    whole = train(shapes, chosen, context, run=run.parents[1] / "whole")
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", seconds)
    step, taken = StackAdam.step, []

    def counted(self, *args, **kwargs):
        taken.append(1)
        if len(taken) == 10:
            raise KeyboardInterrupt
        return step(self, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(StackAdam, "step", counted)
        with pytest.raises(KeyboardInterrupt):
            train(shapes, chosen, context, run=run, stack=1)
    path = run / "fold-0" / "last.pt"
    met = torch.load(path, weights_only=True)["progress"] if path.exists() else None
    assert wanted == (None if met is None else met["epoch"] * -(-45 // 8) + met["step"])
    assert without_times(train(shapes, chosen, context, run=run, resume=True).metrics) == without_times(whole.metrics)


def test_a_finished_run_is_not_trained_again(context, options, shapes, run, monkeypatch):
    chosen = options(backbone="gcn", encoding="none")
    first = train(shapes, chosen, context, run=run)
    monkeypatch.setattr(StackTrainer, "run", lambda *_: pytest.fail("trained again"))
    again = train(shapes, chosen, context, run=run)
    assert again.cached
    assert again.metrics == first.metrics
    beside = train(shapes, chosen, context, run=run.with_name("other"))
    assert beside.cached
    assert beside.path == run
    assert train(shapes, chosen, context, run=run, resume=True).cached


def test_force_trains_again_and_a_taken_folder_is_refused(context, options, shapes, run):
    chosen = options(backbone="gcn", encoding="none")
    first = train(shapes, chosen, context, run=run)
    assert not train(shapes, chosen, context, run=run, force=True).cached
    with pytest.raises(InvalidInputError, match="differs in seed"):
        train(shapes, options(backbone="gcn", encoding="none", seed=5), context, run=run)
    assert RunFolder(run).metrics()["fingerprint"] == first.metrics["fingerprint"]
    with pytest.raises(InvalidInputError, match="no run in"):
        train(shapes, options(backbone="gcn", encoding="none", seed=6), context, run=run.with_name("new"), resume=True)


def test_checkpoints_hold_no_code(context, options, shapes, run):
    train(shapes, options(backbone="gcn", encoding="none"), context, run=run)
    for name in ("best", "last"):
        assert isinstance(torch.load(run / "fold-0" / f"{name}.pt", weights_only=True), dict)


@pytest.mark.parametrize("content", [b"", b"nonsense", "half", "number", None], ids=str)
@pytest.mark.parametrize("name", ["last", "best"])
def test_a_checkpoint_that_cannot_be_read_is_no_checkpoint(context, options, shapes, run, name, content):
    """Without last.pt the fold starts again, to the same bits; best.pt is written anew, and not read."""
    chosen = options(backbone="nomp", encoding="lape+leap-l")
    whole = train(shapes, chosen, context, run=run)
    kept = weights(run, 0, "last"), weights(run)
    (run / "metrics.json").unlink()
    (run / "fold-0" / "result.json").unlink()
    path = run / "fold-0" / f"{name}.pt"
    if content is None:
        path.unlink()
    else:
        damage(path, content)
    if content is None or name == "best":
        resumed = train(shapes, chosen, context, run=run, resume=True)
    else:
        with pytest.warns(DamagedCheckpointWarning, match=rf"fold-0/{name}\.pt cannot be read .* counts as missing"):
            resumed = train(shapes, chosen, context, run=run, resume=True)
    assert without_times(resumed.metrics) == without_times(whole.metrics)
    assert same_weights(kept[0], weights(run, 0, "last"))
    assert same_weights(kept[1], weights(run))


def damage(path, content):
    """Put other bytes in place of a checkpoint, cut it, or change one of its numbers and nothing else."""
    data = bytearray(path.read_bytes())
    if content == "number":
        number = next(iter(torch.load(path, weights_only=True)["network"].values())).numpy().tobytes()
        at = data.index(number)
        data[at : at + 4] = np.float32(0.25).tobytes()
    path.write_bytes(data[: len(data) // 2] if content == "half" else data if content == "number" else content)


def test_what_a_run_leaves_is_on_the_disk_before_it_gets_its_name(context, options, shapes, run, monkeypatch):
    """File by file: its bytes are synchronized, it is renamed, and its folder is synchronized."""
    import os

    calls, fsync, replace = [], os.fsync, os.replace

    def noting_fsync(descriptor):
        calls.append(("sync", os.path.realpath(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def noting_replace(source, target):
        calls.append(("rename", os.path.realpath(source), os.path.realpath(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(os, "replace", noting_replace)
    train(shapes, options(backbone="gcn", encoding="none"), context, run=run)
    root, renamed = os.path.realpath(run), set()
    for number, call in enumerate(calls):
        if call[0] == "rename" and call[2].startswith(root):
            assert calls[number - 1] == ("sync", call[1])
            assert calls[number + 1] == ("sync", os.path.dirname(call[2]))
            renamed.add(os.path.relpath(call[2], root))
    written = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    assert {name for name in written if not name.endswith(".lock")} == renamed


def test_data_without_labels_and_too_few_graphs_are_refused(context, options, run, shapes):
    import networkx as nx

    from tests.pipeline.training.conftest import coordinates, graphs_source

    graphs = [nx.path_graph(3)] * 4
    few = graphs_source(graphs, "few", coordinates(graphs), [0, 1, 0, 1], "graph-classification")
    with pytest.raises(InvalidInputError, match="too few for 5 folds"):
        train(few, options(folds=5), context, run=run)
    assert not run.exists()


@pytest.mark.parametrize(
    ("labels", "task", "message"),
    [
        (["a"] * 6, "graph-classification", "all 6 graphs of 'same' have the label 'a': there is nothing to learn"),
        ([7] * 18, "node-classification", "all 18 nodes of 'same' have the label 7: there is nothing to learn"),
        ([2.5] * 6, "graph-regression", "all 6 graphs of 'same' have the target 2.5: there is nothing to learn"),
    ],
)
def test_one_label_for_all_is_refused(context, options, run, labels, task, message):
    import networkx as nx

    from tests.pipeline.training.conftest import coordinates, graphs_source

    graphs = [nx.path_graph(3)] * 6
    same = graphs_source(graphs, "same", coordinates(graphs), labels, task)
    with pytest.raises(InvalidInputError, match=message):
        train(same, options(folds=2), context, run=run)
    assert not run.exists()


def test_options_that_do_not_matter_are_no_part_of_a_run():
    def fingerprint(**network):
        return TrainOptions(network=NetworkConfig(**network)).fingerprint("shapes", ["key"])

    assert fingerprint(encoding="rwpe", projection="linear") == fingerprint(encoding="rwpe", projection="deepsets")
    assert fingerprint(encoding="leap-l", projection="linear") != fingerprint(encoding="leap-l", projection="deepsets")
    assert fingerprint(encoding="rwpe", dim=4) != fingerprint(encoding="rwpe", dim=5)


@pytest.mark.parametrize(
    "network",
    [
        {"backbone": "nomp", "encoding": "leap-l", "learn_thresholds": True},
        {"backbone": "gcn", "encoding": "leap-l", "projection": "linear"},
        {"backbone": "gat", "encoding": "none"},
    ],
    ids=lambda network: "-".join(map(str, network.values())),
)
@pytest.mark.parametrize("select", ["loss", "auroc"])
def test_training_that_diverges_says_so(context, options, shapes, run, network, select):
    with pytest.raises(WorkFailedError, match=r"validation loss was not a number in any epoch\. Use a smaller --lr"):
        train(shapes, options(**network, epochs=2, lr=1e10, select=select), context, run=run)


def test_regression_that_diverges_says_so(context, options, sizes, run):
    with pytest.raises(WorkFailedError, match="not a number in any epoch"):
        train(sizes, options(backbone="nomp", encoding="leap-l", epochs=2, lr=1e10), context, run=run)
