"""Our cells beside the paper's main table: which are near, and where LEAP leads, for made-up results."""

import csv
import json

import pytest

from leap.pipeline import report
from leap.pipeline.published import find
from leap.pipeline.reports.answer import answer
from leap.pipeline.reports.reproduction import beside_the_paper, lead, printed, reproduction
from leap.pipeline.reports.runs import Results
from leap.pipeline.reports.summary import summary
from leap.pipeline.reports.table import to_csv


@pytest.fixture
def whole(made):
    """Make runs for all cells of the main table, each with a distance in published standard deviations: {key: …}."""

    def make(far, seeds=(42,)):
        entries = []
        for cell in find("main"):
            network = {"backbone": cell.backbone, "encoding": cell.encoding}
            network |= {"projection": cell.projection} if cell.projection else {}
            away = far.get((cell.dataset, cell.backbone, cell.encoding), 0.0)
            mean = (cell.mean + away * cell.std) / 100
            for number, seed in enumerate(seeds):
                # Folds and seeds differ, and their mean is the one wanted.
                shift = 0.01 * (number - (len(seeds) - 1) / 2)
                scores = [mean + shift - 0.002, mean + shift + 0.002]
                entries.append((cell.dataset, network | {"seed": seed}, scores))
        return Results(tuple(made(*entries)))

    return make


FAR = {
    ("BZR", "gcn", "none"): 2.1,
    ("BZR", "gcn", "rwpe"): 1.9,
    ("COX2", "gat", "lape"): -2.1,
    ("COX2", "gat", "rwpe"): -1.9,
}


def test_cells_within_two_published_standard_deviations_are_counted_over_all_seeds(whole):
    found = reproduction(whole(FAR, seeds=(42, 43, 44)))
    assert len(found.values) == 140
    assert found.within == 138
    assert found.values["BZR", "gcn", "none"].repetitions == "3 seeds × 2 folds"
    assert found.values["COX2", "gat", "lape"].distance == pytest.approx(-2.1)


def test_the_section_has_every_cell_and_says_how_many_are_near(whole):
    section = beside_the_paper(whole(FAR))
    assert section.paragraphs[0] == (
        "The paper's main table has 140 cells: 138 of 140 lie within two published standard deviations of the "
        "published mean, 1 above and 1 below that."
    )
    grid, every = section.tables
    assert (len(grid.rows), len(grid.columns), len(every.rows)) == (20, 7, 140)
    marked = [entry for row in grid.rows for entry in row if entry.endswith(("▴", "▾"))]
    assert [entry.split()[0] + entry[-1] for entry in marked] == ["+2.1▴", "−2.1▾"]
    rows = {
        (row["dataset"], row["backbone"], row["encoding"]): row for row in csv.DictReader(to_csv(every).splitlines())
    }
    row = rows["COX2", "GAT", "LaPE"]
    printed_cell = next(find("main", dataset="COX2", backbone="gat", encoding="lape"))
    assert (float(row["published"]), float(row["published std"])) == (printed_cell.mean, printed_cell.std)
    assert float(row["ours"]) == pytest.approx(printed_cell.mean - 2.1 * printed_cell.std, rel=1e-4)
    assert (float(row["distance"]), row["within"]) == (-2.1, "no")
    assert sum(row["within"] == "no" for row in rows.values()) == 2


def test_where_leap_leads_is_counted_here_and_in_the_paper(whole):
    """One baseline that is far higher is best there; a LEAP that is far lower is not among the upper three."""
    low = min(("leap-f", "leap-l"), key=lambda name: printed()["DHFR", "gin", name])
    found = reproduction(
        whole({("DHFR", "gin", low): -40.0, ("BZR", "gcn", "none"): 40.0, ("BZR", "gat", "rwpe"): 40.0})
    )
    assert (found.ours.networks, found.ours.best, found.ours.both_upper) == (28, 26, 27)
    assert (found.theirs.networks, found.theirs.best, found.theirs.both_upper) == (28, 28, 28)


def test_shared_places_count_and_incomplete_networks_do_not():
    full = {"none": 0.5, "rwpe": 0.9, "lape": 0.8, "leap-f": 0.8, "leap-l": 0.9}
    means = {("a", "gcn", name): value for name, value in full.items()}
    means |= {("b", "gcn", name): value for name, value in full.items() if name != "lape"}
    found = lead(means)
    assert (found.networks, found.best, found.both_upper) == (1, 1, 1)


def test_a_part_of_the_table_is_called_one_and_stand_ins_are_none(made):
    gcn = {"backbone": "gcn", "encoding": "none"}
    runs = made(("BZR", gcn, [0.8, 0.8]), ("letters-high", gcn, [0.8, 0.8]), ("mine", gcn, [0.8, 0.8]))
    section = beside_the_paper(Results(tuple(runs)))
    assert section.paragraphs[0].startswith(
        "The paper's main table has 140 cells, of which 1 was run: 1 of 1 lie within"
    )
    assert len(section.paragraphs) == 1
    assert beside_the_paper(Results(tuple(run for run in runs if run.dataset != "BZR"))) is None


def test_a_single_projection_is_compared_if_it_is_the_published_one(made):
    """The main table has the best of five."""

    def cells(*projections):
        network = {"backbone": "nomp", "encoding": "leap-l"}
        runs = [("Letter-high", network | {"projection": name}, [0.8, 0.81]) for name in projections]
        return reproduction(Results.of(made(*runs))).values

    assert not cells("attention")
    assert not cells("linear", "deepsets")
    assert cells("attention-pe", "conv1d")  # now all five


def test_the_summary_and_its_numbers_have_the_counts(whole, tmp_path):
    results = whole(FAR)
    section = summary(results, *answer(results))
    assert section.facts["published"] == {
        "cells": 140,
        "within_two_std": 138,
        "mean_distance": pytest.approx(0.0),
        "leap": {"networks": 28, "best": 27, "both_upper": 28},  # GCN without encoding on BZR is higher
        "leap_published": {"networks": 28, "best": 28, "both_upper": 28},
    }
    assert "138 of 140 lie within two published standard deviations" in " ".join(section.paragraphs)
    written = report(tmp_path / "runs", tmp_path / "report")
    assert json.loads(json.dumps(written.as_json()))["numbers"]["published"]["within_two_std"] == 138
    assert "published.csv" in [path.name for path in written.tables["published"]]
