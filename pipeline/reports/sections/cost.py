"""What an encoding costs: preprocessing, time of an epoch, size in the store, cache hits; and the paper's times."""

from functools import partial
from statistics import median
from typing import Any

from leap.pipeline.published import lookup
from leap.pipeline.reports.names import (
    backbone_label,
    backbone_order,
    dataset_label,
    dataset_order,
    encoding_label,
    encoding_order,
)
from leap.pipeline.reports.runs import Run
from leap.pipeline.reports.section import Panel, Plot, Results, Section
from leap.pipeline.reports.selection import grouped, usual
from leap.pipeline.reports.table import Table

TIMED = ("Letter-high", "roman-empire")  # the datasets whose times the paper prints


def epoch_seconds(run: Run) -> float:
    """Return the median time of an epoch over the folds of a run."""
    return median(fold.seconds_an_epoch for fold in run.folds)


def epoch_ratios(results: Results) -> dict[str, float]:
    """Return for each encoding how much longer an epoch takes than without one: median over datasets and backbones."""
    times: dict[tuple[str, str], dict[str, list[float]]] = {}
    for run in usual(results.shown):
        times.setdefault((run.dataset, run.backbone), {}).setdefault(run.encoding, []).append(epoch_seconds(run))
    ratios: dict[str, list[float]] = {}
    for of_network in times.values():
        if "none" in of_network and median(of_network["none"]) > 0:
            for encoding, seconds in of_network.items():
                ratios.setdefault(encoding, []).append(median(seconds) / median(of_network["none"]))
    return {encoding: median(ratios[encoding]) for encoding in sorted(ratios, key=encoding_order)}


def cost(results: Results) -> Section | None:
    """Return the tables of cost."""
    runs = [run for run in usual(results.shown) if not run.backbone.startswith("dect-")]
    if not runs:
        return None
    groups: dict[str, list[tuple[str, ...]]] = {}
    by_place = grouped(runs, lambda run: (run.dataset, run.encoding))
    for dataset, encoding in sorted(by_place, key=lambda key: (dataset_order(key[0]), encoding_order(key[1]))):
        of_place = by_place[dataset, encoding]
        hits = [run.cache_hits for run in of_place if run.cache_hits is not None]
        misses = [run.cache_misses for run in of_place if run.cache_misses is not None]
        groups.setdefault(dataset, []).append(
            (
                dataset_label(dataset, of_place[0].stand_in_for),
                encoding_label(encoding),
                _maybe(_median([run.preprocessing_seconds for run in of_place]), seconds_text),
                _maybe(_median([run.preprocessing_bytes for run in of_place]), bytes_text),
                f"{sum(hits)} of {sum(hits) + sum(misses)}" if hits or misses else "unknown",
                seconds_text(median(epoch_seconds(run) for run in of_place)),
                seconds_text(median(fold.seconds for run in of_place for fold in run.folds)),
                _maybe(_median([run.parameters for run in of_place]), lambda value: f"{value:,.0f}"),
                str(len(of_place)),
            )
        )
    table = Table(
        "cost",
        "Cost of each encoding",
        "Preprocessing and store size are of what an encoding needs beside the dataset, made once and shared by all "
        "runs; cache hits count artifacts that a run found ready. Times of an epoch and of a fold, early stops "
        "included, and parameters are medians over backbones, projections and folds, as measured on the machines "
        "that trained them.",
        ("dataset", "encoding"),
        ("preprocessing", "in the store", "cache hits", "epoch", "fold", "parameters", "runs"),
        tuple(tuple(rows) for rows in groups.values()),
    )
    timed = _times(runs)
    ratios = epoch_ratios(results)
    plots = []
    if len(ratios) > 1:
        panel = Panel(
            "cost-epochs",
            "Time of an epoch relative to no encoding: "
            + ", ".join(f"{encoding_label(name)} {ratio:.2f}" for name, ratio in ratios.items()),
            partial(_draw, ratios),
        )
        plots.append(Plot("Time of an epoch relative to the same network without encoding: median over all.", (panel,)))
    return Section("cost", "At what cost?", tables=(table, *([timed] if timed else [])), plots=tuple(plots))


def _times(runs: list[Run]) -> Table | None:
    """Return training times in the paper's layout for the datasets it times, and for their stand-ins."""
    chosen = [run for run in runs if run.dataset in TIMED or run.stand_in_for in TIMED]
    groups: dict[Any, list[tuple[str, ...]]] = {}
    by_place = grouped(chosen, lambda run: (run.dataset, run.backbone, run.encoding))
    order = sorted(by_place, key=lambda k: (dataset_order(k[0]), backbone_order(k[1]), encoding_order(k[2])))
    for dataset, backbone, encoding in order:
        of_place = by_place[dataset, backbone, encoding]
        label = dataset_label(dataset, of_place[0].stand_in_for)
        row = [label, backbone_label(backbone), encoding_label(encoding)]
        ours = {
            "train_seconds": median(fold.seconds for run in of_place for fold in run.folds),
            "epoch_seconds": median(epoch_seconds(run) for run in of_place),
            "preprocess_seconds": _median([run.preprocessing_seconds for run in of_place]),
        }
        for metric, value in ours.items():
            printed = lookup("time", dataset=dataset, encoding=encoding, metric=metric)
            row += [_maybe(value, seconds_text), "" if printed is None else f"{printed.mean:g} s"]
        groups.setdefault((dataset, backbone), []).append(tuple(row))
    rows = [row for group in groups.values() for row in group]
    if not rows:
        return None
    names = ("fold", "fold, published", "epoch", "epoch, published", "preprocessing", "preprocessing, published")
    kept = [place for place in range(len(names)) if any(row[place + 3] for row in rows)]
    caption = "Training time of a fold with early stopping, time of an epoch, and preprocessing."
    if any("published" in names[place] for place in kept):
        caption += (
            " The published times come from another machine, and the paper does not name the backbone: only ratios "
            "between encodings compare."
        )
    return Table(
        "time",
        "Times in the paper's layout",
        caption,
        ("dataset", "backbone", "encoding"),
        tuple(names[place] for place in kept),
        tuple(tuple((*row[:3], *(row[place + 3] for place in kept)) for row in group) for group in groups.values()),
    )


def _draw(ratios: dict[str, float]) -> Any:
    from leap.pipeline.reports.figures.bars import draw_bars

    return draw_bars(ratios, "Time of an epoch", "times that without encoding")


def _median(values: list[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _maybe(value: float | None, text: Any) -> str:
    return "unknown" if value is None else str(text(value))


def seconds_text(seconds: float) -> str:
    """Return a duration with a unit that suits it."""
    if seconds == 0:
        return "0 s"
    if seconds < 0.0995:
        return f"{seconds * 1e3:.1f} ms"
    if seconds < 100:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def bytes_text(size: float) -> str:
    """Return a size with a unit that suits it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
