"""All five projections, for fixed and learned directions."""

from leap.pipeline.published import lookup
from leap.pipeline.reports.names import (
    PROJECTIONS,
    SYNTHETIC,
    backbone_label,
    backbone_order,
    encoding_label,
    metric_of,
    projection_order,
)
from leap.pipeline.reports.section import Results, Section, column_labels, datasets_of
from leap.pipeline.reports.sections.main import settings_note
from leap.pipeline.reports.table import Table, Value, marked, value_of

LEAPS = ("leap-f", "leap-l")


def projections(results: Results) -> Section | None:
    """Return the table, if any dataset and backbone has more than one projection."""
    found = {
        (cell.first.dataset, cell.first.backbone, cell.first.encoding, cell.first.projection): cell
        for cell in results.usual
        if cell.first.encoding in LEAPS and cell.first.dataset != SYNTHETIC
    }
    several = {key[:3] for key in found if sum(other[:3] == key[:3] for other in found) > 1}
    found = {key: cell for key, cell in found.items() if key[:3] in several}
    if not found:
        return None
    datasets = datasets_of(found.values())
    groups = []
    for backbone in sorted({key[1] for key in found}, key=backbone_order):
        names = sorted({key[3] for key in found if key[1] == backbone}, key=projection_order)
        columns: list[list[Value | None]] = []
        for dataset in datasets:
            for encoding in LEAPS:
                values = []
                for name in names:
                    cell = found.get((dataset, backbone, encoding, name))
                    printed = lookup(
                        "projections", dataset=dataset, backbone=backbone, encoding=encoding, projection=name
                    )
                    values.append(value_of(cell, metric_of(cell.first), printed) if cell else None)
                columns.append(marked(values))
        groups.append(
            tuple(
                (backbone_label(backbone), PROJECTIONS.get(name or "", name), *(column[row] for column in columns))
                for row, name in enumerate(names)
            )
        )
    labels, lines = column_labels(results, datasets)
    table = Table(
        "projections",
        "Projections",
        "Each LEAP projection with fixed (LEAP-F) and learned directions (LEAP-L). Best, second and worst projection "
        "of each backbone and column are marked." + settings_note(results, datasets),
        ("backbone", "projection"),
        tuple(label for label in labels for _ in LEAPS),
        tuple(groups),
        tuple(", ".join(filter(None, [line, encoding_label(name)])) for line in lines for name in LEAPS),
    )
    return Section("projections", "Which projection?", tables=(table,))
