import numpy as np

from leap.models.rows import Rows


def test_counts_become_pointers_and_networks_stand_in_order():
    rows = Rows.of([2, 0, 3])
    assert rows.ptr.tolist() == [0, 2, 2, 5]
    assert rows.slots.tolist() == [0, 1, 2]
    assert rows.noise is None
    assert len(rows) == 3


def test_times_multiplies_rows_and_keeps_slots_and_noise():
    keys = np.array([7, 9], np.uint64)
    rows = Rows.of([2, 3], slots=[4, 1], noise=keys).times(16)
    assert rows.ptr.tolist() == [0, 32, 80]
    assert rows.slots.tolist() == [4, 1]
    assert rows.noise is keys


def test_no_networks_are_possible():
    rows = Rows.of([])
    assert len(rows) == 0
    assert rows.ptr.tolist() == [0]
