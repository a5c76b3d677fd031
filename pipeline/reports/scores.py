"""Tables of scores in the paper's layouts: encodings, projections, ablations, global DECT, triads, best approaches."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from leap.pipeline.published import Published, lookup
from leap.pipeline.reports.comparisons import rank_table
from leap.pipeline.reports.figures import draw_heat, draw_lines
from leap.pipeline.reports.names import (
    BASELINES,
    LEAPS,
    PAPER,
    SYNTHETIC,
    against_label,
    backbone_label,
    by,
    counted,
    deviations,
    encoding_label,
)
from leap.pipeline.reports.page import Panel, Plot, Section
from leap.pipeline.reports.results import Cell, FinishedRun, Key, Results, best_by, datasets_of, grouped
from leap.pipeline.reports.tables import Entry, Table, Value, dataset_lines, grid, value_of

MARKS = "Best, second and worst encoding of each backbone are marked."


def main(results: Results) -> Section | None:
    """Return the main table: backbones and encodings in rows, datasets in columns."""
    by_test, by_validation = results.tested, results.validated
    if not by_test:
        return None
    is_choice = any(by_test[key].run.projection != by_validation[key].run.projection for key in by_test)
    of_key = Counter(cell.run.key for cell in results.usual)
    are_several = any(of_key[key] > 1 for key in by_test)
    tables = []
    if is_choice:
        caption = (
            "Mean ± standard deviation of the test score over folds and seeds; LEAP with the projection that is best "
            f"on the validation part. {MARKS}"
        )
        title = "Our own result: projection chosen by validation"
        tables.append(_main_table(results, by_validation, "main-by-validation", title, caption, None))
    how = ", with the projection that is best on the test part, as in the paper" if are_several else ""
    left_out = len(results.runs) - len(results.shown)
    sentences = [
        f"Mean ± standard deviation over folds and seeds{how}.",
        "Validation chooses the same projections." if are_several and not is_choice else "",
        MARKS,
        f"{counted(left_out, 'run')} with other settings than these {'is' if left_out == 1 else 'are'} left out."
        if left_out
        else "",
    ]
    caption = " ".join(filter(None, sentences)) + settings_note(results, datasets_of(by_test.values()))
    title = "As in the paper: projection chosen by test" if is_choice else "Encodings and backbones"
    tables.append(_main_table(results, by_test, "main", title, caption, "main"))
    ranks = rank_table(by_validation)
    return Section("main", "How do the encodings compare?", tables=(*tables, *([ranks] if ranks else [])))


def _main_table(
    results: Results, found: Mapping[Key, Cell], name: str, title: str, caption: str, published: str | None
) -> Table:
    def value(row: tuple[str, str], dataset: str) -> Value | None:
        cell = found.get((dataset, *row))
        printed = lookup(published, dataset=dataset, backbone=row[0], encoding=row[1]) if published else None
        return value_of(cell, printed, detail=(cell.run.projection if cell else None) or "")

    datasets = datasets_of(found.values())
    rows = sorted({key[1:] for key in found}, key=by("backbone", "encoding"))
    groups = grid(
        rows, datasets, value, lambda row: (backbone_label(row[0]), encoding_label(row[1])), lambda row: row[0]
    )
    lines = dataset_lines(results, datasets)
    return Table(name, title, caption, ("backbone", "encoding"), tuple(datasets), groups, lines)


def settings_note(results: Results, datasets: Sequence[str]) -> str:
    """Return sentences that say which of these datasets were trained otherwise than in the paper; empty if none."""
    differing: dict[str, list[str]] = {}
    for dataset in datasets:
        found: dict[str, set[str]] = {}
        for run in (cell.run for cell in results.usual if cell.run.dataset == dataset):
            for name, value in deviations(dataset, run.settings).items():
                found.setdefault(name, set()).add(value)
        if found:
            words = ", ".join(f"{name} {'/'.join(sorted(values))}" for name, values in found.items())
            differing.setdefault(words, []).append(dataset)
    return "".join(
        f" Settings other than the paper's ({', '.join(names)}): {words}." for words, names in differing.items()
    )


def best(results: Results) -> Section | None:
    """Return the best approach for each dataset, and its gain over the worst baseline."""
    rows: list[tuple[Entry, ...]] = []
    by_dataset = grouped(results.tested.values(), lambda cell: cell.run.dataset)
    for dataset in sorted(by_dataset, key=by("dataset")):
        scored = [(mean, cell) for cell in by_dataset[dataset] if (mean := cell.mean()) is not None]
        baselines = [(mean, cell) for mean, cell in scored if cell.run.encoding in BASELINES]
        if not baselines or len(scored) == len(baselines):
            continue
        top, winner = max(scored, key=lambda entry: entry[0])
        low, loser = min(baselines, key=lambda entry: entry[0])
        gain = f"{(top - low) / low * 100:.1f} %" if low > 0 else ""
        ours = (winner.run.label, _method(winner.run), value_of(winner), _method(loser.run))
        printed = None if winner.run.stand_in_for else lookup("best", dataset=dataset)
        theirs = ("", "", "") if printed is None else _published_best(printed)
        rows.append((*ours, loser.run.metric.text(low), gain, *theirs))
    if not rows:
        return None
    columns: tuple[str, ...] = ("best approach", "result", "worst baseline", "its mean", "relative gain")
    columns += ("published best", "published result", "published gain") if any(row[-1] for row in rows) else ()
    table = Table(
        "best",
        "Best approach for each dataset",
        "The best of all backbones, encodings and projections by test score, and what it gains relative to the worst "
        "baseline, as the paper counts.",
        ("dataset",),
        columns,
        (tuple(row[: len(columns) + 1] for row in rows),),
    )
    return Section("best", "Best approaches", tables=(table,))


def _method(of: FinishedRun | Published) -> str:
    words = [backbone_label(of.backbone or ""), against_label(of.encoding), of.projection]
    return ", ".join(filter(None, words))


def _published_best(printed: Published) -> tuple[str, str, str]:
    return _method(printed), f"{printed.mean:g}", printed.note.split("relative gain ")[-1].split(";")[0]


def projections(results: Results) -> Section | None:
    """Return the table of projections, if any dataset and backbone has more than one."""
    of_leap = [cell for cell in results.usual if cell.run.encoding in LEAPS and cell.run.dataset != SYNTHETIC]
    several = [group for group in grouped(of_leap, lambda cell: cell.run.key).values() if len(group) > 1]
    found = {(cell.run.key, cell.run.projection): cell for group in several for cell in group}
    if not found:
        return None

    def value(row: tuple[str, str | None], column: tuple[str, str]) -> Value | None:
        (backbone, projection), (dataset, encoding) = row, column
        printed = lookup("projections", dataset=dataset, backbone=backbone, encoding=encoding, projection=projection)
        return value_of(found.get(((dataset, backbone, encoding), projection)), printed)

    datasets = datasets_of(found.values())
    rows = sorted({(key[1], projection) for key, projection in found}, key=by("backbone", "projection"))
    columns = [(dataset, encoding) for dataset in datasets for encoding in LEAPS]
    lines = dict(zip(datasets, dataset_lines(results, datasets), strict=True))
    table = Table(
        "projections",
        "Projections",
        "Each LEAP projection with fixed (LEAP-F) and learned directions (LEAP-L). Best, second and worst projection "
        "of each backbone and column are marked." + settings_note(results, datasets),
        ("backbone", "projection"),
        tuple(dataset for dataset, _ in columns),
        grid(rows, columns, value, lambda row: (backbone_label(row[0]), row[1] or ""), lambda row: row[0]),
        tuple(", ".join(filter(None, [lines[dataset], encoding_label(encoding)])) for dataset, encoding in columns),
    )
    return Section("projections", "Which projection?", tables=(table,))


Varied = tuple[str, str | None, str, Any]  # backbone, projection, encoding, value of what is varied


def varied(results: Results, *names: str) -> list[Cell]:
    """Return cells of networks that were run with several values of these settings and the paper's for the others."""
    fixed = {name: value for name, value in PAPER["transform"].items() if name not in names}
    found = [
        cell
        for cell in results.cells
        if all(name in cell.run.transform for name in names)
        and all(cell.run.transform.get(name, value) == value for name, value in fixed.items())
    ]
    groups = grouped(found, lambda cell: (cell.run.key, cell.run.projection)).values()
    return [cell for group in groups if len({_values(cell, names) for cell in group}) > 1 for cell in group]


