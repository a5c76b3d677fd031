"""The answer says what is shown, nothing more, and is the same wherever it stands."""

import json
import re

import numpy as np
import pytest
import scipy.stats

from leap.models.network_config import NetworkConfig
from leap.pipeline import report
from leap.pipeline.engine.sweep_log import SweepCall, record
from leap.pipeline.reports.answer import answer
from leap.pipeline.reports.comparisons import comparisons, gains, networks_of, over_datasets, p_text
from leap.pipeline.reports.cost import tradeoff
from leap.pipeline.reports.names import ACCURACY, encoding_label
from leap.pipeline.reports.runs import Results
from leap.pipeline.reports.summary import dataset_by_dataset
from leap.pipeline.training.options import TrainOptions
from tests.pipeline.reports.conftest import write_run

FOLDS = np.array([0.50, 0.52, 0.49, 0.51, 0.50])
WOBBLE = np.array([0.004, -0.003, 0.001, -0.002, 0.0])  # of differences between folds
SEVERAL = ("mine", "yours", "theirs", "ours", "BZR", "COX2")


def runs(gained, dataset="mine", backbone="gcn", **options):
    """Return runs without an encoding and with some, given what each gains in the folds."""
    return [
        (dataset, {"backbone": backbone, "encoding": name, **options}, list(FOLDS + gain))
        for name, gain in ({"none": 0.0} | gained).items()
    ]


def p_value(differences):
    """Nadeau and Bengio's, for five folds of 450 graphs beside 1,350."""
    error = np.std(differences, ddof=1) * np.sqrt(1 / 5 + 1 / 3)
    return 2 * scipy.stats.t.sf(abs(np.mean(differences) / error), 4)


def test_the_answer_has_effect_size_significance_cost_and_advice(made):
    gained = {"rwpe": 0.05 + 2 * WOBBLE, "leap-f": 0.2 + WOBBLE}
    whole, (only,) = answer(Results.of(made(*runs(gained))))
    assert whole is only
    assert whole.headline == ("LEAP helps on mine: 70.4 % accuracy with it, 50.4 % without, in the same network (GCN).")
    p = sorted([p_value(0.05 + 2 * WOBBLE), p_value(0.2 + WOBBLE), p_value(0.15 - WOBBLE)])
    assert 3 * p[0] < 0.001  # of three comparisons; printed as such
    assert whole.details.startswith(
        "Against no encoding: +20.0 percentage points with GCN (LEAP-F, p < 0.001). Against the best other encoding: "
        "+15.0 percentage points with GCN (LEAP-F over RWPE, p < 0.001). Cost of LEAP-F with GCN: 0.42 s of "
        "preprocessing, once; "
    )
    assert re.search(r"of training per fold instead of .* \(\d\.\d×\); 4,873 parameters instead of", whole.details)
    assert (
        "Take LEAP-F with GCN: it has the best validation score of the 3 networks and is shown to be " in whole.details
    )
    assert whole.basis == (
        "Means of 1 seed × 5 folds; of several encodings, the one with the best validation score is compared. p-values "
        "are paired by fold, and corrected for 3 comparisons (Holm)."
    )


def test_p_values_are_corrected_within_a_dataset_alone(made):
    chance = 0.001 + 3 * WOBBLE
    found = made(*runs({"leap-l": 0.02 + WOBBLE}), *runs({"leap-l": chance}, "yours"), *runs({"leap-l": 0.1}, "theirs"))
    networks = networks_of(Results.of(found))
    (alone,) = gains(networks["mine"])
    assert alone.corrected_p == pytest.approx(p_value(0.02 + WOBBLE))
    both = networks_of(Results.of(made(*runs({"leap-l": 0.03 + WOBBLE}, backbone="nomp"))))["mine"]
    assert sorted(one.corrected_p for one in gains(both)) == pytest.approx(
        sorted([2 * p_value(0.03 + WOBBLE), p_value(0.02 + WOBBLE)])
    )


