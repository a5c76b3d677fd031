"""Tables of scores in the paper's layouts: encodings, projections, ablations, global DECT, triads, best approaches."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

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
from leap.pipeline.reports.runs import Cell, FinishedRun, Key, Results, best_by, datasets_of, grouped
from leap.pipeline.reports.table import Entry, Table, dataset_lines, grid, value_of

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
        title = "Our own result: projection chosen by validation"
        caption = f"LEAP with the projection that is best on the validation part. {MARKS}"
        tables.append(_main_table(results, by_validation, "main-by-validation", title, caption))
    left_out = len(results.runs) - len(results.shown)
    how = "LEAP with the projection that is best on the test part, as in the paper."
    sentences = [how] if are_several else []
    sentences += ["Validation chooses the same projections."] if are_several and not is_choice else []
    sentences += [MARKS, *([f"Left out: {counted(left_out, 'run')} with other settings."] if left_out else [])]
    title = "As in the paper: projection chosen by test" if is_choice else "Encodings and backbones"
    tables.append(_main_table(results, by_test, "main", title, " ".join(sentences), published="main"))
    ranks = rank_table(by_validation)
    return Section("main", "How do the encodings compare?", tables=(*tables, *([ranks] if ranks else [])))


def _main_table(
    results: Results, found: Mapping[Key, Cell], name: str, title: str, caption: str, published: str = ""
) -> Table:
    return _table(
        results,
        (name, title, caption, ("backbone", "encoding")),
        {(key[1:], key[0]): cell for key, cell in found.items()},
        by("backbone", "encoding"),
        lambda row: (backbone_label(row[0]), encoding_label(row[1])),
        lambda row: row[0],
        published=published,
        with_projection=True,
    )


def _table(
    results: Results,
    names: tuple[str, str, str, tuple[str, ...]],
    cells: Mapping[tuple[Any, str], Cell],
    order: Callable[[Any], Any],
    label: Callable[[Any], tuple[str, ...]],
    group: Callable[[Any], Hashable],
    **options: Any,
) -> Table:
    """Return a table with a column for each dataset; names are its name, title, caption and heads."""
    name, title, caption, heads = names
    datasets = datasets_of(cells.values())
    groups = grid(cells, datasets, order, label, group, **options)
    full = caption + settings_note(results, datasets)
    return Table(name, title, full, heads, tuple(datasets), groups, dataset_lines(results, datasets))


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
    caption = (
        "The best of all backbones, encodings and projections by test score, and what it gains relative to the worst "
        "baseline, as the paper counts it."
    )
    shown = (tuple(row[: len(columns) + 1] for row in rows),)
    table = Table("best", "Best approach for each dataset", caption, ("dataset",), columns, shown)
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
    runs = [(cell.run, cell) for group in several for cell in group]
    cells = {((run.backbone, run.projection), (run.dataset, run.encoding)): cell for run, cell in runs}
    if not cells:
        return None
    datasets = datasets_of(cells.values())
    shown = {encoding for _, (_, encoding) in cells}
    columns = [(dataset, encoding) for dataset in datasets for encoding in LEAPS if encoding in shown]
    lines = dict(zip(datasets, dataset_lines(results, datasets), strict=True))
    caption = (
        "Each LEAP projection with fixed (LEAP-F) and learned directions (LEAP-L). Best, second and worst projection "
        "of each backbone and column are marked."
    )
    table = Table(
        "projections",
        "Projections",
        caption + settings_note(results, datasets),
        ("backbone", "projection"),
        tuple(dataset for dataset, _ in columns),
        grid(
            cells,
            columns,
            by("backbone", "projection"),
            lambda row: (backbone_label(row[0]), row[1] or ""),
            lambda row: row[0],
            published="projections",
        ),
        tuple(", ".join(filter(None, [lines[dataset], encoding_label(encoding)])) for dataset, encoding in columns),
    )
    return Section("projections", "Which projection?", tables=(table,))


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


def _label(row: tuple[str, str | None, str, Any]) -> tuple[str, ...]:
    backbone, projection, encoding, value = row
    network = ", ".join(filter(None, [backbone_label(backbone), projection]))
    return network, encoding_label(encoding), str(value).replace(",", ", ")


def _ablated(cells: list[Cell], setting: str) -> dict[tuple[Any, str], Cell]:
    """Return cells by (backbone, projection, encoding, value of a setting) and dataset."""
    runs = [(cell.run, cell) for cell in cells]
    return {((r.backbone, r.projection, r.encoding, r.transform[setting]), r.dataset): cell for r, cell in runs}


def hops(results: Results) -> Section | None:
    """Return the table of hop counts: 1, 2, then 1 and 2 together."""

    def order(row: tuple[Any, ...]) -> Any:
        counts = [int(part) for part in row[3].split(",")]
        return by("backbone", "projection", "encoding")(row), len(counts), counts

    cells = _ablated(varied(results, "hops"), "hops")
    if not cells:
        return None
    caption = (
        "LEAP on true m-hop neighbourhoods; several hop counts share the dimensions of the encoding. Best, second and "
        "worst hop count of each encoding are marked."
    )
    names = ("hops", "Hops", caption, ("network", "encoding", "hops"))
    table = _table(results, names, cells, order, _label, lambda row: row[:3], published="hops")
    return Section("hops", "How far to look?", tables=(table,))


def dimension(results: Results) -> Section | None:
    """Return the table and curves of the embedding dimension."""

    def order(row: tuple[Any, ...]) -> Any:
        return row[3], by("backbone")(row[0]), by("encoding")(row[2]), by("projection")(row[1])

    found = varied(results, "dim")
    if not found:
        return None
    caption = "Encodings at equal dimension; best, second and worst of each dimension are marked."
    names = ("dimension", "Embedding dimension", caption, ("network", "encoding", "dim"))
    cells = _ablated(found, "dim")
    table = _table(results, names, cells, order, _label, lambda row: row[3], published="dimension")
    places = grouped(found, lambda cell: (cell.run.dataset, cell.run.backbone))
    panels = []
    for dataset, backbone in sorted(places, key=by("dataset", "backbone")):
        run, network = places[dataset, backbone][0].run, backbone_label(backbone)
        points = _points(places[dataset, backbone])
        draw = partial(draw_lines, points, f"{run.label}, {network}", "dimension", run.metric.axis)
        alt = f"Test score by embedding dimension on {run.label} with {network}"
        panels += [Panel(f"dimension-{dataset}-{backbone}", alt, draw)] if points else []
    plot = Plot("Mean test score by embedding dimension; bands are ± one standard deviation over folds.", tuple(panels))
    return Section("dimension", "How many dimensions?", tables=(table,), plots=(plot,))


def _points(cells: list[Cell]) -> dict[str, list[tuple[float, float, float]]]:
    """Return dimension, mean and spread of cells, as printed, by encoding."""
    points: dict[str, list[tuple[float, float, float]]] = {}
    for cell in sorted(cells, key=lambda cell: (by("encoding")(cell.run.encoding), cell.run.transform["dim"])):
        if value := value_of(cell):
            mean, spread = (number * cell.run.metric.factor for number in (value.mean, value.spread or 0.0))
            points.setdefault(cell.run.encoding, []).append((cell.run.transform["dim"], mean, spread))
    return points


def ect(results: Results) -> Section | None:
    """Return heat maps of directions × scale, and their numbers."""
    found = varied(results, "directions", "scale")
    if not found:
        return None
    scales = sorted({cell.run.transform["scale"] for cell in found})
    grids = grouped(found, lambda cell: (by("encoding")(cell.run.encoding), cell.run.key, cell.run.projection or ""))
    panels, groups = [], []
    for place in sorted(grids, key=lambda key: (key[0], by("dataset", "backbone")(key[1]), key[2])):
        run, method = grids[place][0].run, encoding_label(place[1][2])
        at = {_values(cell, ("directions", "scale")): value_of(cell) for cell in grids[place]}
        means = {at_place: value.mean * run.metric.factor for at_place, value in at.items() if value}
        title = f"{run.label}\n{method}, {backbone_label(run.backbone)}"
        alt = f"{run.metric.label} by number of directions and scale: {run.label}, {method}"
        draw = partial(draw_heat, means, title, "scale", "directions", run.metric.digits)
        name = f"ect-{run.dataset}-{run.backbone}-{run.encoding}-{run.projection}"
        panels += [Panel(name, alt, draw)] if means else []
        names = (run.label, f"{method}, {run.projection}")
        rows = sorted({directions for directions, _ in at})
        groups.append(tuple((*names, str(row), *(at.get((row, scale)) for scale in scales)) for row in rows))
    plot = Plot("Mean test score by number of directions (rows) and scale of the sigmoid (columns).", tuple(panels))
    caption = "The numbers behind the heat maps."
    columns = tuple(f"scale {scale:g}" for scale in scales)
    heads = ("dataset", "encoding", "directions")
    table = Table("ect", "Directions and scale", caption, heads, columns, tuple(groups))
    return Section("ect", "How sensitive is the transform?", tables=(table,), plots=(plot,))


def dect(results: Results) -> Section | None:
    """Return LEAP beside the global DECT classifier, if that was run."""
    ours = {((False, cell.run.backbone), cell.run.dataset): cell for cell in results.usual if cell.run.is_global}
    if not ours:
        return None
    rivals = {
        ((True, backbone), dataset): cell
        for (dataset, backbone, encoding), cell in results.tested.items()
        if encoding == "leap-l" and dataset in {name for _, name in ours}
    }

    def label(row: tuple[bool, str]) -> tuple[str, ...]:
        return (f"LEAP-L ({backbone_label(row[1])})" if row[0] else backbone_label(row[1]),)

    caption = (
        "DECT reads a whole graph as one image; LEAP reads each neighbourhood. LEAP with the projection that is best "
        "on the test part. Best, second and worst of each dataset are marked."
    )

    def order(row: tuple[bool, str]) -> Any:
        return row[0], by("backbone")(row[1])

    names = ("dect", "Global DECT", caption, ("method",))
    table = _table(results, names, ours | rivals, order, label, lambda row: None, published="main")
    # All of them compete; a line between the two kinds comes after.
    (rows,) = table.groups
    count = len({row for row, _ in ours})
    groups = tuple(group for group in (rows[:count], rows[count:]) if group)
    return Section("dect", "Local or global?", tables=(replace(table, groups=groups),))


def synthetic(results: Results) -> Section | None:
    """Return the table of triads: three points, told apart by how many edges join them."""
    several = grouped((cell for cell in results.usual if cell.run.dataset == SYNTHETIC), lambda cell: cell.run.key)
    cells = {(key[1], key[2]): best_by(candidates, "test") for key, candidates in several.items()}
    if not cells:
        return None
    encodings = sorted({encoding for _, encoding in cells}, key=by("encoding"))
    caption = (
        "Three points with zero to three edges, to be told apart by the number of edges. Accuracy in percent; best, "
        "second and worst encoding of each backbone are marked."
    ) + settings_note(results, [SYNTHETIC])
    groups = grid(
        cells, encodings, by("backbone"), lambda row: (backbone_label(row),), published="synthetic", rivals="columns"
    )
    table = Table("synthetic", "Triads", caption, ("backbone",), tuple(map(encoding_label, encodings)), groups)
    return Section("synthetic", "Synthetic triads", tables=(table,))
