"""All recipes by kind: the encodings that are registered, and what LEAP itself reads from the store."""

from collections.abc import Iterator, Mapping

from leap.models.registries import ENCODINGS
from leap.pipeline.derived.ect import DectRecipe
from leap.pipeline.derived.neighborhoods import NeighborhoodsRecipe
from leap.pipeline.derived.recipe import EncodingRecipe, Recipe
from leap.store.errors import InvalidInputError


class _Recipes(Mapping[str, type[Recipe]]):
    """Classes of recipes by kind; one of another package is imported when it is asked for."""

    _own: Mapping[str, type[Recipe]] = {recipe.kind: recipe for recipe in (NeighborhoodsRecipe, DectRecipe)}

    def __getitem__(self, kind: str) -> type[Recipe]:
        if kind in self._own:
            return self._own[kind]
        if kind not in ENCODINGS:
            raise KeyError(kind)
        recipe = ENCODINGS[kind]
        if not (isinstance(recipe, type) and issubclass(recipe, EncodingRecipe)):
            raise InvalidInputError(f"the encoding {kind!r} is {recipe!r:.80}, not a class of EncodingRecipe.")
        if recipe.kind != kind:
            raise InvalidInputError(
                f"the encoding {kind!r} is registered with a recipe of the kind {recipe.kind!r}; the two must be equal."
            )
        return recipe

    def __iter__(self) -> Iterator[str]:
        return iter(("neighborhoods", *ENCODINGS, "dect"))

    def __contains__(self, kind: object) -> bool:
        return kind in self._own or kind in ENCODINGS

    def __len__(self) -> int:
        return len(self._own) + len(ENCODINGS)


RECIPES = _Recipes()


def encodable() -> tuple[str, ...]:
    """Kinds that `leap encode` computes: all that give every node some columns."""
    return tuple(kind for kind in RECIPES if kind != NeighborhoodsRecipe.kind)
