"""The stages that derive artifacts from a dataset: extract (neighbourhoods) and encode (encodings of every node)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from leap.models.network_config import encoding_parts
from leap.pipeline.datasets import Source
from leap.pipeline.derived import RECIPES, NeighborhoodsRecipe, Recipe, encodable
from leap.pipeline.stages.context import Context
from leap.pipeline.stages.ingest import IngestOptions, ingest_artifact
from leap.pipeline.stages.materialize import DEFAULT_BUDGET_GB, checked_gib, materialize, retrying
from leap.pipeline.stages.result import ArtifactReport, StageResult
from leap.store.errors import InvalidInputError
from leap.store.option import validated
from leap.store.suggestion import suggestion


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
    counts = list(dict.fromkeys(hops)) if isinstance(hops, Iterable) else [hops]
    if not counts:
        raise InvalidInputError("no hop count was given. Use --hops 1, and again for more.")
    recipes = [validated(NeighborhoodsRecipe, hops=count, cap=cap, cap_seed=cap_seed) for count in counts]
    return _derive("extract", dataset, recipes, budget_gb, ingest_options, context)


def encode(
    dataset: "str | Source",
    encodings: str | Sequence[str] = ("rwpe", "lape"),
    *,
    params: Mapping[str, Any] | None = None,
    budget_gb: float = DEFAULT_BUDGET_GB,
    ingest_options: IngestOptions | None = None,
    context: Context | None = None,
) -> StageResult:
    """Compute encodings of every node of a dataset, ingesting and extracting first if needed.

    Parameters
    ----------
    dataset : name, path or source, as for `ingest`.
    encodings : names that `leap.pipeline.derived.encodable` returns, such as "rwpe"; other packages may register more.
    params : parameters such as {"dim": 10, "drop": "one", "directions": 16}; each encoding takes those it has, and
        one that no chosen encoding has is an error.

    Examples
    --------
    >>> import tempfile
    >>> from leap.pipeline import Context, encode
    >>> from leap.store import Store
    >>> context = Context(store=Store.open(tempfile.mkdtemp()))
    >>> result = encode("letters-low", ["rwpe", "lape"], params={"dim": 10}, context=context)
    >>> context.store.find("rwpe", "letters-low", dim=5).load("encoding").shape[1]
    5
    """
    recipes = encoding_recipes([encodings] if isinstance(encodings, str) else encodings, params or {})
    return _derive("encode", dataset, recipes, budget_gb, ingest_options, context)


def _derive(
    stage: str,
    dataset: "str | Source",
    recipes: Sequence[Recipe],
    budget_gb: float,
    ingest_options: IngestOptions | None,
    context: Context | None,
) -> StageResult:
    context = context or Context()
    checked_gib("budget_gb", budget_gb)

    def attempt() -> list[ArtifactReport]:
        report, artifact = ingest_artifact(dataset, ingest_options or IngestOptions(), context)
        return [report, *(materialize(context, artifact, recipe, budget_gb)[0] for recipe in recipes)]

    return StageResult(stage, retrying(context.store, attempt))


def encoding_recipes(encodings: Sequence[str], params: Mapping[str, Any]) -> list[Recipe]:
    """Return the recipe of each encoding with the parameters that it has.

    Raises
    ------
    InvalidInputError
        For an unknown encoding, a parameter that none of them has, or a value out of range.
    """
    folded = {name.casefold(): name for name in encodable()}
    chosen = list(dict.fromkeys(folded.get(name.casefold(), name) for name in encodings))
    for name in chosen:
        if name not in encodable():
            raise InvalidInputError(_unknown(name))
    if not chosen:
        raise InvalidInputError(f"no encoding was given. Choose from {', '.join(encodable())}.")
    fields = {name: RECIPES[name].model_fields for name in chosen}
    known = {field for of_recipe in fields.values() for field in of_recipe}
    for name in params:
        if name not in known:
            raise InvalidInputError(
                f"{name!r} is not a parameter of {' or '.join(chosen)}. Allowed: {', '.join(sorted(known))}."
            )
    return [
        validated(RECIPES[name], **{field: params[field] for field in fields[name] if field in params})
        for name in chosen
    ]


def _unknown(name: str) -> str:
    if "leap" in name.lower():
        parts = name.lower().split("+")
        wanted = name.lower() if set(parts) <= set(encoding_parts()) else "leap-l"
        return (
            f"no encoding {name!r} to compute beforehand: LEAP is learned, by 'leap train DATASET -e {wanted}'. What "
            "LEAP-F keeps in the store is its transform, 'leap encode DATASET -e dect'."
        )
    hint = " Repeat --encoding for several." if "," in name or "+" in name else ""
    return f"no encoding {name!r}.{suggestion(name, encodable())} Choose from {', '.join(encodable())}.{hint}"
