"""Artifacts that the runs of a sweep share: each is found or made once, before anything is trained."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from leap.pipeline.derived import Recipe
from leap.pipeline.experiments.expand import RunSpec
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.ingest import IngestOptions, ingest_artifact
from leap.pipeline.stages.materialize import materialize, retrying
from leap.pipeline.stages.result import ArtifactReport
from leap.pipeline.training.prepared import Found, Prepared, assembled, run_fingerprint
from leap.pipeline.training.requirements import required_recipes
from leap.store.errors import DamagedArtifactError


@dataclass
class Materials:
    """The artifacts of one dataset.

    Attributes
    ----------
    found : artifacts by key of what was asked for.
    failed : why something could not be made, by key.
    """

    name: str
    reading: IngestOptions
    context: Context
    budget_gb: float
    found: dict[str, Found] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)
    _dataset: Found | None = None
    _refusal: Exception | None = None
    _made: set[str] = field(default_factory=set)

    @property
    def dataset(self) -> Found:
        """The dataset itself, ingested when first asked for; a failure is not tried again for every run."""
        if self._refusal is not None:
            raise self._refusal
        if self._dataset is None:

            def attempt() -> list[ArtifactReport]:
                self._dataset = self._noted(ingest_artifact(self.name, self.reading, self.context))
                return [self._dataset[0]]

            try:
                retrying(self.context.store, attempt)
            except Exception as error:
                self._refusal = error
                raise
        assert self._dataset is not None
        return self._dataset

    def recipes(self, spec: RunSpec) -> list[Recipe]:
        """What a run needs beside the dataset."""
        return required_recipes(spec.options, self.dataset[1])

    def fingerprint(self, spec: RunSpec) -> str:
        """Identity of a run."""
        return run_fingerprint(spec.options, self.dataset[1], self.recipes(spec))

    def make(self, specs: Sequence[RunSpec]) -> None:
        """Make everything that some runs need; what cannot be made is noted and does not hinder the rest."""

        def attempt() -> list[ArtifactReport]:
            dataset = self.dataset[1]
            # The largest dimension first: smaller ones are views of it.
            wanted = sorted({recipe for spec in specs for recipe in self.recipes(spec)}, key=_largest_dimension)
            for recipe in wanted:
                key = recipe.key(dataset)
                if key in self.found:
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

    def prepared(self, spec: RunSpec) -> Prepared:
        """Return a run with its artifacts; raises what kept one of them from being made.

        Of several runs that share an artifact made just now, the first counts as the one that it was made for.
        """
        dataset, recipes = self.dataset, self.recipes(spec)
        keys = [recipe.key(dataset[1]) for recipe in recipes]
        for key in keys:
            if key in self.failed:
                raise self.failed[key]
        found = [self._used(self.found[key]) for key in keys]
        return assembled(spec.options, self._used(dataset), recipes, found)

    def _noted(self, found: Found) -> Found:
        if not found[0].cached:
            self._made.add(found[0].key)
        return found

    def _used(self, found: Found) -> Found:
        report, artifact = found
        is_made = report.key in self._made
        self._made.discard(report.key)
        return replace(report, cached=not is_made), artifact


def _largest_dimension(recipe: Recipe) -> tuple[Any, ...]:
    return recipe.kind, -recipe.params.get("dim", 0), str(recipe.params)


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
