"""Artifacts of runs: each is found or made once, before anything is trained."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from leap.pipeline.datasets import Source
from leap.pipeline.derived import Recipe
from leap.pipeline.engine.requests import run_fingerprint
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.ingest import IngestOptions, ingest_artifact
from leap.pipeline.stages.materialize import DEFAULT_BUDGET_GB, checked_gib, materialize, retrying
from leap.pipeline.stages.result import ArtifactReport
from leap.pipeline.training.options import TrainOptions
from leap.pipeline.training.requirements import refuse_constant_targets, required_recipes
from leap.store import Artifact, Store
from leap.store.errors import DamagedArtifactError

Found = tuple[ArtifactReport, Artifact]


@dataclass(frozen=True)
class Prepared:
    """A run's options and artifacts: all that is needed to train, or to find out that it was done before."""

    options: TrainOptions
    dataset: Artifact
    neighborhoods: list[Artifact]
    encodings: list[Artifact]
    reports: list[ArtifactReport]
    fingerprint: str

    def costs(self, store: Store) -> list[dict[str, Any]]:
        """Return kind, key, size and the seconds that making it took, of all artifacts and what they were made of.

        What an artifact was made of counts as cached if the artifact was.
        """
        costs: dict[str, dict[str, Any]] = {}

        def add(kind: str, key: str, size: int, cached: bool) -> None:
            entry = {"kind": kind, "key": key, "cached": cached, "seconds": store.usage(key).seconds, "bytes": size}
            costs.setdefault(key, entry)

        for report in self.reports:
            add(report.kind, report.key, report.bytes, report.cached)
        by_key = {artifact.key: artifact for artifact in (*self.neighborhoods, *self.encodings)}
        for report in self.reports[1:]:
            for key in by_key[report.key].manifest.inputs.values():
                made_of = None if key in costs else store.lookup(key)
                if made_of is not None:
                    add(made_of.kind, key, made_of.manifest.size, report.cached)
        return list(costs.values())


@dataclass
class Materials:
    """The artifacts of one dataset, for any number of runs on it.

    Attributes
    ----------
    needs_labels : refuse a dataset without any; predictions need none.
    found : artifacts by key of what was asked for.
    failed : why something could not be made, by key.
    """

    source: str | Source
    reading: IngestOptions
    context: Context
    budget_gb: float = DEFAULT_BUDGET_GB
    needs_labels: bool = True
    found: dict[str, Found] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)
    _dataset: Found | None = None
    _refusal: Exception | None = None
    _made: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        checked_gib("budget_gb", self.budget_gb)

    @property
    def dataset(self) -> Found:
        """The dataset itself, ingested when first asked for; a failure is not tried again for every run."""
        if self._refusal is not None:
            raise self._refusal
        if self._dataset is None:

            def attempt() -> list[ArtifactReport]:
                self._dataset = self._noted(ingest_artifact(self.source, self.reading, self.context))
                return [self._dataset[0]]

            try:
                retrying(self.context.store, attempt)
            except Exception as error:
                self._refusal = error
                raise
        assert self._dataset is not None
        return self._dataset

    def recipes(self, options: TrainOptions) -> list[Recipe]:
        """What a run needs beside the dataset."""
        return required_recipes(options, self.dataset[1], needs_labels=self.needs_labels)

    def fingerprint(self, options: TrainOptions) -> str:
        """Identity of a run."""
        return run_fingerprint(options, self.dataset[1], self.recipes(options))

    def stored(self, options: TrainOptions) -> list[ArtifactReport]:
        """Report what the store holds of a run's artifacts; nothing is made."""
        dataset = self.dataset[1]
        there = [each for each in self.recipes(options) if self.context.store.answer(each.request(dataset)) is not None]
        return [self.dataset[0], *(materialize(self.context, dataset, recipe)[0] for recipe in there)]

    def make(self, runs: Sequence[TrainOptions]) -> None:
        """Make everything that some runs need; what cannot be made is noted, and only its runs are given up.

        Raises
        ------
        InvalidInputError
            If labels are needed, and all targets are the same.
        """
        if self.needs_labels:
            refuse_constant_targets(self.dataset[1])

        def attempt() -> list[ArtifactReport]:
            dataset = self.dataset[1]
            wanted = [self.recipes(options) for options in runs]
            # The largest dimension first: smaller ones are views of it.
            for recipe in sorted({recipe for recipes in wanted for recipe in recipes}, key=_largest_dimension):
                key = recipe.key(dataset)
                users = [recipes for recipes in wanted if recipe in recipes]
                given_up = all(any(each.key(dataset) in self.failed for each in recipes) for recipes in users)
                if key in self.found or given_up:
                    continue
                try:
                    self.found[key] = self._noted(materialize(self.context, dataset, recipe, self.budget_gb))
                except DamagedArtifactError:
                    self.found.clear()
                    self._dataset = None  # it may be the damaged one
                    raise
                except Exception as error:
                    self.failed[key] = error
            return []

        retrying(self.context.store, attempt)

    def prepared(self, options: TrainOptions) -> Prepared:
        """Return a run with its artifacts; raises what kept one of them from being made.

        Of several runs that share an artifact made just now, the first counts as the one that it was made for.
        """
        dataset, recipes = self.dataset, self.recipes(options)
        keys = [recipe.key(dataset[1]) for recipe in recipes]
        for key in keys:
            if key in self.failed:
                raise self.failed[key]
        found = [self._used(self.found[key]) for key in keys]
        artifacts = [artifact for _, artifact in found]
        return Prepared(
            options,
            dataset[1],
            [artifact for artifact in artifacts if artifact.kind == "neighborhoods"],
            [artifact for artifact in artifacts if artifact.kind != "neighborhoods"],
            [self._used(dataset)[0], *(report for report, _ in found)],
            run_fingerprint(options, dataset[1], recipes),
        )

    def _noted(self, found: Found) -> Found:
        if not found[0].cached:
            self._made.add(found[0].key)
        return found

    def _used(self, found: Found) -> Found:
        report, artifact = found
        is_made = report.key in self._made
        self._made.discard(report.key)
        return replace(report, cached=not is_made), artifact


def prepare(
    dataset: str | Source,
    options: TrainOptions,
    context: Context,
    reading: IngestOptions | None = None,
    budget_gb: float = DEFAULT_BUDGET_GB,
    *,
    needs_labels: bool = True,
) -> Prepared:
    """Return the artifacts that one network reads, making those that are missing."""
    materials = Materials(dataset, reading or IngestOptions(), context, budget_gb, needs_labels)
    materials.make([options])
    return materials.prepared(options)


def with_inputs(recipes: Iterable[Recipe]) -> set[Recipe]:
    """Return recipes and those that they read."""
    found: set[Recipe] = set()
    waiting = list(recipes)
    while waiting:
        recipe = waiting.pop()
        found.add(recipe)
        waiting.extend(recipe.requires())
    return found


def largest_first(recipes: Iterable[Recipe]) -> list[Recipe]:
    """Return the recipes that must be carried out, without those that are views of another."""
    kept: list[Recipe] = []
    for recipe in sorted(recipes, key=_largest_dimension):
        if not any(other.covers(recipe) for other in kept):
            kept.append(recipe)
    return kept


def _largest_dimension(recipe: Recipe) -> tuple[Any, ...]:
    return recipe.kind, -recipe.params.get("dim", 0), str(recipe.params)