def test_a_p_value_that_shows_a_difference_never_looks_as_if_it_did_not():
    assert [p_text(value) for value in (0.0004, 0.04, 0.0499, 0.05)] == ["< 0.001", "0.040", "< 0.050", "0.050"]


def test_where_nothing_is_shown_no_encoding_is_advised(made):
    chance = 0.001 + 3 * WOBBLE
    whole, _ = answer(Results.of(made(*runs({"leap-l": chance}))))
    assert whole.headline.startswith("No difference between LEAP and no encoding is shown on mine:")
    assert f"p = {p_value(chance):.3f}; no difference shown)" in whole.details
    assert "Take GCN without an encoding" in whole.details
    assert "helps" not in whole.text


def test_the_advice_is_the_best_of_those_that_are_worth_it(made):
    """Not the backbone that was ahead only by an encoding of which nothing is shown."""
    ahead, rivals = runs({"lape": 0.15 + 40 * WOBBLE}, backbone="nomp"), [("mine", {"encoding": "none"}, FOLDS + 0.1)]
    whole, _ = answer(Results.of(made(*ahead, *rivals)))
    assert whole.details.endswith(
        "Take GCN without an encoding: LaPE with NoMP has the best validation score of the 3 networks, but is not "
        "shown to be better than no encoding."
    )
    whole, _ = answer(Results.of(made(("mine", {"encoding": "rwpe"}, FOLDS + 0.13 + WOBBLE))))
    assert "Take RWPE with GCN: it is shown to be better than no encoding; LaPE with NoMP has the best" in whole.details


def test_means_and_differences_are_over_what_two_networks_share(made):
    other_seed = [("mine", {"encoding": "none", "seed": 43}, list(FOLDS - 0.2))]
    whole, _ = answer(Results.of(made(*runs({"leap-l": 0.1 + WOBBLE}), *other_seed)))
    assert whole.headline.startswith("LEAP helps on mine: 60.4 % accuracy with it, 50.4 % without")
    assert "+10.0 percentage points" in whole.details
    assert whole.basis.startswith("Means of the folds and seeds that two networks share; ")


def test_a_dataset_without_a_score_is_named(made):
    nothing = [("yours", {"encoding": name}, [float("nan")] * 5) for name in ("none", "leap-l")]
    whole, each = answer(Results.of(made(*runs({"leap-l": 0.1 + WOBBLE}), *nothing)))
    assert "nothing can be tested on 1 (yours)" in whole.headline
    assert each[1].text == "Whether LEAP helps on yours is open: no run has a score."


@pytest.mark.parametrize(
    ("gcn", "nomp", "effect", "begins"),
    [
        (0.1, 0.1, "helps", "LEAP helps on mine: "),
        (0.1, 0.0, "helps", "LEAP helps on mine with GCN: "),
        (-0.1, 0.0, "hurts", "LEAP hurts on mine with GCN: "),
        (0.1, -0.1, "mixed", "LEAP helps on mine with GCN and hurts with NoMP: "),
    ],
)
def test_the_headline_tells_backbones_apart(made, gcn, nomp, effect, begins):
    found = made(*runs({"leap-l": gcn + WOBBLE}), *runs({"leap-l": nomp + WOBBLE}, backbone="nomp"))
    whole, _ = answer(Results.of(found))
    assert whole.facts["effect"] == effect
    assert whole.headline.startswith(begins)


