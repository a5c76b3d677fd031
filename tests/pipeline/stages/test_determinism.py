"""Results depend on the data and the parameters alone: not on workers, nor on how the dataset is cut."""

import sys

import networkx as nx
import numpy as np
import pytest

from leap.pipeline import IngestOptions, encode, extract, ingest

PARAMS = {"dim": 6, "directions": 4, "thresholds": 5, "hops": 2}
KINDS = ("rwpe", "lape", "lect", "hkdiag", "ppr", "lcp", "cycles", "elstatic", "dect")


@pytest.fixture(scope="module")
def scheduler():
    """A running Dask cluster that stages connect to by its address."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="localhost:0") as cluster:
        yield cluster.scheduler_address


@pytest.mark.slow
def test_neighbourhoods_have_the_same_bytes_with_any_number_of_workers(varied, small_parts, new_context, snapshot):
    pictures = []
    for workers in (0, 1, 2, 3):
        context = new_context(f"store-{workers}", workers)
        report = extract(varied, 2, ingest_options=small_parts, context=context)
        assert report.artifacts[1].partitions > 3
        pictures.append(snapshot(context.store.url))
    assert all(picture == pictures[0] for picture in pictures[1:])


def test_encodings_have_the_same_bytes_wherever_they_are_computed(
    varied, small_parts, new_context, snapshot, scheduler
):
    here, there = new_context("here"), new_context("there", scheduler=scheduler)
    for context in (here, there):
        encode(varied, KINDS, params=PARAMS, ingest_options=small_parts, context=context)
    assert snapshot(here.store.url) == snapshot(there.store.url)


def test_encodings_of_a_large_graph_have_the_same_bytes_wherever_they_are_computed(
    source_of, new_context, snapshot, scheduler
):
    large = source_of([nx.connected_watts_strogatz_graph(1500, 4, 0.1, seed=3), nx.path_graph(700)], "large")
    options = IngestOptions(partition_mb=0.01)
    here, there = new_context("here"), new_context("there", scheduler=scheduler)
    for context in (here, there):
        encode(large, ["rwpe", "lape"], params={"dim": 8}, ingest_options=options, context=context)
    assert snapshot(here.store.url) == snapshot(there.store.url)


@pytest.mark.slow
def test_a_worker_with_several_threads_gives_the_same_bytes(source_of, new_context, snapshot):
    """What `dask worker ADDRESS` starts: one process whose tasks share whatever belongs to the process."""
    from distributed import Client, LocalCluster

    graphs = [nx.gnp_random_graph(6 + number % 9, 0.3, seed=number) for number in range(300)]
    many = source_of([*graphs, nx.connected_watts_strogatz_graph(600, 4, 0.1, seed=3)], "many")
    options = IngestOptions(partition_mb=0.001)
    with LocalCluster(n_workers=1, threads_per_worker=4, processes=True, dashboard_address="localhost:0") as cluster:
        with Client(cluster, set_as_default=False) as client:
            client.run(sys.setswitchinterval, 1e-6)  # threads overtake each other as often as they can
        here, there = new_context("here"), new_context("there", scheduler=cluster.scheduler_address)
        for context in (here, there):
            report = extract(many, 1, ingest_options=options, context=context)
            assert report.artifacts[1].partitions > 150
            encode(many, "lape", params={"dim": 4}, ingest_options=options, context=context)
    assert snapshot(here.store.url) == snapshot(there.store.url)


def test_another_partition_size_gives_the_same_results(varied, new_context):
    results = {}
    for mib in (8.0, 0.003):
        context = new_context(f"store-{mib}")
        options = IngestOptions(partition_mb=mib)
        extract(varied, 2, ingest_options=options, context=context)
        extract(varied, 2, cap=4, ingest_options=options, context=context)
        encode(varied, KINDS, params=PARAMS, ingest_options=options, context=context)
        results[mib] = context.store
    whole = results.pop(8.0)
    assert len(whole.find("neighborhoods", "varied", cap=None).partitions) == 1
    for store in results.values():
        for cap in (None, 4):
            expected, found = (s.find("neighborhoods", "varied", cap=cap) for s in (whole, store))
            assert len(found.partitions) > 3
            assert found.neighborhoods().equals(expected.neighborhoods())
            for name in ("mean", "scale"):
                assert np.array_equal(found.load(name), expected.load(name))
        for kind in KINDS:
            expected, found = (s.find(kind, "varied") for s in (whole, store))
            for name in found.array_names():
                assert found.load(name).tobytes() == expected.load(name).tobytes(), f"{name} of {kind}"


def test_a_dataset_has_the_same_bytes_each_time(varied, small_parts, new_context, snapshot):
    one, two = new_context("one"), new_context("two")
    for context in (one, two):
        ingest(varied, options=small_parts, context=context)
    assert snapshot(one.store.url) == snapshot(two.store.url)
