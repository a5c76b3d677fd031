"""What a stage reports: the artifacts that it found or made."""

import html
from dataclasses import dataclass, field
from typing import Any

from leap.pipeline.events import duration
from leap.pipeline.wording import aligned, human_bytes, human_params, plural

COLUMNS = ("artifact", "parameters", "key", "", "partitions", "size", "time")
NAMES_AT_MOST = 60
"""Characters of the features' names beyond which a line only says where they come from."""
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

    def cells(self) -> tuple[str, ...]:
        """Return the artifact as a row of a table with the columns `COLUMNS`."""
        made = f"made ({self.resumed} kept)" if self.resumed else "made"
        return (
            self.kind,
            human_params(self.params, self.kind),
            self.key[:12],
            "cached (view)" if self.view else "cached" if self.cached else made,
            str(self.partitions),
            human_bytes(self.bytes),
            duration(self.seconds),
        )

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
        """Name of the dataset, which for your own graphs differs from the path that was given."""
        return self.artifacts[0].dataset

    @property
    def about(self) -> str:
        """The dataset in a line: how many graphs, nodes, edges and features, and what was left out."""
        summary = self["dataset"].summary
        nature = "categorical feature" if summary["categorical"] else "feature"
        parts = [
            plural(summary["graphs"], "graph"),
            plural(summary["nodes"], "node"),
            plural(summary["edges"], "edge"),
            f"{plural(summary['features'], nature)} ({_feature_names(summary)})",
        ]
        if summary.get("edge_features"):
            parts.append(f"{plural(summary['edge_features'], 'attribute')} of edges")
        for name, text in (
            ("empty_graphs", "empty"),
            ("self_loops_dropped", "self-loops dropped"),
            ("duplicate_edges_merged", "repeated edges merged"),
        ):
            if summary.get(name):
                parts.append(f"{summary[name]:,} {text}")
        if summary.get("classes"):
            parts.append(f"{len(summary['classes'])} classes")
        return ", ".join(parts)

    def __str__(self) -> str:
        """Return the table that the command prints."""
        rows = [COLUMNS, *(report.cells() for report in self.artifacts)]
        return f"{self.dataset}: {self.about}\n{aligned(rows, right=(4, 5, 6))}"

    def _repr_html_(self) -> str:
        """Return the same table for notebooks."""
        rows = [COLUMNS, *(report.cells() for report in self.artifacts)]
        cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
        lines = "".join(f"<tr>{line}</tr>" for line in cells)
        return f"<p><b>{html.escape(self.dataset)}</b>: {html.escape(self.about)}</p><table>{lines}</table>"

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


def _feature_names(summary: dict[str, Any]) -> str:
    """Return the attributes or columns that became features, if they are the user's own and few; else the source."""
    notes = summary.get("notes", {})
    names = notes.get("node_attributes") or notes.get("node_columns") or []
    listed = ", ".join(names)
    return listed if names and names != ["x"] and len(listed) <= NAMES_AT_MOST else str(summary["feature_source"])
