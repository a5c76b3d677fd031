"""What the means hide: how the scores of folds spread, and how training went."""

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.reports.figures import Curve, draw_boxes, draw_curves
from leap.pipeline.reports.names import (
    CURVE_BACKBONE,
    CURVE_DATASETS,
    backbone_label,
    by,
    counted,
    encoding_label,
    is_shown_as_boxes,
    joined,
)
from leap.pipeline.reports.page import Panel, Plot, Section
from leap.pipeline.reports.runs import Cell, Results, best_by, datasets_of, grouped
from leap.pipeline.reports.statistics import mean_and_spread
from leap.pipeline.reports.table import Table, grid
from leap.store.errors import InvalidInputError

MOST_PANELS = 12
HOW = (
    "Each box holds the middle half of the folds' test scores, its line is the median, whiskers reach the extremes, "
    "and dots are single folds; the seeds of a fold are averaged first. LEAP with the projection chosen by validation."
)
OF_SEEDS = " Where there is one split, the dots are seeds."


def boxes(results: Results) -> Section | None:
    """Return one box plot for each dataset."""
    plot = _boxes(cell for (dataset, _, _), cell in results.validated.items() if not is_shown_as_boxes(dataset))
    return Section("boxes", "Spread over folds", plots=(plot,)) if plot else None


def molecules(results: Results) -> Section | None:
    """Return box plots of Alchemy (R²) and HIV (AUROC), and their table."""
    found = {key: cell for key, cell in results.validated.items() if is_shown_as_boxes(key[0])}
    plot = _boxes(found.values())
    if plot is None:
        return None
    columns = sorted({key[:2] for key in found}, key=by("dataset", "backbone"))
    metrics = {dataset: cell.run.metric for (dataset, _, _), cell in found.items()}
    cells = {(encoding, (dataset, backbone)): cell for (dataset, backbone, encoding), cell in found.items()}
    table = Table(
        "molecules",
        "Alchemy and HIV",
        "Best, second and worst encoding of each column are marked.",
        ("encoding",),
        tuple(f"{dataset} {backbone_label(backbone)}" for dataset, backbone in columns),
        grid(cells, columns, by("encoding"), lambda encoding: (encoding_label(encoding),)),
        tuple(metrics[dataset].label for dataset, _ in columns),
    )
    text = "The paper shows these two as box plots only; no published numbers stand beside ours."
    return Section("molecules", "Alchemy and HIV", (text,), (table,), (plot,))


def _boxes(cells: Iterable[Cell]) -> Plot | None:
    by_dataset = grouped((cell for cell in cells if cell.scores()), lambda cell: cell.run.dataset)
    panels, are_seeds = [], False
    for dataset in sorted(by_dataset, key=by("dataset")):
        run = by_dataset[dataset][0].run
        groups: dict[str, dict[str, list[float]]] = {}
        for cell in sorted(by_dataset[dataset], key=lambda cell: by("dataset", "backbone", "encoding")(cell.run.key)):
            by_fold = cell.by_fold(cell.scores())
            is_single = len(by_fold) == 1 < len(by_fold[0])
            are_seeds |= is_single
            means = by_fold[0] if is_single else [mean_and_spread(of_seeds)[0] for of_seeds in by_fold]
            scores = [mean * run.metric.factor for mean in means]
            groups.setdefault(backbone_label(cell.run.backbone), {})[cell.run.encoding] = scores
        alt = f"Box plots of {run.metric.label} on {run.label}"
        panels.append(Panel(f"boxes-{dataset}", alt, partial(draw_boxes, groups, run.label, run.metric.axis)))
    return Plot(HOW + (OF_SEEDS if are_seeds else ""), tuple(panels)) if panels else None


def curves(results: Results) -> Section | None:
    """Return training curves for each dataset: with GCN if it was run, then with other backbones while there is room.

    The mean over folds has a band, and ticks mark where folds stopped early.
    """
    found = [cell for cell in results.usual if cell.run.has_curves and not cell.run.is_global]
    places = grouped(found, lambda cell: (cell.run.dataset, cell.run.backbone))
    of_dataset = {
        dataset: sorted((b for d, b in places if d == dataset), key=lambda b: (b != CURVE_BACKBONE, by("backbone")(b)))
        for dataset in datasets_of(found)
    }

    def turn(place: tuple[str, str]) -> tuple[int, bool, int]:
        dataset, backbone = place
        return of_dataset[dataset].index(backbone), dataset not in CURVE_DATASETS, list(of_dataset).index(dataset)

    drawn = sorted(places, key=turn)[:MOST_PANELS]
    panels, damaged = [], []
    for dataset, backbone in sorted(drawn, key=by("dataset", "backbone")):
        by_encoding = grouped(places[dataset, backbone], lambda cell: cell.run.encoding)
        of_panel = []
        for encoding in sorted(by_encoding, key=by("encoding")):
            cell = best_by(by_encoding[encoding], "val")
            try:
                of_panel += [curve] if (curve := curve_of(cell)) else []
            except InvalidInputError:
                damaged.append(cell.run.name)
        if of_panel:
            run = places[dataset, backbone][0].run
            label = f"{run.label}, {backbone_label(backbone)}"
            names = ", ".join(encoding_label(curve.encoding) for curve in of_panel)
            alt = f"Validation {run.metric.label} by epoch on {label}: {names}"
            draw = partial(draw_curves, of_panel, label, f"validation {run.metric.axis}")
            panels.append(Panel(f"curves-{dataset}-{backbone}", alt, draw))
    if not panels:
        return None
    caption = (
        "Validation score by epoch: mean over folds, the seeds of each averaged first, with a band of ± one standard "
        "deviation. A fold that has stopped keeps its last value, so that the mean is always over all folds; ticks at "
        "the bottom mark early stops."
    )
    rest = len(places) - len(drawn)
    text = [f"{counted(rest, 'more combination')} of dataset and backbone not drawn."] if rest else []
    text += [f"Curves that cannot be read are left out: {joined(damaged)}."] if damaged else []
    return Section("curves", "How training goes", tuple(text), plots=(Plot(caption, tuple(panels)),))


def curve_of(cell: Cell) -> Curve | None:
    """Return the curve of a cell over its folds and seeds; None if no epoch was noted."""
    found = {key: epochs for run in cell.runs for key, epochs in run.curves().items() if len(epochs)}
    if not found:
        return None
    full = dict(zip(found, extended(list(found.values())) * cell.run.metric.factor, strict=True))
    by_fold = [np.stack(of_seeds) for of_seeds in cell.by_fold(full)]
    values = by_fold[0] if len(by_fold) == 1 else np.stack([of_seeds.mean(axis=0) for of_seeds in by_fold])
    most = cell.run.settings["training"]["epochs_at_most"] or values.shape[1]
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
    stops = [len(epochs) for epochs in found.values() if len(epochs) < most]
    return Curve(cell.run.encoding, values.mean(axis=0), spread, stops)


def extended(folds: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return (folds, epochs), each fold's last value kept to the end of the longest."""
    longest = max(len(fold) for fold in folds)
    return np.stack([np.pad(fold, (0, longest - len(fold)), mode="edge") for fold in folds])
