"""What the tables say: values, marks, choices and comparisons, against computation by hand."""

import csv
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from leap.pipeline import report
from leap.pipeline.published import lookup
from leap.pipeline.reports.comparisons import against_baselines, comparisons
from leap.pipeline.reports.cost import epoch_ratios
from leap.pipeline.reports.names import ACCURACY, AUROC, dataset_label
from leap.pipeline.reports.runs import Results
from leap.pipeline.reports.scores import dimension, ect, hops, main
from leap.pipeline.reports.spread import extended
from leap.pipeline.reports.table import Table, Value, latex, marked, to_csv, to_latex, to_markdown

LEAP_L = {"backbone": "nomp", "encoding": "leap-l", "projection": "conv1d"}
NONE = {"backbone": "nomp", "encoding": "none"}


def main_table(results: Results, name: str = "main") -> Table:
    return next(table for table in main(results).tables if table.name == name)


def test_a_cell_is_the_mean_and_spread_over_folds_with_seeds_averaged_first(made):
    first, second = [0.80, 0.82, 0.84], [0.70, 0.72, 0.77]
    runs = made(("Letter-high", LEAP_L | {"seed": 42}, first), ("Letter-high", LEAP_L | {"seed": 43}, second))
    table = main_table(Results(tuple(runs)))
    (row,) = table.rows
    value = row[2]
    assert value.seeds == (2, 2, 2)
    assert value.mean == pytest.approx(np.mean(first + second))
    by_fold = [np.mean(pair) for pair in zip(first, second, strict=True)]
    assert value.spread == pytest.approx(np.std(by_fold, ddof=1))
    assert value.spread != pytest.approx(np.std(first + second, ddof=1), rel=0.1)
    assert table.note.startswith(
        "Mean ± standard deviation over folds, the seeds of each fold averaged first: 2 seeds × 3 folds. "
    )
    printed = lookup("main", dataset="Letter-high", backbone="nomp", encoding="leap-l")
    expected = (100 * value.mean - printed.mean) / printed.std
    assert value.distance == pytest.approx(expected)
    near = int(abs(expected) <= 2)
    assert table.note.endswith(f" {near} of 1 lie within two published standard deviations of the published mean.")
    assert value.published_text.startswith("81.6 ± 1.9 · ")


def test_a_fold_with_fewer_seeds_weighs_as_much_as_the_others(made):
    runs = made(("BZR", LEAP_L | {"seed": 1}, [0.5, 0.9]), ("BZR", LEAP_L | {"seed": 2}, [0.7, math.nan]))
    results = Results(tuple(runs))
    value = main_table(results).rows[0][2]
    assert value.mean == results.tested["BZR", "nomp", "leap-l"].mean() == pytest.approx((0.6 + 0.9) / 2)
    assert (value.seeds, value.repetitions) == ((2, 1), "1–2 seeds × 2 folds")
    (row,) = csv.DictReader(to_csv(main_table(results)).splitlines())
    assert (row["BZR folds"], row["BZR seeds"]) == ("2", "1–2")


def test_a_cell_with_other_repetitions_says_so_in_every_format(made, tmp_path):
    three = [("BZR", NONE | {"seed": seed}, [0.7, 0.8]) for seed in (1, 2, 3)]
    also = [("BZR", NONE | {"encoding": "rwpe", "seed": seed}, [0.7, 0.8]) for seed in (1, 2, 3)]
    table = main_table(Results(tuple(made(*three, *also, ("BZR", LEAP_L | {"seed": 1}, [0.8, 0.9])))))
    assert ": 3 seeds × 2 folds unless a cell says otherwise. " in table.note
    assert [table.notes(row[2]) for row in table.rows] == [[], [], ["conv1d", "1 seed × 2 folds"]]
    assert "85.0 ± 7.1** conv1d, 1 seed × 2 folds" in to_markdown(table)
    assert r"\textbf{85.0 $\pm$ 7.1} (1 seed $\times$ 2 folds)" in to_latex(table)
    report(tmp_path / "runs", tmp_path / "report")
    assert (tmp_path / "report" / "index.html").read_text().count("<small>1 seed × 2 folds</small>") == 1


def test_split_seeds_are_more_folds_and_one_fold_spreads_over_seeds(made):
    repeated = made(("BZR", NONE, [0.5, 0.7]), ("BZR", NONE | {"split_seed": 7}, [0.8, 0.8]))
    value = main_table(Results(tuple(repeated))).rows[0][2]
    assert value.repetitions == "1 seed × 4 folds"
    assert value.spread == pytest.approx(np.std([0.5, 0.7, 0.8, 0.8], ddof=1))
    single = [("romanesque", NONE | {"seed": seed, "folds": 5}, [score]) for seed, score in ((1, 0.4), (2, 0.6))]
    table = main_table(Results(tuple(run for run in made(*single) if run.dataset == "romanesque")))
    assert table.rows[0][2].spread == pytest.approx(np.std([0.4, 0.6], ddof=1))
    assert table.note.startswith("Mean ± standard deviation over folds (over seeds where there is one fold), ")


