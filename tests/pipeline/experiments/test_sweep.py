"""Sweeps: artifacts are made once, every run is done once, a failure stays alone, and the plan says so before."""

import json
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from leap.pipeline import Context, TrainOptions, Workforce, sweep, train
from leap.pipeline.engine import engine as module
from leap.pipeline.engine import fold
from leap.pipeline.engine.results import results_table
from leap.pipeline.engine.sweep import plan_sweep
from leap.pipeline.events import FoldEnded, FoldsProgress
from leap.pipeline.experiments.expand import SweepSelection, expand
from leap.pipeline.experiments.sweep_file import load
from leap.pipeline.stages import materialize as making
from leap.store import Store
from leap.store.errors import DamagedCheckpointWarning, InvalidInputError

SCORES = ("run", "fingerprint", "fold", "test_accuracy", "test_loss", "val_loss", "epochs", "best_epoch")


def scores(root):
    return results_table(root).select(SCORES).to_pylist()


@pytest.fixture
def shapes(tmp_path, write_shapes):
    return str(write_shapes(tmp_path / "data" / "shapes.json"))


@pytest.fixture
def trained(monkeypatch):
    """Folds that are trained in this process, as (run, fold)."""
    folds, real = [], fold.begin_fold

    def noting(job, *arguments):
        folds.append((job.fingerprint, job.split.number))
        return real(job, *arguments)

    monkeypatch.setattr(fold, "begin_fold", noting)
    return folds


def test_a_sweep_gives_what_its_runs_give_alone(context, write_sweep, shapes, tmp_path):
    file = write_sweep(datasets=shapes, encodings=["none", "leap-l"], seeds=[1, 2])
    result = sweep(file, context, runs=tmp_path / "runs")
    assert [outcome.state for outcome in result.outcomes] == ["trained"] * 4
    for spec, outcome in zip(expand(load(file)), result.outcomes, strict=True):
        alone = train(shapes, spec.options, context, runs=tmp_path / "alone")
        assert alone.path.name == outcome.path.name
        assert alone.metrics["test"] == outcome.metrics["test"]
    assert scores(tmp_path / "runs") == scores(tmp_path / "alone")
    assert len(scores(tmp_path / "runs")) == 8


def test_what_is_done_is_not_done_again(context, write_sweep, shapes, tmp_path, trained):
    file, runs = write_sweep(datasets=shapes, encodings=["none", "rwpe"]), tmp_path / "runs"
    first = sweep(file, context, selection=SweepSelection(only={"encoding": "none"}), runs=runs)
    assert len(trained) == 2
    second = sweep(file, context, runs=runs)
    assert [outcome.state for outcome in second.outcomes] == ["cached", "trained"]
    assert first.outcomes[0].path == second.outcomes[0].path
    assert len(trained) == len(set(trained)) == 4
    third = sweep(file, context, runs=runs)
    assert [outcome.state for outcome in third.outcomes] == ["cached", "cached"]
    assert len(trained) == 4


def test_runs_of_train_and_of_other_sweeps_count(context, write_sweep, shapes, tmp_path, trained):
    train(
        shapes,
        TrainOptions(network={"backbone": "gcn", "encoding": "rwpe"}, epochs=2, folds=2),
        context,
        runs=tmp_path / "runs",
    )
    result = sweep(write_sweep(datasets=shapes, encodings=["rwpe"], scale=7), context, runs=tmp_path / "runs")
    assert [outcome.state for outcome in result.outcomes] == ["cached"]


