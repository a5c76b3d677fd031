"""The sentences at the top of a report: they answer the question and say which runs they are about."""

import json
import os

import numpy as np
import pytest
import scipy.stats

from leap.models.network_config import NetworkConfig
from leap.pipeline import report
from leap.pipeline.reports.answer import answer
from leap.pipeline.reports.runs import Results
from leap.pipeline.reports.summary import summary
from leap.pipeline.training.options import TrainOptions
from tests.pipeline.reports.conftest import write_run


def test_runs_on_earlier_data_of_the_same_name_are_left_out_and_said_to_be(tmp_path):
    """A file that was replaced keeps its name: results of the old and the new graphs must not be mixed."""
    root = tmp_path / "runs"
    for encoding, key, scores in (
        ("none", "a" * 40, [0.9, 0.9]),
        ("leap-l", "a" * 40, [0.9, 0.9]),
        ("none", "b" * 40, [0.5, 0.5]),
        ("leap-l", "b" * 40, [0.7, 0.7]),
    ):
        options = TrainOptions(network=NetworkConfig(encoding=encoding), folds=2, lr=0.001 if key[0] == "a" else 0.002)
        folder = write_run(root, "mine", options, scores)
        metrics = json.loads((folder / "metrics.json").read_text())
        (folder / "metrics.json").write_text(json.dumps(metrics | {"keys": [{"kind": "dataset", "key": key}]}))
        os.utime(folder / "metrics.json", (1e9, 1e9) if key[0] == "a" else (2e9, 2e9))
    written = report(root, tmp_path / "report")
    assert any(
        text.startswith("Left out: 2 earlier runs on other data under the name mine.") for text in written.summary
    )
    assert "70.0 % accuracy with it, 50.0 % without" in written.summary[0]
    table = (tmp_path / "report" / "tables" / "main.md").read_text()
    assert "90.0" not in table
    assert "70.0" in table


def test_with_several_datasets_means_are_compared_over_all_and_ties_are_shared(tmp_path):
    root = tmp_path / "runs"
    for dataset in ("mine", "yours"):
        for encoding, scores in (("none", [0.4, 0.5]), ("rwpe", [0.7, 0.8]), ("leap-f", [0.8, 0.7])):
            write_run(root, dataset, TrainOptions(network=NetworkConfig(encoding=encoding), folds=2), scores)
    written = report(root, tmp_path / "report")
    assert written.summary[2] == (
        "With LEAP instead of no encoding, mean accuracy goes from 45.0 to 75.0 % for GCN, averaged over 2 datasets."
    )
    assert "alone or shared, in 2 of 2 combinations of" in written.summary[3]
    page = (tmp_path / "report" / "index.html").read_text()
    assert "6 runs (seed 42) with 12 folds on mine and yours; the last one finished on 20" in page
    assert any(note.endswith("leap sweep paper-hops --on DATASET") for note in written.notes)


def comparisons_of(runs):
    """Return the paragraph on all comparisons, and its facts."""
    results = Results.of(runs)
    section = summary(results, *answer(results))
    return section.paragraphs[1], section.facts["comparisons"]


NONE, RWPE, LEAP_F, LEAP_L = ({"backbone": "gcn", "encoding": name} for name in ("none", "rwpe", "leap-f", "leap-l"))
FOLDS = np.array([0.50, 0.52, 0.49, 0.51, 0.50])
WOBBLE = np.array([0.004, -0.003, 0.001, -0.002, 0.0])  # of differences between folds


def p_value(differences):
    """Nadeau and Bengio's, for five folds of 450 graphs beside 1,350."""
    error = np.std(differences, ddof=1) * np.sqrt(1 / 5 + 1 / 3)
    return 2 * scipy.stats.t.sf(abs(np.mean(differences) / error), 4)


def test_the_differences_shown_have_their_sizes_and_corrected_p_values(made):
    """Of three: one far better, one clearly worse, one that differs by chance. With three seeds, averaged by fold."""
    differences = {
        ("mine", "none"): 0.2 + WOBBLE,
        ("mine", "rwpe"): -0.01 + WOBBLE,
        ("yours", "none"): 0.001 + 3 * WOBBLE,
    }
    entries = []
    for seed, shift in ((42, 0.0), (43, 0.02), (44, -0.02)):
        entries += [(name, LEAP_L | {"seed": seed}, list(FOLDS + shift)) for name in ("mine", "yours")]
        entries += [
            (name, (NONE if other == "none" else RWPE) | {"seed": seed}, list(FOLDS + shift - away))
            for (name, other), away in differences.items()
        ]
    text, facts = comparisons_of(made(*entries))
    p = [p_value(each) for each in differences.values()]
    assert p[0] < p[1] < p[2]
    better, worse, rest = 3 * p[0], 2 * p[1], p[2]
    assert better < 0.001 < worse < 0.05 < rest
    assert text == (
        "LEAP is shown to be better than no encoding in 1 of 2 comparisons, by 20.0 percentage points (p < 0.001). "
        f"LEAP is shown to be worse than RWPE in 1 of 1 comparison, by 1.0 percentage points (p = {worse:.3f}). "
        "The largest difference is +20.0 percentage points: LEAP-L against no encoding on mine with GCN (p < 0.001). "
        "1 comparison shows no difference, which does not prove the methods equal: with few folds only large "
        "differences show. All p-values are paired by fold and corrected for the 3 comparisons of this report."
    )
    assert (facts["all"], facts["better"], facts["worse"]) == (3, 1, 1)
    assert [one["corrected_p"] for one in facts["shown"]] == pytest.approx([better, worse])


def test_no_difference_is_claimed_only_where_none_is_shown(made):
    chance = 0.001 + 3 * WOBBLE
    entries = [("mine", LEAP_L, list(FOLDS)), ("mine", NONE, list(FOLDS - chance)), ("yours", NONE, list(FOLDS))]
    assert comparisons_of(made(*entries))[0] == (
        "No difference between LEAP and a baseline is shown, which does not prove the methods equal: with few folds "
        "only large differences show. The smallest p-value, paired by fold and corrected for the 1 comparison of this "
        f"report, is {p_value(chance):.3f}."
    )


def test_differences_of_several_metrics_and_of_triads_are_shown_each_in_its_unit(made):
    entries = [
        ("triads", LEAP_F, [1.0] * 5),
        ("triads", NONE, list(0.25 + WOBBLE)),
        ("mine", LEAP_F, list(FOLDS)),
        ("mine", NONE, list(FOLDS - 0.1 + WOBBLE)),
        ("alchemy_full", LEAP_F, list(FOLDS)),
        ("alchemy_full", NONE, list(FOLDS - 0.2 + WOBBLE)),
    ]
    text, _ = comparisons_of(made(*entries))
    assert "in 3 of 3 comparisons, by 0.200 R² and 10.0 to 75.0 percentage points (p < 0.001)" in text
    assert "+75.0 percentage points: LEAP-F against no encoding on triads with GCN" in text
    assert "no difference" not in text


def test_a_single_split_says_that_seeds_were_compared(made):
    entries = [
        ("romanesque", network | {"seed": seed, "folds": 5}, [score + 0.001 * seed])
        for seed in (1, 2, 3)
        for network, score in ((LEAP_L, 0.8), (NONE, 0.5 - 0.002 * seed))
    ]
    text, _ = comparisons_of(made(*entries, ("mine", NONE, list(FOLDS))))
    assert text.endswith(
        "On romanesque (stand-in for roman-empire) they are about other seeds alone, as there is one split."
    )
