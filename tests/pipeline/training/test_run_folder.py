"""The folder of a run: what is in it counts only as far as it is this run's, and can be read."""

import json
import shutil

import pyarrow.parquet as pq
import pytest
import yaml

from leap.pipeline import Context, Workforce, predict, train
from leap.pipeline.engine.jobs import make_jobs
from leap.pipeline.engine.prepare import prepare
from leap.pipeline.engine.run_folder import RunFolder
from leap.pipeline.engine.run_writer import RunWriter
from leap.pipeline.engine.stacks import run_fold
from leap.pipeline.training.loop import StackTrainer
from leap.pipeline.training.trainee import Trainee
from leap.store import Store
from leap.store.collect import plan_collection, remove
from leap.store.errors import InvalidInputError, WorkFailedError
from leap.store.references import References

KIND = {"backbone": "gcn", "encoding": "none"}


def losses(metrics):
    return [entry["test"]["loss"] for entry in metrics["folds"]]


@pytest.fixture
def stopped(context, options, shapes, run):
    """A run of three folds that is all done except for its end."""
    train(shapes, options(**KIND, folds=3, lr=0.001), context, run=run)
    (run / "metrics.json").unlink()
    return run


@pytest.mark.parametrize(
    "damage", [b"", b"options: {", b"\xff\xfe\x00", b"- a list\n"], ids=["empty", "cut", "bytes", "list"]
)
def test_a_configuration_that_cannot_be_read_is_an_error(context, options, shapes, stopped, damage):
    (stopped / "config.yaml").write_bytes(damage)
    for resume in (False, True):
        with pytest.raises(InvalidInputError, match=r"config\.yaml, cannot be read .* remove the folder"):
            train(shapes, options(**KIND, folds=3, lr=0.05), context, run=stopped, resume=resume)
    (stopped / "metrics.json").write_text("{}")
    with pytest.raises(InvalidInputError, match=r"config\.yaml, cannot be read"):
        predict(stopped, shapes, context)


def test_results_of_another_run_are_not_taken_for_ours(context, options, shapes, stopped, run):
    """With other options, whatever has become of the configuration."""
    other = options(**KIND, folds=3, lr=0.05)
    alone = train(shapes, other, context, run=run.parents[1] / "alone" / "run").metrics
    (stopped / "config.yaml").unlink()
    with pytest.raises(InvalidInputError, match=r"holds another run .*no config\.yaml.*--force"):
        train(shapes, other, context, run=stopped)
    assert losses(train(shapes, other, context, run=stopped, force=True).metrics) == losses(alone)


def test_a_fold_of_another_run_is_trained_again(context, options, shapes, stopped, run):
    before = losses({"folds": [json.loads((stopped / f"fold-{n}" / "result.json").read_text()) for n in range(3)]})
    other = run.parents[1] / "other" / "run"
    train(shapes, options(**KIND, folds=3, lr=0.05), context, run=other)
    shutil.rmtree(stopped / "fold-1")
    shutil.copytree(other / "fold-1", stopped / "fold-1")
    shutil.rmtree(stopped / "fold-2")  # and the same fold under another number
    shutil.copytree(stopped / "fold-0", stopped / "fold-2")
    resumed = train(shapes, options(**KIND, folds=3, lr=0.001), context, run=stopped, resume=True)
    assert losses(resumed.metrics) == before


def test_only_the_folds_of_the_run_are_gathered(context, options, shapes, stopped):
    for number in (3, 4):
        shutil.copytree(stopped / "fold-0", stopped / f"fold-{number}")
    metrics = train(shapes, options(**KIND, folds=3, lr=0.001), context, run=stopped, resume=True).metrics
    assert [entry["fold"] for entry in metrics["folds"]] == [0, 1, 2]
    for name in ("curves", "predictions"):
        assert set(pq.read_table(stopped / f"{name}.parquet")["fold"].to_pylist()) == {0, 1, 2}
    assert sorted(pq.read_table(stopped / "predictions.parquet")["graph"].to_pylist()) == list(range(121))


@pytest.mark.parametrize("name", ["epochs.jsonl", "predictions.parquet", "result.json"])
@pytest.mark.parametrize("content", [b"", b"\0" * 100, "middle", None], ids=["empty", "zeros", "middle", "absent"])
def test_a_fold_whose_files_are_damaged_is_not_done(context, options, shapes, stopped, name, content):
    before = losses({"folds": [json.loads((stopped / f"fold-{n}" / "result.json").read_text()) for n in range(3)]})
    path = stopped / "fold-1" / name
    data = path.read_bytes()
    if content == "middle":
        content = data[:4] + bytes(100) + data[104:]
    path.unlink() if content is None else path.write_bytes(content)
    resumed = train(shapes, options(**KIND, folds=3, lr=0.001), context, run=stopped, resume=True)
    assert losses(resumed.metrics) == before
    assert pq.read_table(stopped / "curves.parquet")["epoch"].to_pylist() == [0, 1, 2] * 3
    assert pq.read_table(stopped / "predictions.parquet").num_rows == 121


def test_what_a_training_reads_is_kept_from_its_start(options, shapes, run, tmp_path, monkeypatch):
    context = Context(Store.open(tmp_path / "store"), workforce=Workforce(0))
    verdicts, work = [], StackTrainer.run

    def collecting(self, *arguments):
        verdicts.extend(plan_collection(context.store, keep_days=0))
        return work(self, *arguments)

    monkeypatch.setattr(StackTrainer, "run", collecting)
    train(shapes, options(backbone="gcn", encoding="rwpe"), context, run=run)
    assert {verdict.artifact.kind for verdict in verdicts} == {"dataset", "rwpe"}
    assert all(verdict.keep and "used by run one" in verdict.reason for verdict in verdicts)