def test_each_artifact_is_made_once_and_the_largest_first(context, write_sweep, shapes, tmp_path, monkeypatch):
    made, real = [], making._publish

    def noting(build, plan, recipe, dataset, inputs):
        made.append((recipe.kind, recipe.params.get("dim")))
        return real(build, plan, recipe, dataset, inputs)

    monkeypatch.setattr(making, "_publish", noting)
    file = write_sweep(datasets=shapes, encodings=["rwpe", "leap-f", "leap-l"], dim=[2, 4, 6], epochs=1)
    planned = plan_sweep(file, context, runs=tmp_path / "runs")
    assert sorted(planned.datasets[0].to_make) == ["dataset", "dect", "neighborhoods", "rwpe"]
    result = sweep(file, context, runs=tmp_path / "runs")
    assert not result.failed
    assert sorted(made, key=str) == [("dect", None), ("neighborhoods", None), ("rwpe", 6)]
    rows = results_table(tmp_path / "runs").to_pylist()
    by_run = {row["run"]: row["cache_misses"] for row in rows}
    assert sum(by_run.values()) == 4  # the dataset and those three
    costs = [json.loads((tmp_path / "runs" / run / "metrics.json").read_text())["artifacts"] for run in by_run]
    kinds = {tuple(entry["kind"] for entry in entries) for entries in costs}
    assert kinds == {("dataset", "rwpe"), ("dataset", "dect", "neighborhoods"), ("dataset", "neighborhoods")}
    assert all(entry["seconds"] > 0 and entry["bytes"] > 0 for entries in costs for entry in entries)


def test_a_smaller_dimension_is_the_same_run_whether_it_is_a_view_or_not(write_sweep, shapes, tmp_path):
    kept = {}
    for order in ((3, 6), (6, 3)):
        context = Context(Store.open(tmp_path / f"store-{order[0]}"), workforce=Workforce(0))
        for dim in order:
            part = write_sweep(datasets=shapes, encodings="rwpe", dim=dim, epochs=1)
            sweep(part, context, runs=tmp_path / f"runs-{order[0]}")
        kept[order] = scores(tmp_path / f"runs-{order[0]}")
    assert kept[3, 6] == kept[6, 3]


def test_a_dataset_that_is_gone_fails_alone(context, write_sweep, write_shapes, shapes, tmp_path):
    other = write_shapes(tmp_path / "data" / "other.json", 40)
    file, runs = write_sweep(datasets=[shapes, str(other)], encodings=["none", "rwpe"]), tmp_path / "runs"
    assert plan_sweep(file, context, runs=runs).datasets[1].problem is None
    sweep(file, context, selection=SweepSelection(only={"encoding": "none"}), runs=runs)
    other.unlink()
    assert "other.json" in plan_sweep(file, context, runs=runs).datasets[1].problem
    result = sweep(file, context, runs=runs)
    states = {(o.request.dataset, o.request.options.network.encoding): o.state for o in result.outcomes}
    assert states == {
        (shapes, "none"): "cached",
        (shapes, "rwpe"): "trained",
        (str(other), "none"): "failed",
        (str(other), "rwpe"): "failed",
    }
    assert all("other.json" in outcome.error for outcome in result.failed)
    write_shapes(other, 40)
    again = sweep(file, context, runs=runs)
    assert [outcome.state for outcome in again.outcomes] == ["cached", "cached", "cached", "trained"]


@pytest.fixture
def toy(tu_folder, tmp_path):
    """Labels of the named dataset 'toy', 40 paths in TU format under the folder `raw`."""
    graphs, nodes = range(1, 41), [(g, n) for g in range(1, 41) for n in range(3)]
    edges = [(3 * (g - 1) + a, 3 * (g - 1) + b) for g in graphs for a, b in ((1, 2), (2, 1), (2, 3), (3, 2))]
    folder = tu_folder(
        "toy",
        tmp_path / "raw" / "toy",
        A="".join(f"{a}, {b}\n" for a, b in edges),
        graph_indicator="".join(f"{g}\n" for g, _ in nodes),
        graph_labels="".join(f"{g % 2}\n" for g in graphs),
        node_attributes="".join(f"{g % 2 + n / 10}, {n}\n" for g, n in nodes),
    )
    return folder / "toy_graph_labels.txt"


