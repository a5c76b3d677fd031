"""Ablations: hops, embedding dimension, and directions × scale of the transform."""

from functools import partial
from typing import Any

from leap.pipeline.published import lookup
from leap.pipeline.reports.names import (
    backbone_label,
    backbone_order,
    dataset_label,
    dataset_order,
    encoding_label,
    encoding_order,
    metric_of,
)
from leap.pipeline.reports.runs import TRANSFORM, Cell
from leap.pipeline.reports.section import Panel, Plot, Results, Section, column_labels, datasets_of
from leap.pipeline.reports.sections.main import settings_note
from leap.pipeline.reports.table import Table, Value, marked, value_of

Row = tuple[str, str | None, str, Any]  # backbone, projection, encoding, value of what is varied


def varied(results: Results, *names: str) -> list[Cell]:
    """Return cells of networks that were run with several values of these settings and the paper's for the others."""
    fixed = [name for name in TRANSFORM if name not in names]
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in results.cells():
        run = cell.first
        settings = run.transform
        if all(name in settings for name in names) and all(
            settings.get(n, TRANSFORM[n]) == TRANSFORM[n] for n in fixed
        ):
            groups.setdefault((run.dataset, run.backbone, run.encoding, run.projection), []).append(cell)

    def values(group: list[Cell]) -> set[tuple[Any, ...]]:
        return {tuple(cell.first.settings[name] for name in names) for cell in group}

    return [cell for group in groups.values() if len(values(group)) > 1 for cell in group]


def _ablation(results: Results, found: list[Cell], setting: str, table: str, title: str, caption: str) -> Table:
    datasets = datasets_of(found)

    def row_of(cell: Cell) -> Row:
        run = cell.first
        return (run.backbone, run.projection, run.encoding, run.settings[setting])

    by_place = {(row_of(cell), cell.first.dataset): cell for cell in found}
    # Rivals: encodings at one dimension, or hop counts of one encoding.
    block = (lambda row: row[3]) if setting == "dim" else (lambda row: (row[0], row[1], row[2]))
    rows = sorted(
        {row for row, _ in by_place},
        key=lambda row: (
            (_size(row[3]), backbone_order(row[0]), encoding_order(row[2]))
            if setting == "dim"
            else (backbone_order(row[0]), row[1] or "", encoding_order(row[2]), _size(row[3]))
        ),
    )
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(block(row), []).append(row)
    made = []
    for group in groups.values():
        columns: list[list[Value | None]] = []
        for dataset in datasets:
            values = []
            for row in group:
                cell = by_place.get((row, dataset))
                printed = lookup(
                    table, dataset=dataset, backbone=row[0], encoding=row[2], projection=row[1], **{setting: row[3]}
                )
                values.append(value_of(cell, metric_of(cell.first), printed) if cell else None)
            columns.append(marked(values))
        made.append(
            tuple(
                (_network(row), encoding_label(row[2]), _shown(row[3]), *(column[place] for column in columns))
                for place, row in enumerate(group)
            )
        )
    labels, lines = column_labels(results, datasets)
    full = caption + settings_note(results, datasets)
    return Table(table, title, full, ("network", "encoding", setting), labels, tuple(made), lines)


def hops(results: Results) -> Section | None:
    """Return the table of hop counts."""
    found = varied(results, "hops")
    if not found:
        return None
    caption = (
        "LEAP on true m-hop neighbourhoods; several hop counts share the dimensions of the encoding. Best, second and "
        "worst hop count of each encoding are marked."
    )
    return Section("hops", "How far to look?", tables=(_ablation(results, found, "hops", "hops", "Hops", caption),))