def test_an_artifact_collected_just_before_the_start_is_noticed(options, shapes, run, tmp_path, monkeypatch):
    context = Context(Store.open(tmp_path / "store"), workforce=Workforce(0))
    chosen, record = options(backbone="gcn", encoding="rwpe"), References.record_run

    def collected_before(self, *arguments, **facts):
        remove(context.store, [artifact.key for artifact in context.store.list() if artifact.kind == "rwpe"])
        record(self, *arguments, **facts)

    monkeypatch.setattr(References, "record_run", collected_before)
    with pytest.raises(WorkFailedError, match=r"rwpe .* was removed from the store .* Run the command again"):
        train(shapes, chosen, context, run=run)
    monkeypatch.setattr(References, "record_run", record)
    assert len(train(shapes, chosen, context, run=run).metrics["folds"]) == 2


WRITTEN = ["config.yaml", "metrics.json", "curves.parquet", "predictions.parquet"]
WRITTEN += [f"fold-0/{name}" for name in ("best.pt", "last.pt", "epochs.jsonl", "result.json", "predictions.parquet")]


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("how", [{}, {"force": True}], ids=["new", "forced"])
def test_a_folder_where_a_file_belongs_is_named_before_any_training(context, options, shapes, run, name, how):
    (run / name / "inner").mkdir(parents=True)
    with pytest.raises(InvalidInputError, match=name):
        train(shapes, options(**KIND), context, run=run, **how)
    assert (run / name / "inner").is_dir()
    assert [path for path in run.rglob("*") if path.is_file() and path.name != ".lock"] == []


def remove_during_training(monkeypatch, folder):
    """Have a folder removed in the middle of the first fold."""
    finish_epoch = Trainee.finish_epoch

    def remove_and_finish(self, *arguments):
        shutil.rmtree(folder, ignore_errors=True)
        finish_epoch(self, *arguments)

    monkeypatch.setattr(Trainee, "finish_epoch", remove_and_finish)


@pytest.mark.parametrize("removed", ["", "fold-0"], ids=["run", "fold"])
def test_a_folder_that_is_removed_during_training_is_named(context, options, shapes, run, monkeypatch, removed):
    with monkeypatch.context() as patch:
        remove_during_training(patch, run / removed)
        with pytest.raises(
            WorkFailedError, match=r"was removed while its run was being trained\. Run the same command"
        ):
            train(shapes, options(**KIND), context, run=run)
    assert not list(run.glob("traceback-*"))
    resume = (run / "config.yaml").exists()
    assert len(train(shapes, options(**KIND), context, run=run, resume=resume).metrics["folds"]) == 2


def test_folds_that_are_removed_before_the_end_are_named(context, options, shapes, stopped):
    open_run = RunWriter.open

    def open_and_remove(self, *args, **kwargs):
        open_run(self, *args, **kwargs)
        shutil.rmtree(stopped / "fold-1")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunWriter, "open", open_and_remove)
        with pytest.raises(WorkFailedError, match=r"removed while its run was being trained"):
            train(shapes, options(**KIND, folds=3, lr=0.001), context, run=stopped, resume=True)


def test_a_fold_that_begins_after_its_run_was_removed_is_not_trained(context, options, shapes, run):
    train(shapes, options(**KIND), context, run=run)
    prepared = prepare(shapes, options(**KIND), context)
    facts = {"label": "shapes", "seconds": 1.0, "memory_gb": 1.0, "checkpoint_steps": 500}
    job = make_jobs(prepared, RunFolder(run), context, **facts)[0]
    shutil.rmtree(run)
    outcome = run_fold(job)
    assert isinstance(outcome.error, WorkFailedError)
    assert "was removed while its run was being trained" in str(outcome.error)


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda config: config["options"].update(colour="red"), "colour is 'red'"),
        (lambda config: config["options"]["network"].update(dim=-1), "network.dim is -1"),
        (lambda config: config["options"]["network"].update(hidden=7), "other options than metrics.json"),
        (lambda config: config["facts"].update(features="two"), "features is 'two'"),
        (lambda config: config["facts"].update(outputs=5), "not those that its config.yaml describes"),
        (lambda config: config.pop("facts"), "something is missing"),
        (lambda config: config.update(options=[]), "something is missing"),
        (lambda config: config.update(artifacts=[]), "something is missing"),
        (lambda config: config.update(artifacts=[3]), "something is missing"),
    ],
    ids=["unknown", "wrong", "other", "facts", "other facts", "missing", "list", "no dataset", "no artifact"],
)
def test_predictions_need_the_configuration_of_the_run(context, options, shapes, run, edit, reason):
    train(shapes, options(**KIND), context, run=run)
    config = yaml.safe_load((run / "config.yaml").read_text())
    edit(config)
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(InvalidInputError, match=reason) as caught:
        predict(run, shapes, context)
    assert "\n" not in str(caught.value)
    assert "leap train --force" in str(caught.value)


@pytest.mark.parametrize("folds", [[], [{}], [{"fold": "first"}]], ids=["none", "unnamed", "not a number"])
def test_predictions_need_the_folds_of_the_run(context, options, shapes, run, folds):
    train(shapes, options(**KIND), context, run=run)
    metrics = json.loads((run / "metrics.json").read_text())
    (run / "metrics.json").write_text(json.dumps(metrics | {"folds": folds}))
    with pytest.raises(InvalidInputError, match="something is missing"):
        predict(run, shapes, context)
