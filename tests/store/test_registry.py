"""Parts by name: built in, registered, or offered by an installed package."""

import pytest

from leap.store.errors import InvalidInputError
from leap.store.registry import Registry, _offered


def shapes() -> Registry:
    return Registry("shape", "leap.test_shapes", {"ordered": "collections:OrderedDict", "broken": "no_such_module:x"})


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return a function that installs a package with entry points in the tests' group."""

    def install(name: str, **points: str) -> None:
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = "".join(f"{point} = {value}\n" for point, value in points.items())
        (folder / "entry_points.txt").write_text(f"[leap.test_shapes]\n{lines}")
        _offered.cache_clear()

    monkeypatch.syspath_prepend(str(tmp_path))
    yield install
    _offered.cache_clear()


def test_built_in_parts_are_imported_when_asked_for():
    assert "broken" in shapes()  # although it cannot be imported
    assert shapes()["ordered"] is __import__("collections").OrderedDict


def test_a_part_is_registered_by_a_decorator():
    registry = shapes()

    @registry.register("square")
    class Square: ...

    assert registry["square"] is Square
    assert list(registry) == ["ordered", "broken", "square"]
    assert len(registry) == 3


def test_a_name_is_not_taken_twice(installed):
    registry = shapes()
    registry.register("square")(int)
    installed("outside", circle="builtins:str")
    for taken in ("ordered", "square", "circle"):
        with pytest.raises(InvalidInputError, match=f"there is a shape '{taken}' already"):
            registry.register(taken)


def test_an_installed_package_offers_parts(installed):
    installed("outside", circle="builtins:str")
    registry = shapes()
    assert registry["circle"] is str
    assert "circle" in registry
    assert list(registry) == ["ordered", "broken", "circle"]


def test_two_packages_with_one_name_are_an_error_that_names_both(installed):
    installed("outside", circle="builtins:str", ordered="builtins:dict")
    installed("another", circle="builtins:int")
    with pytest.raises(
        InvalidInputError, match=r"several packages offer .*'circle'.*builtins:(str|int), builtins:(int|str)"
    ):
        shapes()["circle"]
    with pytest.raises(InvalidInputError, match="collections:OrderedDict, builtins:dict"):
        shapes()["ordered"]


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(InvalidInputError, match=r"no shape 'orderd'\. Did you mean 'ordered'"):
        shapes()["orderd"]


def test_a_part_that_cannot_be_imported_says_why():
    with pytest.raises(
        InvalidInputError, match="'broken' cannot be imported from no_such_module:x: ModuleNotFoundError"
    ):
        shapes()["broken"]
