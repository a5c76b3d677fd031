"""The main table in the paper's layout: backbones and encodings in rows, datasets in columns."""

from collections import Counter

from leap.pipeline.datasets import dataset_card
from leap.pipeline.published import lookup
from leap.pipeline.reports.names import (
    SYNTHETIC,
    backbone_label,
    backbone_order,
    encoding_label,
    encoding_order,
    metric_of,
)
from leap.pipeline.reports.runs import OWN, PROTOCOL, SIZE, Cell, Run
from leap.pipeline.reports.section import Results, Section, column_labels, datasets_of
from leap.pipeline.reports.selection import best_by
from leap.pipeline.reports.statistics import average_ranks
from leap.pipeline.reports.table import Table, Value, marked, value_of

Key = tuple[str, str, str]  # dataset, backbone, encoding
MARKS = "Best, second and worst encoding of each backbone are marked."


def main_cells(results: Results, part: str) -> dict[Key, Cell]:
    """Return the cells of the main table; among projections, the best by the "test" or the "val" part."""
    groups: dict[Key, list[Cell]] = {}
    for cell in results.usual:
        run = cell.first
        if run.dataset != SYNTHETIC and not run.backbone.startswith("dect-"):
            groups.setdefault((run.dataset, run.backbone, run.encoding), []).append(cell)
    chosen = {key: best_by(group, part) for key, group in groups.items()}
    return {key: cell for key, cell in chosen.items() if cell is not None}


def main(results: Results) -> Section | None:
    """Return the tables of accuracies, and the average ranks."""
    by_test = main_cells(results, "test")
    if not by_test:
        return None
    by_validation = main_cells(results, "val")
    is_choice = any(by_test[key].first.projection != by_validation[key].first.projection for key in by_test)
    of_cell = Counter((cell.first.dataset, cell.first.backbone, cell.first.encoding) for cell in results.usual)
    are_several = any(of_cell[key] > 1 for key in by_test)
    tables = []
    if is_choice:
        tables.append(
            _table(
                results,
                by_validation,
                "main-by-validation",
                "Our own result: projection chosen by validation",
                "Mean ± standard deviation of the test score over folds and seeds; LEAP with the projection "
                f"that is best on the validation part. {MARKS}",
                with_published=False,
            )
        )
    how = "with the projection that is best on the test part, as in the paper" if are_several else ""
    left_out = len(results.runs) - len(results.shown)
    tables.append(
        _table(
            results,
            by_test,
            "main",
            "As in the paper: projection chosen by test" if is_choice else "Encodings and backbones",
            " ".join(
                [
                    f"Mean ± standard deviation over folds and seeds{', ' + how if how else ''}.",
                    *(["Validation chooses the same projections."] if are_several and not is_choice else []),
                    MARKS,
                    *([f"{left_out} runs with other settings than these are left out."] if left_out else []),
                ]
            )
            + settings_note(results, datasets_of(by_test.values())),
            with_published=True,
        )
    )
    ranks = _ranks(by_validation)
    return Section("main", "Does LEAP help?", tables=(*tables, *([ranks] if ranks else [])))


def _table(
    results: Results, found: dict[Key, Cell], name: str, title: str, caption: str, *, with_published: bool
) -> Table:
    datasets = datasets_of(found.values())
    backbones = sorted({key[1] for key in found}, key=backbone_order)
    groups = []
    for backbone in backbones:
        encodings = sorted({key[2] for key in found if key[1] == backbone}, key=encoding_order)
        columns: list[list[Value | None]] = []
        for dataset in datasets:
            values = []
            for encoding in encodings:
                cell = found.get((dataset, backbone, encoding))
                printed = lookup("main", dataset=dataset, backbone=backbone, encoding=encoding)
                metric = metric_of(cell.first) if cell else None
                detail = (cell.first.projection or "") if cell else ""
                shown = printed if with_published else None
                values.append(value_of(cell, metric, shown, detail) if metric else None)
            columns.append(marked(values))
        groups.append(
            tuple(
                (backbone_label(backbone), encoding_label(encoding), *(column[row] for column in columns))
                for row, encoding in enumerate(encodings)
            )
        )
    names, lines = column_labels(results, datasets)
    return Table(name, title, caption, ("backbone", "encoding"), names, tuple(groups), lines)


def settings_note(results: Results, datasets: list[str]) -> str:
    """Return sentences that say which of these datasets were trained otherwise than in the paper; empty if none."""
    differing: dict[str, list[str]] = {}
    for dataset in datasets:
        found: dict[str, set[str]] = {}
        for run in (cell.first for cell in results.usual if cell.first.dataset == dataset):
            for name, value in _deviations(run).items():
                found.setdefault(name, set()).add(value)
        if found:
            words = ", ".join(f"{name} {'/'.join(sorted(values))}" for name, values in found.items())
            differing.setdefault(words, []).append(dataset)
    return "".join(
        f" Settings other than the paper's ({', '.join(names)}): {words}." for words, names in differing.items()
    )


def _deviations(run: Run) -> dict[str, str]:
    """Return the settings in which a run differs from the paper's, as words."""
    published = PROTOCOL | SIZE | OWN | dataset_card(run.dataset).published_settings
    used = run.protocol | run.size | run.own
    differing = {name: value for name, value in used.items() if value is not None and value != published[name]}
    return {name.replace("epochs_at_most", "epochs").replace("_", " "): str(value) for name, value in differing.items()}


def rankings(found: dict[Key, Cell]) -> dict[tuple[str, str], dict[str, float]]:
    """Return the means by encoding of every dataset and backbone that has the largest set of encodings."""
    blocks: dict[tuple[str, str], dict[str, float]] = {}
    for (dataset, backbone, encoding), cell in found.items():
        mean = cell.mean(metric_of(cell.first).name)
        if mean is not None and "+" not in encoding:
            blocks.setdefault((dataset, backbone), {})[encoding] = mean
    wanted = max(
        (set(block) for block in blocks.values()), key=lambda names: (len(names), sorted(names)), default=set()
    )
    if len(wanted) < 2:
        return {}
    return {
        key: {name: block[name] for name in sorted(wanted, key=encoding_order)}
        for key, block in blocks.items()
        if wanted <= set(block)
    }


def _ranks(found: dict[Key, Cell]) -> Table | None:
    blocks = rankings(found)
    if not blocks:
        return None
    backbones = sorted({backbone for _, backbone in blocks}, key=backbone_order)
    overall = average_ranks(list(blocks.values()))
    each = {name: average_ranks([block for key, block in blocks.items() if key[1] == name]) for name in backbones}
    counts = [f"{sum(key[1] == name for key in blocks)} datasets" for name in backbones]
    rows = tuple(
        (encoding_label(encoding), *(f"{each[name][encoding]:.2f}" for name in backbones), f"{overall[encoding]:.2f}")
        for encoding in overall
    )
    return Table(
        "ranks",
        "Average ranks",
        "Rank of each encoding by its mean, 1 is best, averaged over the datasets on which all of these were run; ties "
        "share a rank. Projections chosen by validation.",
        ("encoding",),
        (*(backbone_label(name) for name in backbones), "all"),
        (rows,),
        (*(count.replace("1 datasets", "1 dataset") if count.startswith("1 ") else count for count in counts), ""),
    )