def test_results_of_other_data_of_the_same_name_answer_nothing(toy, write_sweep, tmp_path):
    context = Context(Store.open(tmp_path / "store"), data=tmp_path / "raw", workforce=Workforce(0))
    file, runs = write_sweep(datasets="toy", encodings=["none", "rwpe"]), tmp_path / "runs"
    sweep(file, context, runs=runs)
    toy.write_text("".join(reversed(toy.read_text().splitlines(keepends=True))))
    assert plan_sweep(file, context, runs=runs).as_json()["runs_done"] == 0
    with toy.open("a") as stream:
        stream.write("garbage\n")
    assert plan_sweep(file, context, runs=runs).as_json()["runs_done"] == 0
    with pytest.raises(InvalidInputError, match="'garbage' is not a whole number"):
        sweep(file, context, runs=runs)
    beside = sweep(write_sweep(datasets=["toy", "letters-low"], encodings=["none"], epochs=1), context, runs=runs)
    assert [outcome.state for outcome in beside.outcomes] == ["failed", "trained"]
    assert "'garbage' is not a whole number" in beside.failed[0].error


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs the /proc of Linux")
def test_raw_files_that_cannot_be_read_are_not_absent(toy, write_sweep, tmp_path):
    context = Context(Store.open(tmp_path / "store"), data=tmp_path / "raw", workforce=Workforce(0))
    file, runs = write_sweep(datasets="toy", encodings=["none"]), tmp_path / "runs"
    sweep(file, context, runs=runs)
    toy.unlink()
    toy.symlink_to("/proc/self/mem")  # a file that nobody can read from its beginning, not even root
    refusal = "cannot read .*toy_graph_labels.txt: Input/output error"
    with pytest.raises(InvalidInputError, match=refusal):
        sweep(file, context, runs=runs)
    plan = plan_sweep(file, context, runs=runs)
    assert re.search(refusal, plan.datasets[0].problem)
    assert plan.as_json()["runs_done"] == 0


def test_a_plan_knows_finished_runs_by_their_raw_files_without_a_store(toy, write_sweep, tmp_path):
    context = Context(Store.open(tmp_path / "store"), data=tmp_path / "raw", workforce=Workforce(0))
    file, runs = write_sweep(datasets="toy", encodings=["none"]), tmp_path / "runs"
    sweep(file, context, runs=runs)
    elsewhere = Context(Store.open(tmp_path / "other"), data=tmp_path / "raw", workforce=Workforce(0))
    plan = plan_sweep(file, elsewhere, runs=runs).as_json()
    assert (plan["runs_done"], plan["data_absent"]) == (1, 0)


def test_of_several_results_for_absent_data_none_is_chosen(toy, write_sweep, tmp_path):
    context = Context(Store.open(tmp_path / "store"), data=tmp_path / "raw", workforce=Workforce(0))
    file, runs = write_sweep(datasets="toy", encodings=["none"], epochs=1), tmp_path / "runs"
    sweep(file, context, runs=runs)
    toy.write_text("".join(reversed(toy.read_text().splitlines(keepends=True))))
    sweep(file, context, runs=runs)
    shutil.rmtree(tmp_path / "raw")
    assert plan_sweep(file, context, runs=runs).as_json()["runs_done"] == 0
    with pytest.raises(InvalidInputError, match="toy"):
        sweep(file, context, runs=runs)


def test_results_stay_when_the_files_of_a_named_dataset_are_gone(write_sweep, toy, tmp_path):
    data = tmp_path / "raw"
    context = Context(Store.open(tmp_path / "store"), data=data, workforce=Workforce(0))
    file, runs = write_sweep(datasets="toy", encodings=["none"]), tmp_path / "runs"
    assert [outcome.state for outcome in sweep(file, context, runs=runs).outcomes] == ["trained"]
    shutil.rmtree(data)
    result = sweep(file, context, runs=runs)
    assert [outcome.state for outcome in result.outcomes] == ["cached"]
    assert [outcome.data_absent for outcome in result.outcomes] == [True]
    assert (result.as_json()["cached"], result.as_json()["data_absent"]) == (1, 1)
    plan = plan_sweep(file, context, runs=runs).as_json()
    assert (plan["runs_done"], plan["data_absent"], plan["run_list"][0]["data_absent"]) == (1, 1, True)
    more = sweep(write_sweep(datasets="toy", encodings=["none", "rwpe"]), context, runs=runs)
    assert [outcome.state for outcome in more.outcomes] == ["cached", "failed"]
    assert "toy" in more.failed[0].error


