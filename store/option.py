"""`Option` and `Options`: an option is one field of a validated configuration, and all else is read from there.

The command line, sweep files, identities of runs, columns of results, labels of reports and the pages of the documents
follow from the fields.
"""

import functools
import reprlib
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails

from leap.store.errors import InvalidInputError
from leap.store.suggestion import suggestion

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Option:
    """What a field says about itself beside its type, default and bounds; written into its `Annotated`.

    Attributes
    ----------
    help : one sentence; "{choices}" stands for the values that may be chosen.
    panel : heading that it is listed under.
    flags : how the command line calls it, if not by its name alone, such as ("--backbone", "-b").
    metavar : placeholder of a value.
    choices : the names to choose from, where the type does not list them.
    joined_by : what joins several of the choices in one value.
    matters : whether it changes the result, by what the other options say; None: always.
    label : how reports call it, if not by its name.
    column : its column of the table of results, if that is called otherwise.
    compared : which runs of a report must share it: all of a dataset ("protocol"), those of a "backbone" or of an
        "encoding"; "ablation" is varied on purpose, "never" tells runs or seeds apart.
    published : the paper's value where the default is another.
    on_nodes : the default of node tasks where it is another.
    came_later : runs of before it was there are those with its default, which is therefore no part of their identity.
    """

    help: str = ""
    panel: str | None = None
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    choices: Callable[[], Iterable[str]] | None = None
    joined_by: str | None = None
    matters: Callable[[Any], bool] | None = None
    label: str | None = None
    column: str | None = None
    compared: Literal["protocol", "backbone", "encoding", "ablation", "never"] | None = None
    published: Any = None
    on_nodes: Any = None
    came_later: bool = False


class Options(BaseModel):
    """A configuration: frozen, without unknown fields; names to choose from are understood in any case.

    Examples
    --------
    >>> from typing import Annotated
    >>> class Shape(Options):
    ...     form: Annotated[Literal["round", "square"], Option(help="{choices}.")] = "round"
    >>> Shape(form="Square").form
    'square'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the configuration with values by name, those of one inside it among them.

        Raises
        ------
        InvalidInputError
            If a value does not fit, or there is no such option.
        """
        mine = dict(values)
        for name, info in cls.model_fields.items():
            kind, _, _ = _taken_apart(info.annotation)
            if isinstance(kind, type) and issubclass(kind, Options):
                inside = option_fields(kind)
                mine[name] = kind.of({each: mine.pop(each) for each in values if each in inside})
        return validated(cls, **mine)

    @field_validator("*", mode="before")
    @classmethod
    def _is_a_choice(cls, value: Any, info: ValidationInfo) -> Any:
        field = option_fields(cls).get(str(info.field_name))
        return value if field is None else field.understood(value)


@dataclass(frozen=True)
class OptionField:
    """A field of a configuration, taken apart.

    Attributes
    ----------
    type : int, float, bool, str or another class; of each value, if there are many.
    is_many : whether the value is a tuple.
    owner : the configuration that declares it, for one inside another.
    """

    name: str
    option: Option
    type: Any
    is_many: bool
    default: Any
    bounds: str
    owner: type[BaseModel]
    literals: tuple[str, ...] = ()

    @property
    def has_choices(self) -> bool:
        """Whether a value is one of some names."""
        return bool(self.literals) or self.option.choices is not None

    @property
    def choices(self) -> tuple[str, ...]:
        """The names to choose from; none for a free value."""
        return self.literals if self.option.choices is None else tuple(self.option.choices())

    @property
    def help(self) -> str:
        """The sentence about it."""
        *most, last = self.choices or ("",)
        text = self.option.help.replace("{choices}", f"{', '.join(most)} or {last}" if most else last)
        own = self.option.on_nodes
        return text if own is None else f"{text.removesuffix('.')} (node tasks: {self.shown(own)})."

    def shown(self, value: Any) -> str:
        """Return a value as people read it."""
        return ("no", "yes")[value] if isinstance(value, bool) else str(value)

    @property
    def label(self) -> str:
        """How reports call it."""
        return self.option.label or self.name.replace("_", " ")

    @property
    def column(self) -> str:
        """Its column of the table of results."""
        return self.option.column or self.name

    @property
    def published(self) -> Any:
        """The paper's value."""
        return self.default if self.option.published is None else self.option.published

    def understood(self, value: Any, *also: str) -> Any:
        """Return a value with the names in it spelt as the choices are; `also` may be chosen too.

        Raises
        ------
        InvalidInputError
            If a name is none of the choices.
        """
        choices = (*self.choices, *also)
        if not choices or not isinstance(value, str):
            return value
        folded = {choice.casefold(): choice for choice in choices}
        parts = value.split(self.option.joined_by) if self.option.joined_by else [value]
        for part in parts:
            if part.casefold() not in folded:
                problem = f"{self.name} is {part!r}" if self.literals else f"no {self.name} {part!r}"
                raise InvalidInputError(f"{problem}.{suggestion(part, choices)} Choose from {', '.join(choices)}")
        return (self.option.joined_by or "").join(folded[part.casefold()] for part in parts)


def validated(model: type[Model], **values: Any) -> Model:
    """Build a model, or raise InvalidInputError naming each value that does not fit."""
    try:
        return model(**values)
    except ValidationError as error:
        raise InvalidInputError("; ".join(map(_complaint, error.errors())) + ".") from None


def _complaint(entry: ErrorDetails) -> str:
    cause = entry.get("ctx", {}).get("error")
    if isinstance(cause, InvalidInputError):  # names what it is about itself
        return str(cause)
    problem = str(cause) if cause is not None else entry["msg"][0].lower() + entry["msg"][1:]
    # What concerns several values together says so itself.
    path = ".".join(map(str, entry["loc"]))
    return f"{path} is {reprlib.repr(entry['input'])}: {problem}" if path else problem


@functools.cache
def option_fields(model: type[BaseModel]) -> Mapping[str, OptionField]:
    """Return the fields of a configuration by name; those of one inside it stand in its place."""
    found: dict[str, OptionField] = {}
    for name, info in model.model_fields.items():
        kind, is_many, literals = _taken_apart(info.annotation)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= option_fields(kind)
            continue
        option = next((each for each in info.metadata if isinstance(each, Option)), Option())
        default = None if info.is_required() else info.get_default(call_default_factory=True)
        found[name] = OptionField(name, option, kind, is_many, default, _bounds(info.metadata), model, literals)
    return types.MappingProxyType(found)


def _taken_apart(annotation: Any) -> tuple[Any, bool, tuple[str, ...]]:
    """Return the type of a value, whether there are many, and the literals if it is one of some."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(each for each in get_args(annotation) if each is not types.NoneType)
    if get_origin(annotation) is tuple:
        return _taken_apart(get_args(annotation)[0])[0], True, ()
    if get_origin(annotation) is Literal:
        return str, False, get_args(annotation)
    return annotation, False, ()


def _bounds(metadata: list[Any]) -> str:
    signs = ((Ge, "ge", "≥"), (Gt, "gt", ">"), (Le, "le", "≤"), (Lt, "lt", "<"))
    found = [
        f"{sign} {_number(getattr(each, name))}"
        for each in metadata
        for kind, name, sign in signs
        if isinstance(each, kind)
    ]
    return ", ".join(found)


def _number(value: Any) -> str:
    """Return a bound as people write it: 4096, but 2^63."""
    is_large_power = isinstance(value, int) and value >= 2**20 and value.bit_count() == 1
    return f"2^{value.bit_length() - 1}" if is_large_power else str(value)
