"""The first section: the answer, then what the numbers of all datasets together say."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from leap.pipeline.reports.answer import Answer
from leap.pipeline.reports.comparisons import BaselineTest, against_baselines, p_sign, p_text, pairs, rankings
from leap.pipeline.reports.cost import bytes_text, epoch_ratios, seconds_text
from leap.pipeline.reports.names import (
    ACCURACY,
    BASELINES,
    LEAPS,
    Metric,
    against_label,
    backbone_label,
    by,
    counted,
    dataset_label,
    encoding_label,
    has_leap,
    joined,
)
from leap.pipeline.reports.page import Section
from leap.pipeline.reports.reproduction import SAME, reproduction, sentences
from leap.pipeline.reports.runs import Cell, Results, grouped
from leap.pipeline.reports.statistics import average_ranks, mean_and_spread

Facts = dict[str, Any]
Scored = dict[str, tuple[float, Cell]]  # by encoding, the mean


def summary(results: Results, whole: Answer, each: Sequence[Answer]) -> Section:
    """Return the first section of the page, which begins with the answer."""
    facts: Facts = {
        "runs": len(results.runs),
        "datasets": sorted({run.dataset for run in results.runs}),
        "answer": whole.facts,
        "answers": [one.facts for one in each],
    }
    networks = [
        {cell.run.encoding: (mean, cell) for cell in cells if (mean := cell.mean()) is not None}
        for _, cells in sorted(grouped(results.validated.values(), lambda cell: cell.run.key[:2]).items())
    ]
    over_datasets = [_shown(results, facts), _over_nothing(networks, facts), _over_baselines(networks, facts)]
    paragraphs = [
        whole.text,
        *(over_datasets if len(each) > 1 else []),  # with one dataset the answer says it all
        _ranked(results, facts),
        _reproduced(results, facts),
        _cost(results, facts),
        _stand_ins(results),
        _outdated(results, facts),
        _without_score(results, facts),
    ]
    return Section("summary", "In short", tuple(filter(None, paragraphs)), facts=facts)


def _over_nothing(networks: list[Scored], facts: Facts) -> str:
    """Say what LEAP adds to a network without any encoding, by backbone."""
    changes: dict[str, list[tuple[float, float]]] = {}
    datasets, leaps = set(), set()
    for scored in networks:
        ours = [scored[name] for name in LEAPS if name in scored]
        if "none" in scored and ours and scored["none"][1].run.metric == ACCURACY:
            run = ours[0][1].run
            best = max(mean for mean, _ in ours)
            changes.setdefault(run.backbone, []).append((scored["none"][0], best))
            datasets.add(run.dataset)
            leaps |= {cell.run.encoding for _, cell in ours}
    if not changes:
        return ""
    means = {
        name: [mean_and_spread(column)[0] for column in zip(*changes[name], strict=True)]
        for name in sorted(changes, key=by("backbone"))
    }
    facts["without_and_with_leap"] = means
    words = joined(
        [
            f"from {ACCURACY.text(without)} to {ACCURACY.text(best)} % for {backbone_label(name)}"
            for name, (without, best) in means.items()
        ]
    )
    where = f", averaged over {len(datasets)} datasets" if len(datasets) > 1 else ""
    names = [encoding_label(name) for name in LEAPS if name in leaps]
    which = f" ({' or '.join(names)}, whichever is better)" if len(names) > 1 else ""
    return f"With LEAP{which} instead of no encoding, mean accuracy goes {words}{where}."


def _over_baselines(networks: list[Scored], facts: Facts) -> str:
    """Say how far the better LEAP stands above the best baseline, over datasets and backbones."""
    gains = []
    for scored in networks:
        ours = [entry for name, entry in scored.items() if has_leap(name)]
        theirs = [scored[name] for name in BASELINES if name in scored]
        if ours and theirs:
            (top, winner), (low, rival) = (max(entries, key=lambda entry: entry[0]) for entries in (ours, theirs))
            gains.append((top - low, winner, rival))
    if not gains:
        return ""
    wins = sum(gain > -SAME for gain, _, _ in gains)
    facts["cells"], facts["cells_won"] = len(gains), wins
    least, most = (choose(gains, key=lambda entry: entry[0]) for choose in (min, max))
    margin = f"ranges from {_gain(*least)} to {_gain(*most)}" if len(gains) > 1 else f"is {_gain(*most)}"
    return (
        f"LEAP has the highest mean, alone or shared, in {wins} of {counted(len(gains), 'combination')} of dataset and "
        f"backbone (projections chosen by validation). Its margin over the best baseline {margin}."
    )


def _gain(difference: float, ours: Cell, theirs: Cell) -> str:
    run = ours.run
    where = f"on {run.label} with {backbone_label(run.backbone)}"
    methods = f"{encoding_label(run.encoding)} against {against_label(theirs.run.encoding)}"
    return f"{run.metric.text(difference, sign=True)} {run.metric.points} {where} ({methods})"


def _shown(results: Results, facts: Facts) -> str:
    """Say which differences from a baseline are shown, how large they are and how surely."""
    made = against_baselines(results)
    if not made:
        return (
            "Whether LEAP differs from a baseline cannot be tested: they share fewer than two folds or seeds."
            if pairs(results)
            else ""
        )
    by_verdict = {wanted: [one for one in made if one.verdict == wanted] for wanted in ("better", "worse")}
    facts["comparisons"] = {
        "all": len(made),
        **{wanted: len(found) for wanted, found in by_verdict.items()},
        "shown": [one.as_json() for found in by_verdict.values() for one in found],
    }
    shown = [one for found in by_verdict.values() for one in found]
    rest = len(made) - len(shown)
    unit = "seed" if all(one.test.over == "seeds" for one in made) else "fold"
    how = f"paired by {unit} and corrected for the {counted(len(made), 'comparison')} of this report"
    caution = f"which does not prove the methods equal: with few {unit}s only large differences show"
    if not shown:
        least = p_text(min(one.corrected_p for one in made))
        return (
            f"No difference between LEAP and a baseline is shown, {caution}. The smallest p-value, {how}, is {least}."
        )
    told = [f"LEAP is shown to be {what} {_against(found, made)}." for what, found in by_verdict.items() if found]
    told += [_largest(shown)] if len(shown) > 1 else []
    told.append(
        (f"{counted(rest, 'comparison')} show{'s' if rest == 1 else ''} no difference, {caution}. " if rest else "")
        + f"All p-values are {how}."
    )
    single = sorted({one.run.label for one in shown if one.test.over == "seeds"})
    told += [f"On {joined(single)} they are about other seeds alone, as there is one split."] if single else []
    return " ".join(told)


def _against(shown: list[BaselineTest], made: list[BaselineTest]) -> str:
    """Return, for each baseline, in how many comparisons a difference is shown, its sizes and the largest p."""
    words: list[str] = []
    for baseline in BASELINES:
        found = [one for one in shown if one.baseline == baseline]
        if found:
            total = sum(one.baseline == baseline for one in made)
            total_text = str(total) if words else counted(total, "comparison")
            by_metric = grouped(found, lambda one: one.run.metric)
            sizes = joined([_sizes(metric, of_metric) for metric, of_metric in by_metric.items()])
            p = p_sign([one.corrected_p for one in found])
            words.append(f"than {against_label(baseline)} in {len(found)} of {total_text}, by {sizes} (p {p})")
    return "; ".join(words)


def _largest(shown: list[BaselineTest]) -> str:
    """Name the largest difference; among metrics, which do not compare, of the one that most are in."""
    most = max(grouped(shown, lambda one: one.run.metric).values(), key=len)
    one = max(most, key=lambda one: abs(one.test.difference))
    run = one.run
    return (
        f"The largest difference is {run.metric.text(one.test.difference, sign=True)} {run.metric.points}: "
        f"{encoding_label(run.encoding)} against {against_label(one.baseline)} on {run.label} with "
        f"{backbone_label(run.backbone)} (p {p_sign([one.corrected_p])})."
    )


def _sizes(metric: Metric, found: list[BaselineTest]) -> str:
    sizes = sorted(abs(one.test.difference) for one in found)
    ends = dict.fromkeys(metric.text(size) for size in (sizes[0], sizes[-1]))
    return f"{' to '.join(ends)} {metric.points}"


def _ranked(results: Results, facts: Facts) -> str:
    blocks = list(rankings(results.validated).values())
    overall = average_ranks(blocks)
    if not any(has_leap(name) for name in overall):
        return ""
    facts["average_ranks"] = overall
    ordered = sorted(overall.items(), key=lambda entry: entry[1])
    words = joined([f"{encoding_label(name)} {rank:.2f}" for name, rank in ordered])
    return f"Average ranks over {counted(len(blocks), 'combination')} (1 is best): {words}."


def _reproduced(results: Results, facts: Facts) -> str:
    found = reproduction(results)
    if not found.values:
        return ""
    facts["published"] = {
        "cells": len(found.values),
        "within_two_std": found.within,
        "mean_distance": mean_and_spread(found.distances)[0],
        "leap": asdict(found.ours),
        "leap_published": asdict(found.theirs),
    }
    return " ".join(sentences(found))


def _cost(results: Results, facts: Facts) -> str:
    ratios = epoch_ratios(results)
    words = joined([f"{encoding_label(name)} {ratio:.1f}×" for name, ratio in ratios.items() if name != "none"])
    if not words:
        return ""
    facts["epoch_ratios"] = ratios
    sentence = f"Time of an epoch relative to no encoding: {words}."
    made = [run for run in results.shown if has_leap(run.encoding) and run.preprocessing_seconds is not None]
    if made:
        dearest = max(made, key=lambda run: run.preprocessing_seconds or 0)
        size = f" and {bytes_text(dearest.preprocessing_bytes)} in the store" if dearest.preprocessing_bytes else ""
        sentence += (
            f" Preprocessing for LEAP took at most {seconds_text(dearest.preprocessing_seconds or 0)}{size}, on "
            f"{dearest.label}, once for all runs."
        )
    return sentence


def _stand_ins(results: Results) -> str:
    found = {run.dataset: run.stand_in_for for run in results.runs if run.stand_in_for}
    if not found:
        return ""
    names = joined([dataset_label(name, real) for name, real in sorted(found.items())])
    return (
        f"{names} is a generated dataset: no published numbers apply to it."
        if len(found) == 1
        else f"{names} are generated datasets: no published numbers apply to them."
    )


def _outdated(results: Results, facts: Facts) -> str:
    """Say that runs on other graphs under the same name are not here."""
    if not results.outdated:
        return ""
    facts["outdated"] = [run.name for run in results.outdated]
    names = joined(sorted({run.dataset for run in results.outdated}))
    return (
        f"Left out: {counted(len(results.outdated), 'earlier run')} on other data under the name {names}. This report "
        "is about the data that was trained on last."
    )


def _without_score(results: Results, facts: Facts) -> str:
    """Say which folds have no score, so that a mean over the others is not mistaken for one over all."""
    counts = {run.name: len(run.folds) - len(run.scores()) for run in results.runs}
    found = {name: count for name, count in counts.items() if count}
    if not found:
        return ""
    facts["folds_without_score"] = found
    shown = joined([*list(found)[:3], *([f"{len(found) - 3} more"] if len(found) > 3 else [])])
    return (
        f"No score, because it is not a number: {counted(sum(found.values()), 'fold')} of {shown}. The means are over "
        "the other folds."
    )


def dataset_by_dataset(each: Sequence[Answer]) -> Section | None:
    """Return the answers of several datasets, where something was compared at all."""
    if len(each) < 2 or not any(one.facts["comparisons"] for one in each):
        return None
    return Section("answers", "Dataset by dataset", tuple(f"{one.headline} {one.details}" for one in each))
