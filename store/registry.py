"""`Registry`: parts by name, whether built in, registered by a decorator, or offered by an installed package."""

import functools
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from leap.store.errors import InvalidInputError
from leap.store.suggestion import alternatives

T = TypeVar("T")
Part = TypeVar("Part")


class Registry(Generic[T]):
    """Names and what they stand for; nothing is imported before it is asked for.

    Built-in parts are declared like entry points, as "module:attribute". An installed package adds its own through the
    entry-point group, which every process sees, workers of a cluster included. What `register` adds is known only to
    processes that have imported the module with the decorator.

    Parameters
    ----------
    noun : what one entry is, for messages, such as "backbone".
    group : entry-point group, such as "leap.backbones".
    builtin : name -> "module:attribute".

    Examples
    --------
    >>> shapes = Registry("shape", "leap.shapes", {"ordered": "collections:OrderedDict"})
    >>> @shapes.register("square")
    ... class Square: ...
    >>> list(shapes), shapes["ordered"].__name__
    (['ordered', 'square'], 'OrderedDict')
    """

    def __init__(self, noun: str, group: str, builtin: Mapping[str, str]) -> None:
        self.noun, self.group = noun, group
        self._points = {name: EntryPoint(name, value, group) for name, value in builtin.items()}
        self._loaded: dict[str, T] = {}

    def register(self, name: str) -> Callable[[Part], Part]:
        """Return a decorator that adds a class or function under a name.

        Raises
        ------
        InvalidInputError
            If the name is taken.
        """
        if name in self._loaded or name in self._known():
            raise InvalidInputError(f"there is a {self.noun} {name!r} already. Register yours under another name.")

        def add(part: Part) -> Part:
            self._loaded[name] = part  # type: ignore[assignment]
            return part

        return add

    def __getitem__(self, name: str) -> T:
        """Return what a name stands for, importing it if need be.

        Raises
        ------
        InvalidInputError
            If nothing has this name, several packages offer it, or the one that does cannot be imported.
        """
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in self._points or name in self._known()

    def __iter__(self) -> Iterator[str]:
        """Iterate over all names, the built-in ones first, in the order of their declaration."""
        return iter(dict.fromkeys([*self._points, *sorted({*self._known(), *self._loaded} - {*self._points})]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _known(self) -> dict[str, list[EntryPoint]]:
        known = {name: [point] for name, point in self._points.items()}
        for name, points in _offered(self.group).items():
            known.setdefault(name, []).extend(points)
        return known

    def _load(self, name: str) -> T:
        points = self._known().get(name, [])
        if not points:
            raise InvalidInputError(f"no {self.noun} {name!r}.{alternatives(name, self)}")
        if len(points) > 1:
            values = ", ".join(point.value for point in points)
            raise InvalidInputError(
                f"several packages offer the {self.noun} {name!r}: {values}. Uninstall all but one."
            )
        try:
            part: T = points[0].load()
        except Exception as error:
            raise InvalidInputError(
                f"the {self.noun} {name!r} cannot be imported from {points[0].value}: {type(error).__name__}: {error}"
            ) from error
        return part


@functools.cache
def _offered(group: str) -> dict[str, list[EntryPoint]]:
    """Entry points of installed packages by name; one that is listed twice with the same value counts once."""
    found: dict[str, dict[str, Any]] = {}
    for point in entry_points(group=group):
        found.setdefault(point.name, {})[point.value] = point
    return {name: list(points.values()) for name, points in found.items()}
