"""Stacks: a fold's result depends on nothing but the fold, whatever it is trained with and whatever happens to that."""

import contextlib
import itertools
import json
import random
import shutil
from dataclasses import replace
from functools import partial

import networkx as nx
import pyarrow.parquet as pq
import pytest
import torch

from leap.models.network_config import DatasetFacts, NetworkConfig
from leap.models.stack import Stack
from leap.pipeline import Context, IngestOptions, TrainOptions, Workforce, train
from leap.pipeline.engine import fold as folds
from leap.pipeline.engine.engine import Engine
from leap.pipeline.engine.jobs import FoldJob, InputKeys, make_jobs
from leap.pipeline.engine.prepare import prepare
from leap.pipeline.engine.requests import RunRequest
from leap.pipeline.engine.run_folder import RunFolder
from leap.pipeline.engine.run_writer import RunWriter
from leap.pipeline.engine.stacks import plan_stacks, stack_size
from leap.pipeline.events import FoldEnded
from leap.pipeline.training.loop import StackAdam, StackTrainer
from leap.pipeline.training.splits import Split
from leap.pipeline.training.trainee import Trainee
from leap.store import Store
from leap.store.artifact import folder_of
from leap.store.errors import SmallerStackWarning, WorkFailedError
from tests.pipeline.training.conftest import coordinates, graphs_source

# Signs of lape's columns, dropout of nomp and learned directions: everything random that a network has.
NETWORK = NetworkConfig(backbone="nomp", encoding="lape+leap-l", projection="attention")
OPTIONS = TrainOptions(network=NETWORK, folds=10, epochs=3)


def left_by(path):
    """What the folds of a run have left, by number, without the time it took."""
    found = {}
    for folder in sorted(path.glob("fold-*")):
        result = json.loads((folder / "result.json").read_text())
        timeless = {name: value for name, value in result.items() if not name.startswith("seconds")}
        epochs = [json.loads(line) | {"seconds": 0} for line in (folder / "epochs.jsonl").read_text().splitlines()]
        best = torch.load(folder / "best.pt", weights_only=True)["network"]
        weights = {name: tensor.numpy().tobytes() for name, tensor in best.items()}
        predictions = pq.read_table(folder / "predictions.parquet").to_pydict()
        found[folder.name] = (timeless, epochs, predictions, weights)
    return found


@pytest.fixture(scope="module")
def undisturbed(context, shapes, tmp_path_factory):
    """What ten folds leave that were trained one after the other."""
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    return left_by(train(shapes, OPTIONS, context, run=run, stack=1).path)


@pytest.mark.parametrize("size", [2, 5, 10])
def test_a_fold_is_the_same_in_stacks_of_any_size(undisturbed, context, shapes, run, size):
    assert left_by(train(shapes, OPTIONS, context, run=run, stack=size).path) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("size", [1, 5, 10])
def test_a_fold_is_the_same_whoever_trains_it(undisturbed, context, shapes, run, workers, size):
    elsewhere = replace(context, workforce=Workforce(workers))
    assert left_by(train(shapes, OPTIONS, elsewhere, run=run, stack=size).path) == undisturbed


def work(context, root, *requests, stack=9):
    """Do several runs at once and return their outcomes."""
    asked = [RunRequest(dataset, options) for dataset, options in requests]
    return Engine(asked, context, root, IngestOptions(), 4.0, 2.0, 500, stack).work()


