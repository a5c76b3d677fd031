"""The order of an epoch: every graph once, from seed, epoch, subset and window alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.store.errors import InvalidInputError
from leap.store.graphs.order import Order


@st.composite
def orders(draw: st.DrawFn, shuffle: bool = True) -> Order:
    """Orders over a few shards of uneven sizes, some of them without a graph of the subset."""
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=12))
    starts = np.cumsum([0, *sizes])
    is_chosen = draw(st.lists(st.booleans(), min_size=int(starts[-1]), max_size=int(starts[-1])))
    return Order(
        starts,
        np.flatnonzero(is_chosen),
        batch_size=draw(st.integers(1, 7)),
        window=draw(st.integers(1, 14)),
        shuffle=shuffle,
        seed=draw(st.integers(0, 2**40)),
    )


def visited(order: Order, epoch: int) -> np.ndarray:
    parts = [order.graphs(epoch, window) for window in order.windows(epoch)]
    return np.concatenate([np.empty(0, np.int64), *parts])


def batches(order: Order, epoch: int, start: int = 0, step: int = 1) -> list[list[int]]:
    return [
        order.graphs(epoch, window)[cut].tolist()
        for window in order.windows(epoch)
        for cut in order.cuts(window, start, step)
    ]


@given(orders(), st.integers(0, 1000))
@settings(max_examples=100, deadline=None)
def test_every_epoch_visits_each_graph_of_the_subset_once(order, epoch):
    assert np.array_equal(np.sort(visited(order, epoch)), order.subset)


@given(orders(), st.integers(0, 50))
@settings(max_examples=50, deadline=None)
def test_batches_follow_the_windows_and_only_the_last_of_a_window_is_smaller(order, epoch):
    windows = order.windows(epoch)
    assert [window.first_batch for window in windows] == np.cumsum([0, *(w.batches for w in windows)])[:-1].tolist()
    sizes = [[cut.stop - cut.start for cut in order.cuts(window)] for window in windows]
    assert all(size == order.batch_size for own in sizes for size in own[:-1])
    assert all(0 < own[-1] <= order.batch_size for own in sizes)
    assert sum(map(len, sizes)) == order.batches(epoch)
    assert [graph for batch in batches(order, epoch) for graph in batch] == visited(order, epoch).tolist()


@given(orders(), st.integers(0, 50), st.integers(0, 12), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_a_later_start_and_a_stride_leave_out_batches_and_change_none(order, epoch, start, step):
    assert batches(order, epoch, start, step) == batches(order, epoch)[start::step]


@given(orders(shuffle=False), st.integers(0, 50))
@settings(max_examples=25, deadline=None)
def test_without_shuffling_graphs_ascend(order, epoch):
    assert np.array_equal(visited(order, epoch), order.subset)


@given(orders(), st.integers(0, 50))
@settings(max_examples=50, deadline=None)
def test_windows_mix_no_more_shards_than_asked_for(order, epoch):
    windows = order.windows(epoch)
    assert all(len(window.shards) == order.window for window in windows[:-1])
    assert (
        sorted(shard for window in windows for shard in window.shards) == np.flatnonzero(np.diff(order.spans)).tolist()
    )


def big(seed: int = 7, window: int = 3, subset: np.ndarray | None = None) -> Order:
    return Order(np.arange(0, 1001, 50), np.arange(1000) if subset is None else subset, 16, window, seed=seed)


def test_equal_seeds_and_epochs_give_equal_orders_and_others_do_not():
    assert np.array_equal(visited(big(), 3), visited(big(), 3))
    seen = {tuple(visited(order, epoch)) for order in (big(7), big(8), big(7, window=4)) for epoch in range(5)}
    assert len(seen) == 15


def test_the_order_is_the_same_on_every_machine_and_version():
    assert visited(big(), 3)[:8].tolist() == [683, 598, 686, 582, 568, 681, 551, 599]


def test_windows_hold_other_shards_in_every_epoch():
    assert len({frozenset(window.shards for window in big().windows(epoch)) for epoch in range(6)}) == 6


def test_few_shards_are_shuffled_completely():
    order = Order(np.arange(0, 801, 100), np.arange(800), 16, window=8, seed=1)
    (window,) = order.windows(0)
    first = order.graphs(0, window)[:100]
    assert len(set((first // 100).tolist())) == 8


def test_no_graphs_are_no_batches():
    assert big(subset=np.empty(0, np.int64)).batches(0) == 0


@pytest.mark.parametrize("subset", [[3, 3], [4, 2], [-1, 5], [999, 1000]])
def test_a_subset_that_is_not_one_is_refused(subset):
    with pytest.raises(InvalidInputError, match="subset"):
        big(subset=np.array(subset))


@pytest.mark.parametrize(("name", "value"), [("batch_size", 0), ("window", 0), ("seed", -1)])
def test_sizes_that_mean_nothing_are_refused(name, value):
    named = {"batch_size": 2, "window": 1, "seed": 0, name: value}
    with pytest.raises(InvalidInputError, match=f"{name}.*{value}"):
        Order(np.array([0, 3]), np.arange(3), **named)
