"""Training curves: the mean over folds with a band, and where folds stopped early."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.reports.names import (
    Metric,
    backbone_label,
    backbone_order,
    dataset_label,
    encoding_label,
    encoding_order,
    metric_of,
)
from leap.pipeline.reports.runs import Cell, Run
from leap.pipeline.reports.section import Panel, Plot, Results, Section, datasets_of
from leap.pipeline.reports.selection import best_by
from leap.pipeline.training.run_folder import CURVES

MOST_PANELS = 12
PREFERRED = "gcn"  # the paper's curves are of GCN on these
PREFERRED_DATASETS = ("Letter-high", "Letter-med", "triads")


def curves(results: Results) -> Section | None:
    """Return curves for each dataset: with GCN if it was run, then with other backbones while there is room."""
    groups: dict[tuple[str, str], dict[str, list[Cell]]] = {}
    for cell in results.usual:
        run = cell.first
        is_curve = any(fold.epochs > 1 for fold in run.folds) and (run.path / CURVES).is_file()
        if is_curve and not run.backbone.startswith("dect-"):
            groups.setdefault((run.dataset, run.backbone), {}).setdefault(run.encoding, []).append(cell)
    if not groups:
        return None
    datasets = datasets_of(cell for group in groups.values() for cells in group.values() for cell in cells)
    order = sorted(
        groups, key=lambda key: (_turn(key, groups), key[0] not in PREFERRED_DATASETS, datasets.index(key[0]))
    )
    drawn = sorted(order[:MOST_PANELS], key=lambda key: (datasets.index(key[0]), backbone_order(key[1])))
    panels = []
    for dataset, backbone in drawn:
        chosen = [best_by(cells, "val") for cells in groups[dataset, backbone].values()]
        found = sorted((cell for cell in chosen if cell), key=lambda cell: encoding_order(cell.first.encoding))
        label = f"{dataset_label(dataset, found[0].first.stand_in_for)}, {backbone_label(backbone)}"
        metric = metric_of(found[0].first)
        names = ", ".join(encoding_label(cell.first.encoding) for cell in found)
        panels.append(
            Panel(
                f"curves-{dataset}-{backbone}",
                f"Validation {metric.label} by epoch on {label}: {names}",
                partial(_draw, found, label, metric),
            )
        )
    caption = (
        "Validation score by epoch: mean over folds with a band of ± one standard deviation. A fold that has stopped "
        "keeps its last value, so that the mean is always over all folds; ticks at the bottom mark early stops."
    )
    rest = len(order) - len(drawn)
    text = (f"{rest} more combinations of dataset and backbone were run and are not drawn.",) if rest else ()
    return Section("curves", "How training goes", text, plots=(Plot(caption, tuple(panels)),))


def _turn(key: tuple[str, str], groups: dict[tuple[str, str], Any]) -> int:
    """In which round a backbone of a dataset gets its panel: GCN first, then the others in order."""
    backbones = sorted(
        (backbone for dataset, backbone in groups if dataset == key[0]),
        key=lambda name: (name != PREFERRED, backbone_order(name)),
    )
    return backbones.index(key[1])


def read_curve(run: Run, column: str) -> list[NDArray[np.float64]]:
    """Return a column of a run's curves, one array of epochs for each fold."""
    import pyarrow.parquet as pq

    table = pq.read_table(run.path / CURVES)
    if column not in table.column_names:
        return []
    folds, epochs = table["fold"].to_numpy(), table["epoch"].to_numpy()
    values = table[column].to_numpy(zero_copy_only=False).astype(np.float64)
    return [values[folds == fold][np.argsort(epochs[folds == fold], kind="stable")] for fold in np.unique(folds)]


def extended(folds: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return (folds, epochs), each fold's last value kept to the end of the longest."""
    longest = max(len(fold) for fold in folds)
    return np.stack([np.pad(fold, (0, longest - len(fold)), mode="edge") for fold in folds])


def _draw(found: list[Cell], title: str, metric: Metric) -> Any:
    from leap.pipeline.reports.figures.curves import Curve, draw_curves

    drawn = []
    for cell in found:
        folds = [fold for run in cell.runs for fold in read_curve(run, f"val_{metric.name}")]
        folds = [fold for fold in folds if len(fold)]
        if not folds:
            continue
        values = extended(folds) * metric.factor
        most = cell.first.settings.get("epochs_at_most") or values.shape[1]
        stops = [len(fold) for fold in folds if len(fold) < most]
        spread = values.std(axis=0, ddof=1) if len(folds) > 1 else np.zeros(values.shape[1])
        drawn.append(Curve(cell.first.encoding, values.mean(axis=0), spread, stops))
    return draw_curves(drawn, title, f"validation {metric.label}{metric.unit}")
