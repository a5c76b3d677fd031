"""What a stage reports: the artifacts that it found or made."""

from dataclasses import dataclass, field
from typing import Any

COUNTS = ("graphs", "nodes", "edges", "features", "memberships")


@dataclass(frozen=True)
class ArtifactReport:
    """One artifact of a stage.

    Attributes
    ----------
    params : as asked for; a view's `key` is that of the larger artifact which answers it (`view` is true then).
    seconds : what the stage spent on it now.
    bytes : size in the store.
    partitions : how many it has, and how many an earlier, interrupted attempt had left done.
    """

    kind: str
    dataset: str
    params: dict[str, Any]
    key: str
    cached: bool
    seconds: float
    bytes: int
    view: bool = False
    partitions: int = 0
    resumed: int = 0
    summary: dict[str, Any] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """The part of the summary that no rounding can change."""
        return {name: self.summary[name] for name in COUNTS if name in self.summary}

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "kind": self.kind,
            "params": self.params,
            "key": self.key,
            "cached": self.cached,
            "view": self.view,
            "seconds": round(self.seconds, 6),
            "bytes": self.bytes,
            "partitions": self.partitions,
            "resumed": self.resumed,
            "summary": self.summary,
        }


@dataclass(frozen=True)
class StageResult:
    """Everything that a stage did for one dataset; the dataset itself comes first."""

    stage: str
    artifacts: list[ArtifactReport]

    @property
    def dataset(self) -> str:
        """Name of the dataset, which for own data is not the path it was asked for by."""
        return self.artifacts[0].dataset

    def __getitem__(self, kind: str) -> ArtifactReport:
        """Return the first artifact of a kind."""
        return next(report for report in self.artifacts if report.kind == kind)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values, the object that `--json` prints."""
        return {
            "stage": self.stage,
            "dataset": self.dataset,
            "artifacts": [report.as_json() for report in self.artifacts],
        }

    def manifest(self) -> dict[str, Any]:
        """Return what a stage manifest holds: keys and exact counts, equal on every machine.

        Sizes of compressed floats, scales and residuals are not, so they are left out like timings and hit flags.
        """
        return {
            "stage": self.stage,
            "dataset": self.dataset,
            "artifacts": [
                {"kind": report.kind, "params": report.params, "key": report.key, "counts": report.counts}
                for report in self.artifacts
            ],
        }
