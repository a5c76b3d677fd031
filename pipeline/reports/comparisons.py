"""Is a difference real: paired comparisons of LEAP with each baseline, and average ranks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leap.pipeline.reports.names import BASELINES, LEAPS, against_label, backbone_label, by, counted, encoding_label
from leap.pipeline.reports.page import Section
from leap.pipeline.reports.runs import Cell, FinishedRun, Key, Results, grouped
from leap.pipeline.reports.statistics import (
    LEVEL,
    PairedTest,
    Verdict,
    average_ranks,
    holm,
    mean_and_spread,
    paired_test,
    verdict,
)
from leap.pipeline.reports.table import Table


@dataclass(frozen=True)
class BaselineTest:
    """LEAP against a baseline on one dataset with one backbone; `run` is one of LEAP's."""

    run: FinishedRun
    baseline: str
    test: PairedTest
    corrected_p: float

    @property
    def verdict(self) -> Verdict:
        """What the comparison shows about LEAP."""
        return verdict(self.test.difference, self.corrected_p)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        names = zip(("dataset", "backbone", "encoding"), self.run.key, strict=True)
        numbers = {"difference": self.test.difference, "p": self.test.p, "corrected_p": self.corrected_p}
        return {**dict(names), "against": self.baseline, **numbers, "verdict": self.verdict}


def pairs(results: Results) -> list[tuple[Cell, Cell]]:
    """Return both versions of LEAP, projections chosen by validation, beside each baseline of the same network."""
    found = results.chosen("val", also_synthetic=True)
    made = [
        (found[dataset, backbone, leap], found[dataset, backbone, baseline])
        for dataset, backbone in dict.fromkeys(key[:2] for key in found)
        for leap in LEAPS
        for baseline in BASELINES
        if {(dataset, backbone, leap), (dataset, backbone, baseline)} <= found.keys()
    ]
    return sorted(made, key=lambda pair: by("dataset", "backbone")(pair[0].run.key))


def compare(results: Results) -> list[BaselineTest]:
    """Compare LEAP with each baseline on the folds that both have; pairs with fewer than two are left out."""
    tests = [(ours.run, theirs.run.encoding, paired(ours, theirs)) for ours, theirs in pairs(results)]
    made = [(run, baseline, test) for run, baseline, test in tests if test is not None]
    corrected = holm([test.p for _, _, test in made])
    return [BaselineTest(*one, p) for one, p in zip(made, corrected, strict=True)]


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
    made, text = compare(results), []
    if made:
        fewest = min(one.test.pairs for one in made)
        shown = sum(one.verdict != "no difference shown" for one in made)
        text.append(f"{shown} of {counted(len(made), 'comparison')} show a difference.")
        if fewest <= 10:
            text[0] += (
                f" With as few as {fewest} pairs, only large differences can be shown. More seeds (--seeds) make each "
                "fold's difference steadier, more splits (--split-seed) add pairs."
            )
    untested = len(pairs(results)) - len(made)
    if untested:
        text.append(
            f"{counted(untested, 'comparison')} of LEAP with a baseline cannot be tested: the two share fewer than two "
            "folds or seeds. Train both with the same --folds, --seeds and --split-seed."
        )
    tables = (_table(made),) if made else ()
    return Section("comparisons", "Is the difference real?", tuple(text), tables) if text else None


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
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


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
