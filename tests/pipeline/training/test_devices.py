"""Training on other devices: they are found, one process has each, and nobody waits for one before an epoch ends."""

import json
from dataclasses import replace

import pytest
import torch

from leap.models import device_processes, find_device
from leap.pipeline import Workforce, load_run, train
from leap.pipeline.engine import stacks
from leap.pipeline.engine.fold import FoldData, begin_fold
from leap.pipeline.engine.jobs import make_jobs
from leap.pipeline.engine.prepare import prepare
from leap.pipeline.engine.run_folder import FolderLock, RunFolder
from leap.pipeline.training.loop import StackTrainer
from leap.store.errors import InvalidInputError


@pytest.fixture
def machine(monkeypatch):
    """Return a function that makes torch find so many GPUs."""

    def make(gpus=0, mps=False):
        monkeypatch.setattr("torch.cuda.is_available", lambda: gpus > 0)
        monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
        monkeypatch.setattr("torch.backends.mps.is_available", lambda: mps)

    return make


def test_auto_takes_a_gpu_where_there_is_one(machine):
    machine()
    assert (find_device("auto"), device_processes("auto")) == (torch.device("cpu"), None)
    machine(mps=True)
    assert (find_device("auto"), device_processes("auto")) == (torch.device("mps"), 1)
    machine(gpus=2)
    assert [find_device("auto", process) for process in range(3)] == [torch.device("cuda", n) for n in (0, 1, 0)]
    assert find_device("cuda:1", 4) == torch.device("cuda", 1)
    assert [device_processes(name) for name in ("auto", "cuda", "cuda:1", "cpu")] == [2, 2, 1, None]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cuda:2", "no cuda:2: this machine has cuda:0 to cuda:1"),
        ("mps", "finds no mps device"),
        ("cuda:", "no device is called"),
        ("cuda:x", "no device is called"),
        ("mps:0", "no device is called"),
        ("meta", "no device is called 'meta'"),
    ],
)
def test_a_device_that_is_not_there_is_refused(machine, name, message):
    machine(gpus=2)
    with pytest.raises(InvalidInputError, match=message):
        find_device(name)


def test_the_device_is_not_part_of_a_run(context, shapes, options, tmp_path):
    asked = options(backbone="gcn", encoding="none", epochs=1)
    first = train(shapes, asked, context, runs=tmp_path, device="cpu")
    again = train(shapes, asked, context, runs=tmp_path, device="auto")
    assert (first.cached, again.cached) == (False, True)
    assert first.path == again.path


@pytest.mark.parametrize(("gpus", "asked", "workers"), [(0, None, None), (1, None, 0), (3, None, 3), (1, 2, 2)])
def test_a_gpu_has_one_process_unless_more_are_asked_for(machine, context, monkeypatch, gpus, asked, workers):
    machine(gpus=gpus)
    met = []

    def employ(workforce, tasks, seconds):
        met.append(workforce.workers)
        raise InterruptedError

    monkeypatch.setattr(stacks, "employ", employ)
    with pytest.raises(InterruptedError):
        stacks.train_folds([], replace(context, workforce=Workforce(asked)), print, print)
    assert met == [workers]


@pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter")
@pytest.mark.parametrize("source", ["shapes", "sizes", "atoms", "nodes"])
@pytest.mark.parametrize("weight", ["none", "frequency"])
def test_nothing_is_asked_of_a_device_before_an_epoch_ends(context, options, run, request, source, weight):
    """On torch's meta device, which has no answers: steps are taken, and reading their losses raises."""
    asked = options(backbone="nomp", encoding="lape+leap-l", projection="attention", class_weight=weight)
    prepared = prepare(request.getfixturevalue(source), asked, context)
    facts = {"label": source, "seconds": 1.0, "memory_gb": 1.0, "checkpoint_steps": 500}
    jobs = make_jobs(prepared, RunFolder(run), context, **facts)
    data = FoldData(jobs[0])
    folds = []
    for job in jobs:
        RunFolder(run).fold(job.split.number).mkdir(parents=True)
        folds.append(begin_fold(job, data, FolderLock(RunFolder(run).fold(job.split.number))))
    trainer = StackTrainer(asked.network, jobs[0].facts, len(folds) if source != "nodes" else 1, torch.device("meta"))
    with pytest.raises(NotImplementedError, match="meta"):
        list(trainer.run(iter(folds)))
    assert folds[0].progress.step == folds[0].steps > 0


def test_a_run_is_loaded_to_a_device(context, shapes, options, tmp_path):
    path = train(shapes, options(backbone="gcn", encoding="none", epochs=1), context, runs=tmp_path).path
    trained = load_run(path, device="cpu")
    assert trained.device == torch.device("cpu")
    with pytest.raises(InvalidInputError, match="no device is called"):
        load_run(path, device="tpu")


def losses(result):
    """Training losses of the first fold, by epoch."""
    lines = (result.path / "fold-0" / "epochs.jsonl").read_text().splitlines()
    return [json.loads(line)["train_loss"] for line in lines]


@pytest.mark.parametrize("backbone", ["nomp", "gps", "dect-4k"])
def test_networks_learn_in_lower_precision(context, shapes, options, tmp_path, backbone):
    asked = options(backbone=backbone, encoding="none" if backbone == "dect-4k" else "leap-l", epochs=5, lr=0.01)
    lower = asked.model_copy(update={"network": asked.network.model_copy(update={"precision": "bf16"})})
    full, lowered = (train(shapes, each, context, runs=tmp_path) for each in (asked, lower))
    assert full.path != lowered.path
    assert losses(lowered) != losses(full)
    assert losses(lowered)[-1] < 0.9 * losses(lowered)[0]
    assert losses(lowered)[-1] == pytest.approx(losses(full)[-1], rel=0.3)
    assert load_run(lowered.path).options.network.precision == "bf16"
