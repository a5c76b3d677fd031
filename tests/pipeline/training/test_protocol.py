"""The protocol's options: schedules as torch has them, patience, decay; the same alone, in stacks and after a stop."""

import json

import networkx as nx
import numpy as np
import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

from leap.pipeline import TrainOptions, load_run, train
from leap.pipeline.training import trainee
from leap.pipeline.training.schedule import Schedule
from leap.store.errors import InvalidInputError, WorkFailedError
from tests.pipeline.training.conftest import coordinates, graphs_source
from tests.pipeline.training.test_stacks import left_by, work

STRONG = {
    "backbone": "gcn",
    "encoding": "lape",
    "residual": True,
    "feed_forward": True,
    "dropout": 0.2,
    "schedule": "cosine",
    "warm_up": 1,
    "weight_decay": 0.01,
    "epochs": 4,
    "batch_size": 8,
}


def epochs_of(run, fold=0):
    return [json.loads(line) for line in (run / f"fold-{fold}" / "epochs.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("epochs", "warm_up"), [(20, 0), (20, 1), (20, 7), (2, 1)])
def test_the_cosine_is_torchs(epochs, warm_up):
    holder = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    falling = CosineAnnealingLR(holder, epochs - warm_up)
    if warm_up:
        rising = LinearLR(holder, 1 / (warm_up + 1), total_iters=warm_up)
        falling = SequentialLR(holder, [rising, falling], [warm_up])
    ours, theirs = Schedule(TrainOptions(schedule="cosine", warm_up=warm_up, epochs=epochs, lr=0.3)), []
    for _ in range(epochs):
        theirs.append(holder.param_groups[0]["lr"])
        holder.step()
        falling.step()
    assert [ours.rate(epoch) for epoch in range(epochs)] == pytest.approx(theirs, abs=1e-12)


def test_a_run_follows_its_schedule(context, options, shapes, tmp_path):
    for schedule, warm_up, shares in (
        ("cosine", 0, [1.0, 0.75, 0.25]),
        ("cosine", 2, [1 / 3, 2 / 3, 1.0]),
        ("constant", 0, [1.0, 1.0, 1.0]),
        ("constant", 1, [0.5, 1.0, 1.0]),
        ("plateau", 1, [0.5, 1.0, 1.0]),
    ):
        chosen = options(encoding="none", schedule=schedule, warm_up=warm_up, lr=0.01)
        rates = [epoch["lr"] for epoch in epochs_of(train(shapes, chosen, context, runs=tmp_path).path)]
        assert rates == pytest.approx([0.01 * share for share in shares])


@pytest.mark.parametrize("patience", [1, 4])
def test_training_stops_after_so_many_epochs_without_a_lower_loss(context, options, shapes, tmp_path, patience):
    chosen = options(encoding="none", patience=patience, epochs=60, lr=0.1)
    epochs = epochs_of(train(shapes, chosen, context, runs=tmp_path).path)
    losses = [epoch["val_loss"] for epoch in epochs]
    assert len(losses) < 60
    assert losses.index(min(losses)) == len(losses) - 1 - patience


def test_decayed_weights_are_smaller(context, options, shapes, tmp_path):
    paths = [
        train(shapes, options(encoding="none", epochs=5, weight_decay=decay), context, runs=tmp_path).path
        for decay in (0.0, 10.0)
    ]
    norms = [sum(float(p.detach().norm()) for p in load_run(path).networks[0].parameters()) for path in paths]
    assert norms[1] < 0.95 * norms[0]


def test_a_network_is_the_same_alone_and_among_others(context, options, shapes, tmp_path):
    """Those others have schedules, decays and patience of their own."""
    chosen = options(**STRONG, norm="layer", folds=3)
    others = [
        chosen.model_copy(update=update)
        for update in (
            {"weight_decay": 0.0, "seed": 1},
            {"schedule": "constant", "warm_up": 0, "patience": 1},
            {"schedule": "plateau", "warm_up": 0, "epochs": 6, "lr": 0.1},
        )
    ]
    alone = left_by(train(shapes, chosen, context, runs=tmp_path / "alone", stack=1).path)
    requests = [(shapes, each) for each in (*others, chosen)]
    together = work(context, tmp_path / "together", *requests, stack=12)
    assert left_by(together[-1].path) == alone


@pytest.mark.parametrize("norm", ["layer", "batch"])
@pytest.mark.parametrize("writes", [2, 3, 7])
def test_a_stop_changes_nothing(context, options, shapes, run, monkeypatch, norm, writes):
    """At any write of a checkpoint, inside an epoch or after it; batch normalization has running statistics."""
    chosen = options(**STRONG, norm=norm, patience=2)
    whole = left_by(train(shapes, chosen, context, run=run.parents[1] / "whole", checkpoint_steps=2).path)
    save, count = trainee.save, 0

    def failing(path, content):
        nonlocal count
        count += 1
        if count == writes:
            raise InterruptedError
        save(path, content)

    monkeypatch.setattr(trainee, "save", failing)
    with pytest.raises(InterruptedError):
        train(shapes, chosen, context, run=run, force=True, checkpoint_steps=2)
    monkeypatch.setattr(trainee, "save", save)
    assert left_by(train(shapes, chosen, context, run=run, resume=True, checkpoint_steps=2).path) == whole


@pytest.mark.parametrize("backbone", ["gcn", "gat", "gin"])
def test_every_layered_network_trains_in_blocks(context, options, shapes, tmp_path, backbone):
    chosen = STRONG | {"backbone": backbone, "norm": "layer", "lr": 0.01, "epochs": 8}
    losses = [epoch["train_loss"] for epoch in epochs_of(train(shapes, options(**chosen), context, runs=tmp_path).path)]
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("select", ["auroc", "accuracy"])
def test_a_regression_has_no_metric_of_classes_to_choose_by(context, options, sizes, tmp_path, select):
    with pytest.raises(InvalidInputError, match=f"--select {select}: 'sizes' is a regression"):
        train(sizes, options(encoding="none", select=select), context, runs=tmp_path)


def test_no_epoch_is_the_best_where_its_metric_is_not_defined(context, options, tmp_path):
    """The validation part has one class only."""
    numbers = np.arange(40)
    masks = {name: (numbers % 4 == code)[:, None] for code, name in enumerate(("train", "val", "test"))}
    masks["train"] |= (numbers % 4 == 3)[:, None]
    graph = nx.path_graph(40)
    labels = [int(number % 4 in (2, 3) and number % 8 < 4) for number in numbers]
    source = graphs_source([graph], "one-class", coordinates([graph]), labels, "node-classification", masks)
    with pytest.raises(WorkFailedError, match="the validation part has no auroc"):
        train(source, options(encoding="none", select="auroc"), context, runs=tmp_path)
    assert train(source, options(encoding="none", select="accuracy"), context, runs=tmp_path).metrics["test"]


def test_an_option_at_its_default_changes_no_fingerprint():
    plain = TrainOptions().fingerprint("letters-low", ["key"])
    given = {"norm": "none", "residual": False, "feed_forward": False, "dropout": None, "precision": "32"}
    given |= {"schedule": "plateau", "warm_up": 0, "weight_decay": 0.0, "patience": 10}
    assert TrainOptions.of(given).fingerprint("letters-low", ["key"]) == plain
    others = {"norm": "batch", "residual": True, "feed_forward": True, "dropout": 0.0, "precision": "bf16"}
    others |= {"schedule": "constant", "warm_up": 1, "weight_decay": 0.1, "patience": 11}
    prints = [TrainOptions.of({name: value}).fingerprint("letters-low", ["key"]) for name, value in others.items()]
    assert len({plain, *prints}) == len(others) + 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"warm_up": -1}, "warm_up is -1: input should be greater than or equal to 0"),
        ({"weight_decay": float("nan")}, "weight_decay is nan: input should be a finite number"),
        ({"weight_decay": -0.1}, "weight_decay is -0.1: input should be greater than or equal to 0"),
        ({"weight_decay": float("inf")}, "weight_decay is inf: input should be a finite number"),
        ({"warm_up": 5, "epochs": 5}, "warm_up 5 leaves none of the 5 epochs at the full rate; give fewer"),
        ({"patience": 0}, "patience is 0: input should be greater than or equal to 1"),
        ({"schedule": "step"}, "schedule is 'step'. Choose from plateau, cosine, constant"),
    ],
)
def test_what_means_nothing_is_refused(values, message):
    with pytest.raises(InvalidInputError, match=message):
        TrainOptions.of(values)
