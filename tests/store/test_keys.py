"""Keys: equal requests agree, and anything that matters tells them apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leap.store.keys import KEY_LENGTH, canonical_json, dataset_key, derived_key

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e300, 1e300) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_the_order_of_parameters_does_not_matter(params):
    backwards = dict(reversed(params.items()))
    assert derived_key("rwpe", "s", params, 1) == derived_key("rwpe", "s", backwards, 1)


@pytest.mark.parametrize(
    "other",
    [
        derived_key("lape", "source", {"dim": 10}, 1),
        derived_key("rwpe", "other", {"dim": 10}, 1),
        derived_key("rwpe", "source", {"dim": 11}, 1),
        derived_key("rwpe", "source", {"dim": 10, "drop": "one"}, 1),
        derived_key("rwpe", "source", {"dim": 10}, 2),
        derived_key("rwpe", "source", {"dim": 10}, 1, {"neighborhoods": "a" * 40}),
    ],
)
def test_anything_that_matters_changes_the_key(other):
    assert derived_key("rwpe", "source", {"dim": 10}, 1) != other


def test_the_keys_of_what_is_read_change_the_key():
    one, other = ({"neighborhoods": letter * 40} for letter in "ab")
    assert derived_key("dect", "source", {}, 1, one) != derived_key("dect", "source", {}, 1, other)


def test_what_reads_the_dataset_alone_has_the_key_of_version_0_1():
    assert derived_key("rwpe", "source", {"dim": 10}, 1, {}) == "0201a3394332884329c84ce5191d291718aba1a7"


def test_a_new_schema_changes_every_key(monkeypatch):
    before = derived_key("rwpe", "source", {}, 1), dataset_key({}, {}, 1)
    monkeypatch.setattr("leap.store.keys.SCHEMA_VERSION", 2)
    after = derived_key("rwpe", "source", {}, 1), dataset_key({}, {}, 1)
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert len(before[0]) == KEY_LENGTH


def test_nan_is_no_parameter():
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"x": float("nan")})
