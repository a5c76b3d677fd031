"""The published numbers travel inside the package and say what the paper prints."""

import statistics

import pytest

from leap.pipeline.published import best_projection, find, lookup, published


def test_the_main_table_is_complete():
    cells = {(cell.dataset, cell.backbone, cell.encoding) for cell in find("main")}
    assert len(cells) == 7 * 4 * 5
    assert all(cell.std is not None and cell.metric == "accuracy" for cell in find("main"))


def test_every_leap_cell_of_the_main_table_has_its_projection():
    for cell in find("main"):
        assert (cell.projection is not None) == cell.encoding.startswith("leap")
        assert best_projection(cell.dataset, cell.backbone, cell.encoding) == cell.projection


@pytest.mark.parametrize("encoding", ["leap-f", "leap-l"])
def test_the_best_projection_is_the_best_of_the_projections_table(encoding):
    for cell in find("main", encoding=encoding):
        others = list(find("projections", dataset=cell.dataset, backbone=cell.backbone, encoding=encoding))
        assert len(others) == 5
        best = max(others, key=lambda entry: entry.mean)
        chosen = next(entry for entry in others if entry.projection == cell.projection)
        assert chosen.mean == pytest.approx(best.mean, abs=0.11)


def test_known_cells():
    cell = lookup("main", dataset="Letter-high", backbone="nomp", encoding="leap-l")
    assert (cell.mean, cell.std, cell.projection) == (81.6, 1.9, "conv1d")
    assert lookup("hops", dataset="Letter-med", encoding="leap-l", hops="1,2").mean == 85.96
    assert lookup("main", dataset="letters-high", backbone="nomp", encoding="leap-l") is None
    assert best_projection("Letter-high", "nomp", "rwpe") is None
    assert best_projection("nothing", "nomp", "leap-l") is None


def test_means_are_shares_in_percent_or_seconds():
    accuracies = [entry.mean for entry in published() if entry.metric == "accuracy"]
    assert len(published()) == 533
    assert min(accuracies) > 40
    assert max(accuracies) == 100
    assert 70 < statistics.mean(accuracies) < 90