def test_several_datasets_are_counted_by_what_is_shown_on_each(made):
    found = made(
        *runs({"leap-l": 0.1 + WOBBLE}),
        *runs({"leap-l": -0.1 + WOBBLE}, "yours"),
        *runs({"leap-l": 0.001 + 3 * WOBBLE}, "letters-low"),
    )
    whole, each = answer(Results.of(found))
    assert whole.headline == (
        "LEAP helps on 1 of 3 datasets (mine); it hurts on 1 (yours); no difference from no encoding is shown on 1 "
        "(letters-low (stand-in for Letter-low))."
    )
    assert {one.facts["dataset"]: one.facts["effect"] for one in each} == {
        "mine": "helps",
        "yours": "hurts",
        "letters-low": "not shown",
    }
    none = answer(Results.of([run for run in found if run.dataset != "mine"]))[0]
    assert none.headline.startswith("LEAP is shown to help on none of 2 datasets; it hurts on 1 (yours); ")


def test_runs_without_anything_to_compare_with_do_not_claim_that_leap_fails(made):
    found = made(*(("mine", {"encoding": "leap-l"}, FOLDS), ("yours", {"encoding": "leap-l"}, FOLDS)))
    whole, each = answer(Results.of(found))
    assert whole.text == (
        "Whether LEAP helps is open: no network has a score both with LEAP and without an encoding on 2 datasets. Best "
        "by validation: LEAP-L on 2 of 2 datasets."
    )
    assert dataset_by_dataset(each) is None


def test_page_json_and_terminal_have_the_same_answer(made, tmp_path):
    made(*runs({"leap-l": 0.1 + WOBBLE}))
    written = report(tmp_path / "runs", tmp_path / "out")
    assert written.summary[0] == written.as_json()["answer"] == written.answer.text
    page = re.sub(r"\s+", " ", written.index.read_text().replace("\u00a0", " ")).replace("&lt;", "<")
    assert f'<p class="answer">{written.answer.headline}</p>' in page
    assert page.count(written.answer.headline) == 1
    assert written.answer.details in page


def test_a_first_look_says_so_and_stays_apart_from_the_full_comparison(tmp_path):
    root, names = tmp_path / "runs", {}
    for epochs, gain in ((20, 0.01), (100, 0.2)):
        for encoding in ("none", "leap-l"):
            scores = list(FOLDS + (gain + WOBBLE) * (encoding != "none"))
            options = TrainOptions(network=NetworkConfig(encoding=encoding), epochs=epochs)
            names.setdefault(epochs, []).append(write_run(root, "mine", options, scores).name)
    calls = {"compare-quick": (names[20], True), "compare": (names[100], False)}
    for sweep, (made, is_first_look) in calls.items():
        record(root, SweepCall(sweep, "", "", 1.0, 1, 2, 0, 0, made, is_first_look))
    quick = report(root, tmp_path / "quick", sweep="compare-quick").answer
    full = report(root, tmp_path / "full", sweep="compare").answer
    # A first look that finds runs of the full comparison does not make them its own.
    record(root, SweepCall("compare-quick", "", "", 1.0, 1, 0, 2, 0, names[100], True))
    assert report(root, tmp_path / "again", sweep="compare").answer == full
    assert quick.headline.startswith("First look, at most 20 epochs: ")
    assert "+1.0 percentage points" in quick.details
    assert "This is a first look" in quick.basis
    assert "first look" not in full.text.casefold()
    assert "+20.0 percentage points" in full.details
    assert report(root, tmp_path / "all").answer.text == full.text  # the longer training, unmixed


def test_ranks_over_enough_datasets_are_tested_and_drawn_with_their_critical_difference(made):
    gained = {"rwpe": 0.05 + WOBBLE, "leap-f": 0.1 + WOBBLE, "leap-l": 0.2 + WOBBLE}
    results = Results.of(made(*(run for name in SEVERAL for run in runs(gained, name))))
    test, sentence = over_datasets(results)
    assert test.ranks == {"leap-l": 1.0, "leap-f": 2.0, "rwpe": 3.0, "none": 4.0}
    theirs = scipy.stats.friedmanchisquare(*[[place] * 6 for place in range(4)])
    assert (test.statistic, test.p) == pytest.approx((theirs.statistic, theirs.pvalue))
    assert test.critical_difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 6)), abs=1e-3)  # 1.91
    assert "no difference is shown among LEAP-L and LEAP-F; LEAP-F and RWPE; RWPE and none." in sentence
    plots = comparisons(results).plots
    assert [plot.panels[0].name for plot in plots] == ["critical-difference", "differences-COX2"]
    few = Results.of([run for run in results.runs if run.dataset != "mine"])
    assert over_datasets(few)[0] is None
    assert "Ranks over 5 datasets cannot be tested" in over_datasets(few)[1]


