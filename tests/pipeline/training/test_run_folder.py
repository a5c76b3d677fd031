"""The folder of a run: what is in it counts only as far as it is this run's, and can be read."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from leap.pipeline import Context, Workforce, predict, train
from leap.pipeline.training import loop
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
    verdicts, work = [], loop.Training.run

    def collecting(self, *arguments):
        verdicts.extend(plan_collection(context.store, keep_days=0))
        work(self, *arguments)

    monkeypatch.setattr(loop.Training, "run", collecting)
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
