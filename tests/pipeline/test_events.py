"""Events: every listener hears every event, one at a time; lines say what a person wants to know."""

import io
import json
import threading

import pytest

from leap.pipeline.events import EpochEnded, FoldEnded, FoldsProgress, Lines, Note, Reporter, RunningFold, TaskProgress

RESULT = {"epochs": 12, "seconds": 3.5, "test": {"accuracy": 0.8125}}
VALUES = {"epoch": 3, "train_loss": 0.5, "val_loss": 0.25, "val_r2": 0.75}


def test_a_task_tells_how_far_it_is_and_when_it_is_over():
    events = []
    with Reporter(events.append).task("reading", 10) as advance:
        advance(4)
        advance(6)
    assert [(event.done, event.is_over) for event in events] == [(0, False), (4, False), (10, False), (10, True)]
    assert len({event.task for event in events}) == 1


def test_a_task_that_fails_is_over():
    events = []
    with pytest.raises(ValueError, match="broken"), Reporter(events.append).task("reading", None):
        raise ValueError("broken")
    assert events[-1].is_over


def test_listeners_are_added_without_changing_the_reporter():
    one, two = [], []
    first = Reporter(one.append)
    first.also(two.append, None).note("both")
    first.note("one")
    assert [event.message for event in one] == ["both", "one"]
    assert [event.message for event in two] == ["both"]
    assert not Reporter().is_heard


def test_events_of_several_threads_come_one_at_a_time():
    inside, most, count = 0, 0, 0

    def listen(event):
        nonlocal inside, most, count
        inside += 1
        most = max(most, inside)
        count += 1
        inside -= 1

    reporter = Reporter(listen)
    threads = [threading.Thread(target=lambda: [reporter.note("x") for _ in range(200)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, count) == (1, 800)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (Note("waiting"), "waiting"),
        (
            FoldEnded("letters gcn", 2, 1, 4, RESULT, None, 200.0),
            "[1/4] letters gcn, fold 2: 12 epochs, 3.50 s, accuracy 81.2 %; about 3 min left",
        ),
        (
            FoldEnded("letters gcn", 2, 4, 4, RESULT | {"epochs": 1}, None, 0.0),
            "[4/4] letters gcn, fold 2: 1 epoch, 3.50 s, accuracy 81.2 %",
        ),
        (FoldEnded("letters gcn", 0, 2, 4, None, "no space", 1.0), "[2/4] letters gcn, fold 0 failed: no space"),
        (TaskProgress(1, "rwpe of letters", 1000, 500), None),
        (EpochEnded("letters gcn", 0, VALUES), None),
        (FoldsProgress(4, 1, 0, (RunningFold("letters gcn", 0, 100, VALUES),), 9.0), None),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_log_has_a_line_for_folds_and_notes_alone(event, line):
    stream = io.StringIO()
    Lines(stream)(event)
    assert stream.getvalue() == ("" if line is None else f"{line}\n")
    assert json.loads(json.dumps(event.as_json()))["event"]


def test_a_running_fold_says_its_losses_and_its_metric():
    assert RunningFold("letters gcn", 0, 100, VALUES).status == "loss 0.500, val 0.250, R² 0.750"
    assert RunningFold("letters gcn", 0, 100, None).status == ""