def test_gain_is_drawn_against_every_cost(made):
    results = Results.of(made(*runs({"leap-l": 0.1}), *runs({"leap-l": 0.3}, "yours"), *runs({"leap-l": 0.3}, "hiv")))
    names = [panel.name for panel in tradeoff(results).panels]
    costs = ("preprocessing", "training", "parameters")
    assert names == [f"tradeoff-{metric}-{cost}" for metric in ("auroc", "accuracy") for cost in costs]
    assert "LEAP-L with GCN 0.42, +20.00" in tradeoff(results).panels[3].alt  # the mean over two datasets


def test_any_set_of_encodings_is_compared(made):
    found = made(*runs({"lect": 0.1 + 2 * WOBBLE, "lape+leap-l": 0.2 + WOBBLE, "rwpe": 0.0 + WOBBLE}))
    whole, _ = answer(Results.of(found))
    assert "(LaPE + LEAP-L over ℓ-ECT, p < 0.001)" in whole.details
    assert json.dumps(whole.facts)
    assert encoding_label("mine+leap-l") == "mine + LEAP-L"


def test_of_values_that_share_all_networks_the_best_by_validation_is_answered_for_and_named(made):
    """Not the one whose text comes last."""
    good, bad = runs({"leap-f": 0.2 + WOBBLE}, lr=0.005), runs({"leap-f": 0.1 + WOBBLE}, lr=0.02)
    worse = [(dataset, values, [score - 0.1 for score in scores]) for dataset, values, scores in bad]
    whole, _ = answer(Results.of(made(*good, *worse)))
    assert "70.4 % accuracy with it, 50.4 % without" in whole.headline
    assert whole.details.endswith("All this is about lr 0.005; 2 runs with other values are left out.")


def test_an_answer_about_all_runs_names_no_setting(made):
    whole, _ = answer(Results.of(made(*runs({"leap-f": 0.2 + WOBBLE}, lr=0.005))))
    assert "left out" not in whole.text


def test_values_that_have_a_table_of_their_own_are_not_called_left_out(made):
    found = made(*runs({"leap-f": 0.2 + WOBBLE}), *runs({"leap-f": 0.1 + WOBBLE}, hops=(2,))[1:])
    assert len(Results.of(found).shown) > len(Results.of(found).usual_runs)
    assert "left out" not in answer(Results.of(found))[0].text


@pytest.mark.parametrize("value", [0.0, -0.0, 0.0004, -0.0004])
def test_a_difference_that_rounds_to_nothing_has_no_sign(value):
    assert ACCURACY.text(value, sign=True) == "0.0"


def test_the_answer_says_that_figures_are_over_seeds_on_the_official_split(made):
    entries = [
        ("mine", {"backbone": "gcn", "encoding": name, "seed": seed, "folds": 5}, [score + 0.001 * seed**2])
        for seed in (1, 2, 3)
        for name, score in (("leap-f", 0.8), ("none", 0.6 + 0.002 * seed))
    ]
    whole, _ = answer(Results.of(made(*entries, splits="official")))
    assert whole.headline.startswith("LEAP helps on mine: ")
    assert whole.basis == (
        "Means of 3 seeds on the official split; of several encodings, the one with the best validation score is "
        "compared. p-values are paired by seed, as there is one split, so they say nothing about other data, and "
        "corrected for 1 comparison (Holm)."
    )
