"""The answer at the top: does LEAP help, where, and at what cost, in sentences made of the numbers."""

from typing import Any

from leap.pipeline.published import lookup
from leap.pipeline.reports.names import (
    ACCURACY,
    BASELINES,
    Metric,
    backbone_label,
    backbone_order,
    dataset_label,
    encoding_label,
    joined,
    metric_of,
    minus,
)
from leap.pipeline.reports.runs import Cell
from leap.pipeline.reports.section import Results, Section
from leap.pipeline.reports.sections.comparisons import compare
from leap.pipeline.reports.sections.cost import bytes_text, epoch_ratios, seconds_text
from leap.pipeline.reports.sections.main import Key, main_cells, rankings
from leap.pipeline.reports.statistics import average_ranks
from leap.pipeline.reports.table import value_of

WITHIN = 2.0  # standard deviations
SAME = 1e-9  # means that differ by less share a place


def summary(results: Results) -> Section:
    """Return the first section of the page."""
    by_validation = main_cells(results, "val")
    facts: dict[str, Any] = {"runs": len(results.runs), "datasets": sorted({run.dataset for run in results.runs})}
    gains = _gains(by_validation)
    sentences = [
        *_outdated(results, facts),
        *_over_nothing(by_validation, facts),
        *_help(gains, facts),
        *_shown(results, facts),
        *_ranked(by_validation, facts),
        *_reproduced(main_cells(results, "test"), facts),
        *_cost(results, facts),
        *_stand_ins(results),
    ]
    if not gains:
        sentences.insert(
            0, "No dataset has runs both with LEAP and with a baseline yet, so there is nothing to compare."
        )
    return Section("summary", "In short", tuple(sentences), facts=facts)


def _outdated(results: Results, facts: dict[str, Any]) -> list[str]:
    """Say that runs on other graphs under the same name are not here."""
    if not results.outdated:
        return []
    facts["outdated"] = [run.name for run in results.outdated]
    count = len(results.outdated)
    names = joined(sorted({run.dataset for run in results.outdated}))
    return [
        f"Left out: {count} earlier run{'s' if count > 1 else ''} on other data under the name {names}. This report is "
        "about the data that was trained on last."
    ]


def _over_nothing(found: dict[Key, Cell], facts: dict[str, Any]) -> list[str]:
    """Say what LEAP adds to a network without any encoding, by backbone."""
    changes: dict[str, list[tuple[float, float]]] = {}
    for (_, backbone), here in _combinations(found):
        if "none" not in here or metric_of(here["none"].first) != ACCURACY:
            continue
        without = here["none"].mean(ACCURACY.name)
        scores = [cell.mean(ACCURACY.name) for name, cell in here.items() if name in ("leap-f", "leap-l")]
        known = [score for score in scores if score is not None]
        if without is not None and known:
            changes.setdefault(backbone, []).append((without, max(known)))
    if not changes:
        return []
    means = {
        name: tuple(sum(column) / len(pairs) for column in zip(*pairs, strict=True)) for name, pairs in changes.items()
    }
    facts["without_and_with_leap"] = {name: list(pair) for name, pair in means.items()}
    words = joined(
        [
            f"with {backbone_label(name)} from {ACCURACY.text(without)} to {ACCURACY.text(best)} %"
            for name, (without, best) in sorted(means.items(), key=lambda entry: backbone_order(entry[0]))
        ]
    )
    where = ", over all datasets" if len({key[0] for key in found}) > 1 else ""
    return [f"Compared with no encoding, LEAP changes the mean accuracy {words}{where}."]


def _combinations(found: dict[Key, Cell]) -> list[tuple[tuple[str, str], dict[str, Cell]]]:
    """Return the cells by encoding of each dataset and backbone."""
    groups: dict[tuple[str, str], dict[str, Cell]] = {}
    for (dataset, backbone, encoding), cell in sorted(found.items(), key=lambda entry: entry[0][:2]):
        groups.setdefault((dataset, backbone), {})[encoding] = cell
    return list(groups.items())


def _gains(found: dict[Key, Cell]) -> list[tuple[float, Cell, Cell]]:
    """Return, for each dataset and backbone, the gain of the better LEAP over the best baseline."""
    gains = []
    for _, here in _combinations(found):
        metric = metric_of(next(iter(here.values())).first).name
        scored = {name: (cell.mean(metric), cell) for name, cell in here.items()}
        ours = [(mean, cell) for name, (mean, cell) in scored.items() if "leap" in name and mean is not None]
        theirs = [(mean, cell) for name, (mean, cell) in scored.items() if name in BASELINES and mean is not None]
        if ours and theirs:
            top, low = max(ours, key=lambda e: e[0]), max(theirs, key=lambda e: e[0])
            gains.append((top[0] - low[0], top[1], low[1]))
    return gains


