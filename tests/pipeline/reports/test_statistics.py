"""The report's statistics equal what scipy and hand calculation give."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from leap.pipeline.reports.statistics import (
    average_ranks,
    corrected_resampled_t_test,
    distance,
    holm,
    mean_and_spread,
    paired_test,
    range_quantile,
    rank_test,
    ranks,
    verdict,
)

NUMBERS = st.lists(st.floats(-100, 100).map(lambda value: round(value, 3)), min_size=2, max_size=30)


@given(NUMBERS)
def test_mean_and_spread_are_numpys_with_ddof_one(values):
    mean, spread = mean_and_spread(values)
    assert mean == pytest.approx(np.mean(values), abs=1e-9)
    assert spread == pytest.approx(np.std(values, ddof=1), abs=1e-9)


def test_one_value_has_no_spread():
    assert mean_and_spread([0.5]) == (0.5, None)


@given(NUMBERS.filter(lambda values: np.std(values) > 1e-3))
def test_without_overlap_the_corrected_test_is_the_ordinary_t_test(values):
    ordinary = scipy.stats.ttest_1samp(values, 0.0)
    ours = corrected_resampled_t_test(values, 0.0)
    assert ours.statistic == pytest.approx(ordinary.statistic, rel=1e-9, abs=1e-12)
    assert ours.p == pytest.approx(ordinary.pvalue, rel=1e-9)


@given(NUMBERS.filter(lambda values: np.std(values) > 1e-3))
def test_without_overlap_the_interval_is_that_of_the_ordinary_t_test(values):
    ordinary = scipy.stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    ours = corrected_resampled_t_test(values, 0.0)
    assert ours.interval() == pytest.approx((ordinary.low, ordinary.high), rel=1e-7, abs=1e-9)
    assert (ours.interval()[0] > 0 or ours.interval()[1] < 0) == (ours.p < 0.05)


def test_the_interval_is_as_wide_as_the_corrected_error():
    differences = np.array([1.2, 0.4, 2.2, -0.3, 1.6])
    error = math.sqrt(differences.var(ddof=1) * (1 / 5 + 1 / 3))
    reach = 2.7764451 * error  # 97.5 % quantile of t with four degrees of freedom
    interval = corrected_resampled_t_test(differences.tolist(), 1 / 3).interval()
    assert interval == pytest.approx((differences.mean() - reach, differences.mean() + reach))


def test_the_correction_is_nadeau_and_bengios():
    differences = np.array([1.2, 0.4, 2.2, -0.3, 1.6, 0.9, 1.1, 2.0, 0.2, 0.7])
    variance = differences.var(ddof=1) * (1 / 10 + 450 / 1350)
    expected = differences.mean() / math.sqrt(variance)
    ours = corrected_resampled_t_test(differences.tolist(), 450 / 1350)
    assert ours.statistic == pytest.approx(expected)
    assert ours.p == pytest.approx(2 * scipy.stats.t.sf(abs(expected), 9))
    assert ours.difference == pytest.approx(1.0)
    assert ours.pairs == 10
    assert ours.p > scipy.stats.ttest_1samp(differences, 0.0).pvalue


def test_equal_differences_and_none_at_all():
    same = corrected_resampled_t_test([0.1 + 0.2, 0.3, 0.3], 0.25)
    assert same.p == scipy.stats.binomtest(3, 3).pvalue == 0.25
    assert 2 * scipy.stats.t.sf(same.statistic, 2) == pytest.approx(0.25)
    assert same.interval()[0] < 0 < same.interval()[1]
    many = corrected_resampled_t_test([-0.3] * 6, 0.25)
    assert (many.p, many.statistic < 0) == (2 / 2**6, True)
    assert many.interval()[1] < 0
    nothing = corrected_resampled_t_test([0.0, 0.0], 0.25)
    assert (nothing.statistic, nothing.p) == (0.0, 1.0)
    assert corrected_resampled_t_test([1.0], 0.25) is None


@given(st.lists(st.floats(-100, 100).map(lambda value: round(value, 3)), min_size=2, max_size=8), st.integers(1, 9))
def test_duplicated_seeds_give_no_smaller_p(values, seeds):
    once = paired_test([[value] for value in values], 1 / 3)
    more = paired_test([[value] * seeds for value in values], 1 / 3)
    assert (more.pairs, more.over) == (once.pairs, "folds") == (len(values), "folds")
    assert more.p == pytest.approx(once.p, rel=1e-9)


def test_folds_of_several_split_seeds_are_repeated_cross_validation():
    differences = np.array([1.2, 0.4, 2.2, -0.3, 1.6, 0.9, 1.1, 2.0, 0.2, 0.7])
    assert paired_test(differences[:, None].tolist(), 1 / 3) == corrected_resampled_t_test(differences.tolist(), 1 / 3)


def test_on_a_single_split_seeds_are_what_is_repeated():
    values = [1.2, 0.4, 2.2, -0.3]
    test = paired_test([values], 1 / 3)
    assert test.over == "seeds"
    assert test.p == pytest.approx(scipy.stats.ttest_1samp(values, 0.0).pvalue)
    assert paired_test([[1.0]], 1 / 3) is None


@pytest.mark.parametrize(("noise", "lowest"), [(0.0, 0.035), (0.5, 0.015)])
def test_ten_seeds_on_five_folds_reject_a_true_null_hypothesis_as_rarely_as_promised(noise, lowest):
    """Folds that correlate as Nadeau and Bengio assume, and seeds that share their fold's luck.

    Noise of seeds lowers the correlation of the folds' means, so the test may only become stricter.
    """
    rng = np.random.Generator(np.random.PCG64(20260801))
    folds, seeds, ratio, trials = 5, 10, 1 / 3, 4000
    correlation = ratio / (1 + ratio)
    shared = math.sqrt(correlation) * rng.standard_normal((trials, 1, 1))
    own = math.sqrt(1 - correlation) * rng.standard_normal((trials, folds, 1))
    drawn = shared + own + noise * rng.standard_normal((trials, folds, seeds))
    averaged = [paired_test(trial.tolist(), ratio).p for trial in drawn]
    assert lowest < np.mean(np.array(averaged) < 0.05) < 0.065
    # Taking every seed of every fold for a repetition of its own promises 5 % and errs far more often.
    pooled = [corrected_resampled_t_test(trial.ravel().tolist(), ratio).p for trial in drawn]
    assert np.mean(np.array(pooled) < 0.05) > 0.1


def test_holm_by_hand():
    assert holm([0.01, 0.02, 0.03, 0.005]) == pytest.approx([0.03, 0.04, 0.04, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_no_correction_and_bonferroni_and_keeps_the_order(values):
    corrected = holm(values)
    for raw, adjusted in zip(values, corrected, strict=True):
        assert raw <= adjusted <= min(1.0, raw * len(values)) + 1e-15
    by_raw = [corrected[index] for index in np.argsort(values, kind="stable")]
    assert by_raw == sorted(by_raw)


def test_a_verdict_needs_a_small_p():
    assert verdict(1.0, 0.049) == "better"
    assert verdict(-1.0, 0.049) == "worse"
    assert verdict(5.0, 0.05) == "no difference shown"


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_ranks_are_scipys_average_ranks_of_the_negated_values(values):
    ours = ranks({str(index): float(value) for index, value in enumerate(values)})
    assert list(ours.values()) == scipy.stats.rankdata([-value for value in values], method="average").tolist()


def test_average_ranks_over_datasets():
    tables = [{"a": 3.0, "b": 2.0, "c": 1.0}, {"a": 1.0, "b": 1.0, "c": 0.0}]
    assert average_ranks(tables) == {"a": 1.25, "b": 1.75, "c": 3.0}
    assert average_ranks([]) == {}


def test_distance_is_in_published_standard_deviations():
    assert distance(80.0, 82.0, 2.0) == -1.0
    assert distance(80.0, 82.0, None) is None
    assert distance(100.0, 100.0, 0.0) == 0.0
    assert distance(99.0, 100.0, 0.0) is None


SCORES = st.integers(2, 6).flatmap(
    lambda methods: st.lists(st.lists(st.integers(0, 4), min_size=methods, max_size=methods), min_size=2, max_size=12)
)


@given(SCORES.filter(lambda rows: len(rows[0]) > 2 and any(len(set(row)) > 1 for row in rows)))
def test_the_rank_test_is_scipys_friedman_test(rows):
    ours = rank_test([dict(zip("abcdef", map(float, row), strict=False)) for row in rows])
    theirs = scipy.stats.friedmanchisquare(*zip(*rows, strict=True))
    assert (ours.statistic, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue), abs=1e-9)


def test_methods_that_always_tie_do_not_differ():
    test = rank_test([{"a": 1.0, "b": 1.0}] * 6)
    assert (test.statistic, test.p, test.alike()) == (0.0, 1.0, [["a", "b"]])


def test_critical_differences_are_those_of_demsars_table():
    printed = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 6: 2.850, 7: 2.949, 8: 3.031, 9: 3.102, 10: 3.164}
    ours = {count: round(range_quantile(count, 0.95) / math.sqrt(2), 3) for count in printed}
    assert ours == pytest.approx(printed, abs=0.0011)  # some are printed rounded down
    assert range_quantile(5, 0.95) == pytest.approx(scipy.stats.studentized_range.ppf(0.95, 5, np.inf), abs=1e-6)


def test_the_critical_difference_of_demsars_example():
    """Four methods on 14 datasets: 2.569 · sqrt(4 · 5 / (6 · 14)), printed as 1.25."""
    test = rank_test([{"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}] * 14)
    assert test.critical_difference == pytest.approx(1.25, abs=0.005)


def test_groups_without_a_shown_difference_are_the_largest_ones():
    far = rank_test([{"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}] * 10)
    assert far.critical_difference == pytest.approx(2.569 * math.sqrt(4 * 5 / 60), abs=1e-3)  # 1.48
    assert far.alike() == [["a", "b"], ["b", "c"], ["c", "d"]]
    few = rank_test([{"a": 2.0, "b": 1.0}, {"a": 1.0, "b": 2.0}] * 3)
    assert few.alike() == [["a", "b"]]