def _values(cell: Cell, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(cell.run.transform[name] for name in names)


def _ablation(results: Results, found: list[Cell], setting: str, table: str, title: str, caption: str) -> Table:
    by_dimension = setting == "dim"  # encodings compete at each dimension, hop counts within each encoding

    def order(row: Varied) -> tuple[Any, ...]:
        backbone, projection, encoding, value = row
        numbers = [int(part) for part in str(value).split(",")]
        size = (len(numbers), *numbers)  # 1, 2, then 1 and 2 together
        if by_dimension:
            return size, by("backbone", "encoding", "projection")((backbone, encoding, projection))
        return by("backbone", "projection", "encoding")(row), size

    def value(row: Varied, dataset: str) -> Value | None:
        backbone, projection, encoding, size = row
        where = {"dataset": dataset, "backbone": backbone, "projection": projection, "encoding": encoding}
        return value_of(by_place.get((row, dataset)), lookup(table, **where, **{setting: size}))

    def label(row: Varied) -> tuple[str, ...]:
        backbone, projection, encoding, size = row
        network = ", ".join(filter(None, [backbone_label(backbone), projection]))
        return network, encoding_label(encoding), str(size).replace(",", ", ")

    by_place: dict[tuple[Varied, str], Cell] = {}
    for cell in found:
        run = cell.run
        by_place[(run.backbone, run.projection, run.encoding, run.transform[setting]), run.dataset] = cell
    datasets = datasets_of(found)
    rows = sorted({row for row, _ in by_place}, key=order)
    groups = grid(rows, datasets, value, label, lambda row: row[3] if by_dimension else row[:3])
    full = caption + settings_note(results, datasets)
    lines = dataset_lines(results, datasets)
    return Table(table, title, full, ("network", "encoding", setting), tuple(datasets), groups, lines)


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
    places = grouped(found, lambda cell: (cell.run.dataset, cell.run.backbone))
    panels = []
    for dataset, backbone in sorted(places, key=by("dataset", "backbone")):
        cells = places[dataset, backbone]
        label = f"{cells[0].run.label}, {backbone_label(backbone)}"
        alt = f"Test score by embedding dimension on {cells[0].run.label} with {backbone_label(backbone)}"
        panels.append(Panel(f"dimension-{dataset}-{backbone}", alt, partial(_draw_dimension, cells, label)))
    plot = Plot("Mean test score by embedding dimension; bands are ± one standard deviation.", tuple(panels))
    return Section("dimension", "How many dimensions?", tables=(table,), plots=(plot,))


def _draw_dimension(cells: list[Cell], title: str) -> Figure:
    metric = cells[0].run.metric
    series: dict[str, list[tuple[float, float, float]]] = {}
    for cell in sorted(cells, key=lambda cell: (by("encoding")(cell.run.encoding), cell.run.transform["dim"])):
        value = value_of(cell)
        if value is not None:
            point = (cell.run.transform["dim"], value.mean * metric.factor, (value.spread or 0) * metric.factor)
            series.setdefault(cell.run.encoding, []).append(point)
    return draw_lines(series, title, "dimension", metric.axis)


def ect(results: Results) -> Section | None:
    """Return heat maps of directions × scale, and their numbers."""
    found = varied(results, "directions", "scale")
    if not found:
        return None
    scales = sorted({cell.run.transform["scale"] for cell in found})
    grids = grouped(found, lambda cell: (cell.run.key, cell.run.projection))
    panels, groups = [], []
    for (dataset, backbone, encoding), projection in sorted(
        grids, key=lambda key: (by("encoding")(key[0][2]), by("dataset", "backbone")(key[0]), key[1] or "")
    ):
        cells = grids[(dataset, backbone, encoding), projection]
        run, method = cells[0].run, encoding_label(encoding)
        at = {_values(cell, ("directions", "scale")): value_of(cell) for cell in cells}
        means = {place: value.mean * run.metric.factor for place, value in at.items() if value}
        if means:
            title = f"{run.label}\n{method}, {backbone_label(backbone)}"
            alt = f"{run.metric.label} by number of directions and scale: {run.label}, {method}"
            draw = partial(draw_heat, means, title, "scale", "directions", run.metric.digits)
            panels.append(Panel(f"ect-{dataset}-{backbone}-{encoding}-{projection}", alt, draw))
        rows = sorted({directions for directions, _ in at})
        groups.append(
            tuple(
                (run.label, f"{method}, {projection}", str(row), *(at.get((row, scale)) for scale in scales))
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


def dect(results: Results) -> Section | None:
    """Return LEAP beside the global DECT classifier, if that was run."""
    found = {(cell.run.backbone, cell.run.dataset): cell for cell in results.usual if cell.run.is_global}
    if not found:
        return None
    datasets = datasets_of(found.values())
    rivals = {
        (backbone, dataset): cell
        for (dataset, backbone, encoding), cell in results.tested.items()
        if encoding == "leap-l" and dataset in datasets
    }

    def value(backbone: str, dataset: str) -> Value | None:
        table, encoding = ("main", "leap-l") if backbone in leaps else ("dect", "none")
        printed = lookup(table, dataset=dataset, backbone=backbone, encoding=encoding)
        return value_of((found | rivals).get((backbone, dataset)), printed)

    leaps = {backbone for backbone, _ in rivals}
    rows = sorted({backbone for backbone, _ in found | rivals}, key=lambda name: (name in leaps, by("backbone")(name)))
    made = grid(
        rows,
        datasets,
        value,
        lambda name: (f"LEAP-L ({backbone_label(name)})" if name in leaps else backbone_label(name),),
    )
    count = len(rows) - len(leaps)
    caption = (
        "DECT reads a whole graph as one image; LEAP reads each neighbourhood. LEAP with the projection that is best "
        "on the test part. Best, second and worst of each dataset are marked."
    ) + settings_note(results, datasets)
    groups = tuple(group for group in (made[0][:count], made[0][count:]) if group)
    lines = dataset_lines(results, datasets)
    table = Table("dect", "Global DECT", caption, ("method",), tuple(datasets), groups, lines)
    return Section("dect", "Local or global?", tables=(table,))


def synthetic(results: Results) -> Section | None:
    """Return the table of triads: three points, told apart by how many edges join them."""
    several = grouped((cell for cell in results.usual if cell.run.dataset == SYNTHETIC), lambda cell: cell.run.key)
    found = {key[1:]: best_by(cells, "test") for key, cells in several.items()}
    if not found:
        return None

    def value(backbone: str, encoding: str) -> Value | None:
        printed = lookup("synthetic", dataset=SYNTHETIC, backbone=backbone, encoding=encoding)
        return value_of(found.get((backbone, encoding)), printed)

    encodings = sorted({encoding for _, encoding in found}, key=by("encoding"))
    backbones = sorted({backbone for backbone, _ in found}, key=by("backbone"))
    caption = (
        "Three points with zero to three edges, to be told apart by the number of edges. Accuracy in percent; best, "
        "second and worst encoding of each backbone are marked."
    ) + settings_note(results, [SYNTHETIC])
    table = Table(
        "synthetic",
        "Triads",
        caption,
        ("backbone",),
        tuple(map(encoding_label, encodings)),
        grid(backbones, encodings, value, lambda backbone: (backbone_label(backbone),), rivals="columns"),
    )
    return Section("synthetic", "Synthetic triads", tables=(table,))
