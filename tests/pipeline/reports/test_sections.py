"""The numbers of each section, against computation by hand."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leap.pipeline.published import lookup
from leap.pipeline.reports.answer import answer
from leap.pipeline.reports.cost import bytes_text, cost, seconds_text
from leap.pipeline.reports.runs import Results
from leap.pipeline.reports.scores import best, dect, projections, synthetic
from leap.pipeline.reports.spread import boxes, curve_of, curves, molecules
from leap.pipeline.reports.summary import summary

GCN_NONE = {"backbone": "gcn", "encoding": "none"}
GCN_RWPE = {"backbone": "gcn", "encoding": "rwpe"}
GCN_LEAP_F = {"backbone": "gcn", "encoding": "leap-f", "projection": "conv1d"}
GCN_LEAP = {"backbone": "gcn", "encoding": "leap-l", "projection": "conv1d"}


@pytest.fixture
def results(made):
    """Make results from entries as of `made`."""
    return lambda *entries: Results.of(made(*entries))


def marks(row):
    return [getattr(entry, "mark", None) for entry in row]


def test_the_best_approach_is_compared_with_the_worst_baseline(results):
    found = results(
        ("mine", GCN_LEAP, [0.8, 0.9]),
        ("mine", GCN_RWPE, [0.5, 0.7]),
        ("mine", {"backbone": "nomp", "encoding": "none"}, [0.4, 0.6]),
        ("yours", GCN_RWPE, [0.5, 0.7]),  # nothing to compare it with
    )
    (row,) = best(found).tables[0].rows
    assert (row[0], row[1], row[3], row[4]) == ("mine", "GCN, LEAP-L, conv1d", "NoMP, no encoding", "50.0")
    assert row[2].mean == pytest.approx(0.85)
    assert row[5] == "70.0 %"  # (0.85 - 0.5) / 0.5


def test_the_papers_best_stands_beside_ours(results):
    found = results(("COX2", GCN_LEAP, [0.8, 0.9]), ("COX2", GCN_NONE, [0.5, 0.7]))
    table = best(found).tables[0]
    assert table.columns[-3:] == ("published best", "published result", "published gain")
    assert table.rows[0][-2] == f"{lookup('best', dataset='COX2').mean:g}"


def test_projections_compete_within_a_backbone_and_a_column(results):
    scores = {"linear": 0.9, "conv1d": 0.8, "deepsets": 0.7}
    found = results(
        *(("mine", GCN_LEAP | {"projection": name}, [score, score]) for name, score in scores.items()),
        ("mine", GCN_LEAP_F, [0.2, 0.2]),  # one alone is no choice
    )
    table = projections(found).tables[0]
    assert {len(row) for row in table.rows} == {3}  # backbone, projection and LEAP-L
    assert [(row[1], row[2].mark) for row in table.rows] == [
        ("linear", "best"),
        ("deepsets", "worst"),
        ("conv1d", "second"),
    ]
    assert table.subheads == ("LEAP-L",)


def test_global_dect_competes_with_leap_on_each_dataset(results):
    found = results(
        ("BZR", {"backbone": "dect-4k", "encoding": "none"}, [0.6, 0.8]),
        ("BZR", GCN_LEAP, [0.9, 0.9]),
        ("BZR", GCN_LEAP | {"backbone": "nomp"}, [0.5, 0.5]),
    )
    table = dect(found).tables[0]
    assert [len(group) for group in table.groups] == [1, 2]
    assert [(row[0], row[1].mark) for row in table.rows] == [
        ("DECT (4K)", "second"),
        ("LEAP-L (GCN)", "best"),
        ("LEAP-L (NoMP)", "worst"),
    ]
    assert table.rows[0][1].published == lookup("dect", dataset="BZR", backbone="dect-4k", encoding="none")
    assert table.rows[1][1].published == lookup("main", dataset="BZR", backbone="gcn", encoding="leap-l")


def test_encodings_of_triads_compete_within_a_backbone(results):
    found = results(
        ("triads", GCN_NONE, [0.5, 0.7]),
        ("triads", GCN_RWPE, [0.8, 0.8]),
        ("triads", GCN_LEAP, [1.0, 1.0]),
        ("triads", {"backbone": "nomp", "encoding": "none"}, [0.2, 0.2]),
    )
    first, second = synthetic(found).tables[0].rows
    assert marks(first) == [None, "worst", "second", "best"]
    assert marks(second) == [None, "", None, None]


def test_molecules_are_judged_by_the_papers_metrics(results):
    found = results(
        ("hiv", GCN_NONE, [0.7, 0.8]), ("hiv", GCN_LEAP, [0.8, 0.8]), ("alchemy_full", GCN_NONE, [0.5, 0.6])
    )
    section = molecules(found)
    table = section.tables[0]
    assert table.columns == ("alchemy_full GCN", "hiv GCN")
    assert table.subheads == ("R²", "AUROC")
    assert [entry.text for entry in table.rows[0][1:]] == ["0.550 ± 0.071", "0.750 ± 0.071"]
    assert [panel.name for panel in section.plots[0].panels] == ["boxes-alchemy_full", "boxes-hiv"]
    assert boxes(found) is None


def test_boxes_are_drawn_of_the_folds_scores(results):
    (panel,) = boxes(results(("mine", GCN_NONE, [0.5, 0.7, 0.6]))).plots[0].panels
    (axes,) = panel.draw().axes
    (dots,) = [line for line in axes.lines if line.get_marker() == "o"]
    assert dots.get_ydata() == pytest.approx([50.0, 70.0, 60.0])
    assert axes.get_ylabel() == "accuracy %"


def test_boxes_are_drawn_of_folds_with_seeds_averaged_first(results):
    entries = [("mine", GCN_NONE | {"seed": seed}, scores) for seed, scores in ((1, [0.5, 0.7]), (2, [0.6, 0.9]))]
    (panel,) = boxes(results(*entries)).plots[0].panels
    (axes,) = panel.draw().axes
    (dots,) = [line for line in axes.lines if line.get_marker() == "o"]
    assert dots.get_ydata() == pytest.approx([55.0, 80.0])


def test_the_band_of_a_curve_is_over_folds_with_seeds_averaged_first(made):
    runs = made(*(("mine", GCN_NONE | {"epochs": 2, "seed": seed}, [0.5, 0.7]) for seed in (1, 2)))
    values = {1: [[10.0, 20], [50, 60]], 2: [[30.0, 40], [90, 80]]}
    for run in runs:
        first, second = values[run.seeds[0]]
        epochs = {"fold": [0, 0, 1, 1], "epoch": [0, 1, 0, 1], "val_accuracy": np.array([*first, *second]) / 100}
        pq.write_table(pa.table(epochs), run.path / "curves.parquet")
    curve = curve_of(Results.of(runs).usual[0])
    folds = np.array([[20.0, 30], [70, 70]])
    assert curve.mean == pytest.approx(folds.mean(axis=0))
    assert curve.spread == pytest.approx(folds.std(axis=0, ddof=1))


def test_a_curve_is_the_mean_over_folds_with_stopped_ones_held(made):
    (run,) = made(("mine", GCN_NONE | {"epochs": 4}, [0.5, 0.7]))
    epochs = {"fold": [0, 0, 1, 1, 1, 1], "epoch": [1, 0, 0, 1, 2, 3], "val_accuracy": [0.4, 0.2, 0.1, 0.3, 0.5, 0.7]}
    pq.write_table(pa.table(epochs), run.path / "curves.parquet")
    found = Results.of([run])
    curve = curve_of(found.usual[0])
    first, second = np.array([20.0, 40, 40, 40]), np.array([10.0, 30, 50, 70])
    assert curve.mean == pytest.approx((first + second) / 2)
    assert curve.spread == pytest.approx(np.std([first, second], axis=0, ddof=1))
    assert curve.stops == [2]  # the other fold used all four epochs
    assert [panel.name for panel in curves(found).plots[0].panels] == ["curves-mine-gcn"]


def test_cost_is_the_median_over_runs_and_folds(made):
    runs = made(("mine", GCN_LEAP, [0.5] * 3), ("mine", GCN_LEAP | {"backbone": "gin"}, [0.5] * 3))

    def costing(run, epoch, seconds, preprocessing, hits):
        folds = tuple(
            replace(fold, seconds_an_epoch=epoch * (1 + fold.number), seconds=seconds * (1 + fold.number))
            for fold in run.folds
        )
        made_once = {"preprocessing_seconds": preprocessing, "preprocessing_bytes": 3 * 1024, "parameters": 1200}
        return replace(run, folds=folds, cache_hits=hits, cache_misses=1, **made_once)

    found = Results.of([costing(runs[0], 0.01, 10.0, 4.0, 2), costing(runs[1], 0.05, 30.0, 2.0, 0)])
    (row,) = cost(found).tables[0].rows
    # Epochs: medians 0.02 and 0.1 of the runs. Folds: 10, 20, 30, 30, 60, 90 seconds.
    assert row == ("mine", "LEAP-L", "3.00 s", "3.0 KiB", "2 of 4", "60.0 ms", "30 s", "1,200", "2")


def test_published_times_stand_beside_ours(made):
    (run,) = made(("Letter-high", GCN_LEAP, [0.5] * 3))
    folds = tuple(replace(fold, seconds_an_epoch=0.5, seconds=10.0 * (1 + fold.number)) for fold in run.folds)
    (row,) = next(table for table in cost(Results.of([replace(run, folds=folds)])).tables if table.name == "time").rows
    printed = lookup("time", dataset="Letter-high", encoding="leap-l", metric="train_seconds")
    assert row[:5] == ("Letter-high", "GCN", "LEAP-L", "20 s", f"{printed.mean:g} s")


def test_unknown_costs_are_said_to_be_unknown(made):
    (run,) = made(("mine", GCN_LEAP, [0.5] * 3))
    unknown = dict.fromkeys(
        ("parameters", "preprocessing_seconds", "preprocessing_bytes", "cache_hits", "cache_misses")
    )
    (row,) = cost(Results.of([replace(run, **unknown)])).tables[0].rows
    assert [row[place] for place in (2, 3, 4, 7)] == ["unknown"] * 4


def test_units_suit_their_numbers():
    shown = [seconds_text(value) for value in (0, 0.0123, 0.5, 12.3, 600, 9000)]
    assert shown == ["0 s", "12.3 ms", "0.50 s", "12 s", "10 min", "2.5 h"]
    assert [bytes_text(value) for value in (12, 2048, 3 * 1024**2, 5 * 1024**4)] == [
        "12 B",
        "2.0 KiB",
        "3.0 MiB",
        "5.0 TiB",
    ]


def test_the_summary_counts_wins_and_names_both_ends_of_the_margin(results):
    found = results(
        ("mine", GCN_NONE, [0.5, 0.5]),
        ("mine", GCN_RWPE, [0.6, 0.6]),
        ("mine", GCN_LEAP_F, [0.7, 0.7]),
        ("mine", GCN_LEAP, [0.65, 0.65]),
        ("yours", GCN_NONE, [0.9, 0.9]),
        ("yours", GCN_LEAP, [0.8, 0.8]),
    )
    section = summary(found, *answer(found))
    assert section.facts["cells"] == 2
    assert section.facts["cells_won"] == 1
    # The better LEAP: 0.7 and 0.8; without encoding: 0.5 and 0.9.
    assert section.facts["without_and_with_leap"] == {"gcn": pytest.approx([0.7, 0.75])}
    assert "from 70.0 to 75.0 % for GCN, averaged over 2 datasets" in section.paragraphs[2]
    assert (
        "ranges from −10.0 percentage points on yours with GCN (LEAP-L against no encoding) to +10.0 percentage points "
        "on mine with GCN (LEAP-F against RWPE)"
    ) in section.paragraphs[3]