def test_a_stand_in_has_no_published_value(made):
    runs = made(("letters-high", LEAP_L, [0.8, 0.9]))
    table = main_table(Results(tuple(runs)))
    assert table.rows[0][2].published is None
    assert table.subheads == ("stand-in for Letter-high",)
    assert dataset_label("letters-high", "Letter-high") == "letters-high (stand-in for Letter-high)"


def test_projections_are_chosen_by_test_as_in_the_paper_and_by_validation(made):
    runs = made(
        ("BZR", LEAP_L | {"projection": "linear"}, [0.9, 0.9]),
        ("BZR", LEAP_L | {"projection": "conv1d"}, [0.8, 0.8]),
    )

    def with_validation(run, value):
        return replace(run, folds=tuple(replace(fold, val=value) for fold in run.folds))

    runs = [with_validation(run, 0.5 if run.projection == "linear" else 0.6) for run in runs]
    results = Results(tuple(runs))
    key = ("BZR", "nomp", "leap-l")
    assert results.tested[key].run.projection == "linear"
    assert results.validated[key].run.projection == "conv1d"
    assert main_table(results, "main").rows[0][2].mean == pytest.approx(0.9)
    own = main_table(results, "main-by-validation").rows[0][2]
    assert own.mean == pytest.approx(0.8)
    assert (own.published, own.detail) == (None, "conv1d")


def test_the_paper_is_not_displaced_by_a_quick_try(made):
    quick = {"epochs": 3, "batch_size": 64}
    runs = made(
        ("BZR", LEAP_L, [0.8, 0.8]),
        ("BZR", NONE, [0.7, 0.7]),
        ("BZR", LEAP_L | quick, [0.1, 0.1]),
        ("BZR", LEAP_L | {"edge_weight": 1.0}, [0.2, 0.2]),
        ("COX2", NONE | quick, [0.3, 0.3]),
    )
    results = Results(tuple(runs))
    assert results.tested["BZR", "nomp", "leap-l"].mean() == pytest.approx(0.8)
    caption = main_table(results).caption
    assert "(COX2): folds 2, epochs 3, batch size 64" in caption
    assert "2 runs with other settings" in caption


def test_ablations_stay_out_of_the_main_table(made):
    runs = made(("BZR", LEAP_L, [0.8, 0.8]), ("BZR", LEAP_L | {"hops": (2,)}, [0.9, 0.9]))
    results = Results(tuple(runs))
    assert results.tested["BZR", "nomp", "leap-l"].mean() == pytest.approx(0.8)
    rows = hops(results).tables[0].rows
    assert [(row[2], row[3].mark) for row in rows] == [("1", ""), ("2", "best")]


def test_own_settings_alone_fill_the_main_table(made):
    runs = made(("mine", LEAP_L | {"hops": (2,), "dim": 4}, [0.8, 0.9]), ("mine", NONE, [0.5, 0.6]))
    assert [row[1] for row in main_table(Results(tuple(runs))).rows] == ["none", "LEAP-L"]


def test_comparisons_are_paired_by_fold_and_seed_and_corrected(made):
    ours, theirs, others = [0.80, 0.83, 0.81], [0.70, 0.74, 0.73], [0.79, 0.84, 0.80]
    runs = made(
        ("BZR", LEAP_L, ours),
        ("BZR", LEAP_L | {"seed": 7}, [0.5, 0.5, 0.5]),  # no baseline has this seed
        ("BZR", NONE, theirs),
        ("BZR", NONE | {"encoding": "rwpe"}, others),
    )
    against_none, against_rwpe = against_baselines(Results(tuple(runs)))
    p_values = []
    for one, baseline in ((against_none, theirs), (against_rwpe, others)):
        differences = np.array(ours) - np.array(baseline)
        error = differences.std(ddof=1) * math.sqrt(1 / 3 + 450 / 1350)
        p_values.append(2 * scipy.stats.t.sf(abs(differences.mean() / error), 2))
        assert one.test.pairs == 3
        assert one.test.difference == pytest.approx(differences.mean())
        assert one.test.p == pytest.approx(p_values[-1])
    smaller, larger = sorted(p_values)
    assert sorted([against_none.corrected_p, against_rwpe.corrected_p]) == pytest.approx(
        [2 * smaller, max(2 * smaller, larger)]
    )
    assert against_rwpe.verdict == "no difference shown"


