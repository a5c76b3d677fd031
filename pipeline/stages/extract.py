"""The extract stage: neighbourhood indices and normalization statistics, one artifact for each hop count."""

from collections.abc import Callable, Sequence

from leap.pipeline.datasets import Source
from leap.pipeline.derived import NeighborhoodsRecipe, Plan, Recipe
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.ingest import IngestOptions, ingest_artifact
from leap.pipeline.stages.materialize import materialize, retrying
from leap.pipeline.stages.options import checked_gib, validated
from leap.pipeline.stages.result import ArtifactReport, StageResult
from leap.store import Artifact
from leap.store.errors import InvalidInputError

DEFAULT_BUDGET_GB = 4.0


def extract(
    dataset: "str | Source",
    hops: int | Sequence[int] = 1,
    *,
    cap: int | None = None,
    cap_seed: int = 0,
    budget_gb: float = DEFAULT_BUDGET_GB,
    ingest_options: IngestOptions | None = None,
    context: Context | None = None,
) -> StageResult:
    """Extract the neighbourhoods of every node of a dataset, ingesting it first if needed.

    Parameters
    ----------
    dataset : name, path or source, as for `ingest`.
    hops : one hop count or several; each gives an artifact of its own.
    cap : at most this many nodes in a neighbourhood, sampled with `cap_seed`.
    budget_gb : refuse if the indices are estimated to take more GiB than this.

    Raises
    ------
    NeighborhoodsTooLargeError
        If the estimate exceeds the budget; nothing is extracted then.

    Examples
    --------
    >>> import tempfile
    >>> from leap.pipeline import Context, extract
    >>> from leap.store import Store
    >>> context = Context(store=Store.open(tempfile.mkdtemp()))
    >>> result = extract("letters-low", hops=1, context=context)
    >>> hoods = context.store.get(result["neighborhoods"].key).neighborhoods()
    >>> int(hoods.members(0)[0])
    0
    """
    context = context or Context()
    counts = [hops] if isinstance(hops, int) else list(dict.fromkeys(hops))
    if not counts:
        raise InvalidInputError("no hop count was given. Use --hops 1, and again for more.")
    checked_gib("budget_gb", budget_gb)
    recipes = [validated(NeighborhoodsRecipe, hops=count, cap=cap, cap_seed=cap_seed) for count in counts]

    def attempt() -> list[ArtifactReport]:
        report, artifact = ingest_artifact(dataset, ingest_options or IngestOptions(), context)
        approve = within_budget(artifact, budget_gb)
        return [report] + [materialize(context, artifact, recipe, approve)[0] for recipe in recipes]

    return StageResult("extract", retrying(context.store, attempt))


def within_budget(dataset: Artifact, budget_gb: float) -> Callable[[Recipe, Plan], None]:
    """Return what `materialize` asks before any work: it refuses neighbourhoods estimated beyond the budget."""

    def approve(recipe: Recipe, plan: Plan) -> None:
        from leap.pipeline.estimate import refuse_explosion

        if isinstance(recipe, NeighborhoodsRecipe):
            refuse_explosion(dataset.manifest.dataset, recipe.hops, plan.facts, plan.bytes, budget_gb * 2**30)

    return approve
