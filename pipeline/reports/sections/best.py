"""The best approach for each dataset, and its gain over the worst baseline."""

from leap.pipeline.published import lookup
from leap.pipeline.reports.names import (
    BASELINES,
    backbone_label,
    dataset_label,
    dataset_order,
    encoding_label,
    metric_of,
)
from leap.pipeline.reports.runs import Cell
from leap.pipeline.reports.section import Results, Section
from leap.pipeline.reports.sections.main import main_cells
from leap.pipeline.reports.table import Table, value_of


def best(results: Results) -> Section | None:
    """Return the table of best approaches."""
    found: dict[str, list[Cell]] = {}
    for (dataset, _, _), cell in main_cells(results, "test").items():
        found.setdefault(dataset, []).append(cell)
    rows = []
    for dataset in sorted(found, key=dataset_order):
        metric = metric_of(found[dataset][0].first)
        means = [(cell.mean(metric.name), cell) for cell in found[dataset]]
        scored = [(mean, cell) for mean, cell in means if mean is not None]
        baselines = [(mean, cell) for mean, cell in scored if cell.first.encoding in BASELINES]
        if not baselines or len(scored) == len(baselines):
            continue
        top, winner = max(scored, key=lambda entry: entry[0])
        low, loser = min(baselines, key=lambda entry: entry[0])
        printed = None if winner.first.stand_in_for else lookup("best", dataset=dataset)
        rows.append(
            (
                dataset_label(dataset, winner.first.stand_in_for),
                _method(winner),
                value_of(winner, metric),
                _method(loser),
                metric.text(low),
                f"{(top - low) / low * 100:.1f} %" if low > 0 else "",
                "" if printed is None else _printed(printed.backbone, printed.encoding, printed.projection),
                "" if printed is None else f"{printed.mean:g}",
                "" if printed is None else printed.note.split("relative gain ")[-1].split(";")[0],
            )
        )
    if not rows:
        return None
    has_published = any(row[-1] for row in rows)
    columns = ("best approach", "result", "worst baseline", "its mean", "relative gain")
    extra = ("published best", "published result", "published gain") if has_published else ()
    table = Table(
        "best",
        "Best approach for each dataset",
        "The best of all backbones, encodings and projections by test score, and what it gains relative to the worst "
        "baseline, as the paper counts.",
        ("dataset",),
        columns + extra,
        (tuple(row if has_published else row[:-3] for row in rows),),
    )
    return Section("best", "Best approaches", tables=(table,))


def _method(cell: Cell) -> str:
    return _printed(cell.first.backbone, cell.first.encoding, cell.first.projection)


def _printed(backbone: str | None, encoding: str, projection: str | None) -> str:
    words = [backbone_label(backbone or ""), encoding_label(encoding) if encoding != "none" else "no encoding"]
    return ", ".join([*words, *([projection] if projection else [])])
