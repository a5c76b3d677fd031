"""How things are called and coloured in a report: the same everywhere."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leap.pipeline.datasets import dataset_card

if TYPE_CHECKING:
    from leap.pipeline.reports.runs import Run

ENCODINGS = {
    "none": "none",
    "rwpe": "RWPE",
    "lape": "LaPE",
    "lect": "ℓ-ECT",
    "leap-f": "LEAP-F",
    "leap-l": "LEAP-L",
}
BACKBONES = {
    "gcn": "GCN",
    "gat": "GAT",
    "gin": "GIN",
    "nomp": "NoMP",
    "gps": "GPS",
    "dect-4k": "DECT (4K)",
    "dect-65k": "DECT (65K)",
}
PROJECTIONS = {
    "linear": "linear",
    "attention": "attention",
    "attention-pe": "attention-pe",
    "deepsets": "deepsets",
    "conv1d": "conv1d",
}
BASELINES = ("none", "rwpe", "lape")
# The paper's order of columns; other datasets follow by name.
DATASETS = (
    *("COX2", "BZR", "DHFR", "Letter-high", "Letter-med", "Letter-low", "Fingerprint"),
    *("letters-high", "letters-med", "letters-low"),
)
SYNTHETIC = "triads"


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
        return minus("0." + "0" * self.digits if float(shown) == 0 and not sign else shown)


ACCURACY = Metric("accuracy", "accuracy", 100.0, 1, " %")
AUROC = Metric("auroc", "AUROC", 1.0, 3, "")
R2 = Metric("r2", "R²", 1.0, 3, "")
BY_NAME = {metric.name: metric for metric in (ACCURACY, AUROC, R2)}
BY_TASK = {"graph-regression": R2}


def metric_of(run: "Run") -> Metric:
    """Return the measure that a dataset is judged by, as in the paper."""
    named = dataset_card(run.dataset).metric
    return BY_TASK.get(run.task, ACCURACY) if named is None else BY_NAME[named]


def minus(text: str) -> str:
    """Return a number's text with a true minus sign."""
    return text.replace("-", "−")


def encoding_label(encoding: str) -> str:
    """Return the printed name of an encoding or of several joined by "+"."""
    return " + ".join(ENCODINGS.get(part, part) for part in encoding.split("+"))


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


def dataset_order(dataset: str) -> tuple[int, str]:
    """Sort key: the paper's datasets in its order, then others by name."""
    return (DATASETS.index(dataset) if dataset in DATASETS else len(DATASETS), dataset)


def encoding_order(encoding: str) -> tuple[int, str]:
    """Sort key: no encoding, baselines, LEAP, then combinations."""
    known = list(ENCODINGS)
    return (known.index(encoding) if encoding in known else len(known), encoding)


def backbone_order(backbone: str) -> tuple[int, str]:
    """Sort key: the paper's order."""
    known = list(BACKBONES)
    return (known.index(backbone) if backbone in known else len(known), backbone)


def projection_order(projection: str | None) -> int:
    """Sort key: the paper's order; none first."""
    return -1 if projection is None else list(PROJECTIONS).index(projection)


def joined(words: list[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
