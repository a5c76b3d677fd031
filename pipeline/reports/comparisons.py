"""Is a difference real: paired comparisons of encodings, and their ranks over datasets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from leap.pipeline.reports.figures import Difference, draw_differences, draw_ranks
from leap.pipeline.reports.names import (
    BASELINES,
    LEAPS,
    against_label,
    backbone_label,
    by,
    counted,
    encoding_label,
    has_leap,
    joined,
)
from leap.pipeline.reports.page import Panel, Plot, Section
from leap.pipeline.reports.runs import Cell, FinishedRun, Key, Results, best_by, grouped
from leap.pipeline.reports.statistics import (
    LEVEL,
    PairedTest,
    RankTest,
    Verdict,
    average_ranks,
    holm,
    mean_and_spread,
    paired_test,
    rank_test,
    verdict,
)
from leap.pipeline.reports.table import Table

FEWEST_DATASETS = 6  # with which the same order everywhere is no chance any more: 2 / 2⁶ < 0.05
MOST_PANELS = 12


@dataclass(frozen=True)
class BaselineTest:
    """An encoding against a baseline on one dataset with one backbone; `run` is one of the encoding's."""

    run: FinishedRun
    baseline: str
    test: PairedTest
    corrected_p: float

    @property
    def verdict(self) -> Verdict:
        """What the comparison shows about the encoding."""
        return verdict(self.test.difference, self.corrected_p)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        names = zip(("dataset", "backbone", "encoding"), self.run.key, strict=True)
        numbers = {"difference": self.test.difference, "p": self.test.p, "corrected_p": self.corrected_p}
        return {**dict(names), "against": self.baseline, **numbers, "verdict": self.verdict}


def pairs(results: Results) -> list[tuple[Cell, Cell]]:
    """Return the versions of LEAP, projections chosen by validation, beside each baseline of the same network."""
    found = results.chosen("val", also_synthetic=True)
    made = [
        (found[dataset, backbone, leap], found[dataset, backbone, baseline])
        for dataset, backbone in dict.fromkeys(key[:2] for key in found)
        for leap in LEAPS
        for baseline in BASELINES
        if {(dataset, backbone, leap), (dataset, backbone, baseline)} <= found.keys()
    ]
    return sorted(made, key=lambda pair: by("dataset", "backbone")(pair[0].run.key))


def against_baselines(results: Results) -> list[BaselineTest]:
    """Compare LEAP with each baseline; p is corrected for all of these comparisons."""
    return tested(pairs(results))


def tested(cells: Iterable[tuple[Cell, Cell]]) -> list[BaselineTest]:
    """Compare cells on the folds that both have; pairs with fewer than two are left out."""
    tests = [(ours.run, theirs.run.encoding, paired(ours, theirs)) for ours, theirs in cells]
    made = [(run, baseline, test) for run, baseline, test in tests if test is not None]
    corrected = holm([test.p for _, _, test in made])
    return [BaselineTest(*one, p) for one, p in zip(made, corrected, strict=True)]


Networks = dict[str, dict[str, Cell]]  # by backbone and encoding


def networks_of(results: Results) -> dict[str, Networks]:
    """Return all cells with a score by dataset, backbone and encoding, projections chosen by validation."""
    found: dict[str, Networks] = {}
    cells = results.chosen("val", also_synthetic=True)
    for key in sorted(cells, key=by("dataset", "backbone", "encoding")):
        if cells[key].mean() is not None:
            found.setdefault(key[0], {}).setdefault(key[1], {})[key[2]] = cells[key]
    return found


def best_leap(cells: Mapping[str, Cell]) -> Cell | None:
    """Return the LEAP with the best validation score among the encodings of a network."""
    ours = [cell for name, cell in cells.items() if has_leap(name)]
    return best_by(ours, "val") if ours else None


def best_other(cells: Mapping[str, Cell]) -> Cell | None:
    """Return the encoding without LEAP that has the best validation score."""
    others = [cell for name, cell in cells.items() if name != "none" and not has_leap(name)]
    return best_by(others, "val") if others else None


def gains(networks: Networks) -> list[BaselineTest]:
    """Compare every encoding with none, and the best LEAP with the best other encoding, on one dataset.

    p is corrected for these comparisons alone: what a dataset shows does not depend on which others are in a report.
    """
    compared: list[tuple[Cell, Cell]] = []
    for cells in networks.values():
        compared += [(cell, cells["none"]) for name, cell in cells.items() if "none" in cells and name != "none"]
        ours, theirs = best_leap(cells), best_other(cells)
        compared += [(ours, theirs)] if ours is not None and theirs is not None else []
    return tested(compared)


