"""Explain whether a request would be answered from the store, and if not, what is nearest to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leap.pipeline.derived import RECIPES, Recipe
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.ingest import ALGORITHM, IngestOptions, dataset_request
from leap.store import Artifact
from leap.store.errors import InvalidInputError
from leap.store.explain import Explanation, explain
from leap.store.option import validated


@dataclass(frozen=True)
class Why:
    """The answer: the artifact that would be used, or the nearest one and how it differs."""

    hit: Artifact | None
    is_view: bool
    explanation: Explanation

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        nearest = self.explanation.nearest
        return {
            "cached": self.hit is not None,
            "view": self.is_view,
            "key": None if self.hit is None else self.hit.key,
            "nearest": None if nearest is None else nearest.key,
            "differences": {
                name: {"asked": asked, "stored": stored}
                for name, (asked, stored) in self.explanation.differences.items()
            },
        }


def why(kind: str, dataset: str, params: Mapping[str, Any], *, context: Context | None = None) -> Why:
    """Look a request up without doing any work.

    Parameters
    ----------
    kind : "dataset" or a kind of derived artifact.
    params : parameters that differ from the defaults. Those of the ingest stage are understood for every kind.
    """
    context = context or Context()
    if kind != "dataset" and kind not in RECIPES:
        raise InvalidInputError(f"no kind {kind!r}. Choose from dataset, {', '.join(RECIPES)}.")
    reading = {name: value for name, value in params.items() if name in IngestOptions.model_fields}
    rest = {name: value for name, value in params.items() if name not in reading}
    known = set() if kind == "dataset" else set(RECIPES[kind].model_fields)
    for name in rest:
        if name not in known:
            allowed = ", ".join(sorted(known | set(IngestOptions.model_fields)))
            raise InvalidInputError(f"{name!r} is not a parameter of {kind}. Those are {allowed}.")
    options = validated(IngestOptions, **reading)
    recipe = None if kind == "dataset" else validated(RECIPES[kind], **rest)
    name, key = dataset_request(dataset, options, context)
    stored = context.store.lookup(key)
    if recipe is None:
        return _why_dataset(context, name, stored, options)
    return _why_derived(context, name, stored, recipe)


def _why_dataset(context: Context, name: str, stored: Artifact | None, options: IngestOptions) -> Why:
    explanation = explain(context.store, "dataset", name, None, options.params, ALGORITHM)
    if stored is None and explanation.hit:
        explanation = Explanation(False, explanation.nearest, {"raw input": ("as it is now", "as it was then")})
    return Why(stored, False, explanation)


def _why_derived(context: Context, name: str, dataset: Artifact | None, recipe: Recipe) -> Why:
    store = context.store
    request = None if dataset is None else recipe.request(dataset)
    source, inputs = (None, {}) if request is None else (request.source, request.inputs)
    explanation = explain(store, recipe.kind, name, source, recipe.params, recipe.algorithm, inputs)
    if request is None:
        missing = {"dataset artifact": ("not ingested from this input with these options", "ingested")}
        return Why(None, False, Explanation(False, explanation.nearest, explanation.differences | missing))
    found = store.answer(request)
    return Why(found, found is not None and found.dim is not None, explanation)
