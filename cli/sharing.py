"""Options that several commands share, declared once and handed over as one object."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any


def sharing(
    function: Callable[..., None],
    parameter: str,
    options: Mapping[str, tuple[Any, Any]],
    gather: Callable[..., Any],
) -> Callable[..., None]:
    """Return a command that has further options in place of one parameter.

    Parameters
    ----------
    function : a command; typer reads the options from the signature of what is returned.
    parameter : the parameter that receives what `gather(**options)` makes of the options' values.
    options : name -> (annotation, default).
    """
    signature = inspect.signature(function, eval_str=True)
    # Keyword-only parameters may follow each other with and without defaults.
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in signature.parameters.values() if p.name != parameter]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
    ]

    @functools.wraps(function)
    def command(**values: Any) -> None:
        given = {name: values.pop(name) for name in options}
        function(**values, **{parameter: gather(**given)})

    wrapped: Any = command
    wrapped.__signature__ = signature.replace(parameters=[*own, *shared])
    wrapped.__annotations__ = {p.name: p.annotation for p in (*own, *shared)}
    return command