def paired(first: Cell, second: Cell) -> PairedTest | None:
    """Compare two cells over the folds and seeds that both have."""
    ours, theirs = first.scores(), second.scores()
    by_fold = first.by_fold({key: ours[key] - theirs[key] for key in ours.keys() & theirs.keys()})
    if not by_fold:
        return None
    ratio, _ = mean_and_spread([fold.test_to_train for run in first.runs for fold in run.folds])
    return paired_test(by_fold, ratio)


def comparisons(results: Results) -> Section | None:
    """Return the table of paired comparisons, and what could not be compared."""
    made, text = against_baselines(results), []
    if made:
        fewest = min(one.test.pairs for one in made)
        shown = sum(one.verdict != "no difference shown" for one in made)
        text.append(f"{shown} of {counted(len(made), 'comparison')} show a difference.")
        if fewest <= 10:
            text[0] += f" With as few as {fewest} pairs, only large differences can be shown. {_more_pairs(made)}"
    untested = len(pairs(results)) - len(made)
    if untested:
        text.append(
            f"{counted(untested, 'comparison')} of LEAP with a baseline cannot be tested: the two share fewer than two "
            "folds or seeds. Train both with the same --folds, --seeds and --split-seed."
        )
    tables = (_table(made),) if made else ()
    tested_ranks, sentence = over_datasets(results)
    plots = [plot for plot in (_ranks_plot(tested_ranks), _differences_plot(results)) if plot]
    text += [sentence] if plots and sentence else []
    if not text:
        return None
    return Section("comparisons", "Is the difference real?", tuple(text), tables, tuple(plots))


def _more_pairs(made: Sequence[BaselineTest]) -> str:
    """Say what would show more."""
    if all(one.test.over == "seeds" for one in made):
        return "There is one split: more seeds (--seeds) add pairs."
    if all(one.run.splits == "official" for one in made):
        return "More seeds (--seeds) make each official split's difference steadier."
    return "More seeds (--seeds) make each fold's difference steadier, more splits (--split-seed) add pairs."


def over_datasets(results: Results) -> tuple[RankTest | None, str]:
    """Test ranks over datasets, each counted once, and say what that shows; None where there are too few."""
    blocks = grouped(rankings(results.validated).items(), lambda item: item[0][0])
    if len(blocks) < 2:
        return None, ""
    if len(blocks) < FEWEST_DATASETS:
        return None, (
            f"Ranks over {counted(len(blocks), 'dataset')} cannot be tested: with fewer than {FEWEST_DATASETS} even "
            "the same order everywhere may be chance. The differences on each dataset stand instead, with intervals."
        )
    averages = [average_ranks([block for _, block in of_dataset]) for of_dataset in blocks.values()]
    test = rank_test([{name: -rank for name, rank in average.items()} for average in averages])
    how = f"Over {len(blocks)} datasets, each ranked by the average over its backbones,"
    if test.p >= LEVEL:
        return test, f"{how} the ranks of the encodings show no difference (Friedman's test, p {p_sign([test.p])})."
    groups = "; ".join(joined(list(map(encoding_label, group))) for group in test.alike())
    rest = f"no difference is shown among {groups}" if groups else "all of them differ"
    return test, (
        f"{how} the ranks of the encodings differ (Friedman's test, p {p_sign([test.p])}). By Nemenyi's critical "
        f"difference, {test.critical_difference:.2f} ranks, {rest}."
    )


def _ranks_plot(test: RankTest | None) -> Plot | None:
    if test is None:
        return None
    numbers = ", ".join(f"{encoding_label(name)} {rank:.2f}" for name, rank in test.ranks.items())
    draw = partial(draw_ranks, test.ranks, test.critical_difference / 2, f"Average ranks over {test.datasets} datasets")
    panel = Panel("critical-difference", f"Average ranks with critical difference: {numbers}", draw)
    rule = (
        "Each bar is as long as Nemenyi's critical difference: where two of them overlap, no difference is shown."
        if test.p < LEVEL
        else "Friedman's test shows no difference among the ranks, so bars that do not overlap mean nothing either."
    )
    return Plot(f"Average rank of each encoding, with its bar. {rule}", (panel,))


