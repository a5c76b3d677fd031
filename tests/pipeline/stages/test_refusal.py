"""Requests that are refused before any work: explosions, parameters that do not fit, disks that are too small."""

import networkx as nx
import numpy as np
import pytest

from leap.pipeline import IngestOptions, encode, extract
from leap.store.errors import InvalidInputError, NeighborhoodsTooLargeError, NoSpaceError


@pytest.fixture
def hubs(source_of):
    """A star: the 2-hop neighbourhood of each of its 2,001 nodes is all of it."""
    return source_of([nx.star_graph(2000)], "hubs")


def test_an_explosion_is_refused_with_its_numbers(hubs, new_context):
    context = new_context()
    with pytest.raises(NeighborhoodsTooLargeError) as refused:
        extract(hubs, [1, 2], budget_gb=0.01, context=context)
    message = str(refused.value)
    for part in (
        "2-hop",
        "'hubs'",
        f"{2001 * 2001:,} memberships",
        f"{2001 * 2000:,} edges",
        "the budget is 0.01 GiB",
        "--cap",
    ):
        assert part in message
    kinds = sorted(artifact.kind for artifact in context.store.list())
    assert kinds == ["dataset", "neighborhoods"], "one hop fits the budget and is kept"
    assert context.store.unfinished() == []


def test_a_refusal_leaves_nothing_but_the_dataset(hubs, new_context, snapshot):
    context = new_context()
    with pytest.raises(NeighborhoodsTooLargeError):
        extract(hubs, 2, budget_gb=0.01, context=context)
    before = snapshot(context.store.url)
    assert [artifact.kind for artifact in context.store.list()] == ["dataset"]
    with pytest.raises(NeighborhoodsTooLargeError):
        extract(hubs, 2, budget_gb=0.01, context=context)
    assert snapshot(context.store.url) == before


def test_a_transform_of_an_explosion_is_refused_alike(hubs, new_context):
    with pytest.raises(NeighborhoodsTooLargeError, match="the 2-hop neighbourhoods of 'hubs'"):
        encode(hubs, "dect", params={"hops": 2}, budget_gb=0.01, context=new_context())


def test_a_cap_or_a_larger_budget_is_accepted(hubs, new_context):
    context = new_context()
    capped = extract(hubs, 2, cap=8, budget_gb=0.01, context=context)["neighborhoods"]
    assert capped.summary["max_members"] == 8
    assert context.store.get(capped.key).manifest.params == {"hops": 2, "cap": 8, "cap_seed": 0}
    assert not extract(hubs, 2, budget_gb=4.0, context=context)["neighborhoods"].cached
    assert extract(hubs, 2, budget_gb=0.01, context=context)["neighborhoods"].cached, "what is there is no explosion"


def test_a_disk_that_is_too_small_is_noticed_before_any_work(varied, new_context, monkeypatch, snapshot):
    context = new_context()
    extract(varied, 1, context=context)
    before = snapshot(context.store.url)
    monkeypatch.setattr("leap.store.location.LocalLocation.free_bytes", lambda self: 1000)
    with pytest.raises(NoSpaceError, match=r"needs about 1\.\d MiB, 1 MiB to spare included, .* 0\.0 MiB free"):
        extract(varied, 2, context=context)
    with pytest.raises(NoSpaceError, match="MiB free"):
        extract(varied, 1, ingest_options=IngestOptions(partition_mb=1), context=context)
    assert snapshot(context.store.url) == before


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"dim": 0}, "dim is 0"),
        ({"dim": 2000}, "dim is 2000"),
        ({"dim": "ten"}, "dim is 'ten'"),
        ({"drop": "all"}, "drop is 'all'"),
        ({"colour": 1}, "'colour' is not a parameter of"),
        ({"directions": 4}, "'directions' is not a parameter of"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(varied, new_context, params, message):
    context = new_context()
    with pytest.raises(InvalidInputError, match=message):
        encode(varied, ["rwpe", "lape"], params=params, context=context)
    assert not context.store.location.exists()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"scale": float("inf")}, "scale is inf"),
        ({"radius": float("nan")}, "radius is nan"),
        ({"edge_weight": float("inf")}, "edge_weight is inf"),
        ({"scale": 0.0}, "scale is 0.0"),
        ({"hops": 0}, "hops is 0"),
        ({"cap": 1}, "cap is 1"),
        ({"direction_values": ((float("nan"), 0.0, 0.0),)}, "nan"),
        ({"direction_values": ((1.0, 0.0, 0.0), (0.0, 0.0, 0.0))}, "a direction has length zero"),
        ({"direction_values": ()}, "directions is 0"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(varied, new_context, params, message):
    context = new_context()
    with pytest.raises(InvalidInputError, match=message):
        encode(varied, "dect", params=params, context=context)
    assert not context.store.location.exists()


def test_directions_of_another_dimension_leave_nothing_but_the_dataset(varied, new_context):
    context = new_context()
    with pytest.raises(InvalidInputError, match=r"directions have \[2\] coordinates"):
        encode(varied, "dect", params={"direction_values": ((1.0, 0.0),)}, context=context)
    assert [artifact.kind for artifact in context.store.list()] == ["dataset"]
    assert context.store.unfinished() == []


def test_features_whose_spread_overflows_are_refused(source_of, new_context):
    x = np.full((4, 3), 3e38, dtype=np.float32)
    x[::2] *= -1
    with pytest.raises(InvalidInputError, match="Scale them down"):
        extract(source_of([nx.path_graph(4)], "vast", x=x), 1, context=new_context())


@pytest.mark.parametrize("hops", [0, -1, 33, 1.5, []])
def test_hop_counts_out_of_range_are_refused(varied, new_context, hops):
    context = new_context()
    with pytest.raises(InvalidInputError, match="hop"):
        extract(varied, hops, context=context)
    assert not context.store.location.exists()


@pytest.mark.parametrize("size", [0.0, -1.0, 1e-9, float("inf"), float("nan"), 1e12])
def test_partition_sizes_that_make_no_partitions_are_refused(size):
    from leap.store.option import validated

    with pytest.raises(InvalidInputError, match="partition_mb"):
        validated(IngestOptions, partition_mb=size)


def test_negative_workers_are_refused():
    from leap.pipeline import Workforce

    with pytest.raises(InvalidInputError, match="--workers is -1"):
        Workforce(-1)