def test_seeds_on_the_same_folds_add_no_degrees_of_freedom(made):
    ours, theirs = [0.80, 0.83, 0.81], [0.79, 0.80, 0.81]
    (once,) = against_baselines(Results(tuple(made(("BZR", LEAP_L, ours), ("BZR", NONE, theirs)))))
    more = [("BZR", options | {"seed": seed}, values) for seed in (1, 2) for options, values in _both(ours, theirs)]
    (thrice,) = against_baselines(Results(tuple(made(*more))))
    assert thrice.test.pairs == once.test.pairs == 3
    assert thrice.test.p == pytest.approx(once.test.p, rel=1e-9)
    split = [("BZR", options | {"split_seed": 7}, values) for options, values in _both(ours, theirs)]
    (repeated,) = against_baselines(Results(tuple(made(*split))))
    assert repeated.test.pairs == 6


def _both(ours, theirs):
    return (LEAP_L, ours), (NONE, theirs)


def test_split_seeds_mean_nothing_where_the_dataset_has_masks(made):
    entries = [
        ("romanesque", options | {"split_seed": split}, values)
        for split in (42, 7)
        for options, values in _both([0.80, 0.83, 0.81], [0.79, 0.80, 0.81])
    ]
    (one,) = against_baselines(Results(tuple(made(*entries))))
    assert one.test.pairs == 3


def test_a_single_split_compares_seeds_and_says_so(made):
    entries = [
        ("romanesque", options | {"seed": seed, "folds": 5}, [value + 0.001 * seed * seed])
        for seed in (1, 2, 3)
        for options, value in ((LEAP_L, 0.8), (NONE, 0.7 - 0.01 * seed))
    ]
    results = Results(tuple(made(*entries)))
    (one,) = against_baselines(results)
    assert (one.test.pairs, one.test.over) == (3, "seeds")
    caption = comparisons(results).tables[0].caption
    assert "there is one split, and the ordinary t-test compares seeds" in caption


def test_ranks_are_of_means_that_weigh_folds_alike(made):
    """Counted score by score, the first would have 0.7 and win; fold by fold it has 0.65."""
    entries = [
        ("BZR", {"backbone": "gcn", "encoding": "leap-l", "seed": 1}, [0.8, 0.5]),
        ("BZR", {"backbone": "gcn", "encoding": "leap-l", "seed": 2}, [0.8, math.nan]),
        ("BZR", {"backbone": "gcn", "encoding": "none", "seed": 1}, [0.67, 0.67]),
    ]
    ranks = main_table(Results(tuple(made(*entries))), "ranks")
    assert {row[0]: row[1] for row in ranks.rows} == {"LEAP-L": "2.00", "none": "1.00"}


def test_ranks_share_ties_and_use_complete_blocks_only(made):
    entries = []
    for dataset, scores in (("BZR", (0.9, 0.8, 0.8)), ("COX2", (0.7, 0.9, 0.6)), ("DHFR", (0.5, None, 0.6))):
        for encoding, score in zip(("leap-l", "rwpe", "none"), scores, strict=True):
            if score is not None:
                entries.append((dataset, {"backbone": "gcn", "encoding": encoding}, [score, score]))
    ranks = main_table(Results(tuple(made(*entries))), "ranks")
    assert {row[0]: row[1] for row in ranks.rows} == {"LEAP-L": "1.50", "RWPE": "1.75", "none": "2.75"}


def test_marks_go_to_best_second_and_worst_as_printed():
    def marks(*means):
        return [value.mark if value else None for value in marked([m and Value(m, None, (1,) * 5) for m in means])]

    assert marks(0.9, 0.8, 0.7, 0.6) == ["best", "second", "", "worst"]
    assert marks(0.9, 0.90001, 0.7, None) == ["best", "best", "worst", None]
    assert marks(0.9, 0.8) == ["best", ""]
    assert marks(0.9, None) == ["", None]
    assert marks(0.9, 0.9, 0.9) == ["", "", ""]


def test_dimension_and_transform_ablations(made):
    runs = made(
        *(("Letter-low", LEAP_L | {"projection": "attention-pe", "dim": dim}, [0.9, 0.92]) for dim in (2, 10)),
        *(("Letter-low", {"backbone": "nomp", "encoding": "rwpe", "dim": dim}, [0.8, 0.82]) for dim in (2, 10)),
        *(
            ("Letter-low", LEAP_L | {"directions": directions, "scale": scale}, [0.7, scale / 1000])
            for directions in (2, 4)
            for scale in (8.0, 64.0)
        ),
    )
    results = Results(tuple(runs))
    table = dimension(results).tables[0]
    assert [(row[1], row[2]) for row in table.rows] == [
        ("RWPE", "2"),
        ("LEAP-L", "2"),
        ("RWPE", "10"),
        ("LEAP-L", "10"),
    ]
    assert [row[3].published.mean for row in table.rows] == [94.62, 95.56, 94.67, 96.99]
    heat = ect(results).tables[0]
    assert heat.columns == ("scale 8", "scale 64")
    assert heat.rows[0][3].mean == pytest.approx((0.7 + 0.008) / 2)