def _differences_plot(results: Results) -> Plot | None:
    """Return what each encoding adds to the same network without one, for each dataset."""
    panels = []
    for networks in networks_of(results).values():
        tests = [one for one in gains(networks) if one.baseline == "none"]
        if not tests:
            continue
        run, groups = tests[0].run, dict[str, dict[str, Difference]]()
        for one in tests:
            sizes = (one.test.difference, *one.test.interval())
            mean, low, high = (size * run.metric.factor for size in sizes)
            shown = Difference(mean, low, high, one.verdict != "no difference shown")
            groups.setdefault(backbone_label(one.run.backbone), {})[one.run.encoding] = shown
        words = [
            f"{encoding_label(one.run.encoding)} with {backbone_label(one.run.backbone)} "
            f"{run.metric.text(one.test.difference, sign=True)}"
            for one in tests
        ]
        alt = f"Difference from no encoding on {run.label} in {run.metric.points}: {', '.join(words)}"
        label = f"{run.metric.points} against no encoding"
        panels.append(Panel(f"differences-{run.dataset}", alt, partial(draw_differences, groups, run.label, label)))
    if not panels:
        return None
    caption = (
        "What each encoding adds to the same network without one: mean and 95 % interval of the corrected resampled "
        "t-test. A full dot marks a difference that is shown, corrected by Holm's method for the comparisons of its "
        "dataset as in the opening paragraph; a hollow one marks no difference shown."
    )
    return Plot(caption, tuple(panels[:MOST_PANELS]))


def _table(made: list[BaselineTest]) -> Table:
    rows = [
        (
            one.run.label,
            backbone_label(one.run.backbone),
            encoding_label(one.run.encoding),
            against_label(one.baseline),
            one.run.metric.text(one.test.difference, sign=True),
            p_text(one.test.p),
            p_text(one.corrected_p),
            one.verdict,
        )
        for one in made
    ]
    single = ", ".join(sorted({one.run.label for one in made if one.test.over == "seeds"}))
    warning = (
        f" On {single} there is one split, and the ordinary t-test compares seeds: it says nothing about other splits "
        "of the data."
    )
    return Table(
        "comparisons",
        "LEAP against each baseline",
        "Corrected resampled t-test (Nadeau and Bengio) on the same folds, two-sided; several seeds are averaged "
        f"within each fold. p is corrected for the {len(made)} comparisons of this table by Holm's method, and below "
        f"{LEVEL:g} a difference counts as shown. Differences of accuracy are in percentage points."
        + (warning if single else ""),
        ("dataset", "backbone", "encoding", "against"),
        ("difference", "p", "p (Holm)", "verdict"),
        tuple(tuple(group) for group in grouped(rows, lambda row: row[0]).values()),
    )


def p_text(value: float) -> str:
    """Return a p-value as it is printed."""
    if value < LEVEL and f"{value:.3f}" == f"{LEVEL:.3f}":  # it counts as shown, and must look so
        return f"< {LEVEL:.3f}"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def p_sign(values: Sequence[float]) -> str:
    """Return the largest of p-values after the sign that says so."""
    text = p_text(max(values))
    return text if text.startswith("<") else f"{'=' if len(values) == 1 else '≤'} {text}"


def rankings(found: Mapping[Key, Cell]) -> dict[tuple[str, str], dict[str, float]]:
    """Return the means by encoding of every dataset and backbone that has the largest set of encodings."""
    blocks: dict[tuple[str, str], dict[str, float]] = {}
    for (dataset, backbone, encoding), cell in found.items():
        mean = cell.mean()
        if mean is not None and "+" not in encoding:
            blocks.setdefault((dataset, backbone), {})[encoding] = mean
    wanted = max(map(set, blocks.values()), key=lambda names: (len(names), sorted(names)), default=set())
    if len(wanted) < 2:
        return {}
    ordered = sorted(wanted, key=by("encoding"))
    return {key: {name: block[name] for name in ordered} for key, block in blocks.items() if wanted <= set(block)}


def rank_table(found: Mapping[Key, Cell]) -> Table | None:
    """Return the table of average ranks."""
    blocks = rankings(found)
    if not blocks:
        return None
    backbones = sorted({backbone for _, backbone in blocks}, key=by("backbone"))
    of_backbone = {name: [block for key, block in blocks.items() if key[1] == name] for name in backbones}
    columns = [*(average_ranks(of_backbone[name]) for name in backbones), average_ranks(list(blocks.values()))]
    rows = tuple(
        (encoding_label(encoding), *(f"{column[encoding]:.2f}" for column in columns)) for encoding in columns[-1]
    )
    return Table(
        "ranks",
        "Average ranks",
        "Rank of each encoding by its mean, 1 is best, averaged over the datasets on which all of these were run; ties "
        "share a rank. Projections chosen by validation.",
        ("encoding",),
        (*map(backbone_label, backbones), "all"),
        (rows,),
        (*(counted(len(of_backbone[name]), "dataset") for name in backbones), ""),
    )
