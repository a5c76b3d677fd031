"""The answer: does LEAP help on a dataset, by how much, how surely, at what cost, and which encoding to take."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from leap.pipeline.reports.comparisons import (
    BaselineTest,
    Networks,
    best_leap,
    best_other,
    gains,
    networks_of,
    p_sign,
)
from leap.pipeline.reports.cost import fold_seconds, preprocessing_seconds, seconds_text
from leap.pipeline.reports.names import (
    LABELS,
    against_label,
    backbone_label,
    by,
    counted,
    encoding_label,
    has_leap,
    joined,
)
from leap.pipeline.reports.runs import Cell, FinishedRun, Results, best_by, grouped
from leap.pipeline.reports.table import value_of

Effect = Literal["helps", "hurts", "mixed", "not shown", "not tested"]
MOST_NAMED = 6  # datasets that the sentence about all of them names
MOST_SETTINGS = 3  # that the sentence about runs with others names
FIRST_LOOK = (
    "This is a first look with few seeds and epochs, and few splits of node tasks: networks may not be trained to the "
    "end, and only large differences show. Without --quick the comparison is complete."
)


@dataclass(frozen=True)
class Answer:
    """Whether LEAP helps on a dataset, or on all of a report.

    Attributes
    ----------
    headline : for a reader who has ten seconds and has never heard of LEAP.
    details : how surely, at what cost, and what to take.
    basis : what the numbers are over, and how far to trust them.
    facts : the numbers that they are made of, for programs.
    """

    headline: str
    details: str
    basis: str
    facts: dict[str, Any]

    @property
    def text(self) -> str:
        """The whole paragraph."""
        return " ".join(filter(None, (self.headline, self.details, self.basis)))


class _Contest(NamedTuple):
    """A backbone with the best LEAP, without an encoding, and with the best other encoding if there is one."""

    backbone: str
    ours: Cell
    nothing: Cell
    gain: BaselineTest | None
    other: BaselineTest | None


def answer(results: Results) -> tuple[Answer, list[Answer]]:
    """Return the answer of a report, and that of each dataset; with a single dataset they are the same."""
    each = [_of_dataset(results, networks) for networks in networks_of(results).values()]
    if not each:
        return Answer(_nothing_compared(results), "", "", {}), []
    each += _without_scores(results, {one.facts["dataset"] for one in each})
    return (each[0] if len(each) == 1 else _overall(each)), each


def _nothing_compared(results: Results) -> str:
    """Say why no network that takes encodings has a score."""
    scored = sorted({run.backbone for run in results.runs if run.is_global and run.scores()}, key=by("backbone"))
    if not scored:
        return "No run has a score, so nothing can be compared."
    if any(not run.is_global for run in results.runs):
        return "Whether LEAP helps is open: no run of a backbone that takes encodings has a score."
    names, takes = joined(list(map(backbone_label, scored))), "takes" if len(scored) == 1 else "take"
    return (
        f"Whether LEAP helps is open: {names} {takes} no encoding, so there is nothing to compare. Add a backbone that "
        "takes encodings, such as gcn."
    )


def _without_scores(results: Results, answered: set[str]) -> list[Answer]:
    left = {run.dataset: run for run in results.runs if run.dataset not in answered and not run.is_global}
    return [
        Answer(
            f"Whether LEAP helps on {run.label} is open: no run has a score.",
            "",
            "",
            {
                "dataset": run.dataset,
                "label": run.label,
                "metric": run.metric.name,
                "effect": "not tested",
                "first_look": run.name in results.first_looks,
                "best_by_validation": None,
                "networks": [],
                "comparisons": [],
            },
        )
        for run in left.values()
    ]


def _of_dataset(results: Results, networks: Networks) -> Answer:
    cells = [cell for of_backbone in networks.values() for cell in of_backbone.values()]
    run, tests = cells[0].run, gains(networks)
    by_names = {(one.run.backbone, one.run.encoding, one.baseline): one for one in tests}
    contests = []
    for backbone, of_backbone in networks.items():
        ours, nothing, other = best_leap(of_backbone), of_backbone.get("none"), best_other(of_backbone)
        if ours is not None and nothing is not None:
            name, rival = ours.run.encoding, other.run.encoding if other is not None else ""
            tested = (by_names.get((backbone, name, against)) for against in ("none", rival))
            contests.append(_Contest(backbone, ours, nothing, *tested))
    effect, headline = _headline(run.label, contests)
    is_first_look = any(run.name in results.first_looks for cell in cells for run in cell.runs)
    top = best_by(cells, "val")
    sentences = [
        _differences("Against no encoding", [(c.backbone, c.gain) for c in contests]),
        _differences("Against the best other encoding", [(c.backbone, c.other) for c in contests]),
        _cost(contests),
        _take(networks, by_names),
        _left_out(results, run.dataset, is_first_look=is_first_look),
    ]
    basis = [_basis(cells, tests), FIRST_LOOK if is_first_look else ""]
    facts = {
        "dataset": run.dataset,
        "label": run.label,
        "metric": run.metric.name,
        "effect": effect,
        "first_look": is_first_look,
        "best_by_validation": {"backbone": top.run.backbone, "encoding": top.run.encoding},
        "networks": [_network(cell) for cell in cells],
        "comparisons": [one.as_json() for one in tests],
    }
    if is_first_look:
        headline = f"First look, at most {counted(run.settings['training']['epochs_at_most'], 'epoch')}: {headline}"
    return Answer(headline, " ".join(filter(None, sentences)), " ".join(filter(None, basis)), facts)


def _headline(label: str, contests: Sequence[_Contest]) -> tuple[Effect, str]:
    if not contests:
        return "not tested", (
            f"Whether LEAP helps on {label} is open: no network has a score both with LEAP and without an encoding."
        )
    by_verdict = grouped((c for c in contests if c.gain is not None), lambda c: c.gain.verdict if c.gain else None)
    better, worse = (by_verdict.get(verdict, []) for verdict in ("better", "worse"))
    shown = max(better or worse or contests, key=lambda contest: contest.ours.mean("val") or 0.0)
    numbers = (
        f"{_score(shown.ours, shown.nothing)} with it, {_score(shown.nothing, shown.ours, with_name=False)} without, "
        f"in the same network "
        f"({backbone_label(shown.backbone)})."
    )

    def where(some: Sequence[_Contest]) -> str:
        return "" if len(some) == len(contests) else f" with {joined([backbone_label(c.backbone) for c in some])}"

    if better and worse:
        return "mixed", f"LEAP helps on {label}{where(better)} and hurts{where(worse)}: {numbers}"
    if better or worse:
        word = "helps" if better else "hurts"
        return "helps" if better else "hurts", f"LEAP {word} on {label}{where(better or worse)}: {numbers}"
    if not by_verdict:
        few = "fewer than two folds or seeds"
        return "not tested", f"Whether LEAP helps on {label} cannot be tested with {few}: {numbers}"
    return "not shown", f"No difference between LEAP and no encoding is shown on {label}: {numbers}"


def _score(cell: Cell, beside: Cell, *, with_name: bool = True) -> str:
    """Return a mean over what both have; over all where that is nothing, as then nothing is tested."""
    metric, mean = cell.run.metric, cell.mean(beside=beside)
    mean = (cell.mean() or 0.0) if mean is None else mean
    number = f"{metric.text(mean)}{metric.unit}"
    if not with_name:
        return number
    return f"{number} {metric.label}" if metric.unit else f"{metric.label} {number}"


def _differences(against: str, tests: Sequence[tuple[str, BaselineTest | None]]) -> str:
    """Return how far the best LEAP is ahead with each backbone; the unit is said once."""
    words: list[str] = []
    for backbone, one in tests:
        if one is not None:
            size = one.run.metric.text(one.test.difference, sign=True)
            if not words:
                size += f" {one.run.metric.points}"
            names = encoding_label(one.run.encoding)
            names += "" if one.baseline == "none" else f" over {encoding_label(one.baseline)}"
            doubt = "; no difference shown" if one.verdict == "no difference shown" else ""
            words.append(f"{size} with {backbone_label(backbone)} ({names}, p {p_sign([one.corrected_p])}{doubt})")
    return f"{against}: {joined(words)}." if words else ""


def _cost(contests: Sequence[_Contest]) -> str:
    """Say what the best LEAP costs beside the same network without an encoding."""
    if not contests:
        return ""
    contest = max(contests, key=lambda contest: contest.ours.mean("val") or 0.0)
    ours, nothing = _network(contest.ours), _network(contest.nothing)
    words = []
    if ours["preprocessing_seconds"] is not None:
        words.append(f"{seconds_text(ours['preprocessing_seconds'])} of preprocessing, once")
    seconds, before = ours["fold_seconds"], nothing["fold_seconds"]
    ratio = f" ({seconds / before:.1f}×)" if before else ""
    words.append(f"{seconds_text(seconds)} of training per fold instead of {seconds_text(before)}{ratio}")
    if ours["parameters"] and nothing["parameters"]:
        words.append(f"{ours['parameters']:,} parameters instead of {nothing['parameters']:,}")
    name = f"{encoding_label(contest.ours.run.encoding)} with {backbone_label(contest.backbone)}"
    return f"Cost of {name}: {'; '.join(words)}."


def _network(cell: Cell) -> dict[str, Any]:
    return {
        "backbone": cell.run.backbone,
        "encoding": cell.run.encoding,
        "test": cell.mean(),
        "val": cell.mean("val"),
        "preprocessing_seconds": preprocessing_seconds(cell),
        "fold_seconds": fold_seconds(cell),
        "parameters": cell.run.parameters,
    }


def _take(networks: Networks, tests: dict[tuple[str, str, str], BaselineTest]) -> str:
    """Recommend the network with the best validation score among those whose encoding is shown to be worth it."""
    cells = [cell for of_backbone in networks.values() for cell in of_backbone.values()]
    if len(cells) < 2:
        return ""

    def gain(cell: Cell) -> BaselineTest | None:
        return tests.get((cell.run.backbone, cell.run.encoding, "none"))

    def is_worth_it(cell: Cell) -> bool:
        tested = gain(cell)
        has_rival = cell.run.encoding != "none" and "none" in networks[cell.run.backbone]
        return not has_rival or (tested is not None and tested.verdict == "better")

    top, best = best_by(cells, "val"), f"has the best validation score of the {len(cells)} networks"
    worth = [cell for cell in cells if is_worth_it(cell)]
    chosen = best_by(worth, "val")
    shown = "is shown to be better than no encoding"
    if chosen is not top:
        tested = gain(top)
        is_worse = tested is not None and tested.verdict == "worse"
        doubt = "is shown to be worse" if is_worse else "is not shown to be better"
        why = f"it {shown}; " if chosen.run.encoding != "none" else ""
        return f"Take {_named(chosen)}: {why}{_named(top)} {best}, but {doubt} than no encoding."
    cells_beside = networks[top.run.backbone]
    if top.run.encoding == "none" or "none" not in cells_beside:
        return f"Take {_named(top)}: it {best}."
    other, also = best_other(cells_beside), ""
    if other is not None and has_leap(top.run.encoding):
        over = tests.get((*top.run.key[1:], other.run.encoding))
        is_close = over is not None and over.verdict != "better" and is_worth_it(other)
        if is_close and fold_seconds(other) < fold_seconds(top):
            also = f"; {encoding_label(other.run.encoding)} is not shown to be worse and trains faster"
    return f"Take {_named(top)}: it {best} and {shown}{also}."


def _left_out(results: Results, dataset: str, *, is_first_look: bool) -> str:
    """Say which settings the answer is about where runs with others are in no table; first looks are apart anyway."""
    names = {run.name for run in results.shown}
    kept_runs: list[FinishedRun] = []
    others: list[FinishedRun] = []
    for run in results.runs:
        if run.dataset == dataset and not run.is_global and (run.name in results.first_looks) == is_first_look:
            (kept_runs if run.name in names else others).append(run)
    kept, left = _values(kept_runs), _values(others)
    chosen = [
        f"{LABELS[name]} {' or '.join(sorted(kept[name]))}" for name in kept if left.get(name, set()) - kept[name]
    ]
    if not chosen:
        return ""
    more = f" and {counted(len(chosen) - MOST_SETTINGS, 'other setting')}" if len(chosen) > MOST_SETTINGS else ""
    are = "is" if len(others) == 1 else "are"
    return (
        f"All this is about {', '.join(chosen[:MOST_SETTINGS])}{more}; {counted(len(others), 'run')} with other values "
        f"{are} left out."
    )


def _values(runs: Sequence[FinishedRun]) -> dict[str, set[str]]:
    """Return the values that each setting has in some runs, as words."""
    found: dict[str, set[str]] = {}
    for run in runs:
        for name, value in (item for group in run.settings.values() for item in group.items()):
            if value is not None:
                found.setdefault(name, set()).add(str(value))
    return found


def _named(cell: Cell) -> str:
    network = backbone_label(cell.run.backbone)
    name = cell.run.encoding
    return f"{network} without an encoding" if name == "none" else f"{encoding_label(name)} with {network}"


def _basis(cells: Sequence[Cell], tests: Sequence[BaselineTest]) -> str:
    """Say what means and p-values are over."""
    repetitions = {value.repetitions for cell in cells if (value := value_of(cell)) is not None}
    if not tests:
        return ""
    single = any(one.test.over == "seeds" for one in tests)
    paired = "by seed, as there is one split, so they say nothing about other data" if single else "by fold"
    over = repetitions.pop() if len(repetitions) == 1 else "the folds and seeds that two networks share"
    return (
        f"Means of {over}; of several encodings, the one with the best validation score is compared. p-values are "
        f"paired {paired}, and corrected for {counted(len(tests), 'comparison')} (Holm)."
    )


def _overall(each: Sequence[Answer]) -> Answer:
    """Answer for several datasets together."""
    by_effect = grouped(each, lambda one: one.facts["effect"])
    words = {
        "helps": "LEAP helps on {}",
        "mixed": "it helps with some backbones and hurts with others on {}",
        "hurts": "it hurts on {}",
        "not shown": "no difference from no encoding is shown on {}",
        "not tested": "nothing can be tested on {}",
    }
    parts = [] if "helps" in by_effect else [f"LEAP is shown to help on none of {len(each)} datasets"]
    if by_effect.keys() == {"not tested"}:
        is_paired = any(network["encoding"] == "none" for one in each for network in one.facts["networks"])
        why = "nothing can be tested" if is_paired else "no network has a score both with LEAP and without an encoding"
        parts, words = [f"Whether LEAP helps is open: {why} on {len(each)} datasets"], {}
    for effect, phrase in words.items():
        if effect in by_effect:
            names = [one.facts["label"] for one in by_effect[effect]]
            count = f"{len(names)} of {len(each)} datasets" if not parts else str(len(names))
            parts.append(phrase.format(f"{count} ({joined(names)})" if len(each) <= MOST_NAMED else count))
    bests = [one.facts["best_by_validation"] for one in each]
    tops = Counter(best["encoding"] for best in bests if best is not None).most_common()
    best = joined([f"{against_label(name)} on {number}" for name, number in tops])
    is_first_look = any(one.facts["first_look"] for one in each)
    basis = (
        "Of several encodings, the one with the best validation score is compared; p-values are paired by fold (by "
        "seed where there is one split) and corrected for the comparisons of each dataset (Holm)."
        if any(one.facts["comparisons"] for one in each)
        else ""
    )
    facts = {
        "effects": {effect: [one.facts["dataset"] for one in found] for effect, found in by_effect.items()},
        "best_by_validation": dict(tops),
        "first_look": is_first_look,
    }
    return Answer(
        f"{'First look: ' if is_first_look else ''}{'; '.join(parts)}.",
        f"Best by validation: {best} of {len(each)} datasets.",
        f"{basis} {FIRST_LOOK if is_first_look else ''}".strip(),
        facts,
    )