def test_a_fold_that_fails_leaves_the_others_and_is_tried_again(context, write_sweep, shapes, tmp_path, monkeypatch):
    file, runs = write_sweep(datasets=shapes, encodings=["none", "rwpe", "lape"]), tmp_path / "runs"
    attempts, real = [], fold.begin_fold

    def breaking(job, *arguments):
        attempts.append((job.options.network.encoding, job.split.number))
        if attempts.count(("rwpe", 1)) == 1 and attempts[-1] == ("rwpe", 1):
            raise OSError("the disk is on fire")
        return real(job, *arguments)

    monkeypatch.setattr(fold, "begin_fold", breaking)
    first = sweep(file, context, runs=runs)
    assert [outcome.state for outcome in first.outcomes] == ["trained", "failed", "trained"]
    text, kept = first.failed[0].error.split(" The traceback is in ")
    assert text == "fold 1: unexpected OSError: the disk is on fire."
    assert "in breaking" in Path(kept.removesuffix(".")).read_text()
    assert len(scores(runs)) == 4
    plan = plan_sweep(file, context, runs=runs).as_json()
    assert (plan["runs_done"], plan["folds_done"], plan["folds"], plan["artifacts"]) == (2, 5, 6, 0)
    second = sweep(file, context, runs=runs)
    assert [outcome.state for outcome in second.outcomes] == ["cached", "trained", "cached"]
    assert attempts.count(("rwpe", 0)) == 1
    assert attempts.count(("rwpe", 1)) == 2


@pytest.mark.slow
def test_an_unexpected_error_of_a_worker_keeps_the_workers_traceback(write_sweep, shapes, tmp_path):
    context, runs = Context(Store.open(tmp_path / "store"), workforce=Workforce(2)), tmp_path / "runs"
    file = write_sweep(datasets=shapes, encodings=["none", "rwpe"])
    broken = sweep(file, context, selection=SweepSelection(only={"encoding": "none"}), runs=runs).outcomes[0].path
    fingerprint = json.loads((broken / "metrics.json").read_text())["fingerprint"]
    (broken / "metrics.json").unlink()
    (broken / "fold-1" / "result.json").unlink()
    torch.save({"fingerprint": f"{fingerprint} fold 1"}, broken / "fold-1" / "last.pt")  # as no version writes it
    result = sweep(file, context, runs=runs)
    assert [outcome.state for outcome in result.outcomes] == ["failed", "trained"]
    text, kept = result.failed[0].error.split(" The traceback is in ")
    assert text == "fold 1: unexpected KeyError: 'progress'."
    kept = Path(kept.removesuffix("."))
    assert kept.parent == broken
    assert "in _restore" in kept.read_text()
    assert result.failed[0].traceback.startswith(kept.read_text())


@pytest.mark.slow
def test_a_fold_that_fails_on_a_worker_leaves_the_others(write_sweep, shapes, tmp_path):
    context, runs = Context(Store.open(tmp_path / "store"), workforce=Workforce(2)), tmp_path / "runs"
    file = write_sweep(datasets=shapes, encodings=["none", "rwpe"])
    broken = sweep(file, context, selection=SweepSelection(only={"encoding": "none"}), runs=runs).outcomes[0].path
    (broken / "metrics.json").unlink()
    shutil.rmtree(broken / "fold-1")
    (broken / "fold-1").write_text("no folder")
    result = sweep(file, context, runs=runs)
    assert [outcome.state for outcome in result.outcomes] == ["failed", "trained"]
    assert result.failed[0].error.startswith("fold 1: cannot write the run folder")


def test_a_sweep_outlives_an_empty_checkpoint(context, write_sweep, shapes, tmp_path):
    """As a power cut may leave it."""
    file, runs = write_sweep(datasets=shapes, encodings=["none"]), tmp_path / "runs"
    path = sweep(file, context, runs=runs).outcomes[0].path
    before = scores(runs)
    (path / "metrics.json").unlink()
    (path / "fold-1" / "result.json").unlink()
    (path / "fold-1" / "last.pt").write_bytes(b"")
    with pytest.warns(DamagedCheckpointWarning, match="counts as missing"):
        assert sweep(file, context, runs=runs).outcomes[0].state == "trained"
    assert scores(runs) == before


def test_a_network_that_the_data_cannot_have_fails_alone(context, write_sweep, shapes, tmp_path):
    file = write_sweep(datasets=shapes, encodings=["none"], folds=[2, 99], epochs=1)
    result = sweep(file, context, runs=tmp_path / "runs")
    assert [outcome.state for outcome in result.outcomes] == ["trained", "failed"]
    assert "too few for 99 folds" in result.failed[0].error