@pytest.fixture(scope="module")
def others():
    """Another dataset of the same kind."""
    graphs = [(nx.star_graph if i % 2 else nx.path_graph)(3 + i // 2 % 4) for i in range(50)]
    return graphs_source(graphs, "others", coordinates(graphs), [i % 2 for i in range(50)], "graph-classification")


def test_a_fold_is_the_same_among_folds_of_other_seeds_rates_and_datasets(
    undisturbed, context, shapes, others, tmp_path, sizes_of_steps
):
    changes = [{"seed": 7}, {"lr": 0.1}, {"folds": 3}, {"epochs": 2, "split_seed": 1}, {"class_weight": "frequency"}]
    around = [(others, OPTIONS), *((shapes, OPTIONS.model_copy(update=change)) for change in changes)]
    outcomes = work(context, tmp_path, *around[:3], (shapes, OPTIONS), *around[3:], stack=7)
    assert [outcome.state for outcome in outcomes] == ["trained"] * 7
    assert set(sizes_of_steps[:-20]) == {7}
    assert left_by(outcomes[3].path) == undisturbed


class Killed(BaseException):
    """Ends everything at once, as a signal would: nobody catches it."""


def kill_after(patch, calls, *, before):
    """End the process, as it were, at one of the calls that write something; return how many there were so far."""
    made = []

    def replaced(real):
        def killing(*arguments):
            made.append(real)
            if before and len(made) == calls:
                raise Killed
            result = real(*arguments)
            if len(made) == calls:
                raise Killed
            return result

        return killing

    for owner, name in ((Trainee, "save"), (Trainee, "save_best"), (Trainee, "finish_epoch"), (folds, "write")):
        patch.setattr(owner, name, replaced(getattr(owner, name)))
    return made


@pytest.mark.parametrize("seed", range(5))
def test_a_stack_of_ten_stopped_at_random_moments_goes_on_to_the_same_bits(undisturbed, context, shapes, run, seed):
    """Three times in a row, before or after the bytes are there."""
    moments, how = random.Random(seed), {"run": run, "stack": 10, "checkpoint_steps": 4}
    for attempt in range(3):
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Killed):
            made = kill_after(patch, moments.randrange(1, 50), before=moments.random() < 0.5)
            train(shapes, OPTIONS, context, resume=attempt > 0, **how)
        assert attempt or len(made) < 50
    train(shapes, OPTIONS, context, resume=True, **how)
    assert left_by(run) == undisturbed


def test_one_that_diverges_among_ten_leaves_the_others_as_they_are(undisturbed, context, shapes, tmp_path):
    wild = OPTIONS.model_copy(update={"lr": 1e30, "folds": 2})
    failed, trained = work(context, tmp_path, (shapes, wild), (shapes, OPTIONS), stack=12)
    assert "the validation loss was not a number in any epoch. Use a smaller --lr." in failed.error
    assert left_by(trained.path) == undisturbed


def test_folds_whose_data_is_damaged_leave_the_others_as_they_are(
    undisturbed, shapes, others, tmp_path, monkeypatch, sizes_of_steps
):
    context = Context(Store.open(tmp_path / "store"), workforce=Workforce(0))
    begin = folds.begin_fold

    def damage_and_begin(job, *arguments):
        if "others" in job.label and job.split.number == 0:
            (chunk,) = (tmp_path / "store" / folder_of(job.inputs.dataset)).glob("part-*/x/c/0/0")
            chunk.write_bytes(chunk.read_bytes()[:-1] + b"!")
        return begin(job, *arguments)

    monkeypatch.setattr(folds, "begin_fold", damage_and_begin)
    failed, trained = work(context, tmp_path / "runs", (others, OPTIONS), (shapes, OPTIONS), stack=20)
    assert failed.error.startswith("fold 0: ")
    assert "x/c/0/0 is damaged; its checksum does not match" in failed.error
    assert left_by(trained.path) == undisturbed
    assert set(sizes_of_steps) == {10}


def test_a_fold_whose_folder_is_removed_leaves_the_others_as_they_are(undisturbed, context, shapes, run, monkeypatch):
    finish = Trainee.finish_epoch

    def remove_and_finish(self, *arguments):
        if self.folder.name == "fold-3":
            shutil.rmtree(self.folder)
        finish(self, *arguments)

    monkeypatch.setattr(Trainee, "finish_epoch", remove_and_finish)
    writer = RunWriter(RunFolder(run), prepared := prepare(shapes, OPTIONS, context), [])
    facts = {"label": "shapes", "seconds": 1.0, "memory_gb": 1.0, "checkpoint_steps": 500}
    writer.planned = make_jobs(prepared, RunFolder(run), context, **facts)
    writer.open(context)
    outcomes = {outcome.name[1]: outcome for outcome in folds.train_stack(writer.jobs, 10)}
    error = outcomes.pop(3).error
    assert isinstance(error, WorkFailedError)
    assert "was removed while its run was being trained" in str(error)
    assert all(outcome.error is None for outcome in outcomes.values())
    assert left_by(run) == {name: what for name, what in undisturbed.items() if name != "fold-3"}


def test_folds_that_cannot_take_a_step_together_go_on_in_smaller_stacks(
    undisturbed, context, shapes, run, monkeypatch, sizes_of_steps
):
    forward = Stack.forward

    def short_of_memory(self, x, nodes):
        if self.training and len(self) > 3 and len(sizes_of_steps) >= 5:
            raise MemoryError("no room")
        return forward(self, x, nodes)

    monkeypatch.setattr(Stack, "forward", short_of_memory)
    with pytest.warns(SmallerStackWarning, match=r"MemoryError: no room.* [52] at a time"):
        done = train(shapes, OPTIONS, context, run=run, stack=10, checkpoint_steps=3)
    assert left_by(done.path) == undisturbed
    assert set(sizes_of_steps[:5]) == {10}
    assert max(sizes_of_steps[5:]) == 2


def test_a_fold_that_cannot_take_a_step_leaves_the_others_as_they_are(
    undisturbed, context, shapes, tmp_path, monkeypatch
):
    step = StackTrainer._step

    def broken(self):
        if any(trainee.folder.name == "fold-3" for trainee in self._trainees):
            raise RuntimeError("the sky fell")
        step(self)

    monkeypatch.setattr(StackTrainer, "_step", broken)
    with pytest.warns(SmallerStackWarning, match="the sky fell"):
        (outcome,) = work(context, tmp_path / "runs", (shapes, OPTIONS), stack=10)
    assert outcome.error.startswith("fold 3: unexpected RuntimeError: the sky fell.")
    (failed,) = (tmp_path / "runs").glob("*/fold-3")
    shutil.rmtree(failed)
    assert left_by(failed.parent) == {name: what for name, what in undisturbed.items() if name != "fold-3"}


@pytest.fixture
def sizes_of_steps(monkeypatch):
    """How many networks each step had."""
    sizes, step = [], StackAdam.step

    def noting(self, gradients, rates, decays):
        sizes.append(len(rates))
        step(self, gradients, rates, decays)

    monkeypatch.setattr(StackAdam, "step", noting)
    return sizes


def test_the_next_that_waits_takes_the_place_of_one_that_ends(context, options, shapes, run, sizes_of_steps):
    chosen = options(backbone="gin", encoding="none", epochs=100, lr=0.5, folds=5, batch_size=8)
    alone = left_by(train(shapes, chosen, context, run=run.with_name("alone"), stack=1).path)
    lengths = [result["epochs"] for result, *_ in alone.values()]
    assert len(set(lengths)) > 1, "they must end at different times"
    assert max(lengths) < 100
    ones = len(sizes_of_steps)
    assert left_by(train(shapes, chosen, context, run=run, stack=2, force=True).path) == alone
    sizes = sizes_of_steps[ones:]
    assert sum(sizes) == ones
    assert sizes == sorted(sizes, reverse=True), "alone only when nobody waits"
    assert sizes[0] == 2


@pytest.mark.parametrize("backbone", ["gps", "dect-4k"])
def test_what_cannot_be_stacked_is_trained_alone(context, options, shapes, run, sizes_of_steps, backbone):
    chosen = options(backbone=backbone, encoding="none", epochs=2)
    alone = left_by(train(shapes, chosen, context, run=run.with_name("alone"), stack=1).path)
    assert left_by(train(shapes, chosen, context, run=run, stack=5, force=True).path) == alone
    assert set(sizes_of_steps) == {1}


def test_node_tasks_are_trained_alone(context, options, nodes, run, sizes_of_steps):
    chosen = options(backbone="gin", encoding="leap-l", epochs=3)
    assert len(train(nodes, chosen, context, run=run, stack=5).metrics["folds"]) == 2
    assert set(sizes_of_steps) == {1}


def test_targets_are_standardized_for_each_network_of_a_stack(context, options, sizes, run):
    chosen = options(backbone="gcn", encoding="rwpe", epochs=3, folds=4)
    alone = left_by(train(sizes, chosen, context, run=run.with_name("alone"), stack=1).path)
    assert left_by(train(sizes, chosen, context, run=run, stack=4, force=True).path) == alone


def test_weights_of_classes_are_each_networks_own(context, options, atoms, run, tmp_path):
    """Runs with and without weights share a stack."""
    kind = {"backbone": "gin", "encoding": "none", "epochs": 3}
    alone = {
        weight: train(atoms, options(**kind, class_weight=weight), context, run=run.with_name(weight), stack=1).metrics
        for weight in ("none", "frequency")
    }
    outcomes = work(context, tmp_path / "both", *((atoms, options(**kind, class_weight=weight)) for weight in alone))
    for weight, outcome in zip(alone, outcomes, strict=True):
        assert outcome.metrics["test"] == alone[weight]["test"]


def test_folds_end_when_they_end(context, shapes, tmp_path, options):
    """Not when their stack does: those of a run with fewer epochs first, and their run is finished then."""
    ended = []

    def listen(event):
        if isinstance(event, FoldEnded):
            ended.append((event.result["epochs"], len(list(tmp_path.glob("runs/*/metrics.json")))))

    told = replace(context, reporter=context.reporter.also(listen))
    requests = [options(backbone="gcn", encoding="none", epochs=epochs) for epochs in (4, 2)]
    work(told, tmp_path / "runs", *((shapes, each) for each in requests))
    assert ended == [(2, 0), (2, 0), (4, 1), (4, 1)]


def test_the_seconds_of_a_fold_are_its_share_of_the_stacks_time(context, shapes, options, run, monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(folds, "StackTrainer", partial(StackTrainer, clock=ticks.__next__))
    chosen = options(backbone="gcn", encoding="none", epochs=6, folds=5)
    metrics = train(shapes, chosen, context, run=run, stack=5).metrics
    shares = [entry["seconds"] for entry in metrics["folds"]]
    passed = next(ticks)
    assert 0.7 * passed < sum(shares) < passed
    assert max(shares) < 1.3 * min(shares), "their graphs have about as many nodes"
    for fold, share in enumerate(shares):
        epochs = [json.loads(line)["seconds"] for line in (run / f"fold-{fold}" / "epochs.jsonl").open()]
        assert epochs == sorted(epochs)
        assert epochs[-1] == share


@pytest.mark.parametrize(
    ("rows", "given", "size"),
    [(75, None, 32), (570, None, 7), (1, None, 32), (4000, None, 1), (75, 3, 3), (4000, 50, 50)],
)
def test_the_size_of_a_stack_follows_the_rows_of_a_batch(rows, given, size):
    assert stack_size(NetworkConfig(), rows, given) == size
    assert stack_size(NetworkConfig(backbone="gps"), rows, given) == 1
    assert stack_size(NetworkConfig(), rows, given, is_node_task=True) == 1


def job(number, encoding="none", rows=75.0, seconds=1.0, fits_in_memory=True, **options):
    chosen = TrainOptions(network=NetworkConfig(backbone="gcn", encoding=encoding), **options)
    facts, keys = DatasetFacts(features=2, outputs=2), InputKeys("store", "key")
    name = f"{encoding} {options}"
    split = Split(number)
    return FoldJob(keys, chosen, facts, split, None, "loss", name, "", 1, 1, name, seconds, rows, fits_in_memory)


def planned(jobs, workers, given=None):
    return [(len(task.jobs), task.size) for task in plan_stacks(jobs, workers, given)]


def test_folds_are_spread_over_the_workers():
    five, hundred = [job(n) for n in range(5)], [job(n) for n in range(100)]
    assert planned(five, 1) == [(5, 5)]
    assert planned(five, 2) == [(5, 3), (5, 3)]
    assert planned(five, 8) == [(5, 1)] * 5
    assert planned(hundred, 2) == [(100, 32), (100, 32)]
    assert planned(five, 1, given=1) == [(5, 1)]
    assert planned(five + [job(n, "rwpe", seconds=9.0) for n in range(4)], 3) == [(4, 2), (4, 2), (5, 5)]
    assert planned([job(n, fits_in_memory=False) for n in range(5)], 1) == [(5, 1)]


def test_the_longest_stacks_are_begun_first():
    seconds = {"none": 1.0, "leap-l": 5.0, "rwpe": 2.0, "lape": 2.0}
    tasks = plan_stacks([job(n, name, seconds=each) for name, each in seconds.items() for n in range(5)], 2)
    assert [task.jobs[0].options.network.encoding for task in tasks] == ["leap-l", "rwpe", "lape", "none"]


def test_what_shapes_a_network_or_its_batches_makes_a_stack_of_its_own():
    together = [job(0), job(1), job(0, seed=3), job(0, lr=0.1), job(0, epochs=7), job(0, class_weight="frequency")]
    assert planned(together, 1) == [(6, 6)]
    assert len(planned([job(0), job(0, "rwpe"), job(0, batch_size=8)], 1)) == 3
