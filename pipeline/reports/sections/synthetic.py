"""The synthetic triads: three points, told apart by how many edges join them."""

from leap.pipeline.published import lookup
from leap.pipeline.reports.names import (
    SYNTHETIC,
    backbone_label,
    backbone_order,
    encoding_label,
    encoding_order,
    metric_of,
)
from leap.pipeline.reports.runs import Cell
from leap.pipeline.reports.section import Results, Section
from leap.pipeline.reports.sections.main import settings_note
from leap.pipeline.reports.selection import best_by
from leap.pipeline.reports.table import Table, marked, value_of


def synthetic(results: Results) -> Section | None:
    """Return the table of triads."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in results.usual:
        if cell.first.dataset == SYNTHETIC:
            groups.setdefault((cell.first.backbone, cell.first.encoding), []).append(cell)
    if not groups:
        return None
    encodings = sorted({key[1] for key in groups}, key=encoding_order)
    rows = []
    for backbone in sorted({key[0] for key in groups}, key=backbone_order):
        values = []
        for encoding in encodings:
            chosen = best_by(groups.get((backbone, encoding), []), "test")
            printed = lookup("synthetic", dataset=SYNTHETIC, backbone=backbone, encoding=encoding)
            values.append(value_of(chosen, metric_of(chosen.first), printed) if chosen else None)
        rows.append((backbone_label(backbone), *marked(values)))
    caption = (
        "Three points with zero to three edges, to be told apart by the number of edges. Accuracy in percent; best, "
        "second and worst encoding of each backbone are marked."
    ) + settings_note(results, [SYNTHETIC])
    table = Table(
        "synthetic",
        "Triads",
        caption,
        ("backbone",),
        tuple(encoding_label(encoding) for encoding in encodings),
        (tuple(rows),),
    )
    return Section("synthetic", "Synthetic triads", tables=(table,))
