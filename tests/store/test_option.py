"""A field says everything about an option: names in any case, mistakes with a suggestion, bounds, values by name."""

from typing import Annotated, Literal

import pytest
from pydantic import Field

from leap.store.errors import InvalidInputError
from leap.store.option import Option, Options, option_fields


class Inner(Options):
    form: Annotated[Literal["round", "square"], Option(help="One of {choices}.")] = "round"
    sizes: Annotated[tuple[int, ...], Option(help="Sizes.")] = (1, 2)


class Outer(Options):
    inner: Inner = Inner()
    mix: Annotated[str, Option(choices=lambda: ("red", "Green", "blue"), joined_by="+")] = "red"
    width: Annotated[int | None, Field(ge=1, lt=9), Option(help="Width.", column="w", published=4)] = None


def test_a_configuration_inside_another_stands_in_its_place():
    fields = option_fields(Outer)
    assert list(fields) == ["form", "sizes", "mix", "width"]
    assert [field.owner for field in fields.values()] == [Inner, Inner, Outer, Outer]
    assert Outer.of({"form": "square", "width": 3}) == Outer(inner=Inner(form="square"), width=3)


def test_a_field_knows_its_type_choices_bounds_and_names():
    form, sizes, mix, width = option_fields(Outer).values()
    assert (form.type, form.choices, form.help) == (str, ("round", "square"), "One of round or square.")
    assert (sizes.type, sizes.is_many, sizes.default) == (int, True, (1, 2))
    assert (mix.choices, mix.bounds) == (("red", "Green", "blue"), "")
    assert (width.type, width.bounds, width.column, width.published) == (int, "≥ 1, < 9", "w", 4)


@pytest.mark.parametrize(("given", "understood"), [("RED", "red"), ("green", "Green"), ("Blue+GREEN", "blue+Green")])
def test_names_are_understood_in_any_case(given, understood):
    assert Outer(mix=given).mix == understood


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"mix": "red+gren"}, "no mix 'gren'. Did you mean 'Green'? Choose from red, Green, blue."),
        ({"form": "rund"}, "form is 'rund'. Did you mean 'round'? Choose from round, square."),
        ({"width": 0}, "width is 0: input should be greater than or equal to 1."),
        ({"height": 1}, "height is 1: extra inputs are not permitted."),
        ({"sizes": ["a"]}, "sizes.0 is 'a': input should be a valid integer"),
    ],
)
def test_what_does_not_fit_is_named(values, message):
    with pytest.raises(InvalidInputError) as raised:
        Outer.of(values)
    assert message in str(raised.value)
