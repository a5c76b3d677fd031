"""A request with its artifacts: made where they are missing, and the identity of the run that they give."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leap.pipeline.datasets import Source as DatasetSource
from leap.pipeline.derived import Recipe
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.ingest import IngestOptions, ingest_artifact
from leap.pipeline.stages.materialize import DEFAULT_BUDGET_GB, materialize, retrying
from leap.pipeline.stages.options import checked_gib
from leap.pipeline.stages.result import ArtifactReport
from leap.pipeline.training.options import TrainOptions
from leap.pipeline.training.requirements import needs_statistics, required_recipes
from leap.store import Artifact, Store

if TYPE_CHECKING:
    from leap.pipeline.training.fold import Source

Found = tuple[ArtifactReport, Artifact]


@dataclass(frozen=True)
class Prepared:
    """All that is needed to train, or to find out that it was done before."""

    options: TrainOptions
    dataset: Artifact
    neighborhoods: list[Artifact]
    encodings: list[Artifact]
    reports: list[ArtifactReport]
    fingerprint: str

    def source(self, url: str) -> "Source":
        """Return where workers find the artifacts."""
        from leap.pipeline.training.fold import Source

        return Source(
            url,
            self.dataset.key,
            tuple(artifact.key for artifact in self.neighborhoods),
            tuple((artifact.key, artifact.dim) for artifact in self.encodings),
            needs_statistics(self.options),
        )


def prepare(
    dataset: "str | DatasetSource",
    options: TrainOptions,
    context: Context,
    ingest_options: IngestOptions | None = None,
    budget_gb: float = DEFAULT_BUDGET_GB,
    *,
    needs_labels: bool = True,
) -> Prepared:
    """Return the artifacts that a network reads, making those that are missing."""
    checked_gib("budget_gb", budget_gb)
    kept: list[Found] = []
    recipes: list[Recipe] = []

    def attempt() -> list[ArtifactReport]:
        kept[:] = [ingest_artifact(dataset, ingest_options or IngestOptions(), context)]
        source = kept[0][1]
        recipes[:] = required_recipes(options, source, needs_labels=needs_labels)
        kept.extend(materialize(context, source, recipe, budget_gb) for recipe in recipes)
        return [report for report, _ in kept]

    retrying(context.store, attempt)
    return assembled(options, kept[0], recipes, kept[1:])


def assembled(options: TrainOptions, dataset: Found, recipes: Sequence[Recipe], found: Sequence[Found]) -> Prepared:
    """Return a request of which the dataset and what its recipes ask for are there."""
    artifacts = [artifact for _, artifact in found]
    return Prepared(
        options,
        dataset[1],
        [artifact for artifact in artifacts if artifact.kind == "neighborhoods"],
        [artifact for artifact in artifacts if artifact.kind != "neighborhoods"],
        [dataset[0], *(report for report, _ in found)],
        run_fingerprint(options, dataset[1], recipes),
    )


def run_fingerprint(options: TrainOptions, dataset: Artifact, recipes: Sequence[Recipe]) -> str:
    """Identity of a run.

    It covers what was asked for: a view of a larger artifact has the same bytes, so it is the same run.
    """
    keys = [dataset.key, *(recipe.key(dataset) for recipe in recipes)]
    return options.fingerprint(dataset.manifest.dataset, keys)


def artifact_costs(prepared: Prepared, store: Store) -> list[dict[str, Any]]:
    """Return kind, key, size and the seconds that making it once took, of all artifacts and what they were made of.

    What an artifact was made of counts as cached if the artifact was.
    """
    costs: dict[str, dict[str, Any]] = {}

    def add(kind: str, key: str, size: int, cached: bool) -> None:
        entry = {"kind": kind, "key": key, "cached": cached, "seconds": store.usage(key).seconds, "bytes": size}
        costs.setdefault(key, entry)

    for report in prepared.reports:
        add(report.kind, report.key, report.bytes, report.cached)
    by_key = {artifact.key: artifact for artifact in (*prepared.neighborhoods, *prepared.encodings)}
    for report in prepared.reports[1:]:
        for key in by_key[report.key].manifest.inputs.values():
            made_of = None if key in costs else store.lookup(key)
            if made_of is not None:
                add(made_of.kind, key, made_of.manifest.size, report.cached)
    return list(costs.values())
