"""Who trains does not matter: threads take turns, workers with several threads are refused, processes agree."""

import json
import subprocess
import sys
import threading

import pytest

from leap.models.network_config import NetworkConfig
from leap.pipeline import Context, TrainOptions, Workforce, train
from leap.pipeline.cluster import refuse_threaded_worker, require_one_thread_each
from leap.store import Store
from leap.store.errors import InvalidInputError
from tests.schedulers import dask_processes

REQUEST = ["letters-low", "-b", "nomp", "-e", "lape", "--epochs", "2", "--folds", "3", "--batch-size", "256"]
# Signs of lape's columns are drawn from torch's generator in every step.
OPTIONS = TrainOptions(network=NetworkConfig(backbone="nomp", encoding="lape"), epochs=2, folds=3, batch_size=256)


def losses(metrics):
    return [entry["test"]["loss"] for entry in metrics["folds"]]


def leap_train(store, address, *more):
    command = [sys.executable, "-m", "leap.cli.main", "--store", str(store), "--scheduler", address, "--json", "train"]
    return subprocess.run([*command, *REQUEST, *map(str, more)], capture_output=True, text=True, check=False)


def test_trainings_in_threads_of_one_process_do_not_disturb_each_other(context, options, shapes, run):
    chosen = [options(backbone="nomp", encoding="lape", seed=seed) for seed in range(3)]
    alone = [train(shapes, each, context, run=run.with_name(f"alone-{each.seed}")).metrics for each in chosen]
    together, start = {}, threading.Barrier(len(chosen))

    def work(each):
        start.wait()
        together[each.seed] = train(shapes, each, context, runs=run.parent / "together", force=True).metrics

    threads = [threading.Thread(target=work, args=(each,)) for each in chosen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [losses(together[seed]) for seed in range(3)] == [losses(metrics) for metrics in alone]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with all that `REQUEST` needs, and the losses that it gives in this process."""
    folder = tmp_path_factory.mktemp("workers")
    context = Context(Store.open(folder / "store"), workforce=Workforce(0))
    return folder / "store", losses(train("letters-low", OPTIONS, context, runs=folder / "runs").metrics)


def test_a_worker_with_several_threads_is_refused_with_the_command_to_use(store, tmp_path):
    with dask_processes(tmp_path / "dask", 1, "--nthreads", 4) as address:
        refused = leap_train(store[0], address, "--run", tmp_path / "run")
        assert refused.returncode == 2, refused.stderr
        text = json.loads(refused.stdout)["error"]["message"]
        assert text.startswith("the Dask worker tcp://")
        assert " has 4 threads, and a process trains one stack of folds at a time." in text
        assert f"start workers with 'dask worker {address} --nthreads 1 --nworkers N'." in text
        assert not (tmp_path / "run").exists()


def test_workers_of_one_thread_give_the_same_losses(store, tmp_path):
    with dask_processes(tmp_path / "dask", 2, "--nthreads", 1) as address:
        trained = leap_train(store[0], address, "--run", tmp_path / "run")
        assert trained.returncode == 0, trained.stderr
        assert losses(json.loads(trained.stdout)) == store[1]


def test_a_worker_that_joins_later_with_several_threads_gets_no_fold():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        command = f"'dask worker {cluster.scheduler_address} --nthreads 1 --nworkers N'"
        with pytest.raises(InvalidInputError, match=command):
            client.submit(refuse_threaded_worker).result()
        with pytest.raises(InvalidInputError, match=command):
            require_one_thread_each(Workforce(scheduler=cluster.scheduler_address))
    refuse_threaded_worker()  # outside of workers nothing happens
