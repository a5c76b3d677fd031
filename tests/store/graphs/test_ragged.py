"""Ragged arrays against lists of arrays: whatever is done to one is done to the other, item by item."""

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap.store.graphs import ragged
from leap.store.graphs.ragged import Filling, Ragged, overlap, pointers, spread

LENGTHS = st.lists(st.integers(0, 5), max_size=8)
AXES = st.sampled_from([0, -1])
LAW = settings(max_examples=80, deadline=None)


def make(lengths, axis=0, seed=0):
    """A ragged array of two columns, int32 and float64, one of them with two numbers to a row."""
    rows = sum(lengths)
    rng = np.random.default_rng(seed)
    wide = (rows, 2) if axis == 0 else (2, rows)
    columns = {"ids": rng.integers(0, 99, rows).astype(np.int32), "wide": rng.normal(size=wide)}
    return Ragged(pointers(lengths), columns, axis)


def items(found, name):
    """The oracle's form: a list with one array per item, rows first."""
    column = found[name] if found.axis == 0 else np.moveaxis(found[name], -1, 0)
    return [column[low:high].tolist() for low, high in zip(found.ptr[:-1], found.ptr[1:], strict=True)]


def assert_holds(found, expected, like):
    assert found.ptr.dtype == np.int64
    assert found.axis == like.axis
    assert found.lengths.tolist() == [len(item) for item in expected["ids"]]
    for name in ("ids", "wide"):
        assert items(found, name) == expected[name]
        assert found[name].dtype == like[name].dtype


@LAW
@given(LENGTHS, AXES, st.data())
def test_taking_items_takes_them_one_by_one(lengths, axis, data):
    one = make(lengths, axis)
    chosen = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=6)) if lengths else []
    chosen = np.array(chosen, dtype=np.int64)
    taken = one.take(chosen)
    assert_holds(taken, {name: [items(one, name)[i] for i in chosen] for name in one.columns}, one)
    assert taken["wide"].flags.c_contiguous


@LAW
@given(LENGTHS, AXES, st.data())
def test_a_cut_is_a_slice_that_shares_memory(lengths, axis, data):
    one = make(lengths, axis)
    low = data.draw(st.integers(0, len(lengths)))
    high = data.draw(st.integers(low, len(lengths)))
    found = one.cut(low, high)
    assert_holds(found, {name: items(one, name)[low:high] for name in one.columns}, one)
    assert not found["ids"].size or np.shares_memory(found["ids"], one["ids"])


@LAW
@given(st.lists(LENGTHS, min_size=1, max_size=4), AXES, st.integers(0, 3))
def test_concatenating_appends_the_lists_whatever_room_was_left(several, axis, room):
    parts = [make(lengths, axis, seed) for seed, lengths in enumerate(several)]
    expected = {name: [item for part in parts for item in items(part, name)] for name in ("ids", "wide")}
    assert_holds(Ragged.concatenate(parts), expected, parts[0])
    filling = Filling(sum(map(sum, several)) + room)
    for part in parts:
        filling.append(part)
    filled = filling.finished()
    assert_holds(filled, expected, parts[0])
    assert filled["wide"].flags.c_contiguous or axis == 0


@LAW
@given(LENGTHS, AXES)
def test_shifting_adds_each_items_amount_to_its_rows(lengths, axis):
    one = make(lengths, axis)
    before = {name: items(one, name) for name in one.columns}
    added = {n: [(np.array(item) + 10 * i).tolist() for i, item in enumerate(before[n])] for n in before}
    assert_holds(one.shift(np.arange(len(lengths), dtype=np.int32) * 10), added, one)
    wide = one.shift(np.arange(len(lengths)) * 10)
    assert wide["ids"].dtype == np.int64
    assert items(wide, "ids") == added["ids"]
    assert {name: items(one, name) for name in one.columns} == before


@LAW
@given(LENGTHS, AXES, st.integers(0, 2**16))
def test_a_mask_over_rows_thins_each_item(lengths, axis, seed):
    one = make(lengths, axis)
    keep = np.random.default_rng(seed).random(one.rows) < 0.5
    masks = np.split(keep, one.ptr[1:-1]) if lengths else []
    expected = {}
    for name in one.columns:
        pairs = zip(items(one, name), masks, strict=True)
        expected[name] = [[row for row, kept in zip(item, mask, strict=True) if kept] for item, mask in pairs]
    assert_holds(one.where(keep), expected, one)


@LAW
@given(st.lists(LENGTHS, max_size=5), AXES)
def test_regrouping_joins_items_without_touching_rows(groups, axis):
    lengths = [length for group in groups for length in group]
    one = make(lengths, axis)
    found = one.regroup(pointers([len(group) for group in groups]))
    assert found.lengths.tolist() == [sum(group) for group in groups]
    assert found["ids"] is one["ids"]


@LAW
@given(LENGTHS, st.data())
def test_overlap_finds_every_row_of_a_range_once(lengths, data):
    ptr = pointers(lengths)
    low = data.draw(st.integers(0, int(ptr[-1])))
    high = data.draw(st.integers(low, int(ptr[-1])))
    found = list(overlap(ptr, low, high))
    assert [row for item, begin, end in found for row in range(ptr[item] + begin, ptr[item] + end)] == [
        *range(low, high)
    ]
    assert all(end > begin for _, begin, end in found) or low == high
    assert len(found) == 1 or low < high or not lengths


def test_ranges_may_begin_anywhere():
    assert list(overlap(np.array([10, 12, 12, 15]), 11, 14)) == [(0, 1, 2), (2, 0, 2)]


@LAW
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4)), max_size=6))
def test_spreading_lists_every_range(pairs):
    starts, lengths = (np.array([pair[k] for pair in pairs], dtype=np.int64) for k in (0, 1))
    assert spread(starts, lengths).tolist() == [row for start, length in pairs for row in range(start, start + length)]


def test_the_bytes_are_those_of_all_arrays():
    one = make([2, 3])
    assert one.nbytes == 2 * 3 * 8 + 5 * 4 + 10 * 8


def test_unknown_items_are_refused():
    with pytest.raises(IndexError):
        make([2, 3]).take([2])


def test_the_examples_in_the_documentation_run():
    failed, attempted = doctest.testmod(ragged)
    assert attempted > 0
    assert failed == 0
