"""LEAP beside the global DECT classifier of about 4,000 and 65,000 parameters."""

from leap.pipeline.published import lookup
from leap.pipeline.reports.names import backbone_label, backbone_order, metric_of
from leap.pipeline.reports.section import Results, Section, column_labels, datasets_of
from leap.pipeline.reports.sections.main import main_cells, settings_note
from leap.pipeline.reports.table import Table, Value, marked, value_of


def dect(results: Results) -> Section | None:
    """Return the table, if a global DECT was run."""
    found = {
        (cell.first.dataset, cell.first.backbone): cell
        for cell in results.usual
        if cell.first.backbone.startswith("dect-")
    }
    if not found:
        return None
    datasets = datasets_of(found.values())
    rivals = {
        (dataset, backbone): cell
        for (dataset, backbone, encoding), cell in main_cells(results, "test").items()
        if encoding == "leap-l" and dataset in datasets
    }
    rows = [("dect", name) for name in sorted({key[1] for key in found}, key=backbone_order)]
    rows += [("leap", name) for name in sorted({key[1] for key in rivals}, key=backbone_order)]
    columns: list[list[Value | None]] = []
    for dataset in datasets:
        values = []
        for kind, backbone in rows:
            cell = (found if kind == "dect" else rivals).get((dataset, backbone))
            table, encoding = ("dect", "none") if kind == "dect" else ("main", "leap-l")
            printed = lookup(table, dataset=dataset, backbone=backbone, encoding=encoding)
            values.append(value_of(cell, metric_of(cell.first), printed) if cell else None)
        columns.append(marked(values))
    made = [
        (
            backbone_label(name) if kind == "dect" else f"LEAP-L ({backbone_label(name)})",
            *(column[place] for column in columns),
        )
        for place, (kind, name) in enumerate(rows)
    ]
    count = sum(kind == "dect" for kind, _ in rows)
    groups = tuple(tuple(part) for part in (made[:count], made[count:]) if part)
    labels, lines = column_labels(results, datasets)
    caption = (
        "DECT reads a whole graph as one image; LEAP reads each neighbourhood. LEAP with the projection that is best "
        "on the test part. Best, second and worst of each dataset are marked."
    ) + settings_note(results, datasets)
    table_made = Table("dect", "Global DECT", caption, ("method",), labels, groups, lines)
    return Section("dect", "Local or global?", tables=(table_made,))