def test_a_run_stopped_just_before_its_end_is_finished_without_training(
    context, write_sweep, shapes, tmp_path, trained
):
    file, runs = write_sweep(datasets=shapes, encodings=["none"]), tmp_path / "runs"
    path = sweep(file, context, runs=runs).outcomes[0].path
    before = scores(runs)
    (path / "metrics.json").unlink()
    assert scores(runs) == []
    assert sweep(file, context, runs=runs).outcomes[0].state == "trained"
    assert scores(runs) == before
    assert len(trained) == 2


def test_the_table_is_appended_to_when_a_run_ends(context, write_sweep, shapes, tmp_path, monkeypatch):
    seen, real = [], module.append

    def noting(root, folders):
        real(root, folders)
        seen.append(pq.read_table(root / "results.parquet").num_rows)

    monkeypatch.setattr(module, "append", noting)
    sweep(write_sweep(datasets=shapes, encodings=["none", "rwpe"]), context, runs=tmp_path / "runs")
    assert seen == [2, 4]


@pytest.mark.slow
def test_folds_of_all_runs_go_to_the_workers(write_sweep, shapes, tmp_path):
    file = write_sweep(datasets=shapes, encodings=["none", "leap-l"])
    events = []
    for workers in (0, 2):
        context = Context(Store.open(tmp_path / "store"), workforce=Workforce(workers))
        result = sweep(file, context, runs=tmp_path / f"runs-{workers}", on_event=events.append)
        assert not result.failed
    assert scores(tmp_path / "runs-0") == scores(tmp_path / "runs-2")
    told = [event for event in events if isinstance(event, FoldsProgress)]  # how often is a matter of time
    assert all(each.folds == 4 and len(each.running) <= 4 and each.seconds_left >= 0 for each in told)
    assert [(each.done, each.running) for each in told if each.is_over] == [(4, ())] * 2
    ended = [event for event in events if isinstance(event, FoldEnded)]
    assert [each.ended for each in ended] == [1, 2, 3, 4] * 2
    assert {each.fold for each in ended} == {0, 1}


def test_plans_learn_from_earlier_runs(context, write_sweep, shapes, tmp_path):
    file, runs = write_sweep(datasets=shapes, encodings=["none"], epochs=2), tmp_path / "runs"
    unknown = plan_sweep(file, context, runs=runs)
    assert unknown.seconds is None
    sweep(file, context, runs=runs)
    done = plan_sweep(file, context, runs=runs)
    assert done.seconds == 0
    more = plan_sweep(file, context, selection=SweepSelection(instead={"seed": [5, 6]}), runs=runs)
    assert all(run.is_measured and run.seconds > 0 for run in more.datasets[0].runs)
    assert len(list((tmp_path / "runs").glob("*/metrics.json"))) == 1


def test_a_plan_needs_no_data(tmp_path, monkeypatch):
    monkeypatch.setattr("socket.socket", None)  # whoever reaches for the network fails
    context = Context(Store.open(tmp_path / "store"), data=tmp_path / "nothing")
    plan = plan_sweep("paper-main", context, runs=tmp_path / "runs").as_json()
    assert (plan["runs"], plan["folds"], plan["runs_done"], plan["artifacts"]) == (140, 700, 0, 7 * 5)
    assert len(plan["run_list"]) == 140
    assert plan["seconds"] > 0
    assert list(tmp_path.iterdir()) == []


def test_more_runs_than_may_be_held_at_once_are_done_in_turns(
    context, write_sweep, shapes, tmp_path, trained, monkeypatch
):
    monkeypatch.setattr(module, "MOST_OPEN", 2)
    told = []
    file = write_sweep(datasets=shapes, seeds=[1, 2, 3, 4, 5])
    result = sweep(file, context, runs=tmp_path / "runs", on_event=told.append)
    assert [outcome.state for outcome in result.outcomes] == ["trained"] * 5
    assert len(trained) == len(set(trained)) == 10
    ended = [(event.ended, event.folds) for event in told if isinstance(event, FoldEnded)]
    assert ended == [(number, 10) for number in range(1, 11)]
