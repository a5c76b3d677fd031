"""`lazy_module`: a heavy library that is named at the top of a module and imported when first used."""

from importlib import import_module
from typing import Any


class _LazyModule:
    """Stands for a module.

    lazy_loader's own `load` puts a placeholder into `sys.modules` that Python 3.11 fills in without a lock, so that a
    second thread meets half a module. Importing here is left to Python, which lets one thread import and others wait.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)

    def __repr__(self) -> str:
        return f"<{self._name}, imported when used>"


def lazy_module(name: str) -> Any:
    """Return something that stands for a module; its attributes are those of the module, which they import.

    >>> fractions = lazy_module("fractions")
    >>> str(fractions.Fraction(2, 4))
    '1/2'
    """
    return _LazyModule(name)