def _help(gains: list[tuple[float, Cell, Cell]], facts: dict[str, Any]) -> list[str]:
    if not gains:
        return []
    wins = [gain for gain in gains if gain[0] > -SAME]
    facts["cells"], facts["cells_won"] = len(gains), len(wins)
    places = "combination" if len(gains) == 1 else "combinations"
    sentences = [
        f"LEAP has the best mean, or shares it, in {len(wins)} of {len(gains)} {places} of dataset and backbone "
        "(projections chosen by validation)."
    ]
    largest, smallest = max(gains, key=lambda entry: entry[0]), min(gains, key=lambda entry: entry[0])
    if len(gains) == 1:
        sentences[0] += f" Its distance to the best baseline is {_gain(largest)}."
    else:
        sentences[0] += f" Against the best baseline it stands highest with {_gain(largest)}, and lowest with "
        sentences[0] += f"{_gain(smallest)}."
    return sentences


def _gain(entry: tuple[float, Cell, Cell]) -> str:
    difference, ours, theirs = entry
    run = ours.first
    metric = metric_of(run)
    against = encoding_label(theirs.first.encoding) if theirs.first.encoding != "none" else "no encoding"
    amount = f"{metric.text(difference, sign=True)}{_points(metric)}"
    where = f"on {dataset_label(run.dataset, run.stand_in_for)} with {backbone_label(run.backbone)}"
    return f"{amount} {where} ({encoding_label(run.encoding)} against {against})"


def _points(metric: Metric) -> str:
    return " percentage points" if metric.factor == 100 else f" {metric.label}"


def _shown(results: Results, facts: dict[str, Any]) -> list[str]:
    made = compare(results)
    if not made:
        return []
    better = sum(one.verdict == "better" for one in made)
    worse = sum(one.verdict == "worse" for one in made)
    facts["comparisons"] = {"all": len(made), "better": better, "worse": worse}
    rest = len(made) - better - worse
    few = " That is no proof of equality: few folds show only large differences, more seeds or splits smaller ones."
    caution = few if rest else ""
    return [
        f"Tested on the same folds and corrected for {len(made)} comparisons, LEAP is better than a baseline in "
        f"{better}, worse in {worse}, and in {rest} no difference is shown.{caution}"
    ]


def _ranked(found: dict[Key, Cell], facts: dict[str, Any]) -> list[str]:
    blocks = rankings(found)
    overall = average_ranks(list(blocks.values()))
    if not any("leap" in name for name in overall):
        return []
    facts["average_ranks"] = overall
    ordered = sorted(overall.items(), key=lambda entry: entry[1])
    words = joined([f"{encoding_label(name)} {rank:.2f}" for name, rank in ordered])
    return [f"Average ranks over {len(blocks)} combination{'s' if len(blocks) > 1 else ''} (1 is best): {words}."]


def _reproduced(found: dict[Key, Cell], facts: dict[str, Any]) -> list[str]:
    distances = []
    for (dataset, backbone, encoding), cell in found.items():
        printed = lookup("main", dataset=dataset, backbone=backbone, encoding=encoding)
        value = value_of(cell, metric_of(cell.first), printed)
        if value is not None and value.published is not None and value.distance is not None:
            distances.append(value.distance)
    if not distances:
        return []
    near = sum(abs(value) <= WITHIN for value in distances)
    facts["published"] = {"cells": len(distances), "within_two_std": near}
    return [
        f"Of the {len(distances)} cells that the paper prints too, {near} lie within two standard deviations of it "
        f"(mean distance {minus(f'{sum(distances) / len(distances):+.1f}')} σ)."
    ]


def _cost(results: Results, facts: dict[str, Any]) -> list[str]:
    ratios = epoch_ratios(results)
    known = {name: ratio for name, ratio in ratios.items() if name != "none"}
    if not known:
        return []
    facts["epoch_ratios"] = ratios
    words = joined([f"{encoding_label(name)} {ratio:.1f}×" for name, ratio in known.items()])
    sentence = f"An epoch takes, relative to one without encoding: {words}."
    made = [run for run in results.shown if run.has_leap and run.preprocessing_seconds is not None]
    if made:
        dearest = max(made, key=lambda run: run.preprocessing_seconds or 0)
        size = f" and {bytes_text(dearest.preprocessing_bytes)} of store" if dearest.preprocessing_bytes else ""
        sentence += (
            f" Preprocessing for LEAP took at most {seconds_text(dearest.preprocessing_seconds or 0)}{size} "
            f"({dataset_label(dearest.dataset, dearest.stand_in_for)}), once for all runs."
        )
    return [sentence]


def _stand_ins(results: Results) -> list[str]:
    names = [dataset_label(name, real) for name, real in sorted(results.stand_ins.items())]
    if not names:
        return []
    verb = "is a generated dataset" if len(names) == 1 else "are generated datasets"
    return [f"{joined(names)} {verb}: no published numbers belong to {'it' if len(names) == 1 else 'them'}."]
