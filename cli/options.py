"""From configurations to the command line: a command that takes one has an option for each of its fields."""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

import typer
from pydantic import BaseModel

from leap.store.option import OptionField, Options, option_fields

Command = Callable[..., None]
PLACEHOLDERS = {int: "N", float: "X", str: "TEXT"}


@dataclass(frozen=True)
class Several:
    """Marks a parameter that receives, by name, all values that are given to a configuration's options."""

    model: type[BaseModel]
    panel: str


class App(typer.Typer):
    """Typer, whose commands may take configurations."""

    def command(self, *args: Any, **kwargs: Any) -> Callable[[Command], Command]:  # type: ignore[override]
        """Return a decorator that registers a command."""
        register = super().command(*args, **kwargs)
        return lambda function: register(with_options(function))

    def callback(self, *args: Any, **kwargs: Any) -> Callable[[Command], Command]:  # type: ignore[override]
        """Return a decorator that registers what runs before any command."""
        register = super().callback(*args, **kwargs)
        return lambda function: register(with_options(function))


def with_options(function: Command) -> Command:
    """Return a command with an option for each field of the configurations that a function takes.

    A parameter whose type is a subclass of `Options` receives a validated object of what was given; what was given to a
    group before the name of the command counts unless it is given again. One annotated with `Several` receives a
    mapping. A parameter of the function's own hides the field of the same name.

    Configurations that lead the signature are the surroundings of the command: their options are listed last.
    """
    signature = inspect.signature(function, eval_str=True)
    parameters = list(signature.parameters.values())
    leading = list(itertools.takewhile(_is_configuration, parameters))
    own = {p.name for p in parameters if not _is_configuration(p)}
    fields: dict[str, dict[str, inspect.Parameter]] = {}
    shown: list[inspect.Parameter] = []
    for parameter in [*parameters[len(leading) :], *reversed(leading)]:
        if _is_configuration(parameter):
            fields[parameter.name] = {p.name: p for p in _options(parameter.annotation) if p.name not in own}
            shown += fields[parameter.name].values()
        else:
            shown.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    context = next((p.name for p in shown if p.annotation is typer.Context), "")
    if not context:
        context = "context"
        shown.append(inspect.Parameter(context, inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))

    @functools.wraps(function)
    def command(**values: Any) -> None:
        passed = {name: value for name, value in values.items() if name in own}
        for name, options in fields.items():
            given = {each: values[each] for each in options if _is_given(values[context], each)}
            passed[name] = _gathered(signature.parameters[name].annotation, given, values[context])
        function(**passed)

    wrapped: Any = command
    wrapped.__signature__ = signature.replace(parameters=shown)
    wrapped.__annotations__ = {p.name: p.annotation for p in shown}
    return command


def completing(names: Callable[[], Any], joined_by: str | None = None) -> Callable[[str], list[str]]:
    """Return what completes a name, or the last of several."""

    def complete(incomplete: str) -> list[str]:
        before, separator, begun = incomplete.rpartition(joined_by) if joined_by else ("", "", incomplete)
        return [f"{before}{separator}{name}" for name in names() if name.casefold().startswith(begun.casefold())]

    return complete


def completing_choices(field: OptionField) -> Callable[[str], list[str]]:
    """Return what completes a value of an option."""
    return completing(lambda: field.choices, field.option.joined_by)


def _is_configuration(parameter: inspect.Parameter) -> bool:
    kind = parameter.annotation
    return _several(kind) is not None or (isinstance(kind, type) and issubclass(kind, Options))


def _several(annotation: Any) -> Several | None:
    marks = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return next((mark for mark in marks if isinstance(mark, Several)), None)


def _options(annotation: Any) -> Iterator[inspect.Parameter]:
    several = _several(annotation)
    for field in option_fields(annotation if several is None else several.model).values():
        kind, default, option = _one(field) if several is None else _repeatable(field, several)
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
        )


def _one(field: OptionField) -> tuple[Any, Any, Any]:
    names = field.option.flags or (_flag(field),)
    if field.option.on_nodes is True:  # what some have must be refused by name
        names = _either(names[0])
    text = f"{field.help.removesuffix('.')}; repeat for several." if field.is_many else field.help
    option = typer.Option(*names, help=text, rich_help_panel=field.option.panel, **_looks(field))
    kind: Any = list[field.type] if field.is_many else field.type  # type: ignore[name-defined]
    default = list(field.default) if isinstance(field.default, tuple) else field.default
    return kind if default is not None else kind | None, default, option


def _repeatable(field: OptionField, several: Several) -> tuple[Any, Any, Any]:
    names = field.option.flags or (_flag(field),)
    looks = _looks(field)
    if field.type is bool:
        names = _either(names[0])
    elif field.is_many:
        looks["metavar"] = f"{looks['metavar']}[+{looks['metavar']}…]"
    option = typer.Option(*names, help=field.help, rich_help_panel=several.panel, **looks)
    kind: Any = bool if field.type is bool else list[str if field.is_many else field.type]  # type: ignore[misc]
    return kind | None, None, option


def _looks(field: OptionField) -> dict[str, Any]:
    """Return what is shown in place of a value, and what completes one."""
    if field.type is bool:
        return {"metavar": " "}
    if not field.has_choices:
        return {"metavar": field.option.metavar or PLACEHOLDERS.get(field.type)}
    return {"metavar": field.option.metavar or "NAME", "autocompletion": completing_choices(field)}


def _flag(field: OptionField) -> str:
    return f"--{field.name.replace('_', '-')}"


def _either(name: str) -> tuple[str]:
    """Return the names by which a flag is set, or not."""
    return (f"{name}/--no-{name.removeprefix('--')}",)


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")


def _gathered(annotation: Any, given: Mapping[str, Any], context: typer.Context) -> Any:
    if _several(annotation) is not None:
        return given
    above = context.find_object(annotation)
    earlier = {} if above is None else above.model_dump(exclude_unset=True)
    return annotation.of({**earlier, **given})
