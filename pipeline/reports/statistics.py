"""Statistics of cross-validated results: spread, paired comparisons, correction for many of them, and ranks."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from leap.store.lazy import lazy_module

special = lazy_module("scipy.special")

Verdict = Literal["better", "worse", "no difference shown"]
LEVEL = 0.05


def mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and the standard deviation (ddof 1), which one value alone does not have.

    Examples
    --------
    >>> mean_and_spread([1.0, 2.0, 3.0])
    (2.0, 1.0)
    """
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, None
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def pooled(by_fold: Sequence[Sequence[float]]) -> tuple[float, float | None]:
    """Return the mean and the standard deviation over folds, the seeds of each averaged first.

    Seeds of a fold share its data: counted one by one, they would weigh folds by the number of their seeds and pass for
    further folds. With a single fold the spread is over its seeds.

    Parameters
    ----------
    by_fold : for each fold one value for each seed.

    Examples
    --------
    >>> pooled([[1.0, 3.0], [4.0]]), pooled([[1.0, 3.0, 5.0]])
    ((3.0, 1.4142135623730951), (3.0, 2.0))
    """
    if len(by_fold) == 1:
        return mean_and_spread(by_fold[0])
    return mean_and_spread([mean_and_spread(of_seeds)[0] for of_seeds in by_fold])


def distance(ours: float, theirs: float, their_spread: float | None) -> float | None:
    """Return how far our mean lies above a published one, in its standard deviations.

    None where it has none to measure with; equal means are 0 apart even then.
    """
    if ours == theirs:
        return 0.0
    return (ours - theirs) / their_spread if their_spread else None


@dataclass(frozen=True)
class PairedTest:
    """Result of comparing two methods on the same folds.

    Attributes
    ----------
    difference : mean of first - second.
    statistic : corrected t; where every difference is the same, the t that has this p.
    p : two-sided.
    pairs : repetitions that both have, one less than which are the degrees of freedom.
    error : corrected standard error of the difference.
    over : what was repeated: "folds", or "seeds" on a single split, which say nothing about other data.
    """

    difference: float
    statistic: float
    p: float
    pairs: int
    error: float
    over: Literal["folds", "seeds"] = "folds"

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return where the difference lies with confidence 1 - level; zero is outside if, and only if, p < level.

        Examples
        --------
        >>> test = corrected_resampled_t_test([1.0, 2.0, 3.0, 2.0, 2.0], 1 / 3)
        >>> [round(end, 3) for end in test.interval()]
        [0.566, 3.434]
        """
        reach = float(special.stdtrit(self.pairs - 1, 1 - level / 2)) * self.error
        return self.difference - reach, self.difference + reach


def paired_test(by_fold: Sequence[Sequence[float]], test_to_train: float) -> PairedTest | None:
    """Compare two methods by their differences in each fold, with one or several seeds.

    Seeds on the same fold share training and test data: they are averaged first, so that more of them make a fold's
    difference steadier but never add degrees of freedom. Folds of several split seeds are all repetitions, as in
    the corrected test for repeated cross-validation (Bouckaert and Frank, 2004). With a single fold the seeds are
    what is repeated; the ordinary t-test then speaks of other seeds on these very data.

    Parameters
    ----------
    by_fold : differences of the metric, first - second: for each fold one for each seed.
    test_to_train : n_test / n_train of a fold.

    Returns
    -------
    None with fewer than two repetitions.

    Examples
    --------
    >>> once = paired_test([[1.0], [2.0], [4.0]], 1 / 3)
    >>> thrice = paired_test([[1.0] * 3, [2.0] * 3, [4.0] * 3], 1 / 3)
    >>> once == thrice, once.pairs
    (True, 3)
    """
    if len(by_fold) == 1:
        test = corrected_resampled_t_test(by_fold[0], 0.0)
        return None if test is None else replace(test, over="seeds")
    return corrected_resampled_t_test([mean_and_spread(of_seeds)[0] for of_seeds in by_fold], test_to_train)


def corrected_resampled_t_test(differences: Sequence[float], test_to_train: float) -> PairedTest | None:
    """Compare two methods by their differences over folds (Nadeau and Bengio, 2003).

    Folds share training data, so their differences are not independent; the variance of the mean is therefore
    taken as s² (1/n + n_test/n_train) instead of s²/n, with n - 1 degrees of freedom.

    Equal differences have no spread, which on small test parts is chance, and t would be infinite however few they
    are. Then the signs alone count: by chance all of n are the same with probability 2 / 2ⁿ.

    Parameters
    ----------
    differences : of the metric, one for each fold; see `paired_test` for several seeds.
    test_to_train : n_test / n_train of a fold.

    Returns
    -------
    None with fewer than two differences: then nothing can be said.

    Examples
    --------
    >>> test = corrected_resampled_t_test([1.0, 2.0, 3.0, 2.0, 2.0], 1 / 3)
    >>> round(test.statistic, 4), round(test.p, 4)
    (3.873, 0.0179)
    """
    if len(differences) < 2:
        return None
    mean, spread = mean_and_spread(differences)
    assert spread is not None
    pairs = len(differences)
    # Equal differences still differ by rounding; a spread below that is none.
    if spread <= 1e-12 * max(abs(value) for value in differences):
        spread = 0.0
    if spread == 0:
        p = 2.0 ** (1 - pairs) if mean else 1.0
        statistic = math.copysign(float(special.stdtrit(pairs - 1, 1 - p / 2)), mean) if mean else 0.0
        return PairedTest(mean, statistic, p, pairs, mean / statistic if mean else 0.0)
    error = spread * math.sqrt(1 / pairs + test_to_train)
    statistic = mean / error
    return PairedTest(mean, statistic, float(2 * special.stdtr(pairs - 1, -abs(statistic))), pairs, error)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's step-down method, in the given order.

    Examples
    --------
    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected = [0.0] * len(p_values)
    so_far = 0.0
    for rank, index in enumerate(order):
        so_far = max(so_far, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = so_far
    return corrected


def verdict(difference: float, corrected_p: float, level: float = LEVEL) -> Verdict:
    """Say what a corrected comparison shows about the first of two methods; higher is better."""
    if corrected_p >= level or difference == 0:
        return "no difference shown"
    return "better" if difference > 0 else "worse"


def ranks(values: Mapping[str, float]) -> dict[str, float]:
    """Return the rank of each name, 1 for the largest value; ties share the mean of their ranks.

    Examples
    --------
    >>> ranks({"a": 0.9, "b": 0.7, "c": 0.7, "d": 0.1})
    {'a': 1.0, 'b': 2.5, 'c': 2.5, 'd': 4.0}
    """
    above = {name: sum(other > value for other in values.values()) for name, value in values.items()}
    equal = {name: sum(other == value for other in values.values()) for name, value in values.items()}
    return {name: above[name] + (equal[name] + 1) / 2 for name in values}


def average_ranks(tables: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean rank of each name over several rankings of the same names."""
    each = [ranks(values) for values in tables]
    return {name: math.fsum(rank[name] for rank in each) / len(each) for name in each[0]} if each else {}


