"""What an encoding costs: preprocessing, time, size, parameters, beside what it gains; and the paper's times."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import fmean, median

from leap.pipeline.published import lookup
from leap.pipeline.reports.comparisons import networks_of
from leap.pipeline.reports.figures import Priced, draw_bars, draw_tradeoff
from leap.pipeline.reports.names import TIMED, Metric, backbone_label, by, encoding_label
from leap.pipeline.reports.page import Panel, Plot, Section
from leap.pipeline.reports.runs import Cell, FinishedRun, Results, grouped
from leap.pipeline.reports.table import Row, Table


def epoch_ratios(results: Results) -> dict[str, float]:
    """Return for each encoding how much longer an epoch takes than without one: median over datasets and backbones."""
    ratios: dict[str, list[float]] = {}
    for of_network in grouped(results.usual_runs, lambda run: (run.dataset, run.backbone)).values():
        by_encoding = grouped(of_network, lambda run: run.encoding)
        seconds = {name: median(map(epoch_seconds, runs)) for name, runs in by_encoding.items()}
        if seconds.get("none", 0) > 0:
            for name, value in seconds.items():
                ratios.setdefault(name, []).append(value / seconds["none"])
    return {name: median(ratios[name]) for name in sorted(ratios, key=by("encoding"))}


def epoch_seconds(run: FinishedRun) -> float:
    """Return the median time of an epoch over the folds of a run."""
    return median(fold.seconds_an_epoch for fold in run.folds)


def fold_seconds(cell: Cell) -> float:
    """Return the median time that a fold was trained."""
    return median(fold.seconds for run in cell.runs for fold in run.folds)


def preprocessing_seconds(cell: Cell) -> float | None:
    """Return the time that making the encoding took; None where it is unknown."""
    known = [run.preprocessing_seconds for run in cell.runs if run.preprocessing_seconds is not None]
    return median(known) if known else None


def tradeoff(results: Results) -> Plot | None:
    """Return what encodings gain over none against what they cost, averaged over the datasets of each metric."""
    found: dict[Metric, dict[str, list[dict[str, Cell]]]] = {}
    for networks in networks_of(results).values():
        for backbone, cells in networks.items():
            if "none" in cells and len(cells) > 1:
                found.setdefault(cells["none"].run.metric, {}).setdefault(backbone, []).append(cells)
    panels = []
    for metric, of_backbone in found.items():
        for what, label, price in COSTS:
            points = [
                Priced(backbone_label(backbone), name, cost, _mean_gain(many, name) * metric.factor)
                for backbone, many in of_backbone.items()
                for name in many[0]
                if all(name in cells for cells in many)
                and (cost := _mean_cost([price(cells[name]) for cells in many])) is not None
            ]
            if points:
                alt = "; ".join(
                    f"{encoding_label(one.encoding)} with {one.backbone} {one.cost:.3g}, {one.gain:+.2f}"
                    for one in points
                )
                draw = partial(draw_tradeoff, points, f"Gain against {what}", label, f"gain ({metric.points})")
                name = f"tradeoff-{metric.name}-{what.split()[0]}"
                panels.append(Panel(name, f"Gain over no encoding against {what}: {alt}", draw))
    caption = (
        "What each encoding gains over the same network without one, against what it costs; upper left is best. Where "
        "several datasets have the same metric, both are averages over them; an encoding that one of them lacks is "
        "left out."
    )
    return Plot(caption, tuple(panels)) if panels else None


def _mean_gain(many: Sequence[Mapping[str, Cell]], name: str) -> float:
    return fmean((cells[name].mean() or 0.0) - (cells["none"].mean() or 0.0) for cells in many)


def _mean_cost(prices: Sequence[float | None]) -> float | None:
    known = [price for price in prices if price is not None]
    return fmean(known) if len(known) == len(prices) else None


COSTS: tuple[tuple[str, str, Callable[[Cell], float | None]], ...] = (
    ("preprocessing", "seconds, once for all runs", preprocessing_seconds),
    ("training time", "seconds of a fold", fold_seconds),
    ("parameters", "parameters of the network", lambda cell: cell.run.parameters),
)


def cost(results: Results) -> Section | None:
    """Return the tables of cost."""
    runs = [run for run in results.usual_runs if not run.is_global]
    if not runs:
        return None
    by_place = grouped(runs, lambda run: (run.dataset, run.encoding))
    rows = [_cost(by_place[place]) for place in sorted(by_place, key=by("dataset", "encoding"))]
    table = Table(
        "cost",
        "Cost of each encoding",
        "Preprocessing and store size cover what an encoding needs besides the dataset; it is made once and shared by "
        "all runs. Cache hits count artifacts that a run found ready. Times of an epoch and of a fold, which may stop "
        "early, and numbers of parameters are medians over backbones, projections and folds, as measured on the "
        "machines that trained them.",
        ("dataset", "encoding"),
        ("preprocessing", "in the store", "cache hits", "epoch", "fold", "parameters", "runs"),
        tuple(tuple(group) for group in grouped(rows, lambda row: row[0]).values()),
    )
    timed = _times(runs)
    ratios = epoch_ratios(results)
    plots: tuple[Plot, ...] = ()
    if len(ratios) > 1:
        numbers = ", ".join(f"{encoding_label(name)} {ratio:.2f}" for name, ratio in ratios.items())
        draw = partial(draw_bars, ratios, "Time of an epoch", "relative to no encoding")
        panel = Panel("cost-epochs", f"Time of an epoch relative to no encoding: {numbers}", draw)
        plots = (
            Plot("Compared with the same network without encoding: median over datasets and backbones.", (panel,)),
        )
    gained = tradeoff(results)
    plots = (*([gained] if gained else []), *plots)
    return Section("cost", "At what cost?", tables=(table, *([timed] if timed else [])), plots=plots)


def _cost(runs: list[FinishedRun]) -> Row:
    hits = [run.cache_hits for run in runs if run.cache_hits is not None]
    misses = [run.cache_misses for run in runs if run.cache_misses is not None]
    return (
        runs[0].label,
        encoding_label(runs[0].encoding),
        _median((run.preprocessing_seconds for run in runs), seconds_text),
        _median((run.preprocessing_bytes for run in runs), bytes_text),
        f"{sum(hits)} of {sum(hits) + sum(misses)}" if hits or misses else "unknown",
        _median(map(epoch_seconds, runs), seconds_text),
        _median((fold.seconds for run in runs for fold in run.folds), seconds_text),
        _median((run.parameters for run in runs), lambda value: f"{value:,.0f}"),
        str(len(runs)),
    )


def _times(runs: list[FinishedRun]) -> Table | None:
    """Return training times in the paper's layout for the datasets it times, and for their stand-ins."""
    by_place = grouped((run for run in runs if {run.dataset, run.stand_in_for} & set(TIMED)), lambda run: run.key)
    rows = []
    for key in sorted(by_place, key=by("dataset", "backbone", "encoding")):
        here = by_place[key]
        ours = {
            "train_seconds": _median((fold.seconds for run in here for fold in run.folds), seconds_text),
            "epoch_seconds": _median(map(epoch_seconds, here), seconds_text),
            "preprocess_seconds": _median((run.preprocessing_seconds for run in here), seconds_text),
        }
        row = [here[0].label, backbone_label(key[1]), encoding_label(key[2])]
        for metric, text in ours.items():
            printed = lookup("time", dataset=key[0], encoding=key[2], metric=metric)
            row += [text, "" if printed is None else f"{printed.mean:g} s"]
        rows.append(row)
    if not rows:
        return None
    heads = ("dataset", "backbone", "encoding")
    names = (*heads, *(f"{name}{of}" for name in ("fold", "epoch", "preprocessing") for of in ("", ", published")))
    kept = [place for place in range(len(names)) if any(row[place] for row in rows)]
    columns = tuple(names[place] for place in kept if place >= len(heads))
    caption = "Training time of a fold with early stopping, time of an epoch, and preprocessing."
    if any("published" in name for name in columns):
        caption += (
            " The published times come from another machine, and the paper does not name the backbone: only ratios "
            "between encodings compare."
        )
    groups = grouped((tuple(row[place] for place in kept) for row in rows), lambda row: row[:2]).values()
    return Table("time", "Times in the paper's layout", caption, heads, columns, tuple(map(tuple, groups)))


def _median(values: Iterable[float | None], text: Callable[[float], str]) -> str:
    known = [value for value in values if value is not None]
    return text(median(known)) if known else "unknown"


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
