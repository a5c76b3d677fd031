"""What a report knows of datasets and options: names, order, metrics, and the paper's settings.

Facts of a dataset are on its card, those of an option at its field, and numbers of the paper in `published`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leap.models.network_config import LEAPS as LEAPS
from leap.models.network_config import NetworkConfig
from leap.pipeline.datasets import dataset_card
from leap.pipeline.published import find
from leap.pipeline.training.options import OPTIONS, TrainOptions


def _printed(table: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(entry.dataset for entry in find(table)))


# Datasets of the paper's tables, in its order of columns.
DATASETS = _printed("main")
TIMED = _printed("time")
(SYNTHETIC,) = _printed("synthetic")
CURVE_DATASETS = ("Letter-high", "Letter-med", "triads")  # the paper draws their training curves, with the backbone:
CURVE_BACKBONE = "gcn"

# Values of options, in the paper's order, as they are printed.
ENCODINGS = {
    "none": "none",
    "rwpe": "RWPE",
    "lape": "LaPE",
    "lect": "ℓ-ECT",
    "leap-f": "LEAP-F",
    "leap-l": "LEAP-L",
    "leap-x": "LEAP-X",
}
BACKBONES = {
    "gcn": "GCN",
    "gat": "GAT",
    "gin": "GIN",
    "gine": "GINE",
    "nomp": "NoMP",
    "mlp": "MLP",
    "gps": "GPS",
    "dect-4k": "DECT (4K)",
    "dect-65k": "DECT (65K)",
}
PROJECTIONS = ("linear", "attention", "attention-pe", "deepsets", "conv1d")
BASELINES = ("none", "rwpe", "lape")


def _published(compared: str) -> dict[str, Any]:
    """Return the paper's values of a group of options by their columns."""
    usual = {NetworkConfig: "backbone", TrainOptions: "protocol"}
    group = [field for field in OPTIONS.values() if (field.option.compared or usual[field.owner]) == compared]
    return {field.column: ",".join(map(str, field.published)) if field.is_many else field.published for field in group}


# The paper's settings, in groups: those of the transform and its projection, which the ablations vary; of the training,
# which runs on one dataset must share to be compared; of the backbone, which runs of one backbone must share; and those
# that only some encodings have, which runs of one encoding must share.
PAPER: dict[str, dict[str, Any]] = {
    "transform": _published("ablation"),
    "training": _published("protocol"),
    "backbone": _published("backbone"),
    "own": _published("encoding"),
}
LABELS = {field.column: field.label for field in OPTIONS.values()}


def settings_of(row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the settings of a run by group, without those that mean nothing to its encoding."""
    found = {group: {name: row[name] for name in names} for group, names in PAPER.items()}
    for group in ("transform", "own"):
        known = {name: value for name, value in found[group].items() if value is not None}
        found[group] = {} if is_global(row["backbone"]) else known
    return found


def deviations(dataset: str, settings: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return the settings in which a run differs from the paper's, the transform's aside, as words."""
    differing = {}
    for group in ("training", "backbone", "own"):
        published = PAPER[group] | dataset_card(dataset).published_settings
        for name, value in settings[group].items():
            if value is not None and value != published[name]:
                differing[LABELS[name]] = str(value)
    return differing


def is_global(backbone: str) -> bool:
    """Whether a backbone reads whole graphs and has no encoding of nodes."""
    return backbone.startswith("dect-")


@dataclass(frozen=True)
class Metric:
    """A measure of success, higher is better, and how it is printed."""

    name: str
    label: str
    factor: float
    digits: int
    unit: str

    def text(self, value: float, *, sign: bool = False) -> str:
        """Return a share as it is printed, with a true minus sign."""
        shown = f"{value * self.factor:{'+' if sign else ''}.{self.digits}f}"
        return minus(shown.lstrip("+-") if float(shown) == 0 else shown)

    @property
    def axis(self) -> str:
        """Name and unit, for an axis."""
        return self.label + self.unit

    @property
    def points(self) -> str:
        """What differences are counted in."""
        return "percentage points" if self.factor == 100 else self.label


ACCURACY = Metric("accuracy", "accuracy", 100.0, 1, " %")
AUROC = Metric("auroc", "AUROC", 1.0, 3, "")
AP = Metric("average_precision", "AP", 1.0, 3, "")
R2 = Metric("r2", "R²", 1.0, 3, "")
BY_NAME = {metric.name: metric for metric in (ACCURACY, AUROC, AP, R2)}


def metric_of(dataset: str, task: str) -> Metric:
    """Return the measure that a dataset is judged by, as in the paper."""
    name = dataset_card(dataset).judged_by(task)
    return BY_NAME.get(name) or Metric(name, name, 1.0, 3, "")


def is_shown_as_boxes(dataset: str) -> bool:
    """Whether the paper shows a dataset as box plots only, and prints no numbers."""
    return dataset_card(dataset).published_as == "boxes"


def has_leap(encoding: str) -> bool:
    """Whether LEAP is an encoding, or one of several joined by "+"."""
    return not set(LEAPS).isdisjoint(encoding.split("+"))


def encoding_label(encoding: str) -> str:
    """Return the printed name of an encoding or of several joined by "+"."""
    return " + ".join(ENCODINGS.get(part, part.upper() if part in LEAPS else part) for part in encoding.split("+"))


def against_label(encoding: str) -> str:
    """Return the printed name of an encoding inside a sentence, where "none" alone would not be understood."""
    return "no encoding" if encoding == "none" else encoding_label(encoding)


def backbone_label(backbone: str) -> str:
    """Return the printed name of a backbone."""
    return BACKBONES.get(backbone, backbone)


def dataset_label(dataset: str, stand_in_for: str | None) -> str:
    """Return the name of a dataset; a stand-in always says what it stands in for.

    Examples
    --------
    >>> dataset_label("letters-high", "Letter-high")
    'letters-high (stand-in for Letter-high)'
    """
    return dataset if stand_in_for is None else f"{dataset} (stand-in for {stand_in_for})"


KNOWN: dict[str, Sequence[str]] = {
    "dataset": DATASETS,
    "backbone": tuple(BACKBONES),
    "encoding": tuple(ENCODINGS),
    "projection": PROJECTIONS,
}


def by(*kinds: str) -> Callable[[Any], Any]:
    """Return a sort key for names of a kind, or for tuples of names of these kinds.

    Names that the paper has come in its order, then stand-ins for its datasets, then others by name; None comes first.

    Examples
    --------
    >>> sorted(["leap-l", "mine", "none"], key=by("encoding"))
    ['none', 'leap-l', 'mine']
    >>> sorted(["a", "letters-low", "letters-high", "BZR"], key=by("dataset"))
    ['BZR', 'letters-high', 'letters-low', 'a']
    """

    def place(kind: str, name: str | None) -> tuple[int, str]:
        known = KNOWN[kind]
        if name is None or name in known:
            return -1 if name is None else known.index(name), ""
        real = dataset_card(name).stand_in_for if kind == "dataset" else None
        return len(known) + (known.index(real) if real in known else len(known)), name

    if len(kinds) == 1:
        return lambda name: place(kinds[0], name)
    return lambda names: tuple(map(place, kinds, names))


def minus(text: str) -> str:
    """Return a number's text with a true minus sign."""
    return text.replace("-", "−")


def joined(words: Sequence[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def counted(number: int, word: str) -> str:
    """Return "1 run" or "2,000 runs"."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"
