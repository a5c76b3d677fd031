"""Single folds compute what stacks compute; the part measures real trainings and leaves tables and a plot."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import stacks
from benchmarks.measuring import Session
from benchmarks.single import SingleNetwork, SingleTraining, train_single
from benchmarks.stacks import draw_steps, measure_stacks, profile, stack_steps
from benchmarks.training import DATASET
from leap.models.network import Network
from leap.models.network_config import NetworkConfig
from leap.models.stack import Stack
from leap.pipeline import Context, TrainOptions, Workforce
from leap.pipeline.engine.fold import FoldData
from leap.pipeline.engine.jobs import FoldJob
from leap.pipeline.engine.requests import RunRequest
from leap.pipeline.engine.run_folder import BEST, LAST
from leap.pipeline.reports.figures import to_svg
from leap.store import Store
from leap.store.errors import WorkFailedError

COMPARED = [
    NetworkConfig(backbone=backbone, encoding=encoding, projection="conv1d" if "leap" in encoding else "linear")
    for backbone, encoding in product(("gcn", "nomp"), ("none", "rwpe", "lape", "leap-f", "leap-l"))
]


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(Store.open(tmp_path_factory.mktemp("store")), workforce=Workforce(0))


def jobs_of(context: Context, folder: Path, network: NetworkConfig, epochs: int = 1) -> list[FoldJob]:
    options = TrainOptions(network=network, epochs=epochs, batch_size=64)
    return stacks._jobs([RunRequest("letters-low", options)], context, folder)


@pytest.mark.parametrize("config", COMPARED, ids=[f"{c.backbone} {c.encoding}" for c in COMPARED])
def test_a_single_network_computes_what_a_stack_does(context: Context, tmp_path: Path, config: NetworkConfig) -> None:
    job = jobs_of(context, tmp_path, config)[0]
    state = Network(config, job.facts).state_dict()
    stack, single = Stack(config, job.facts), SingleNetwork(config, job.facts).eval()
    stack.add([Network(config, job.facts).state_dict(), state])
    single.load_state_dict(state)
    part = FoldData(job).part(job, "train")
    batch = part.batch([next(part.picks())])
    scores, expected = batch.scores(stack, np.array([1])), single(batch.x, batch.nodes)
    torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-4)
    for found in (scores, expected):
        torch.nn.functional.cross_entropy(found, batch.y).backward()
    learned = [parameter.grad.flatten() for parameter in single.parameters() if parameter.grad is not None]
    gradients = torch.cat(learned)
    torch.testing.assert_close(stack.gradients()[1, : len(gradients)], gradients, rtol=1e-3, atol=1e-3)


def test_a_single_fold_is_trained_validated_and_tested(context: Context, tmp_path: Path) -> None:
    job = jobs_of(context, tmp_path, COMPARED[0], epochs=3)[0]
    *losses, test = train_single(job)
    assert len(losses) == 3
    assert losses[2] < losses[0]
    assert test < np.log(15)
    best = torch.load(Path(job.folder) / BEST, weights_only=True)["network"]
    assert best.keys() == Network(job.options.network, job.facts).state_dict().keys()
    assert (Path(job.folder) / LAST).is_file()


def test_folds_that_stop_early_are_not_compared() -> None:
    for found in (None, {"folds": [{"epochs": 5}, {"epochs": 4}]}):
        with pytest.raises(WorkFailedError, match="instead of 5"):
            stacks._check_epochs([found], 5)


def test_another_network_is_not_compared_with(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SingleNetwork.forward
    monkeypatch.setattr(SingleNetwork, "forward", lambda *given: real(*given) + 0.01)
    with pytest.raises(WorkFailedError, match=r"a network of a stack and its peer 'single' differ by"):
        stacks._check_single(jobs_of(context, tmp_path, COMPARED[-1])[0])


def test_a_profile_shares_out_the_time_of_a_step(context: Context, tmp_path: Path) -> None:
    jobs = jobs_of(context, tmp_path, COMPARED[5])[:2]
    rows = profile(stack_steps(jobs), 2, seconds=1.0, count=2)
    assert rows[0]["where"] == "Python"  # nearly all of the second that a step is said to take
    rows = profile(stack_steps(jobs), 2, seconds=1e-9, count=2)
    names = {row["what"] for row in rows if row["where"] == "compiled loop"}
    assert {"grouped_loops.linear_forward", "grouped_loops.linear_backward"} <= names
    assert "torch" in {row["where"] for row in rows}


def test_the_plot_says_every_time() -> None:
    text = to_svg(draw_steps({1: 0.002, 10: 0.0004}, 0.004, 0.02))
    for label in ("2.00", "0.40", "PyG alone, 20.0", "one network, torch's modules, 4.0"):
        assert label in text


@pytest.mark.slow
def test_steps_folds_and_a_sweep_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, trained, real = torch.get_rng_state(), [], SingleTraining.step
    monkeypatch.setattr(stacks, "STEPS", 10)
    monkeypatch.setattr(SingleTraining, "step", lambda *given: trained.append(1) or real(*given))
    session = Session(tmp_path, repeats=1, out=tmp_path)
    steps, folds, sweep = measure_stacks(session, epochs=1, sizes=(1, 3))
    assert 0 < steps.ours < steps.peer
    assert len(trained) == 20  # in this process; folds are trained in others
    assert folds.ours > 0
    assert "50 folds" in sweep.what
    times, shares = session.tables.values()
    assert [row["networks"] for row in times] == ["1", "3", "single", "pyg"]
    assert shares
    assert DATASET in re.sub(r"\s+", " ", (tmp_path / "stacks.svg").read_text())
    assert (tmp_path / "stacks.png").stat().st_size > 1000
    assert torch.equal(torch.get_rng_state(), state)