@dataclass(frozen=True)
class RankTest:
    """Whether methods differ over several datasets, by their ranks.

    Attributes
    ----------
    ranks : average rank of each method, the best first.
    datasets : how many were ranked.
    statistic, p : Friedman's test of all being equal, corrected for ties.
    critical_difference : Nemenyi's: two average ranks further apart differ, if Friedman's test shows a difference.
    """

    ranks: dict[str, float]
    datasets: int
    statistic: float
    p: float
    critical_difference: float

    def alike(self, level: float = LEVEL) -> list[list[str]]:
        """Return the largest groups of two or more methods among which no difference is shown."""
        names = list(self.ranks)
        if self.p >= level:
            return [names]
        reach = [
            max(place for place, other in enumerate(names) if self.ranks[other] - rank < self.critical_difference)
            for rank in self.ranks.values()
        ]
        return [
            names[first : last + 1]
            for first, last in enumerate(reach)
            if last > first and (first == 0 or reach[first - 1] < last)
        ]


def rank_test(tables: Sequence[Mapping[str, float]], level: float = LEVEL) -> RankTest:
    """Compare methods over datasets by Friedman's test and Nemenyi's critical difference (Demšar, 2006).

    Parameters
    ----------
    tables : for each dataset the score of each method, higher is better; all have the same two or more methods.

    Examples
    --------
    >>> test = rank_test([{"a": 0.9, "b": 0.5, "c": 0.1}] * 6)
    >>> test.ranks, round(test.p, 4), round(test.critical_difference, 3), test.alike()
    ({'a': 1.0, 'b': 2.0, 'c': 3.0}, 0.0025, 1.353, [['a', 'b'], ['b', 'c']])
    """
    average = average_ranks(tables)
    count, methods = len(tables), len(average)
    spread = math.fsum((rank - (methods + 1) / 2) ** 2 for rank in average.values())
    tied = sum(n**3 - n for table in tables for n in Counter(table.values()).values())
    left = 1 - tied / (count * methods * (methods**2 - 1))  # nothing is if every table is one tie
    statistic = 12 * count * spread / (methods * (methods + 1)) / left if left > 0 else 0.0
    return RankTest(
        dict(sorted(average.items(), key=lambda entry: entry[1])),
        count,
        statistic,
        float(special.chdtrc(methods - 1, statistic)),
        range_quantile(methods, 1 - level) * math.sqrt(methods * (methods + 1) / (12 * count)),
    )


def range_quantile(count: int, probability: float) -> float:
    """Return the quantile of the range, largest minus smallest, of independent standard normal values.

    It is Tukey's studentized range with infinite degrees of freedom; scipy.stats has it, and takes seconds to import.

    Examples
    --------
    >>> round(range_quantile(5, 0.95), 3)
    3.858
    """
    at = np.linspace(-8.0, 8.0, 4001)
    weight = count * np.exp(-(at**2) / 2) / math.sqrt(2 * math.pi) * (at[1] - at[0])
    low, high = 0.0, 40.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        # The smallest value is at one of these places, and all others are above it within the range.
        within = weight @ (special.ndtr(at + middle) - special.ndtr(at)) ** (count - 1)
        low, high = (middle, high) if within < probability else (low, middle)
    return high
