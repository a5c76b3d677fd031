"""Who does the work: nobody extra for little of it, a quiet local cluster for much, a scheduler where one is named."""

import os
import warnings

import pytest

from leap.pipeline.cluster import InlineRunner, Workforce, employ
from leap.store.errors import InvalidInputError


def double(value):
    return 2 * value


def results(workforce, tasks=3, seconds=0.0):
    found = []
    with employ(workforce, tasks, seconds) as runner:
        runner.run(double, [(value,) for value in range(tasks)], found.append)
    return sorted(found)


@pytest.mark.parametrize(
    ("workforce", "tasks", "seconds"),
    [(Workforce(), 100, 0.5), (Workforce(), 1, 1e6), (Workforce(0), 100, 1e6), (Workforce(2), 0, 0.0)],
    ids=["little work", "one task", "no workers wanted", "nothing to do"],
)
def test_no_cluster_is_started_where_none_pays(workforce, tasks, seconds):
    with employ(workforce, tasks, seconds) as runner:
        assert isinstance(runner, InlineRunner)


def test_clusters_beside_each_other_start_without_a_word(capfd):
    from distributed import LocalCluster

    with (
        warnings.catch_warnings(),
        LocalCluster(n_workers=0, processes=False, dashboard_address="localhost:8787", silence_logs=50),
    ):
        warnings.simplefilter("error")
        assert results(Workforce(1)) == [0, 2, 4]
    assert capfd.readouterr() == ("", "")


def trim_threshold():
    return os.environ.get("MALLOC_TRIM_THRESHOLD_")


def test_workers_keep_their_memory_unlike_dask_has_it(monkeypatch):
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    found = []
    with employ(Workforce(1), 1, 0.0) as runner:
        runner.run(trim_threshold, [()], found.append)
    assert found == [None]


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nowhere", "tcp://256.0.0.1:8786"])
def test_a_scheduler_that_does_not_answer_is_an_error_that_names_it(address, monkeypatch):
    monkeypatch.setattr("leap.pipeline.cluster.CONNECT_SECONDS", 0.5)
    with pytest.raises(InvalidInputError, match="no Dask scheduler answers at"):
        results(Workforce(scheduler=address))


def test_a_scheduler_without_workers_is_an_error_rather_than_a_wait(monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setattr("leap.pipeline.cluster.CONNECT_SECONDS", 120.0)
    monkeypatch.setattr("leap.pipeline.cluster.WORKERS_SECONDS", 0.1)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="localhost:0") as cluster,
        pytest.raises(InvalidInputError, match="no workers"),
    ):
        results(Workforce(scheduler=cluster.scheduler_address))
