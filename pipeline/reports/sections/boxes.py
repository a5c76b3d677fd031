"""Box plots of the folds' scores by encoding: all datasets, and Alchemy and HIV in the paper's layout."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from leap.pipeline.datasets import dataset_card
from leap.pipeline.reports.names import (
    backbone_label,
    backbone_order,
    dataset_label,
    encoding_label,
    encoding_order,
    metric_of,
)
from leap.pipeline.reports.runs import Cell
from leap.pipeline.reports.section import Panel, Plot, Results, Section, datasets_of
from leap.pipeline.reports.sections.main import main_cells
from leap.pipeline.reports.table import Table, Value, marked, value_of

HOW = (
    "Each box holds the middle half of the folds' test scores, its line is the median, whiskers reach the extremes, "
    "and dots are single folds. LEAP with the projection chosen by validation."
)


def boxes(results: Results) -> Section | None:
    """Return one box plot for each dataset."""
    found = [cell for (dataset, _, _), cell in main_cells(results, "val").items() if not _has_boxes(dataset)]
    panels = tuple(_panel([cell for cell in found if cell.first.dataset == name]) for name in datasets_of(found))
    return Section("boxes", "Spread over folds", plots=(Plot(HOW, panels),)) if panels else None


def molecules(results: Results) -> Section | None:
    """Return box plots of Alchemy (R²) and HIV (AUROC), and their table."""
    found = {key: cell for key, cell in main_cells(results, "val").items() if _has_boxes(key[0])}
    if not found:
        return None
    panels = tuple(
        _panel([cell for key, cell in found.items() if key[0] == name]) for name in datasets_of(found.values())
    )
    table = _table(found)
    text = "The paper shows these two as box plots only; no published numbers stand beside ours."
    return Section("molecules", "Alchemy and HIV", (text,), (table,), (Plot(HOW, panels),))


def _has_boxes(dataset: str) -> bool:
    return dataset_card(dataset).published_as == "boxes"


def _table(found: dict[tuple[str, str, str], Cell]) -> Table:
    datasets = datasets_of(found.values())
    places = [
        (name, backbone)
        for name in datasets
        for backbone in sorted({key[1] for key in found if key[0] == name}, key=backbone_order)
    ]
    encodings = sorted({key[2] for key in found}, key=encoding_order)
    columns: list[list[Value | None]] = []
    for name, backbone in places:
        of_column = [found.get((name, backbone, encoding)) for encoding in encodings]
        columns.append(marked([value_of(cell, metric_of(cell.first)) if cell else None for cell in of_column]))
    metrics = {name: metric_of(next(cell for key, cell in found.items() if key[0] == name).first) for name in datasets}
    rows = tuple(
        (encoding_label(encoding), *(column[row] for column in columns)) for row, encoding in enumerate(encodings)
    )
    caption = "Mean ± standard deviation over folds; best, second and worst encoding of each column are marked."
    names = tuple(f"{name} {backbone_label(backbone)}" for name, backbone in places)
    lines = tuple(metrics[name].label for name, _ in places)
    return Table("molecules", "Alchemy and HIV", caption, ("encoding",), names, (rows,), lines)


def _panel(found: list[Cell]) -> Panel:
    run = found[0].first
    label = dataset_label(run.dataset, run.stand_in_for)
    return Panel(
        f"boxes-{run.dataset}", f"Box plots of {metric_of(run).label} on {label}", partial(_draw, found, label)
    )


def _draw(found: Iterable[Cell], title: str) -> Any:
    from leap.pipeline.reports.figures.boxes import draw_boxes

    cells = list(found)
    metric = metric_of(cells[0].first)
    groups: dict[str, dict[str, list[float]]] = {}
    for backbone in sorted({cell.first.backbone for cell in cells}, key=backbone_order):
        of_backbone = [cell for cell in cells if cell.first.backbone == backbone]
        of_backbone.sort(key=lambda cell: encoding_order(cell.first.encoding))
        groups[backbone_label(backbone)] = {
            cell.first.encoding: [score * metric.factor for score in cell.scores(metric.name).values()]
            for cell in of_backbone
        }
    return draw_boxes(groups, title, metric.label + metric.unit)
