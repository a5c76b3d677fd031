"""A recipe is all that an encoding is: what a training, the command line and a network know follows from its fields."""

import inspect
from typing import Annotated, ClassVar

import pytest
from pydantic import Field

from leap.cli import encode as command
from leap.cli.options import with_options
from leap.models.encodings import make_encoding
from leap.models.network_config import DatasetFacts, Kind, encoding_parts
from leap.models.registries import ENCODINGS
from leap.pipeline.derived import (
    RECIPES,
    DectRecipe,
    EncodingRecipe,
    LapeRecipe,
    LectRecipe,
    NeighborhoodsRecipe,
    RwpeRecipe,
    encodable,
)
from leap.pipeline.training.options import TrainOptions, relevant
from leap.pipeline.training.requirements import recipes_for
from leap.store.errors import InvalidInputError
from leap.store.option import Option


class Shade(EncodingRecipe):
    """An encoding that is never computed."""

    kind: ClassVar[str] = "shade"
    algorithm: ClassVar[int] = 1

    hops: Annotated[int, Field(ge=1), Option(help="How far light goes.")] = 1
    depth: Annotated[float, Option(help="How dark it gets.", metavar="D")] = 0.5

    @property
    def columns(self):
        return 3

    def plan(self, reader, inputs):
        raise NotImplementedError

    def compute(self, reader, partition, inputs):
        raise NotImplementedError


@pytest.fixture
def shade(monkeypatch):
    monkeypatch.setitem(ENCODINGS._loaded, "shade", Shade)


def test_a_recipe_takes_the_options_of_its_fields():
    options = {"dim": 7, "hops": [2, 3], "lape_drop": "one", "lect_complex": "edges", "directions": 5, "seed": 9}
    assert RwpeRecipe.of_options(options) == RwpeRecipe(dim=7)
    assert LapeRecipe.of_options(options) == LapeRecipe(dim=7, drop="one")
    assert LectRecipe.of_options(options) == LectRecipe(hops=2, complex="edges", directions=5)
    assert DectRecipe.of_options({"hops": 4, "scale": 2.0}) == DectRecipe(hops=4, scale=2.0)


def test_a_value_out_of_range_is_refused_with_its_name():
    with pytest.raises(InvalidInputError, match="dim is 0"):
        RwpeRecipe.of_options({"dim": 0})


@pytest.mark.parametrize("kind", ["rwpe", "lape", "lect", "hkdiag", "ppr", "lcp", "cycles", "elstatic", "dect"])
def test_the_options_that_a_recipe_follows_are_those_it_takes(kind):
    recipe = RECIPES[kind]
    flat = TrainOptions().flat()
    changed = {"dim": 3, "hops": [5], "directions": 3, "thresholds": 3, "scale": 3.0, "radius": 3.0}
    changed |= {
        "edge_weight": 3.0,
        "cap": 3,
        "lape_drop": "one",
        "lect_complex": "edges",
        "lcp_curvature": "ollivier",
        "lr": 3.0,
        "seed": 3,
    }
    for name, value in changed.items():
        takes = recipe.of_options(flat | {name: value}) != recipe.of_options(flat)
        assert takes == recipe.follows(name), name


def test_a_registered_encoding_is_known_everywhere(shade):
    assert "shade" in encodable()
    assert "shade" in encoding_parts()
    options = TrainOptions.of({"encoding": "shade", "hops": (2,), "dim": 4, "backbone": "gcn"})
    assert recipes_for(options, is_categorical=False) == [Shade(hops=2)]
    kept = relevant(options.flat())
    assert kept["hops"] == [2]
    assert "dim" not in kept  # the recipe has none
    assert Kind.of({"encoding": "shade"}).takes("hops")
    on_shade = TrainOptions.of({"encoding": "leap-l", "leap_on": "Shade", "hops": (2,)})
    assert recipes_for(on_shade, is_categorical=False) == [NeighborhoodsRecipe(hops=2), Shade(hops=2)]
    network = make_encoding("leap-l", on_shade.network, DatasetFacts(features=5, outputs=2), 5)
    assert network.leap.in_channels == 3  # the recipe's columns, not `dim`


def test_fields_become_options_of_the_command_with_their_help(shade, monkeypatch):
    parameters, broken = command._parameters()
    assert not broken
    monkeypatch.setitem(command.encode.__annotations__, "parameters", parameters)
    shown = inspect.signature(with_options(command.encode)).parameters
    depth, hops = (shown[name].annotation.__metadata__[0] for name in ("depth", "hops"))
    assert (depth.help, depth.rich_help_panel, depth.metavar) == (
        "shade: how dark it gets (default: 0.5).",
        "lect, shade and dect",
        "D",
    )
    assert hops.help == "Hop count of the neighbourhoods (default: 1)."


def test_what_cannot_be_imported_is_said_in_the_help(monkeypatch):
    class Broken:
        def load(self):
            raise ImportError("no module named 'void'")

        value = "void:Recipe"

    monkeypatch.setattr(ENCODINGS, "_known", lambda: {name: [Broken()] for name in ("rwpe", "lape", "lect", "void")})
    assert "void" in encodable()
    _, broken = command._parameters()
    assert "the encoding 'void' cannot be imported from void:Recipe" in broken[-1]


@pytest.mark.parametrize(
    ("registered", "message"),
    [
        (Shade, "registered with a recipe of the kind 'shade'; the two must be equal"),
        (3, "not a class of EncodingRecipe"),
    ],
)
def test_what_is_registered_must_be_a_recipe_of_that_kind(registered, message, monkeypatch):
    monkeypatch.setitem(ENCODINGS._loaded, "other", registered)
    with pytest.raises(InvalidInputError, match=message):
        RECIPES["other"]


def test_unknown_kinds_are_no_recipes():
    assert "nothing" not in RECIPES
    assert RECIPES.get("nothing") is None
    assert list(RECIPES) == ["neighborhoods", *ENCODINGS, "dect"]
    assert len(RECIPES) == len(list(RECIPES))
