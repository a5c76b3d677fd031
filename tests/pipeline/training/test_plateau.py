"""Learning-rate decay and early stopping, with validation losses as a script has them."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from leap.pipeline import train
from leap.pipeline.training.trainee import Trainee

RATE = 1e-3


@pytest.fixture
def curve(context, options, shapes, run, monkeypatch):
    """Return a function that trains one network by a script of losses; gives rates and the fold's result."""

    def make(losses):
        finish, left = Trainee.finish_epoch, iter(losses)

        def scripted(self, checked, network):
            finish(self, replace(checked, loss=next(left)), network)

        monkeypatch.setattr(Trainee, "finish_epoch", scripted)
        chosen = options(backbone="gcn", encoding="none", epochs=len(losses) // 2, lr=RATE, batch_size=64)
        metrics = train(shapes, chosen, context, run=run, force=True, stack=1).metrics
        rows = pq.read_table(run / "curves.parquet").to_pylist()
        return [row["lr"] for row in rows if row["fold"] == 0], metrics["folds"][0]

    return make


def test_training_stops_after_ten_epochs_without_a_lower_loss(curve):
    rates, fold = curve(([1.0, 0.9, 0.8] + [0.8] * 30) * 2)
    assert (fold["best_epoch"], fold["epochs"]) == (2, 13)
    assert rates == [RATE] * 13, "the rate would fall an epoch later"


def test_any_lower_loss_counts_for_stopping(curve):
    losses = [1.0] * 9 + [1.0 - 1e-9] + [1.0] * 20
    _, fold = curve(losses * 2)
    assert (fold["best_epoch"], fold["epochs"]) == (9, 20)


def test_the_rate_falls_to_a_tenth_where_the_loss_falls_too_slowly_for_eleven_epochs(curve):
    """By less than 0.01 % of the lowest: no plateau for stopping, one for the rate."""
    losses = [1.0 - 1e-6 * epoch for epoch in range(30)]
    rates, fold = curve(losses * 2)
    assert fold["epochs"] == 30
    assert rates == pytest.approx([RATE] * 12 + [RATE / 10] * 11 + [RATE / 100] * 7)


def test_a_loss_that_falls_fast_enough_keeps_the_rate(curve):
    losses = [0.99**epoch for epoch in range(30)]
    rates, _ = curve(losses * 2)
    assert rates == [RATE] * 30
