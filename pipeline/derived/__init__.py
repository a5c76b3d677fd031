"""Kinds of artifacts that are derived from a dataset: one recipe each."""

from leap.pipeline.derived.ect import DectRecipe, LectRecipe
from leap.pipeline.derived.lape import LapeRecipe
from leap.pipeline.derived.neighborhoods import NeighborhoodsRecipe
from leap.pipeline.derived.recipe import Plan, Recipe
from leap.pipeline.derived.rwpe import RwpeRecipe

RECIPES: dict[str, type[Recipe]] = {
    recipe.kind: recipe for recipe in (NeighborhoodsRecipe, RwpeRecipe, LapeRecipe, LectRecipe, DectRecipe)
}
ENCODINGS = tuple(kind for kind in RECIPES if kind != NeighborhoodsRecipe.kind)

__all__ = [
    "ENCODINGS",
    "RECIPES",
    "DectRecipe",
    "LapeRecipe",
    "LectRecipe",
    "NeighborhoodsRecipe",
    "Plan",
    "Recipe",
    "RwpeRecipe",
]
