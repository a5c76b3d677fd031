"""Paired comparisons of LEAP with each baseline, so that "better" means something."""

from dataclasses import dataclass

from leap.pipeline.reports.names import (
    BASELINES,
    Metric,
    backbone_label,
    backbone_order,
    dataset_label,
    dataset_order,
    encoding_label,
    metric_of,
)
from leap.pipeline.reports.runs import Cell
from leap.pipeline.reports.section import Results, Section
from leap.pipeline.reports.sections.main import main_cells
from leap.pipeline.reports.statistics import (
    LEVEL,
    PairedTest,
    Verdict,
    holm,
    mean_and_spread,
    paired_test,
    verdict,
)
from leap.pipeline.reports.table import Table


@dataclass(frozen=True)
class Comparison:
    """LEAP against a baseline on one dataset with one backbone."""

    dataset: str
    stand_in_for: str | None
    backbone: str
    encoding: str
    baseline: str
    metric: Metric
    test: PairedTest
    corrected_p: float
    verdict: Verdict


def compare(results: Results) -> list[Comparison]:
    """Compare both versions of LEAP, projections chosen by validation, with each baseline on the same folds."""
    found = main_cells(results, "val")
    pairs = []
    for (dataset, backbone, encoding), cell in found.items():
        if not cell.first.has_leap or "+" in encoding:
            continue
        for baseline in BASELINES:
            other = found.get((dataset, backbone, baseline))
            test = None if other is None else paired(cell, other)
            if test is not None:
                pairs.append(((dataset, backbone, encoding, baseline), cell, test))
    corrected = holm([test.p for _, _, test in pairs])
    made = [
        Comparison(
            dataset,
            cell.first.stand_in_for,
            backbone,
            encoding,
            baseline,
            metric_of(cell.first),
            test,
            p,
            verdict(test.difference, p),
        )
        for ((dataset, backbone, encoding, baseline), cell, test), p in zip(pairs, corrected, strict=True)
    ]
    order = {name: place for place, name in enumerate(BASELINES)}
    return sorted(
        made,
        key=lambda one: (dataset_order(one.dataset), backbone_order(one.backbone), one.encoding, order[one.baseline]),
    )


def paired(first: Cell, second: Cell) -> PairedTest | None:
    """Compare two cells over the folds and seeds that both have."""
    metric = metric_of(first.first).name
    ours, theirs = first.scores(metric), second.scores(metric)
    # Masks of a node task are the dataset's own, whatever the split seed.
    has_masks = first.first.task == "node-classification"
    by_fold: dict[tuple[int, int], list[float]] = {}
    for seed, split_seed, fold in sorted(ours.keys() & theirs.keys()):
        difference = ours[seed, split_seed, fold] - theirs[seed, split_seed, fold]
        by_fold.setdefault((0 if has_masks else split_seed, fold), []).append(difference)
    if not by_fold:
        return None
    ratio, _ = mean_and_spread([fold.test_to_train for run in first.runs for fold in run.folds])
    return paired_test(list(by_fold.values()), ratio)


def comparisons(results: Results) -> Section | None:
    """Return the table of paired comparisons."""
    made = compare(results)
    if not made:
        return None
    groups: dict[str, list[tuple[str, ...]]] = {}
    for one in made:
        groups.setdefault(one.dataset, []).append(
            (
                dataset_label(one.dataset, one.stand_in_for),
                backbone_label(one.backbone),
                encoding_label(one.encoding),
                encoding_label(one.baseline) if one.baseline != "none" else "no encoding",
                one.metric.text(one.test.difference, sign=True),
                _p(one.test.p),
                _p(one.corrected_p),
                one.verdict,
            )
        )
    table = Table(
        "comparisons",
        "LEAP against each baseline",
        "Corrected resampled t-test (Nadeau and Bengio) on the same folds, two-sided; several seeds are averaged "
        f"within each fold. p is corrected for the {len(made)} comparisons of this table by Holm's method, and below "
        f"{LEVEL:g} a difference counts as shown. Differences of accuracy are in percentage points.{_single(made)}",
        ("dataset", "backbone", "encoding", "against"),
        ("difference", "p", "p (Holm)", "verdict"),
        tuple(tuple(rows) for rows in groups.values()),
    )
    fewest = min(one.test.pairs for one in made)
    more = (
        f" With {fewest} pairs only large differences can be shown. Further seeds (--seed) make each fold's difference "
        "steadier, further splits (--split-seed) add pairs."
    )
    shown = sum(one.verdict != "no difference shown" for one in made)
    text = f"{shown} of {len(made)} comparisons show a difference.{more if fewest <= 10 else ''}"
    return Section("comparisons", "Is the difference real?", (text,), (table,))


def _single(made: list[Comparison]) -> str:
    """Say which comparisons rest on one split."""
    names = sorted({dataset_label(one.dataset, one.stand_in_for) for one in made if one.test.over == "seeds"})
    if not names:
        return ""
    return (
        f" On {', '.join(names)} there is one split, and the ordinary t-test compares seeds: it says nothing about "
        "other splits of the data."
    )


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