def test_the_metric_is_the_papers(made):
    runs = made(("hiv", NONE, [0.7, 0.8]), ("alchemy_full", NONE, [0.5, 0.6]))
    by_name = {run.dataset: run.metric.name for run in runs}
    assert by_name == {"hiv": "auroc", "alchemy_full": "r2"}
    assert (ACCURACY.text(0.8178), AUROC.text(0.8178)) == ("81.8", "0.818")
    assert ACCURACY.text(-0.012, sign=True) == "−1.2"


def test_epoch_ratios_compare_within_a_dataset_and_backbone(made):
    runs = made(("BZR", NONE, [0.7, 0.7]), ("BZR", LEAP_L, [0.7, 0.7]))

    def timed(run):
        seconds = 2.0 if run.encoding == "none" else 3.0
        return replace(run, folds=tuple(replace(fold, seconds_an_epoch=seconds) for fold in run.folds))

    assert epoch_ratios(Results(tuple(timed(run) for run in runs))) == {"none": 1.0, "leap-l": 1.5}


def test_a_stopped_fold_keeps_its_last_value():
    assert extended([np.array([1.0, 2.0]), np.array([5.0, 6.0, 7.0])]).tolist() == [[1, 2, 2], [5, 6, 7]]


@pytest.fixture
def table() -> Table:
    printed = lookup("main", dataset="Letter-high", backbone="nomp", encoding="leap-l")
    best = Value(0.8178, 0.0123, (1,) * 5, mark="best", published=printed, detail="conv1d")
    return Table("t", "A title", "50 % & more_", ("name",), ("x", "y|z"), ((("a_b", best, None), ("c", None, "w")),))


def test_csv_holds_every_number_in_its_own_column(table):
    (first, second) = csv.DictReader(to_csv(table).splitlines())
    assert first["name"] == "a_b"
    assert (float(first["x"]), float(first["x std"])) == (81.78, 1.23)
    assert (first["x folds"], first["x seeds"]) == ("5", "1")
    assert (first["x published"], first["x published std"], first["x detail"]) == ("81.6", "1.9", "conv1d")
    assert float(first["x distance"]) == pytest.approx((81.78 - 81.6) / 1.9, rel=1e-4)
    assert (second["x"], second["y|z"]) == ("", "w")


def test_markdown_has_as_many_cells_as_columns(table):
    lines = to_markdown(table).splitlines()[2:]
    assert "**81.8 ± 1.2** conv1d (paper 81.6 ± 1.9, +0.1 σ)" in lines[2]
    assert len({line.replace(r"\|", "").count("|") for line in lines}) == 1


def test_latex_is_escaped_and_marked(table):
    text = to_latex(table)
    assert r"\textbf{81.8 $\pm$ 1.2}" in text
    assert r"50 \% \& more\_" in text
    assert r"a\_b" in text
    assert text.count(r"\begin{tabular}{lrr}") == 1
    assert latex("LaPE × {x} −1") == r"LaPE $\times$ \{x\} $-$1"


def official(made, *scores, **options):
    """Return runs of three seeds on official splits, LEAP ahead of no encoding."""
    entries = [
        ("mine", network | {"seed": seed, "folds": 5} | options, [score + gain + 0.001 * seed**2 for score in scores])
        for seed in (1, 2, 3)
        for network, gain in ((LEAP_L, 0.1), (NONE, 0.01 * seed))
    ]
    return Results(tuple(made(*entries, splits="official")))


def test_on_one_official_split_seeds_are_what_figures_are_over(made):
    results = official(made, 0.6)
    table = main_table(results)
    assert {value.repetitions for value in table.values} == {"3 seeds on the official split"}
    assert table.note.startswith("Mean ± standard deviation over seeds: 3 seeds on the official split.")
    section = comparisons(results)
    assert section.paragraphs[0].endswith("There is one split: more seeds (--seeds) add pairs.")


def test_several_official_splits_are_named_as_such(made):
    results = official(made, 0.6, 0.7)
    table = main_table(results)
    note = "Mean ± standard deviation over official splits, the seeds of each official split averaged first: "
    assert table.note.startswith(f"{note}3 seeds × 2 official splits.")
    assert comparisons(results).paragraphs[0].endswith("make each official split's difference steadier.")


def test_a_split_seed_repeats_nothing_where_splits_are_official(made):
    once, twice = official(made, 0.6), official(made, 0.6, split_seed=7)
    assert len(twice.runs) == 2 * len(once.runs)
    assert [cell.scores().keys() for cell in twice.usual] == [cell.scores().keys() for cell in once.usual]
    assert against_baselines(twice)[0].test.pairs == 3