def dimension(results: Results) -> Section | None:
    """Return the table and curves of the embedding dimension."""
    found = varied(results, "dim")
    if not found:
        return None
    caption = "Encodings at equal dimension; best, second and worst of each dimension are marked."
    table = _ablation(results, found, "dim", "dimension", "Embedding dimension", caption)
    panels = []
    for dataset in datasets_of(found):
        of_dataset = [cell for cell in found if cell.first.dataset == dataset]
        for backbone in sorted({cell.first.backbone for cell in of_dataset}, key=backbone_order):
            chosen = [cell for cell in of_dataset if cell.first.backbone == backbone]
            label = dataset_label(dataset, chosen[0].first.stand_in_for)
            panels.append(
                Panel(
                    f"dimension-{dataset}-{backbone}",
                    f"Test score by embedding dimension on {label} with {backbone_label(backbone)}",
                    partial(_draw_dimension, chosen, f"{label}, {backbone_label(backbone)}"),
                )
            )
    plot = Plot("Mean test score by embedding dimension; bands are ± one standard deviation.", tuple(panels))
    return Section("dimension", "How many dimensions?", tables=(table,), plots=(plot,))


def _draw_dimension(found: list[Cell], title: str) -> Any:
    from leap.pipeline.reports.figures.lines import draw_lines

    metric = metric_of(found[0].first)
    series: dict[str, list[tuple[float, float, float]]] = {}
    for cell in sorted(found, key=lambda cell: (encoding_order(cell.first.encoding), cell.first.settings["dim"])):
        value = value_of(cell, metric)
        if value is not None:
            point = (cell.first.settings["dim"], value.mean * metric.factor, (value.spread or 0) * metric.factor)
            series.setdefault(cell.first.encoding, []).append(point)
    return draw_lines(series, title, "dimension", metric.label + metric.unit)


def ect(results: Results) -> Section | None:
    """Return heat maps of directions × scale."""
    found = varied(results, "directions", "scale")
    grids: dict[tuple[str, str, str, str | None], list[Cell]] = {}
    for cell in found:
        run = cell.first
        grids.setdefault((run.dataset, run.backbone, run.encoding, run.projection), []).append(cell)
    if not grids:
        return None
    panels, groups = [], []
    order = sorted(
        grids, key=lambda key: (encoding_order(key[2]), dataset_order(key[0]), backbone_order(key[1]), key[3] or "")
    )
    scales = sorted({cell.first.settings["scale"] for cell in found})
    for dataset, backbone, encoding, projection in order:
        chosen = grids[dataset, backbone, encoding, projection]
        metric = metric_of(chosen[0].first)
        label = dataset_label(dataset, chosen[0].first.stand_in_for)
        at = {
            (cell.first.settings["directions"], cell.first.settings["scale"]): value_of(cell, metric) for cell in chosen
        }
        rows = sorted({place[0] for place in at})
        title = f"{label}\n{encoding_label(encoding)}, {backbone_label(backbone)}"
        panels.append(
            Panel(
                f"ect-{dataset}-{backbone}-{encoding}-{projection}",
                f"{metric.label} by number of directions and scale: {label}, {encoding_label(encoding)}",
                partial(
                    _draw_heat, {place: v.mean for place, v in at.items() if v}, title, metric.factor, metric.digits
                ),
            )
        )
        groups.append(
            tuple(
                (label, f"{encoding_label(encoding)}, {projection}", str(row), *(at.get((row, s)) for s in scales))
                for row in rows
            )
        )
    plot = Plot("Mean test score by number of directions (rows) and scale of the sigmoid (columns).", tuple(panels))
    table = Table(
        "ect",
        "Directions and scale",
        "The numbers behind the heat maps: mean ± standard deviation over folds.",
        ("dataset", "encoding", "directions"),
        tuple(f"scale {scale:g}" for scale in scales),
        tuple(groups),
    )
    return Section("ect", "How sensitive is the transform?", tables=(table,), plots=(plot,))


def _draw_heat(values: dict[tuple[float, float], float], title: str, factor: float, digits: int) -> Any:
    from leap.pipeline.reports.figures.heat import draw_heat

    shown = {place: value * factor for place, value in values.items()}
    return draw_heat(shown, title, "scale", "directions", digits)


def _network(row: Row) -> str:
    return backbone_label(row[0]) + (f", {row[1]}" if row[1] else "")


def _shown(value: Any) -> str:
    return str(value).replace(",", ", ")


def _size(value: Any) -> tuple[int, ...]:
    """Sort key: 1, 2, then 1 and 2 together."""
    numbers = tuple(int(part) for part in str(value).split(","))
    return (len(numbers), *numbers)
